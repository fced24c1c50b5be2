"""Which output may be an input: proven pairs are right, tried against every element by hand."""

import itertools
import random

import pytest

from iron.analysis.effects import in_place, reads, writes
from iron.dtypes import f16, f32, i32
from iron.ir.core import Kernel, Value
from tests.unit.analysis.test_ranges import with_host
from tests.unit.ir.handmade import Handmade


def launched(p: Handmade, groups: int = 1000) -> Kernel:
    """The kernel with that many groups on its axis."""
    return with_host(p, [lambda p, given: p.const(groups)], [])


def start(rank: int = 1, threads: int = 32, **more) -> tuple[Handmade, Value, Value]:
    p = Handmade(threads=threads, simd=4, **more)
    return p, p.tensor("x", f32, rank=rank), p.tensor("y", f32, "out", rank)


def loop(p: Handmade, low, high, step, body) -> None:
    i = Value(i32, None, "i")
    with p.b.block((i,)) as block:
        body(i)
        p.do("yield")
    bounds = [v if isinstance(v, Value) else p.const(v) for v in (low, high, step)]
    p.do("for", *bounds, attrs=(False,), regions=(block,))


def elementwise() -> Kernel:
    p, x, y = start()
    p.store(y, p.place(), p.load(x, p.place()))
    return launched(p)


def two_passes() -> Kernel:
    p, x, y = start(rank=2)
    n, row, first = p.dim("N"), p.group(), p.emit("mul", p.thread(), p.const(4))
    loop(p, first, n, 128, lambda i: p.load(x, row, i, count=4))
    loop(p, first, n, 128, lambda i: p.store(y, row, i, p.load(x, row, i, count=4)))
    return launched(p)


def reads_then_writes_neighbours() -> Kernel:
    p, x, y = start()
    at = p.emit("mul", p.place(), p.const(2))
    next_ = p.emit("add", at, p.const(1))
    a, b = p.load(x, at), p.load(x, next_)
    p.store(y, at, b)
    p.store(y, next_, a)
    return launched(p)


def shifted() -> Kernel:
    p, x, y = start()
    p.store(y, p.place(), p.load(x, p.emit("add", p.place(), p.const(1))))
    return launched(p)


def reads_after_writing() -> Kernel:
    p, x, y = start()
    p.store(y, p.place(), p.load(x, p.place()))
    p.store(y, p.place(), p.load(x, p.place()))
    return launched(p)


def everyone_reads_the_first() -> Kernel:
    p, x, y = start()
    p.store(y, p.place(), p.load(x, p.const(0)))
    return launched(p)


def writes_every_turn() -> Kernel:
    p, x, y = start()
    at = p.place()
    loop(p, 0, 3, 1, lambda i: p.store(y, at, p.load(x, at)))
    return launched(p)


def transposed() -> Kernel:
    p, x, y = start(rank=2)
    p.store(y, p.group(), p.thread(), p.load(x, p.thread(), p.group()))
    return launched(p)


def groups_overlap() -> Kernel:
    p, x, y = start()
    at = p.emit("add", p.emit("mul", p.group(), p.const(16)), p.thread())
    p.store(y, at, p.load(x, at))
    return launched(p)


def gathered() -> Kernel:
    p = Handmade(threads=32, simd=4)
    index, x, y = p.tensor("index", i32), p.tensor("x", f32), p.tensor("y", f32, "out")
    p.store(y, p.place(), p.load(x, p.load(index, p.place())))
    return launched(p)


def reads_its_output() -> Kernel:
    p = Handmade(threads=32, simd=4)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "inout")
    p.store(y, p.place(), p.emit("add", p.load(x, p.place()), p.load(y, p.place())))
    return launched(p)


def may_wrap() -> Kernel:
    p, x, y = start()
    s = p.dim("S")
    at = p.emit("mul", p.emit("add", p.place(), s), p.const(4))
    p.store(y, at, p.load(x, at))
    return launched(p)


def of_two_dtypes() -> Kernel:
    p = Handmade(threads=32, simd=4)
    x, y = p.tensor("x", f16), p.tensor("y", f32, "out")
    p.store(y, p.place(), p.emit("cast", p.load(x, p.place()), attrs=(f32,)))
    return launched(p)


def offset_by_a_size() -> Kernel:
    p, x, y = start(rank=2)
    half, t, row = p.emit("floordiv", p.dim("N"), p.const(2)), p.thread(), p.group()
    other = p.emit("add", t, half)
    a, b = p.load(x, row, t), p.load(x, row, other)
    p.store(y, row, t, b)
    p.store(y, row, other, a)
    return launched(p)


@pytest.mark.parametrize("make", [elementwise, two_passes, reads_then_writes_neighbours])
def test_proven(make):
    assert in_place(make()) == {("y", "x")}


@pytest.mark.parametrize(
    "make",
    [
        *(shifted, reads_after_writing, everyone_reads_the_first, writes_every_turn, transposed),
        *(groups_overlap, gathered, reads_its_output, may_wrap, of_two_dtypes, offset_by_a_size),
    ],
)
def test_not_proven(make):
    assert in_place(make()) == set()


def test_reads_and_writes():
    k = reads_its_output()
    assert reads(k) == {"x", "y"}
    assert writes(k) == {"y"}
    assert reads(gathered()) == {"x", "index"}


# --- random forms against their definition --------------------------------------------------------

GROUPS, TURNS = 3, 4


def some_forms(rng: random.Random) -> list[tuple[int, ...]]:
    """(coefficient of thread, turn, group; constant; width) of a load and a store."""
    store = (
        rng.choice([1, 1, 2, 4, 16]),
        rng.choice([0, 4, 8, 16, 64, 1]),
        rng.choice([4, 16, 64, 128, 0]),
        rng.choice([0, 0, 1]),
        rng.choice([1, 1, 2]),
    )
    load = list(store)
    if rng.random() < 0.6:
        load[rng.randrange(5)] = rng.choice([0, 1, 2, 4, 16])
    return [tuple([*load[:4], max(1, load[4])]), store]


def kernel_of(load, store, shape: str, threads: int) -> Kernel:
    """Load and store in one loop, or in a loop each, or the load before the loop."""
    p, x, y = start(threads=threads)
    t, g = p.thread(), p.group()

    def place(form, i):
        at = p.const(form[3])
        for value, factor in ((t, form[0]), (i, form[1]), (g, form[2])):
            at = p.emit("add", at, p.emit("mul", value, p.const(factor)))
        return at

    def read(i):
        return p.load(x, place(load, i), count=load[4] if load[4] > 1 else 0)

    def write(i, v=None):
        v = read(i) if v is None else v
        if load[4] != store[4]:
            v = p.const(1.0, y.type.elem)
            v = p.emit("splat", v, attrs=(store[4],)) if store[4] > 1 else v
        p.store(y, place(store, i), v)

    if shape == "together":
        loop(p, 0, TURNS, 1, write)
    elif shape == "after":
        loop(p, 0, TURNS, 1, lambda i: (write(i), read(i)))
    else:
        loop(p, 0, TURNS + (2 if shape == "longer" else 0), 1, read)
        loop(p, 0, TURNS, 1, lambda i: write(i, p.const(1.0, y.type.elem)))
    return launched(p, GROUPS)


def truly(load, store, shape: str, threads: int) -> bool:
    """The definition: each element read only by its writer, before it is written."""
    events: dict[int, list[tuple[tuple[int, int], int, bool]]] = {}
    for t, g in itertools.product(range(threads), range(GROUPS)):
        for now, (form, i) in enumerate(program(load, store, shape)):
            first = form[0] * t + form[1] * i + form[2] * g + form[3]
            for e in range(first, first + form[4]):
                events.setdefault(e, []).append(((t, g), now, form is store))
    return all(
        who == other and early < late
        for seen in events.values()
        for who, late, wrote in seen
        for other, early, stored in seen
        if wrote and not stored
    ) and all(len({who for who, _, wrote in s if wrote}) <= 1 for s in events.values())


def program(load, store, shape: str) -> list[tuple[tuple[int, ...], int]]:
    """The accesses of one thread in order, each with its turn."""
    turns = range(TURNS)
    if shape in ("together", "after"):
        more = [load] if shape == "after" else []
        return [(form, i) for i in turns for form in (load, store, *more)]
    reading = range(TURNS + 2) if shape == "longer" else turns
    return [(load, i) for i in reading] + [(store, i) for i in turns]


@pytest.mark.parametrize("shape", ["together", "after", "apart", "longer"])
def test_what_is_proven_is_true(shape):
    rng, proven = random.Random(shape), 0
    for _ in range(250):
        load, store = some_forms(rng)
        threads = rng.choice([4, 8])
        if in_place(kernel_of(load, store, shape, threads)):
            proven += 1
            assert truly(load, store, shape, threads), (load, store, threads)
    assert (proven > 5) == (shape != "after")
