"""sink_scale and peel keep every bit, and do what they are for."""

import numpy as np
import pytest

from iron.dtypes import f32
from iron.ir import interp
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.ir.verify import verify
from iron.kernels.sdpa.decode_batched import sdpa_decode_divided
from iron.passes.dead import dead
from iron.passes.elementary import elementary
from iron.tiles.algebra import sink_scale
from iron.tiles.peel import peel
from iron.tiles.ring import check, rings
from iron.tiles.skew import skew
from tests.unit.front.trial import read
from tests.unit.tiles import kernels

RNG = np.random.default_rng(11)
SHAPES = [(20, 20, True), (17, 50, True), (33, 33, False), (16, 64, False), (40, 41, True)]


def inputs(s, n, head=16):
    arrays = {"q": kernels.small(RNG, 2, s, head), "k": kernels.small(RNG, 1, n, head)}
    arrays["v"] = kernels.small(RNG, 1, n, head)
    return arrays | {"o": kernels.empty(2, s, head), "lse": kernels.empty(2, s, dtype=f32)}


def attention(arrays, causal) -> Kernel:
    return kernels.tiles_of(
        kernels.attention, arrays, CAUSAL=causal, BM=16, BN=16, HEAD=16, STAGES=1
    )


def outputs(kernel: Kernel, arrays, s, n):
    """What the interpreter makes of it."""
    held = {k: v.copy() for k, v in arrays.items()}
    dims = {"H": 2, "G": 1, "S": s, "L": n, "D": 16}
    grid, failed = evaluate(kernel, {"scale": 0.3}, dims)
    assert not failed
    interp.run(elementary(kernel), held, {"scale": 0.3}, dims, grid)
    return held["o"], held["lse"]


def same(one, two) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, two, strict=True))


@pytest.mark.parametrize(("s", "n", "causal"), SHAPES)
def test_every_bit_stays(s, n, causal):
    arrays = inputs(s, n)
    source = attention(arrays, causal)
    wanted = outputs(source, arrays, s, n)
    orders = [[sink_scale], [peel], [skew], [sink_scale, skew, peel], [skew, peel, sink_scale]]
    for passes in orders:
        made = source
        for run in passes:
            made = run(made)
        verify(made)
        assert same(outputs(made, arrays, s, n), wanted)


def loops(kernel):
    return [op for op in kernel.body.walk() if op.name == "for"]


def count(kernel, name):
    return sum(op.name == name for op in kernel.body.walk())


@pytest.mark.parametrize("causal", [False, True])
def test_the_first_loop_has_no_mask(causal):
    source = attention(inputs(32, 32), causal)
    (whole,) = loops(source)
    first, second = loops(dead(peel(source)))

    def masks(loop):
        return sum(op.name == "where" for op in loop.regions[0].walk())

    assert masks(first) == masks(whole) - 1
    assert masks(second) == masks(whole)
    sites = [op.attr("site") for op in first.regions[0].walk() if op.name in ("tile_read", "mma")]
    assert sites == [
        op.attr("site") for op in second.regions[0].walk() if op.name in ("tile_read", "mma")
    ]


@pytest.mark.parametrize("shares", [1, 3])
def test_rows_that_are_at_least_at_a_place(shares):
    """Tokens of several heads: the places of rows are no line, but have a least one."""
    rows, keys, tokens, d = 15, 75, 5, 16
    dims = {"B": 1, "G": 1, "F": rows, "L": keys, "D": d, "E": d, "P": shares}
    held = {"q": (rows, d), "k": (keys, d), "v": (keys, d)}
    arrays = {n: RNG.normal(size=(1, 1, *s)).astype(np.float32) for n, s in held.items()}
    arrays["used"] = np.array([keys - 2], np.uint32)
    out = (1, 1, rows, shares)
    arrays |= {"part": np.full((*out, d), np.nan, np.float32)}
    arrays |= {"stat": np.full((*out, 2), np.nan, np.float32)}
    scalars = {"scale": 0.3, "softcap": 0.0, "window": 0, "tokens": tokens}
    consts = {"CAPPED": False, "WINDOWED": False, "BM": 16, "BN": 16}
    source = read(sdpa_decode_divided, 32, sink=None, **arrays, **scalars, **consts)
    made = peel(source)
    verify(made)
    assert len(loops(made)) == 2 * len(loops(source)) == 2
    left: list[tuple[np.ndarray, ...]] = []
    for kernel in (source, made):
        run = {n: a.copy() for n, a in arrays.items()}
        grid, failed = evaluate(kernel, scalars, dims)
        assert not failed
        interp.run(elementary(kernel), run, scalars, dims, grid)
        left.append((run["part"], run["stat"]))
    assert same(*left)


def test_a_scale_meets_the_difference():
    source = attention(inputs(32, 32), False)
    made = dead(sink_scale(source))
    (loop,) = loops(made)
    reduced = next(o for o in loop.regions[0].walk() if o.name == "tile_reduce")
    (mask,) = [o for o in loop.regions[0].walk() if o.results and o.results[0] is reduced.args[0]]
    assert mask.name == "where"
    assert mask.args[1].op.name == "mma"
    difference = next(o for o in loop.regions[0].walk() if o.name == "fast_exp2").args[0].op
    assert difference.args[0].op.name == "mul"


def test_a_scale_of_unknown_sign_stays():
    source = attention(inputs(32, 32), False)
    free = Kernel(
        *(getattr(source, n) for n in ("name", "params", "body")),
        host=without_requirements(source),
        **{n: getattr(source, n) for n in ("rank", "threads", "simd", "index", "schedule")},
        requires=(),
    )
    assert sink_scale(free) is free


def without_requirements(kernel):
    from iron.ir.core import Block

    block = Block(kernel.host.params)
    from iron.ir.build import Builder

    b = Builder()
    with b.into(block, {}):
        one = b.const(1, kernel.index)
        b.emit_all("yield", (one,) * kernel.rank)
    return block


# --- a mask that begins one turn too late ---------------------------------------------------------


def test_peeling_one_too_far_is_seen(monkeypatch):
    arrays = inputs(33, 33)
    source = attention(arrays, True)
    wanted = outputs(source, arrays, 33, 33)
    real = peel.__globals__["_Peel"]._clean

    def late(self, b, rooms, dtype):
        return b.emit("add", real(self, b, rooms, dtype), b.const(1, dtype))

    monkeypatch.setattr(peel.__globals__["_Peel"], "_clean", late)
    assert not same(outputs(peel(source), arrays, 33, 33), wanted)


# --- skew -----------------------------------------------------------------------------------------


def test_products_of_two_turns_stand_together():
    made = dead(skew(attention(inputs(32, 32), False)))
    (loop,) = loops(made)
    products = [op for op in loop.regions[0].ops if op.name in ("mma", "tile_reduce")]
    assert [op.name for op in products] == ["mma", "mma", "tile_reduce", "tile_reduce"]
    first, second = products[:2]
    assert second.args[0] in loop.regions[0].params
    assert first.attr("site") < second.attr("site")


@pytest.mark.parametrize(("s", "n", "causal"), SHAPES)
def test_fills_keep_their_order(s, n, causal):
    source = attention(inputs(s, n), causal)
    values = {"H": 2, "G": 1, "S": s, "L": n, "D": 16, "scale": 0.3}
    for made in (skew(source), peel(skew(source))):
        for group in ((0, 0), (1, 1)):
            assert check(source, made, rings(source), values, group) == ""


def test_a_loop_without_turns_leaves_what_it_began_with():
    arrays = inputs(4, 0)
    o, _ = outputs(skew(attention(arrays, False)), arrays, 4, 0)
    assert (o == 0).all()


def test_nothing_to_overlap():
    """One product, or a first product of what is carried."""
    source = kernels.tiles_of(
        kernels.two_products,
        {n: kernels.empty(8, 8) for n in ("a", "g", "u", "c")},
    )
    assert skew(source) is source
