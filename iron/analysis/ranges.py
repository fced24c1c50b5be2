"""What values integers can have: bounds and divisibility, from launch, loops, guards and `require`.

Facts hold for every thread that reaches a value. Operands are known per op, since inside
`if i < n:` more is known of `i` than outside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count

from iron.analysis import interval
from iron.analysis.interval import Range, everything, exactly
from iron.dtypes import DType, bool_
from iron.ir.core import Block, Kernel, Op, Value, carried, const_of
from iron.ir.table import Trait
from iron.ir.types import Tensor, element

PATIENCE = 3  # turns of a loop before a bound that still moves is given up


@dataclass(frozen=True, slots=True, eq=False)
class Ranges:
    """The facts about a kernel's body.

    `exact` holds the integer ops whose result never wraps, `groups` the group numbers on each
    launch axis.
    """

    groups: tuple[Range, ...]
    values: dict[Value, Range]
    operands: dict[Op, tuple[Range | None, ...]]
    exact: frozenset[Op]

    def of(self, value: Value) -> Range | None:
        """All that `value` can be; None for a value that is no integer or bool."""
        return self.values.get(value)

    def at(self, op: Op, operand: int) -> Range | None:
        """What operand number `operand` of `op` can be when the op runs."""
        known = self.operands.get(op)
        return known[operand] if known else None

    def runs(self, loop: Op) -> bool:
        """True when the body of a `for` runs at least once whenever the op is reached."""
        low, high = self.at(loop, 0), self.at(loop, 1)
        return low is not None and high is not None and low.below(high)

    def turns(self, loop: Op) -> int | None:
        """How often the body of a `for` runs when nothing stops it, if that is one number."""
        first, last, by = (self.at(loop, i) for i in range(3))
        if first and last and by and by.low > 0 and first.low >= last.high:
            return 0
        low, high, step = (r.constant if r else None for r in (first, last, by))
        if low is None or high is None or not step or step < 0:
            return None
        return max(0, -((low - high) // step))


def ranges(kernel: Kernel) -> Ranges:
    """The facts about `kernel.body`, with what its host block promises."""
    host = _Facts(kernel, ())
    for param, value in zip(kernel.host_params, kernel.host.params, strict=True):
        host.set(value, interval.Range(0, kernel.index.max) if param.role == "dim" else None)
    host.block(kernel.host)
    for condition in kernel.host.yielded[kernel.rank :]:
        host.known.update(host.assume(condition, True))
    host.block(kernel.host)
    extents = (host.get(v) for v in kernel.host.yielded[: kernel.rank])
    groups = [interval.between(0, max(0, e.high - 1)) for e in extents if e is not None]
    body = _Facts(kernel, groups)
    given = {
        p.name: host.get(v) for p, v in zip(kernel.host_params, kernel.host.params, strict=True)
    }
    for param, value in zip(kernel.params, kernel.body.params, strict=True):
        if not isinstance(value.type, Tensor):
            body.set(value, given[param.name])
    body.block(kernel.body)
    return Ranges(body.groups, body.known, body.operands, frozenset(body.exact))


def _whole(value: Value) -> Range | None:
    t = value.type
    if isinstance(t, Tensor) or element(t).is_float:
        return None
    return everything(element(t))


def _computes_floats(op: Op) -> bool:
    """True for arithmetic on floats, of which nothing is known."""
    return op.row.has(Trait.ELEMENTWISE) and element(op.results[0].type).is_float


class _Facts:
    """One sweep over a block; loops repeat until what they carry stays put."""

    def __init__(self, kernel: Kernel, groups: Iterable[Range]) -> None:
        self.threads = kernel.threads
        self.groups = tuple(groups)
        self.known: dict[Value, Range] = {}
        self.operands: dict[Op, tuple[Range | None, ...]] = {}
        self.exact: set[Op] = set()

    def get(self, value: Value) -> Range | None:
        return self.known.get(value)

    def set(self, value: Value, found: Range | None) -> None:
        whole = _whole(value)
        if whole is not None:
            self.known[value] = interval.meet(whole, found) if found is not None else whole

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.name == "yield" or _computes_floats(op):
                continue
            self.operands[op] = tuple(map(self.get, op.args))
            rule = _REGIONS.get(op.name)
            if rule is not None:
                rule(self, op)
                continue
            for region in op.regions:
                for p in region.params:
                    self.set(p, None)
                self.block(region)
            for result in op.results:
                self.set(result, self._result(op))

    def _result(self, op: Op) -> Range | None:
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op)
        exact_rule = _EXACT.get(op.name)
        args = self.operands[op]
        if exact_rule is None or any(a is None for a in args):
            return None
        dtype = element(op.results[0].type)
        raw = exact_rule(dtype, *args)
        if raw is None:
            return None
        return self.fitted(op, raw, dtype)

    def fitted(self, op: Op, raw: Range, dtype: DType) -> Range:
        """`raw` in `dtype`, noting whether it wraps there."""
        fits = raw.within(*interval.bounds(dtype))
        (self.exact.add if fits else self.exact.discard)(op)
        return interval.wrapped(raw, dtype)

    def under(self, condition: Value, holds: bool, block: Block) -> list[Range | None]:
        """What `block` yields when `condition` is `holds`."""
        outside = {v: self.known[v] for v in self.assume(condition, holds)}
        self.known.update(self.assume(condition, holds))
        self.block(block)
        found = [self.get(v) for v in block.yielded]
        self.known.update(outside)
        return found

    # --- what a condition tells about its operands ------------------------------------------------

    def assume(self, condition: Value, holds: bool) -> dict[Value, Range]:
        """The values that are known better when `condition` is `holds`."""
        op = condition.op
        if op is None:
            return {}
        if op.name == "not":
            return self.assume(op.args[0], not holds)
        if op.name in ("and", "or") and op.results[0].type is bool_:
            if holds != (op.name == "and"):
                return {}
            first, second = (self.assume(a, holds) for a in op.args)
            both = {v: interval.meet(r, first[v]) for v, r in second.items() if v in first}
            return first | second | both
        name = op.name if holds else _OPPOSITE.get(op.name)
        if name not in _OPPOSITE:
            return {}
        a, b = op.args
        x, y = self.get(a), self.get(b)
        if x is None or y is None:
            return {}
        if name == "eq":
            return {a: interval.meet(x, y), b: interval.meet(y, x)} | self._divisible(a, y)
        if name in ("gt", "ge"):
            a, b, x, y = b, a, y, x
        gap = 1 if name in ("lt", "gt") else 0
        if name == "ne":
            return {}
        above = interval.meet(y, Range(min(y.high, x.low + gap), y.high))
        return {
            **(self._factors(b) if above.low > 0 else {}),
            a: interval.meet(x, Range(x.low, max(x.low, y.high - gap))),
            b: above,
        }

    def _factors(self, product: Value) -> dict[Value, Range]:
        """From `a * b > 0` and `a >= 0`: a is not 0, even if the product wraps."""
        op = product.op
        known = [(a, self.get(a)) for a in op.args] if op is not None and op.name == "mul" else []
        return {
            a: interval.meet(r, Range(1, max(1, r.high)))
            for a, r in known
            if r is not None and r.low >= 0
        }

    def _divisible(self, value: Value, equals: Range) -> dict[Value, Range]:
        """From `x % c == r` (or `x & (c - 1) == r`): x is r modulo c."""
        op, rest = value.op, equals.constant
        if op is None or op.name not in ("mod", "and") or rest is None:
            return {}
        by, x = self.get(op.args[1]), self.get(op.args[0])
        if by is None or x is None or by.constant is None:
            return {}
        c = by.constant if op.name == "mod" else by.constant + 1
        if c < 1 or (op.name == "and" and c & (c - 1)):
            return {}
        return {op.args[0]: interval.meet(x, interval.between(x.low, x.high, c, rest))}


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


# --- ops with regions -----------------------------------------------------------------------------


def _if(f: _Facts, op: Op) -> None:
    then = f.under(op.args[0], True, op.regions[0])
    other = f.under(op.args[0], False, op.regions[1])
    chosen = f.get(op.args[0])
    for result, a, b in zip(op.results, then, other, strict=True):
        if chosen is not None and chosen.constant is not None:
            f.set(result, a if chosen.constant else b)
        else:
            f.set(result, interval.join(a, b) if a is not None and b is not None else None)


def _for(f: _Facts, op: Op) -> None:
    (body,) = op.regions
    f.set(body.params[0], _counter(f, op))
    have = [f.get(v) for v in op.args[3:]]
    for turn in count():
        for p, r in zip(body.params[1:], have, strict=True):
            f.set(p, r)
        f.block(body)
        new = [
            _widened(h, f.get(v), p, turn)
            for h, v, p in zip(have, carried(op), body.params[1:], strict=True)
        ]
        if new == have:
            break
        have = new
    for result, r in zip(op.results, have, strict=True):
        f.set(result, r)


def _counter(f: _Facts, op: Op) -> Range | None:
    low, high, step = (f.get(v) for v in op.args[:3])
    if low is None or high is None or step is None:
        return None
    modulus = interval.join(low, interval.add(low, step)).modulus
    return interval.between(low.low, max(low.low, high.high - 1), modulus, low.residue)


def _widened(old: Range | None, new: Range | None, param: Value, turn: int) -> Range | None:
    if old is None or new is None:
        return None
    both = interval.join(old, new)
    if both == old or turn < PATIENCE:
        return both
    whole = _whole(param)
    assert whole is not None
    if turn >= 2 * PATIENCE:
        return whole
    low = old.low if both.low == old.low else whole.low
    high = old.high if both.high == old.high else whole.high
    return interval.between(low, high, both.modulus, both.residue)


_REGIONS: dict[str, Callable[[_Facts, Op], None]] = {"if": _if, "for": _for}


# --- other ops ------------------------------------------------------------------------------------


def _const(f: _Facts, op: Op) -> Range | None:
    dtype = op.results[0].type
    assert isinstance(dtype, DType)
    return None if dtype.is_float else exactly(int(const_of(op.results[0])))


def _thread(f: _Facts, op: Op) -> Range:
    return interval.between(0, f.threads - 1)


def _group(f: _Facts, op: Op) -> Range | None:
    axis = op.attr("axis")
    return f.groups[axis] if axis < len(f.groups) else None


def _same(f: _Facts, op: Op) -> Range | None:
    return f.get(op.args[0])


def _joined(f: _Facts, op: Op) -> Range | None:
    found = [f.get(a) for a in op.args]
    total = found[0]
    for r in found[1:]:
        total = interval.join(total, r) if total is not None and r is not None else None
    return total


def _where(f: _Facts, op: Op) -> Range | None:
    condition, a, b = op.args
    chosen = f.get(condition)
    x = f.assume(condition, True).get(a, f.get(a))
    y = f.assume(condition, False).get(b, f.get(b))
    if chosen is not None and chosen.constant is not None:
        return x if chosen.constant else y
    return interval.join(x, y) if x is not None and y is not None else None


def _cast(f: _Facts, op: Op) -> Range | None:
    a, to = f.get(op.args[0]), element(op.results[0].type)
    if a is None or to.is_float:
        return None
    if to is bool_:
        return _truth(None if a.low <= 0 <= a.high and a.constant is None else a.constant != 0)
    return f.fitted(op, a, to)


def _truth(holds: bool | None) -> Range:
    return everything(bool_) if holds is None else exactly(int(holds))


def _compare(f: _Facts, op: Op) -> Range | None:
    a, b = f.operands[op]
    return None if a is None or b is None else _truth(compared(op.name, a, b))


def compared(name: str, a: Range, b: Range) -> bool | None:
    """The outcome of a comparison, if it is the same for all members."""
    if name in ("gt", "ge"):
        return compared({"gt": "lt", "ge": "le"}[name], b, a)
    if name in ("ne", "le"):
        flipped = compared("eq", a, b) if name == "ne" else compared("lt", b, a)
        return None if flipped is None else not flipped
    if name == "eq":
        if a.apart(b):
            return False
        return True if a.constant is not None and a.constant == b.constant else None
    if a.below(b):
        return True
    return False if a.low >= b.high else None


def _not(f: _Facts, op: Op) -> Range | None:
    a = f.get(op.args[0])
    if a is None:
        return None
    if op.results[0].type is bool_:
        return interval.sub(exactly(1), a)
    return interval.wrapped(interval.sub(exactly(-1), a), element(op.results[0].type))


def _count(f: _Facts, op: Op) -> Range:
    return interval.between(0, element(op.results[0].type).bits)


_RULES: dict[str, Callable[[_Facts, Op], Range | None]] = {
    "const": _const,
    "thread": _thread,
    "group": _group,
    "exchange": _same,
    "splat": _same,
    **dict.fromkeys(("tile_full", "tile_expand", "tile_broadcast", "tile_transpose"), _same),
    "tile_iota": lambda f, op: interval.between(0, op.attr("count") - 1),
    "extract": _same,
    "pack": _joined,
    "where": _where,
    "cast": _cast,
    "not": _not,
    **dict.fromkeys(("popcount", "clz", "ctz"), _count),
    **dict.fromkeys(_OPPOSITE, _compare),
}

# Exact integer results from (dtype, operands); what does not fit the dtype wraps.
_EXACT: dict[str, Callable[..., Range | None]] = {
    "add": lambda t, a, b: interval.add(a, b),
    "sub": lambda t, a, b: interval.sub(a, b),
    "mul": lambda t, a, b: interval.mul(a, b),
    "neg": lambda t, a: interval.neg(a),
    "abs": lambda t, a: interval.magnitude(a),
    "floordiv": lambda t, a, b: interval.floordiv(a, b),
    "mod": lambda t, a, b: interval.mod(a, b),
    "min": lambda t, a, b: interval.minimum(a, b),
    "max": lambda t, a, b: interval.maximum(a, b),
    "and": lambda t, a, b: interval.bit_and(a, b),
    "or": lambda t, a, b: interval.bit_or(a, b),
    "xor": lambda t, a, b: interval.bit_xor(a, b),
    "shl": lambda t, a, b: interval.shift_left(a, b, t.bits),
    "shr": lambda t, a, b: interval.shift_right(a, b, t.bits),
}
