"""The program of transposed tiles means what the program means."""

import numpy as np
import pytest

from iron.dtypes import f32
from iron.errors import KernelError
from iron.ir import interp
from iron.ir.host import evaluate
from iron.ir.rebuild import rebuild
from iron.ir.types import Tile
from iron.ir.verify import verify
from iron.passes.elementary import elementary
from iron.tiles.turn import turn
from tests.unit.tiles import kernels

RNG = np.random.default_rng(3)


def shapes(kernel):
    return [r.type.shape for op in kernel.body.walk() for r in op.results if type(r.type) is Tile]


def left(kernel, arrays, dims, scalars):
    held = {n: v.copy() for n, v in arrays.items()}
    grid, _ = evaluate(kernel, scalars, dims)
    interp.run(elementary(kernel), held, scalars, dims, grid)
    return held


def epilogues():
    """Vectors and matrices beside a product, masks, and two writes."""
    m, n, k = 33, 40, 72
    arrays = {x: kernels.small(RNG, *s) for x, s in (("a", (m, k)), ("b", (n, k)), ("bias", (n,)))}
    arrays |= {"rest": kernels.small(RNG, m, n), "c": kernels.empty(m, n)}
    arrays |= {"d": kernels.empty(m, n, dtype=f32)}
    kernel = kernels.tiles_of(kernels.epilogues, arrays, BM=16, BN=32, BK=32)
    return kernel, arrays, {"M": m, "N": n, "K": k}, {"s": 2.0}


def attention():
    """Carried tiles, reductions, and a tile that one product makes for another."""
    d = 16
    sizes = {"q": (2, 20, d), "k": (1, 30, d), "v": (1, 30, d)}
    arrays = {x: kernels.small(RNG, *s) for x, s in sizes.items()}
    arrays |= {"o": kernels.empty(2, 20, d), "lse": kernels.empty(2, 20, dtype=f32)}
    consts = {"BM": 16, "BN": 16, "HEAD": d, "CAUSAL": True}
    kernel = kernels.tiles_of(kernels.attention, arrays, **consts)
    return kernel, arrays, {"H": 2, "G": 1, "S": 20, "L": 30, "D": d}, {"scale": 0.25}


@pytest.mark.parametrize("make", [epilogues, attention])
def test_the_same_elements_leave(make):
    kernel, arrays, dims, scalars = make()
    other = turn(kernel)
    assert other is not None
    verify(other)
    assert {s for s in shapes(other) if len(s) == 2} == {
        s[::-1] for s in shapes(kernel) if len(s) == 2
    }
    one, two = (left(k, arrays, dims, scalars) for k in (kernel, other))
    for name in one:
        a, b = (x[name].astype(np.float64) for x in (one, two))
        finite = np.isfinite(a)
        assert np.array_equal(finite, np.isfinite(b))
        assert np.allclose(a[finite], b[finite], rtol=2.0**-7, atol=2.0**-7)


def test_a_wrong_turn_is_seen():
    """The positive control: the places of writes exchanged once more."""
    kernel, arrays, dims, scalars = epilogues()
    other = turn(kernel)
    assert other is not None

    def swapped(b, op, args):
        *before, row, column, rows, columns, value = args
        return b.emit_all(op.name, (*before, column, row, rows, columns, value), op.attrs)

    wrong = rebuild(other, {"tile_write": swapped})
    with pytest.raises(KernelError, match="race"):
        left(wrong, arrays, dims, scalars)
