"""Gives each thread of an `each` kernel several neighbours, so that memory moves in wide words.

Threads of such a kernel know nothing of each other, so any order between them is allowed: every
op is written once for each neighbour before the next op. What the extents must be multiples of
becomes a requirement of the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import lcm

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Require, Value, const_of, is_const
from iron.ir.table import Trait
from iron.ir.types import Tensor, count

MOST = 16  # neighbours of a thread


THREADS = 128
"""Threads of a group; a copy of 64 Mi elements takes 1 to 2 % longer on an H200 with 256."""


def vectorise(kernel: Kernel, bytes: int = 16) -> Kernel:
    """`kernel` with as many neighbours a thread as the widest access needs to fill `bytes`.

    It stays as it is when that is one, or when some access of neighbours is not of neighbours in
    memory. Groups of more threads than `THREADS` become several.
    """
    found = _guard(kernel)
    if found is None:
        return kernel
    trial = _Spread(kernel, found, 2)
    trial.body()
    factor = _factor(trial.accesses, bytes)
    if factor < 2:
        return kernel
    spread = _Spread(kernel, found, factor)
    return spread.kernel(spread.body())


@dataclass(frozen=True, slots=True)
class Guard:
    """The `if at < total` around all that an `each` kernel does."""

    op: Op
    start: Op
    at: Value
    total: Value


def _guard(kernel: Kernel) -> Guard | None:
    """The guard of an `each` kernel; None where its form is another."""
    guards = [op for op in kernel.body.ops if op.regions]
    if not kernel.each or kernel.rank != 1 or len(guards) != 1:
        return None
    (op,) = guards
    condition = op.args[0].op
    if op.name != "if" or op.results or condition is None or condition.name != "lt":
        return None
    outside = [o for o in kernel.body.ops if o is not op and not o.row.has(Trait.PURE)]
    start = _start(condition.args[0], kernel.threads)
    if len(op.regions[1].ops) > 1 or outside or start is None:
        return None
    return Guard(op, start, *condition.args)


def _start(value: Value, threads: int) -> Op | None:
    """The product in group * threads + thread."""
    op = value.op
    if op is None or op.name != "add":
        return None
    names = {a.op.name: a.op for a in op.args if a.op is not None}
    start = names.get("mul")
    if start is None or "thread" not in names:
        return None
    by = [const_of(a) for a in start.args if is_const(a)]
    grouped = any(a.op is not None and a.op.name == "group" for a in start.args)
    return start if by == [threads] and grouped else None


@dataclass(frozen=True, slots=True)
class Access:
    """One load or store as the neighbours make it: `step` is None where it is not regular."""

    bytes: int
    width: int
    step: int | None
    writes: bool


def _factor(accesses: Sequence[Access], bytes: int) -> int:
    """Neighbours that fill `bytes` in the widest access.

    More of them would move two words beside each other, and each access of a simdgroup would leave
    half of every line to the other.
    """
    if any(a.step != a.width and (a.writes or a.step != 0) for a in accesses):
        return 1
    moving = [a.bytes * a.width for a in accesses if a.step]
    return min(MOST, bytes // max(moving or [bytes]))


@dataclass(frozen=True, slots=True)
class Lanes:
    """A value for each neighbour. Regular ones are `values[0] + number * step`, where the first is
    a multiple of `step` times the number of neighbours; step 0: one value for all."""

    values: tuple[Value, ...]
    step: int | None = None

    @property
    def same(self) -> bool:
        """True when the neighbours share the value."""
        return self.step == 0


class _Spread:
    """Emits the body anew, each op for each neighbour."""

    def __init__(self, kernel: Kernel, guard: Guard, factor: int) -> None:
        self.old, self.guard, self.factor = kernel, guard, factor
        self.parts = kernel.threads // THREADS if kernel.threads % THREADS == 0 else 1
        self.builder = Builder()
        self.lanes: dict[Value, Lanes] = {}
        self.accesses: list[Access] = []
        self.multiples: dict[Value, int] = {}

    # --- the whole --------------------------------------------------------------------------------

    def body(self) -> Block:
        """The body, which still has one guard."""
        params = tuple(Value(p.type, None, p.name) for p in self.old.body.params)
        self.lanes = {o: self.one(n) for o, n in zip(self.old.body.params, params, strict=True)}
        with self.builder.block(params) as new:
            for op in self.old.body.ops:
                if op is self.guard.op:
                    self.guarded()
                elif op is self.guard.start:
                    self.begin(op)
                else:
                    self.op(op)
        return new

    def begin(self, op: Op) -> None:
        """The first place of a group, of fewer threads than before."""
        (number,) = (self.lanes[a].values[0] for a in op.args if not is_const(a))
        threads = self.builder.const(self.old.threads // self.parts, number.type)
        self.name(op, [self.one(self.builder.emit("mul", number, threads))])

    def guarded(self) -> None:
        """The neighbours of a thread are all inside, or none is."""
        b, at, total = self.builder, self.guard.at, self.guard.total
        start = self.lanes[at].values[0]
        first = b.emit("mul", start, b.const(self.factor, start.type))
        self.lanes[at] = self.ramp(first, 1)
        self.multiples[total] = self.factor
        inside = b.emit("lt", first, self.lanes[total].values[0])
        with b.block() as then:
            for op in self.guard.op.regions[0].ops[:-1]:
                self.op(op)
            b.emit_all("yield")
        with b.block() as other:
            b.emit_all("yield")
        b.emit_all("if", (inside,), (), (then, other))

    def kernel(self, body: Block) -> Kernel:
        """The old kernel with this body, fewer groups, and what the extents must be."""
        old = self.old
        params = [Value(p.type, None, p.name) for p in old.host_params]
        host = _Host(old, params, self.builder)
        with self.builder.block(params) as block:
            (extent,), held = host.known[: old.rank], host.known[old.rank :]
            b, t = self.builder, extent.type
            groups = b.emit("mul", extent, b.const(self.parts, t))
            more = b.emit("add", groups, b.const(self.factor - 1, t))
            fewer = b.emit("floordiv", more, b.const(self.factor, t))
            new = [host.multiple(v, n) for v, n in self.multiples.items()]
            b.emit_all("yield", (fewer, *held, *new))
        said = Require(f"neighbours move {self.factor} at a time")
        requires = (*old.requires, *(said for _ in new))
        threads = old.threads // self.parts
        return replace(old, body=body, host=block, requires=requires, threads=threads)

    # --- lanes ------------------------------------------------------------------------------------

    def one(self, value: Value) -> Lanes:
        """The same value for all."""
        return Lanes((value,) * self.factor, 0)

    def ramp(self, first: Value, step: int) -> Lanes:
        """first, first + step, ..."""
        b = self.builder
        rest = (b.emit("add", first, b.const(n * step, first.type)) for n in range(1, self.factor))
        return Lanes((first, *rest), step)

    def many(self, values: Sequence[Value]) -> Lanes:
        """Whatever the neighbours have."""
        same = all(v is values[0] for v in values)
        return Lanes(tuple(values), 0 if same else None)

    def op(self, op: Op) -> None:
        """`op` for every neighbour."""
        self.builder.loc, self.builder.exact = op.loc, op.exact
        args = [self.lanes[a] for a in op.args]
        if op.name in ("load", "store", "atomic"):
            self.note(op, args)
        if op.regions:
            self.region(op, args)
        elif (regular := self.regular(op, args)) is not None:
            self.name(op, [regular])
        elif all(a.same for a in args) and (op.row.has(Trait.PURE) or _constant_load(op)):
            made = self.builder.emit_all(
                op.name, [a.values[0] for a in args], op.attrs, (), op.surface
            )
            self.name(op, [self.one(v) for v in made])
        else:
            made = [self.emit(op, args, n) for n in range(self.factor)]
            self.name(op, [self.many(column) for column in zip(*made, strict=True)])

    def emit(self, op: Op, args: Sequence[Lanes], number: int) -> tuple[Value, ...]:
        """`op`, which has no regions, for one neighbour."""
        mine = [a.values[number] for a in args]
        return self.builder.emit_all(op.name, mine, op.attrs, (), op.surface)

    def name(self, op: Op, made: Sequence[Lanes]) -> None:
        """Remembers results under their old values, with the author's names."""
        for old, new in zip(op.results, made, strict=True):
            self.lanes[old] = new
            for value in new.values if old.name else ():
                if not value.name and value.op is not None:
                    value.name = old.name

    def regular(self, op: Op, args: Sequence[Lanes]) -> Lanes | None:
        """Index arithmetic whose results are regular again."""
        if len(args) == 1 and op.name == "cast" and args[0].step:
            to = op.attrs[0]
            return self.ramp(self.emit(op, args, 0)[0], args[0].step) if to.is_integer else None
        if len(args) != 2:
            return None
        (x, y), b = args, self.builder
        if op.name in ("mod", "floordiv") and x.step and y.same and self.needs(op.args[1], x.step):
            first = b.emit(op.name, x.values[0], y.values[0])
            return self.ramp(first, x.step) if op.name == "mod" else self.one(first)
        if op.name in ("add", "mul") and y.step and x.same:
            x, y = y, x
        by = y.values[0]
        if not x.step or not y.same:
            return None
        if op.name == "mul" and is_const(by) and int(const_of(by)) > 0:
            return self.ramp(b.emit("mul", x.values[0], by), x.step * int(const_of(by)))
        moved = op.args[1] if self.lanes[op.args[1]].same else op.args[0]
        if op.name == "add" and self.needs(moved, x.step):
            return self.ramp(b.emit("add", x.values[0], by), x.step)
        return None

    def needs(self, value: Value, step: int) -> bool:
        """Whether `value` can be demanded to be a multiple of the neighbours' reach."""
        unit = step * self.factor
        if is_const(value):
            return int(const_of(value)) % unit == 0
        if not _of_host(value, set(self.old.body.params)):
            return False
        self.multiples[value] = lcm(unit, self.multiples.get(value, 1))
        return True

    def note(self, op: Op, args: Sequence[Lanes]) -> None:
        """Remembers how a parameter is accessed."""
        place = op.args[0].type
        assert isinstance(place, Tensor)
        if place.space == "table":
            return
        indices = args[1:] if op.name == "load" else args[1:-1]
        value = op.results[0] if op.name == "load" else op.args[-1]
        step = indices[-1].step if indices and all(i.same for i in indices[:-1]) else None
        regular = step if indices and (place.packed or step == 0) else (None if indices else 0)
        if op.name == "atomic":
            regular = None
        width = max(1, count(value.type))
        self.accesses.append(Access(place.elem.bytes, width, regular, op.name != "load"))

    # --- regions ----------------------------------------------------------------------------------

    def region(self, op: Op, args: Sequence[Lanes]) -> None:
        """A branch or loop that the neighbours take together, or one for each of them."""
        together = op.name == "if" or (op.name == "for" and not op.attr("stop"))
        if together and all(a.same for a in args[: 1 if op.name == "if" else 3]):
            self.together(op, args)
            return
        made = [self.alone(op, args, n) for n in range(self.factor)]
        self.name(op, [self.many(column) for column in zip(*made, strict=True)])

    def together(self, op: Op, args: Sequence[Lanes]) -> None:
        """One region op that yields each neighbour's values in turn."""
        fixed = 1 if op.name == "if" else 3
        inits = [v for a in args[fixed:] for v in a.values]
        regions = [self.joint(region, op.name == "for") for region in op.regions]
        heads = [a.values[0] for a in args[:fixed]]
        self.builder.loc, self.builder.exact = op.loc, op.exact
        made = self.builder.emit_all(op.name, (*heads, *inits), op.attrs, tuple(regions))
        step = self.factor
        parts = [made[i : i + step] for i in range(0, len(made), step)]
        self.name(op, [Lanes(tuple(p)) for p in parts])

    def joint(self, old: Block, loop: bool) -> Block:
        """A region with each carried value and each yielded one as many times."""
        params: list[Value] = []
        for number, p in enumerate(old.params):
            size = 1 if loop and number == 0 else self.factor
            new = [Value(p.type, None, p.name) for _ in range(size)]
            self.lanes[p] = self.one(new[0]) if size == 1 else Lanes(tuple(new))
            params += new
        with self.builder.block(params) as block:
            for op in old.ops[:-1]:
                self.op(op)
            wide = [v for y in old.yielded for v in self.lanes[y].values]
            self.builder.emit_all("yield", wide)
        return block

    def alone(self, op: Op, args: Sequence[Lanes], number: int) -> tuple[Value, ...]:
        """A region op of one neighbour."""
        inner = _Alone(self, number)
        regions = tuple(inner.block(r) for r in op.regions)
        self.builder.loc, self.builder.exact = op.loc, op.exact
        mine = [a.values[number] for a in args]
        return self.builder.emit_all(op.name, mine, op.attrs, regions, op.surface)


class _Alone:
    """Copies regions for one neighbour; what they access counts as irregular."""

    def __init__(self, spread: _Spread, number: int) -> None:
        self.spread, self.number = spread, number
        self.values: dict[Value, Value] = {}

    def value(self, old: Value) -> Value:
        found = self.values.get(old)
        return found if found is not None else self.spread.lanes[old].values[self.number]

    def block(self, old: Block) -> Block:
        """`old` with this neighbour's values."""
        b = self.spread.builder
        params = [Value(p.type, None, p.name) for p in old.params]
        self.values.update(zip(old.params, params, strict=True))
        with b.block(params) as new:
            for op in old.ops:
                if op.name in ("load", "store", "atomic"):
                    self.spread.accesses.append(Access(1, 1, None, op.name != "load"))
                regions = tuple(self.block(r) for r in op.regions)
                b.loc, b.exact = op.loc, op.exact
                args = [self.value(a) for a in op.args]
                made = b.emit_all(op.name, args, op.attrs, regions, op.surface)
                self.values.update(zip(op.results, made, strict=True))
        return new


class _Host:
    """The host block copied, and body values formed in it."""

    def __init__(self, old: Kernel, params: Sequence[Value], builder: Builder) -> None:
        self.old, self.builder = old, builder
        self.values: dict[Value, Value] = dict(zip(old.host.params, params, strict=True))
        self._names = {
            v: next(n for n, p in zip(params, old.host_params, strict=True) if p is held)
            for v, held in zip(old.body.params, old.params, strict=True)
            if held.role != "tensor"
        }

    @property
    def known(self) -> list[Value]:
        """What the old host block yields, emitted into the open block."""
        return [self.value(v) for v in self.old.host.yielded]

    def value(self, old: Value) -> Value:
        """A value of the host block, or a body value made of dims and scalars."""
        found = self.values.get(old) or self._names.get(old)
        if found is None:
            op = old.op
            assert op is not None
            args = [self.value(a) for a in op.args]
            made = self.builder.emit_all(op.name, args, op.attrs)
            self.values.update(zip(op.results, made, strict=True))
            found = self.values[old]
        return found

    def multiple(self, value: Value, n: int) -> Value:
        """Whether `value` is a multiple of `n`."""
        b, x = self.builder, self.value(value)
        rest = b.emit("mod", x, b.const(n, x.type))
        return b.emit("eq", rest, b.const(0, x.type))


def _of_host(value: Value, params: set[Value]) -> bool:
    """True for a value made of dims, scalars and constants alone."""
    if value in params:
        return not isinstance(value.type, Tensor)
    op = value.op
    if op is None or not op.row.has(Trait.PURE) or op.name in ("thread", "group", "table"):
        return False
    return bool(op.row.sig or op.name in ("const", "cast")) and all(
        _of_host(a, params) for a in op.args
    )


def _constant_load(op: Op) -> bool:
    """A load from memory that no thread writes."""
    place = op.args[0].type if op.name == "load" else None
    return isinstance(place, Tensor) and place.space in ("in", "table")
