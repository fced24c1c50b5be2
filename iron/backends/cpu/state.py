"""What is known while a kernel is emitted: where values live, who is active, how wide lanes are.

The emitter knows no op; rooms register rules that turn an op into the names of its results.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from iron.analysis.uniform import GROUP, SIMD, Uniformity
from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.strides import Strides
from iron.backends.cpu.types import lanes, literal, scalar
from iron.backends.cpu.writer import Writer
from iron.dtypes import DType
from iron.errors import error
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const
from iron.ir.types import Tensor, count, element
from iron.targets.target import Target

Names = tuple[str, ...]
"""A value's components: one for a scalar, one an element for a vector; each has its lanes."""


@dataclass(frozen=True, slots=True)
class Runs:
    """A value whose lanes are equal in runs of `length`: a lane of its components for each run."""

    length: int
    names: Names


Rule = Callable[["Emitter", Op], "Sequence[Names | Runs]"]

ScalarForm = Callable[[Lanes, Op, list[str]], str]
"""An op on scalars that stand for lane 0 of its operands."""


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value computed once a group, valid wherever it is in scope."""

    names: Names


@dataclass(frozen=True, slots=True)
class Slot:
    """A value in stack memory, because it lives on after its piece.

    `level` says whether there is one for the group or one for each simdgroup.
    """

    pointer: str
    level: int


@dataclass(slots=True)
class Scope:
    """Names computed so far in a piece, values known as runs of equal lanes, and scalars that
    stand for lane 0 of affine values."""

    names: dict[Value, Names]
    anchors: dict[Value, str]
    runs: dict[Value, Runs]


class Emitter:
    """The state of one kernel's emission.

    `lanes` is how wide a varying value is here: the simdgroup's width, or less inside the
    combining function of a collective. `simdgroup` names the current one's number, an i64.
    `mask` names the active lanes, None when all are. A masked region runs only when some lane is
    active, so that uniform loads in it are safe. `turns` are the loops around what is emitted,
    outer ones first, `following` the ops after the current one. `nibbles` are what values are of a
    four-bit code, if the kernel has any. `streamed` are the outputs that may bypass the caches,
    `read` are the buffers of which whole lanes were read, `in_order` is false once one was read
    otherwise than in order, except where a step that `if_one` names is not 1.
    """

    def __init__(
        self,
        kernel: Kernel,
        uniform: Uniformity,
        target: Target,
        rules: Mapping[str, Rule],
        scalar_forms: Mapping[str, ScalarForm],
        rematerialised: frozenset[Value] = frozenset(),
    ) -> None:
        self.kernel = kernel
        self.uniform = uniform
        self.target = target
        self.rules = rules
        self.scalar_forms = scalar_forms
        self.rematerialised = rematerialised
        self.w = Writer()
        self.strides = Strides(uniform)
        self.lanes = uniform.width
        self.mask: str | None = None
        self.turns: list[Op] = []
        self.following: Sequence[Op] = ()
        self.has_nibbles = False
        self.nibbles: dict[Value, tuple[Value, Any] | None] = {}
        self.simdgroup = "0"
        self.places: dict[Value, Fixed | Slot] = {}
        self.partials: dict[tuple[Op, int], tuple[list[str], list[tuple[str, int]]]] = {}
        self.streamed: frozenset[Value] = frozenset()
        self.read: set[Value] = set()
        self.in_order = True
        self.if_one: dict[str, None] = {}
        self.scope = Scope({}, {}, {})
        self._combined = _inside_combiners(kernel.body)

    # --- what a value is --------------------------------------------------------------------------

    def varies(self, value: Value) -> bool:
        """True when `value` has one component a lane here."""
        return value in self._combined or self.uniform.varies(value)

    def width(self, value: Value) -> int:
        """How many lanes `value` has here."""
        return self.lanes if self.varies(value) else 1

    def type(self, value: Value) -> str:
        """The LLVM type of one component of `value`."""
        return lanes(scalar(element(value.type)), self.width(value))

    def view(self, value: Value) -> Lanes:
        """Instructions on the dtype and lanes of `value`."""
        return Lanes(self.w, element(value.type), self.width(value))

    # --- where it is ------------------------------------------------------------------------------

    def names(self, value: Value, width: int | None = None) -> Names:
        """The components of `value` at its own width, spread to `width`, or of lane 0 for 1."""
        own = self.width(value)
        if width is None or width == own:
            return self._own_names(value)
        if width == 1:
            if not count(value.type):
                return (self.first(value),)
            return tuple(self._lane(value, n, 0) for n in self._own_names(value))
        if own != 1:
            raise error("E0901", f"a value of {own} lanes where {width} are combined")
        ll = scalar(element(value.type))
        return tuple(self.w.splat(n, ll, width) for n in self._own_names(value))

    def _own_names(self, value: Value) -> Names:
        if (known := self.scope.names.get(value)) is not None:
            return known
        if (runs := self.scope.runs.get(value)) is not None:
            return self._kept(value, self.spread(value, runs))
        if is_const(value):
            return (literal(const_of(value), element(value.type)),)
        place = self.places.get(value)
        if isinstance(place, Fixed):
            return place.names
        if value in self.rematerialised and value.op is not None:
            self.op(value.op)
            return self._own_names(value)
        if place is None:
            raise error("E0901", f"no place for {value} of {value.op}")
        names = tuple(
            self.w.let(f"load {self.type(value)}, ptr {self.address(value, c)}")
            for c in range(components(value))
        )
        self.scope.names[value] = names
        if self.varies(value) and not count(value.type):
            self.scope.anchors[value] = self._lane(value, names[0], 0)
        return names

    def _kept(self, value: Value, names: Names) -> Names:
        self.scope.names[value] = names
        return names

    def spread(self, value: Value, runs: Runs, length: int = 1) -> Names:
        """The components of a value with a lane for each `length` lanes of it, from longer runs."""
        if runs.length == length:
            return runs.names
        ll, width = scalar(element(value.type)), self.lanes // runs.length
        at = [i * length // runs.length for i in range(self.lanes // length)]
        return tuple(self.w.pick(n, ll, width, at) for n in runs.names)

    def known(self, value: Value) -> bool:
        """True when `value` was computed in the current scope."""
        return value in self.scope.names or value in self.scope.runs

    def at_hand(self, value: Value) -> bool:
        """True when `names` has an answer here: not for what ended with an earlier piece."""
        kept = value in self.places or value in self.rematerialised
        return kept or self.known(value) or is_const(value)

    def _lane(self, value: Value, name: str, at: int) -> str:
        return self.w.let(f"extractelement {self.type(value)} {name}, i64 {at}")

    def bind(self, value: Value, names: Names) -> None:
        """Records the components of `value` in the current scope."""
        self.scope.names[value] = names

    @contextmanager
    def nested(self) -> Generator[None]:
        """A scope whose names end with it."""
        kept = self.scope
        self.scope = Scope(dict(kept.names), dict(kept.anchors), dict(kept.runs))
        try:
            yield
        finally:
            self.scope = kept

    @contextmanager
    def fresh_scope(self) -> Generator[None]:
        """A scope that begins empty, as each piece does."""
        kept = self.scope
        self.scope = Scope({}, {}, {})
        try:
            yield
        finally:
            self.scope = kept

    @contextmanager
    def turn(self, loop: Op) -> Generator[None]:
        """The body of `loop`."""
        self.turns.append(loop)
        try:
            yield
        finally:
            self.turns.pop()

    @contextmanager
    def masked(self, mask: str | None) -> Generator[None]:
        """Only the lanes of `mask` are active."""
        kept = self.mask
        self.mask = mask
        try:
            yield
        finally:
            self.mask = kept

    # --- slots ------------------------------------------------------------------------------------

    def slot(self, value: Value) -> Slot:
        """The stack slot of `value`, made on first use."""
        found = self.places.get(value)
        if isinstance(found, Slot):
            return found
        level = self.uniform.of(value)
        copies = 1 if level == GROUP else self.uniform.simdgroups
        made = Slot(self.w.cell(self.type(value), copies * components(value)), level)
        self.places[value] = made
        return made

    def address(self, value: Value, component: int) -> str:
        """A pointer to one component in the slot of `value`, for the current simdgroup."""
        slot, each = self.slot(value), components(value)
        at = str(component)
        if slot.level >= SIMD and self.uniform.simdgroups > 1:
            at = self.scaled(self.simdgroup, each)
            if component:
                at = self.w.let(f"add i64 {at}, {component}")
        return self.w.let(f"getelementptr {self.type(value)}, ptr {slot.pointer}, i64 {at}")

    def put(self, value: Value, names: Names) -> None:
        """Writes the slot of `value`."""
        for c, name in enumerate(names):
            self.w.do(f"store {self.type(value)} {name}, ptr {self.address(value, c)}")

    def scaled(self, number: str, by: int) -> str:
        """An i64 times a constant."""
        if by == 1:
            return number
        if not number.startswith("%"):
            return str(int(number) * by)
        return self.w.let(f"mul i64 {number}, {by}")

    # --- emission ---------------------------------------------------------------------------------

    def op(self, op: Op) -> None:
        """Emits `op` and records its results."""
        rule = self.rules.get(op.name)
        if rule is None:
            raise error("E0901", f"the CPU backend has no rule for `{op.name}`", op.loc)
        for result, found in zip(op.results, rule(self, op), strict=True):
            if isinstance(found, Runs):
                self.scope.runs[result] = found
            else:
                self.scope.names[result] = found

    def body(self, block: Block) -> tuple[Value, ...]:
        """Emits a region's ops and returns what it yields."""
        for number, op in enumerate(block.ops):
            if op.name != "yield":
                self.step(op, block.ops[number + 1 :])
        return block.yielded

    def step(self, op: Op, following: Sequence[Op]) -> None:
        """Emits an op of a sequence, unless an earlier reduction took it along."""
        if op.name != "reduce" or not all(self.known(r) for r in op.results):
            self.following = following
            self.op(op)

    def combine(self, block: Block, operands: list[Names], width: int) -> list[Names]:
        """Applies a collective's function at `width` lanes to components of that width."""
        kept = self.lanes
        self.lanes = width
        with self.nested(), self.masked(None):
            for param, names in zip(block.params, operands, strict=True):
                self.bind(param, names)
            out = [self.names(v, width) for v in self.body(block)]
        self.lanes = kept
        return out

    def first(self, value: Value) -> str:
        """A scalar that equals `value` in lane 0, without its vector where that is affine."""
        if not self.varies(value) or self.lanes == 1:
            return self._own_names(value)[0]
        if value not in self.scope.anchors:
            names = self._own_names(value)
            if value not in self.scope.anchors:
                self.scope.anchors[value] = self._anchor(value, names[0])
        return self.scope.anchors[value]

    def _anchor(self, value: Value, name: str) -> str:
        op = value.op
        if op is None or value in self._combined or self.strides.pattern(value) is None:
            return self._lane(value, name, 0)
        if op.name == "thread":
            return self.number_of_first_lane(element(value.type))
        form = self.scalar_forms.get(op.name)
        if form is None:
            return self._lane(value, name, 0)
        operands = [self.first(a) for a in op.args]
        dtype = element(op.args[-1].type if op.args else value.type)
        return form(Lanes(self.w, dtype, 1), op, operands)

    def lane_stride(self, value: Value) -> int | None:
        """How many steps an index moves from one lane to the next; None when not constant."""
        if self.lanes == 1 or not self.varies(value):
            return 0
        return None if value in self._combined else self.strides.of(value)

    def lane_pattern(self, value: Value) -> tuple[int, ...] | None:
        """How far each lane's index lies beyond lane 0's; None when that is not constant."""
        if self.lanes == 1 or not self.varies(value):
            return (0,) * self.lanes
        return None if value in self._combined else self.strides.pattern(value)

    def number_of_first_lane(self, dtype: DType) -> str:
        """The thread number of lane 0 of the current simdgroup."""
        at = self.scaled(self.simdgroup, self.uniform.width)
        if not at.startswith("%") or dtype.bits == 64:
            return at
        return self.w.let(f"trunc nuw i64 {at} to {scalar(dtype)}")


def components(value: Value) -> int:
    """How many components a value has; a tensor's is its pointer."""
    return 1 if isinstance(value.type, Tensor) else count(value.type) or 1


def _inside_combiners(block: Block) -> frozenset[Value]:
    """The values defined by combining functions: they follow the width of their call."""
    found: set[Value] = set()

    def take(region: Block) -> None:
        found.update(region.params)
        for op in region.ops:
            if op.args:
                found.update(op.results)
            for inner in op.regions:
                take(inner)

    for op in block.walk():
        if op.name in ("reduce", "scan"):
            take(op.regions[0])
    return frozenset(found)
