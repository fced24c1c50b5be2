"""The verifier: a kernel is well formed, or E0901 names the first op that is not.

Checks structure, scope, types (inferred again by each row) and the rules of group ops. What
depends on values (bounds, races) is the interpreter's; uniformity is an analysis.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from iron.dtypes import DType, bool_
from iron.errors import KernelError, error
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const, tiled
from iron.ir.table import TABLE, OpTypeError, Trait
from iron.ir.types import PARAMETER_SPACES, Tensor


def verify(kernel: Kernel) -> None:
    """Raises KernelError E0901 when the kernel is not well formed."""
    walk = _Walk(kernel)
    walk.geometry()
    walk.parameters()
    walk.host()
    walk.defined = set()
    walk.block(kernel.body, closed=False)


class _Walk:
    """One verification: the values defined so far and in scope."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.defined: set[Value] = set()
        self.depth = 0

    def error(self, message: str, op: Op | None = None) -> KernelError:
        name = f"`{op.name}`: " if op is not None else ""
        loc = op.loc if op is not None else None
        return error(
            "E0901", f"the program is not well formed: {name}{message}", loc, self.kernel.name
        )

    def geometry(self) -> None:
        k = self.kernel
        if k.simd < 1 or k.simd & (k.simd - 1):
            raise self.error(f"the simd width {k.simd} is not a power of two")
        if k.threads != 1 and (k.threads < 1 or k.threads % k.simd):
            raise self.error(f"{k.threads} threads are not whole simdgroups of {k.simd}")
        if not k.index.is_integer:
            raise self.error(f"the index type is {k.index}")
        if k.threads != 1 and tiled(k):
            raise self.error(f"a tile kernel has {k.threads} threads; its lowering chooses them")
        if list(k.schedule) != sorted(k.schedule, key=lambda s: s[0]):
            raise self.error("the schedule is not in the order of its names")

    def parameters(self) -> None:
        k = self.kernel
        roles = [p.role for p in k.params]
        if roles != sorted(roles, key=["tensor", "scalar", "dim"].index):
            raise self.error("parameters are not in the order tensors, scalars, dims")
        if len({p.name for p in k.params}) != len(k.params):
            raise self.error("two parameters have one name")
        self._match("body", k.body, [p.type for p in k.params])
        self._match("host", k.host, [p.type for p in k.host_params])
        for p in k.params:
            tensor = isinstance(p.type, Tensor)
            if tensor != (p.role == "tensor"):
                raise self.error(f"parameter `{p.name}` is a {p.role} of type {p.type}")
            if isinstance(p.type, Tensor) and p.type.space not in PARAMETER_SPACES:
                raise self.error(f"parameter `{p.name}` lies in space {p.type.space}")
            if p.role == "dim" and p.type is not k.index:
                raise self.error(f"dim `{p.name}` is {p.type}, not {k.index}")

    def _match(self, what: str, block: Block, types: list[object]) -> None:
        if [p.type for p in block.params] != types:
            raise self.error(f"the {what} block's parameters do not match the kernel's")

    def host(self) -> None:
        k = self.kernel
        for op in k.host.ops[:-1]:
            if op.name not in ("const", "bitcast") and not op.row.has(
                Trait.PURE | Trait.ELEMENTWISE
            ):
                raise self.error("only elementwise ops run on the host", op)
        self.block(k.host, closed=True)
        types = [v.type for v in k.host.yielded]
        if len(types) != k.rank + len(k.requires):
            raise self.error("the host block does not yield the extents and requirements")
        extents, conditions = types[: k.rank], types[k.rank :]
        if any(not isinstance(t, DType) or not t.is_integer for t in extents):
            raise self.error("a launch extent is not an integer")
        if any(t is not bool_ for t in conditions):
            raise self.error("a requirement is not a bool")

    def block(self, block: Block, *, closed: bool) -> None:
        """Verifies a block; a closed one ends in its only `yield`."""
        added: list[Value] = []
        self._define(block.params, added, None)
        last = len(block.ops) - 1
        if closed and (last < 0 or block.ops[last].name != "yield"):
            raise self.error("a region does not end in a yield")
        for at, op in enumerate(block.ops):
            if op.name == "yield" and not (closed and at == last):
                raise self.error("not at the end of a region", op)
            self._op(op)
            self._define(op.results, added, op)
        self.defined.difference_update(added)

    def _define(self, values: Iterable[Value], added: list[Value], op: Op | None) -> None:
        for value in values:
            if value in self.defined:
                raise self.error(f"{value} is defined twice", op)
            if value.op is not op:
                raise self.error(f"{value} does not belong to the op that defines it", op)
            self.defined.add(value)
            added.append(value)

    def _op(self, op: Op) -> None:
        if TABLE.get(op.name) is not op.row:
            raise self.error("is not a row of the table", op)
        if len(op.attrs) != len(op.row.attrs):
            raise self.error(f"has {len(op.attrs)} attributes, not {len(op.row.attrs)}", op)
        self._operands(op)
        if len(op.regions) != op.row.regions:
            raise self.error(f"has {len(op.regions)} regions, not {op.row.regions}", op)
        self.depth += 1
        for region in op.regions:
            self.block(region, closed=True)
        self.depth -= 1
        self._types(op)
        rule = _RULES.get(op.name)
        message = rule(op, self.kernel) if rule else None
        if message is None:
            message = self._position(op)
        if message is not None:
            raise self.error(message, op)

    def _operands(self, op: Op) -> None:
        names = op.row.operands
        fixed = sum(not n.endswith("*") for n in names)
        if len(op.args) < fixed or (len(op.args) > fixed and fixed == len(names)):
            raise self.error(f"has {len(op.args)} operands, wants {' '.join(names)}", op)
        for arg in op.args:
            if arg not in self.defined:
                raise self.error(f"operand {arg} is not defined here", op)
        if op.name in ("for", "if", "yield") and any(isinstance(a.type, Tensor) for a in op.args):
            raise self.error("a tensor cannot be carried or yielded", op)

    def _types(self, op: Op) -> None:
        try:
            types = op.row.infer(op.args, op.attrs, op.regions)
        except OpTypeError as problem:
            raise self.error(str(problem), op) from problem
        if tuple(r.type for r in op.results) != types:
            raise self.error(f"its results should be {list(types)}", op)

    def _position(self, op: Op) -> str | None:
        if op.name == "shared" and self.depth:
            return "group memory is declared inside a region"
        if op.row.has(Trait.COLLECTIVE) and self.kernel.each:
            return "a collective in a kernel without groups"
        return None


# --- rules of single ops --------------------------------------------------------------------------


def _loop(op: Op, kernel: Kernel) -> str | None:
    step = op.args[2]
    return "its step is below 1" if is_const(step) and const_of(step) < 1 else None


def _combining(op: Op, kernel: Kernel) -> str | None:
    width = op.attr("width")
    if width < 0 or width & (width - 1) or (width and kernel.threads % width):
        return f"its width {width} is not a power of two that divides {kernel.threads} threads"
    for inner in op.regions[0].walk():
        if not inner.row.has(Trait.PURE) and inner.name not in ("if", "for", "yield"):
            return f"its function contains `{inner.name}`"
    return None


def _exchange(op: Op, kernel: Kernel) -> str | None:
    mask, threads = op.attr("mask"), kernel.threads
    if mask < 0 or any(t ^ mask >= threads for t in range(threads)):
        return f"thread ^ {mask} leaves the group of {threads} threads"
    return None


def _const(op: Op, kernel: Kernel) -> str | None:
    value, dtype = op.attrs
    held = getattr(value, "dtype", None)
    return None if held == dtype.np else f"holds a {type(value).__name__}, not {dtype}"


def _shared(op: Op, kernel: Kernel) -> str | None:
    t = op.attr("type")
    if t.space != "shared" or len(t.shape) != t.rank:
        return f"its type is {t}"
    return None


def _table(op: Op, kernel: Kernel) -> str | None:
    t, data = op.attrs
    if t.space != "table" or len(t.shape) != t.rank:
        return f"its type is {t}"
    size = math.prod(t.shape) * t.elem.bytes
    return None if len(data) == size else f"holds {len(data)} bytes, not {size}"


def _group(op: Op, kernel: Kernel) -> str | None:
    axis = op.attr("axis")
    return None if 0 <= axis < kernel.rank else f"axis {axis} of a launch of rank {kernel.rank}"


_RULES: dict[str, Callable[[Op, Kernel], str | None]] = {
    "for": _loop,
    "reduce": _combining,
    "scan": _combining,
    "exchange": _exchange,
    "const": _const,
    "shared": _shared,
    "table": _table,
    "group": _group,
}
