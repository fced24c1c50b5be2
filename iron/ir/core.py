"""Values, ops, blocks and kernels: the objects of the IR, written once and never changed.

Control flow is regions; there are no branches. Construction goes through `build.Builder`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from iron.dtypes import DType
from iron.errors import Loc
from iron.ir.table import OpDef, Trait
from iron.ir.types import Tile, Type


class Value:
    """The result of an op, or a parameter of a block (`op` is None)."""

    __slots__ = ("name", "op", "type")

    def __init__(self, type: Type, op: Op | None = None, name: str = "") -> None:
        self.type = type
        self.op = op
        self.name = name

    def __repr__(self) -> str:
        return f"%{self.name or '?'}: {self.type}"


class Op:
    """One operation. `name` is its row's, `attrs` are positional and named by `row.attrs`.

    `exact` forbids contraction of this op; `surface` is the name the author wrote (`group_sum`),
    for messages.
    """

    __slots__ = ("args", "attrs", "exact", "loc", "name", "regions", "results", "row", "surface")

    def __init__(
        self,
        row: OpDef,
        args: tuple[Value, ...],
        attrs: tuple[Any, ...] = (),
        regions: tuple[Block, ...] = (),
        loc: Loc | None = None,
        exact: bool = False,
        surface: str = "",
    ) -> None:
        self.row = row
        self.name = row.name
        self.args = args
        if len(attrs) < len(row.attrs):
            attrs = row.filled(attrs)
        self.attrs = attrs
        self.regions = regions
        self.loc = loc
        self.exact = exact
        self.surface = surface or row.name
        types = row.infer(args, attrs, regions)
        one = len(types) == 1  # nearly always, and several times faster without a generator
        self.results = (Value(types[0], self),) if one else tuple(Value(t, self) for t in types)

    def attr(self, name: str) -> Any:
        """The attribute called `name`."""
        return self.attrs[self.row.attrs.index(name)]

    def __repr__(self) -> str:
        return f"Op({self.name})"


class Block:
    """A list of ops with parameters; the last op is a `yield` (except in a kernel's body)."""

    __slots__ = ("ops", "params")

    def __init__(self, params: tuple[Value, ...] = ()) -> None:
        self.params = params
        self.ops: list[Op] = []

    @property
    def yielded(self) -> tuple[Value, ...]:
        """The operands of the closing `yield`."""
        return self.ops[-1].args if self.ops and self.ops[-1].name == "yield" else ()

    def walk(self) -> Iterator[Op]:
        """Every op of the block and of its regions, outer before inner."""
        for op in self.ops:
            yield op
            if op.regions:
                for region in op.regions:
                    yield from region.walk()


@dataclass(frozen=True, slots=True)
class Param:
    """A kernel parameter: `role` is `tensor`, `scalar` or `dim`.

    A `partial` output is of capacity size: elements it leaves unwritten are no fault.
    """

    name: str
    role: str
    type: Type
    partial: bool = False


@dataclass(frozen=True, slots=True)
class Require:
    """A precondition's message and place; its condition is yielded by the host block."""

    message: str
    loc: Loc | None = None


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Kernel:
    """One specialisation of a kernel.

    `params` is the ABI order: tensors, then scalars, then dims. `body.params` match it one to one.
    `host` has one parameter for each scalar and dim, in that order, only pure elementwise ops, and
    yields first the `rank` launch extents (group counts, first axis fastest), then one bool for
    each of `requires`. `threads` is the size of a group, `simd` the width of a simdgroup, `index`
    the dtype of dims, group and thread ids. `each` says that collectives are refused.
    `schedule` are settings that change speed alone: integers, bools or tuples of them by name, in
    the order of the names. `preferred` means the same by ops that one target alone has; it serves
    launches whose arguments are aligned as its copies need.
    """

    name: str
    params: tuple[Param, ...]
    body: Block
    host: Block
    rank: int
    threads: int
    simd: int
    requires: tuple[Require, ...]
    index: DType
    each: bool = False
    schedule: tuple[tuple[str, Any], ...] = ()
    preferred: Kernel | None = None

    @property
    def host_params(self) -> tuple[Param, ...]:
        """The parameters of the host block."""
        return tuple(p for p in self.params if p.role != "tensor")

    def value(self, name: str) -> Value:
        """The body value of the parameter called `name`."""
        names = [p.name for p in self.params]
        return self.body.params[names.index(name)]


def tiled(kernel: Kernel) -> bool:
    """True for a kernel with tile values: how many threads a group has is not decided yet."""
    for op in kernel.body.walk():
        if op.row.traits & Trait.TILE:
            return True
        for result in op.results:
            if isinstance(result.type, Tile):
                return True
    return False


def is_const(value: Value) -> bool:
    """True for the result of a `const` op."""
    return value.op is not None and value.op.row.name == "const"


def const_of(value: Value) -> Any:
    """The numpy scalar of a constant; call it only where `is_const` holds."""
    assert value.op is not None
    return value.op.attrs[0]


def carried(loop: Op) -> tuple[Value, ...]:
    """What a `for` body yields for its carried values (without the stop flag)."""
    return loop.regions[0].yielded[1 if loop.attr("stop") else 0 :]


def stop_flag(loop: Op) -> Value | None:
    """The bool that ends a `for` early, or None."""
    return loop.regions[0].yielded[0] if loop.attr("stop") else None
