"""How far an index moves from one lane to the next, and what that makes of an address.

Index arithmetic is modular, but the wrapped lanes of a signed index lie outside every tensor and
an unsigned one is anchored so that lanes before a wrap count down from zero (`memory`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager

from iron.analysis.uniform import Uniformity
from iron.dtypes import DType
from iron.ir.core import Op, Value, const_of, is_const
from iron.ir.table import Trait
from iron.ir.types import element

SMALL = 1 << 12
"""Strides beyond this are treated as unknown: they could wrap back into a tensor."""


class Strides:
    """The lane stride of values: a number of steps a lane, or None when it is not constant."""

    def __init__(self, uniform: Uniformity) -> None:
        self.uniform = uniform
        self._known: dict[Value, int | None] = {}
        self._loops: dict[Value, Op] = {}
        self._assumed: dict[Value, int] = {}
        self._patterns: dict[Value, tuple[int, ...] | None] = {}

    def counts(self, counter: Value, loop: Op) -> None:
        """Says that `counter` is the counter of `loop`."""
        self._loops[counter] = loop

    @contextmanager
    def assuming(self, known: Mapping[Value, int]) -> Generator[None]:
        """The strides `known` hold inside, besides what follows from them."""
        kept = self._known, self._assumed, self._patterns
        self._known, self._assumed, self._patterns = {}, {**self._assumed, **known}, {}
        try:
            yield
        finally:
            self._known, self._assumed, self._patterns = kept

    def assumed(self, value: Value) -> int | None:
        """The stride that holds for now by `assuming`."""
        return self._assumed.get(value)

    def of(self, value: Value) -> int | None:
        """The lane stride of an integer value."""
        if not self.uniform.varies(value):
            return 0
        if value in self._assumed:
            return self._assumed[value]
        if value not in self._known:
            self._known[value] = None  # a loop through a carried value ends here
            found = self._find(value)
            small = found is not None and abs(found) <= SMALL
            self._known[value] = found if small else None
        return self._known[value]

    def pattern(self, value: Value) -> tuple[int, ...] | None:
        """How far each lane's value lies beyond lane 0's, where that never changes."""
        width = self.uniform.width
        stride = self.of(value)
        if stride is not None:
            return tuple(lane * stride for lane in range(width))
        if value not in self._patterns:
            self._patterns[value] = None  # a loop through a carried value ends here
            op, dtype = value.op, value.type
            rule = _PATTERNS.get(op.name) if op is not None else None
            if rule is None or not isinstance(dtype, DType) or dtype.bits < 32:
                return None
            assert op is not None
            found = rule(self, op)
            small = found is not None and max(map(abs, found)) <= SMALL
            self._patterns[value] = found if small else None
        return self._patterns[value]

    def loop_of(self, value: Value) -> Op | None:
        """The loop whose counter is `value`."""
        return self._loops.get(value)

    def is_block(self, value: Value) -> bool:
        """True when the lanes hold neighbours, the first a multiple of their number."""
        width = self.uniform.width
        if width & (width - 1) or self.of(value) != 1:
            return False
        return alignment(self, value) >= width

    def _find(self, value: Value) -> int | None:
        if (loop := self._loops.get(value)) is not None:
            return self.of(loop.args[0]) if not self.uniform.varies(loop.args[2]) else None
        dtype = value.type
        if value.op is None or not isinstance(dtype, DType) or not dtype.is_integer:
            return None
        if dtype.bits < 32:
            return None
        op = value.op
        if op.row.has(Trait.ELEMENTWISE) and all(self.of(a) == 0 for a in op.args):
            return 0
        rule = _RULES.get(op.name)
        return rule(self, op) if rule else None


def _thread(s: Strides, op: Op) -> int | None:
    return 1


def _add(s: Strides, op: Op) -> int | None:
    a, b = (s.of(v) for v in op.args)
    return None if a is None or b is None else a + b


def _sub(s: Strides, op: Op) -> int | None:
    a, b = (s.of(v) for v in op.args)
    return None if a is None or b is None else a - b


def _mul(s: Strides, op: Op) -> int | None:
    for factor, other in (op.args, op.args[::-1]):
        if is_const(factor) and (stride := s.of(other)) is not None:
            return stride * int(const_of(factor))
    return None


def _shl(s: Strides, op: Op) -> int | None:
    value, by = op.args
    if not is_const(by) or (stride := s.of(value)) is None:
        return None
    return stride << (int(const_of(by)) % value.type.bits)  # type: ignore[union-attr]


def _cast(s: Strides, op: Op) -> int | None:
    source = op.args[0].type
    if not isinstance(source, DType) or not source.is_integer or source.bits < 32:
        return None
    return s.of(op.args[0])


def _rest(s: Strides, op: Op) -> int | None:
    """A block of lanes that starts at a multiple of its width stays together modulo another."""
    block, by = op.args
    if not s.is_block(block) or not is_const(by):
        return None
    c = int(const_of(by))
    return 1 if c > 0 and c % s.uniform.width == 0 else None


def _quotient(s: Strides, op: Op) -> int | None:
    """.. and all of it lies in one run of so many elements."""
    block, by = op.args
    if not s.is_block(block) or not is_const(by):
        return None
    c = int(const_of(by))
    if op.name == "shr":
        c = 1 << (c % element(block.type).bits)
    return 0 if c > 0 and c % s.uniform.width == 0 else None


def _masked(s: Strides, op: Op) -> int | None:
    """`block & m` keeps the lanes' own bits when m has them all; `|` and `^` when m has none."""
    low = s.uniform.width - 1
    for block, by in (op.args, op.args[::-1]):
        if is_const(by) and s.is_block(block):
            bits = int(const_of(by)) & low
            return 1 if bits == (low if op.name == "and" else 0) else None
    return None


_RULES: dict[str, Callable[[Strides, Op], int | None]] = {
    "thread": _thread,
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "shl": _shl,
    "cast": _cast,
    "mod": _rest,
    "floordiv": _quotient,
    "shr": _quotient,
    "and": _masked,
    "or": _masked,
    "xor": _masked,
}


# --- patterns -------------------------------------------------------------------------------------


def _pattern_sum(s: Strides, op: Op) -> tuple[int, ...] | None:
    a, b = (s.pattern(v) for v in op.args)
    if a is None or b is None:
        return None
    sign = -1 if op.name == "sub" else 1
    return tuple(x + sign * y for x, y in zip(a, b, strict=True))


def _pattern_product(s: Strides, op: Op) -> tuple[int, ...] | None:
    for factor, other in (op.args, op.args[::-1]):
        if is_const(factor) and (found := s.pattern(other)) is not None:
            c = int(const_of(factor))
            return tuple(x * c for x in found)
    return None


def _pattern_cast(s: Strides, op: Op) -> tuple[int, ...] | None:
    source = op.args[0].type
    if not isinstance(source, DType) or not source.is_integer or source.bits < 32:
        return None
    return s.pattern(op.args[0])


def _pattern_part(s: Strides, op: Op) -> tuple[int, ...] | None:
    """Quotients and remainders by a power of two that divides lane 0: those of the pattern.

    Quotients only where no lane reaches the next multiple of what divides lane 0: none wraps.
    """
    value, by = op.args
    if not is_const(by):
        return None
    c = int(const_of(by))
    if op.name == "shr":
        c = 1 << (c % element(value.type).bits)
    elif op.name == "and":
        c += 1
    found, block = s.pattern(value), alignment(s, value)
    if c < 2 or c & (c - 1) or block < c or found is None or min(found) < 0:
        return None
    if op.name in ("mod", "and"):
        return tuple(x % c for x in found)
    return tuple(x // c for x in found) if max(found) < block else None


_PATTERNS: dict[str, Callable[[Strides, Op], tuple[int, ...] | None]] = {
    "add": _pattern_sum,
    "sub": _pattern_sum,
    "mul": _pattern_product,
    "cast": _pattern_cast,
    "floordiv": _pattern_part,
    "mod": _pattern_part,
    "shr": _pattern_part,
    "and": _pattern_part,
}
"""Where lanes do not advance evenly but still each by a known distance."""


# --- alignment ------------------------------------------------------------------------------------

MOST = 1 << 12
"""The greatest power of two that is tracked: enough for the lanes of a block of packed bits."""


def _power_of(number: int) -> int:
    """The greatest power of two that divides `number`, at most `MOST`."""
    return min(MOST, number & -number) if number else MOST


def alignment(s: Strides, value: Value, depth: int = 12) -> int:
    """A power of two that divides the integer `value` of lane 0; wrapping does not matter to it."""
    if is_const(value):
        return _power_of(int(const_of(value)))
    if (loop := s.loop_of(value)) is not None:
        return min(alignment(s, v, depth - 1) for v in (loop.args[0], loop.args[2]))
    op = value.op
    if op is None or depth == 0 or not isinstance(value.type, DType) or value.type.bits < 32:
        return 1
    if op.name == "thread":
        return s.uniform.width
    rule = _ALIGNMENTS.get(op.name)
    if rule is None or any(not isinstance(a.type, DType) or a.type.bits < 32 for a in op.args):
        return 1
    return min(MOST, rule(*(alignment(s, a, depth - 1) for a in op.args)))


_ALIGNMENTS: dict[str, Callable[..., int]] = {
    "add": min,
    "sub": min,
    "or": min,
    "xor": min,
    "mod": min,
    "mul": lambda a, b: a * b,
    "and": max,
    "cast": lambda a: a,
}
