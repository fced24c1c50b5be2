"""Products and attention of the library on sm_90a's road, in the machine."""

from itertools import product

import numpy as np
import pytest

from iron.analysis.budget import check_budget
from iron.analysis.check import check
from iron.compiler import lower, preferred
from iron.dtypes import bf16, f32
from iron.front import TensorArg, bind, specialise
from iron.ir import interp
from iron.ir.host import evaluate
from iron.kernels.convolution.conv2d import conv2d
from iron.kernels.gemm.gemm import gemm
from iron.kernels.sdpa.decode_batched import sdpa_decode_divided
from iron.kernels.sdpa.prefill import sdpa_prefill
from iron.kernels.sdpa.prefill_varlen import sdpa_prefill_varlen
from iron.passes.elementary import elementary
from iron.targets.nvidia import SM_90A
from tests.unit.front.trial import read
from tests.unit.tiles.kernels import empty
from tests.unit.tiles.machine import play

RNG = np.random.default_rng(8)


def normal(*shape, dtype=bf16.np):
    return RNG.normal(size=shape).astype(dtype)


def agree(fn, given, consts, dims):
    """Both levels leave the same, but for the order of sums: two roundings of bf16 apart."""
    kernel = read(fn, 32, **given, **consts)
    check(kernel)
    special = preferred(kernel, SM_90A)
    assert special is not None
    arrays = {n: v for n, v in given.items() if isinstance(v, np.ndarray)}
    scalars = {n: v for n, v in given.items() if isinstance(v, int | float)}
    held = [{n: v.copy() for n, v in arrays.items()} for _ in range(2)]
    grid, failed = evaluate(kernel, scalars, dims)
    assert not failed
    interp.run(elementary(kernel), held[0], scalars, dims, grid)
    play(special, held[1], dims, scalars)
    for name in arrays:
        one, two = (h[name].astype(np.float64) for h in held)
        finite = np.isfinite(one)
        assert np.array_equal(finite, np.isfinite(two))
        apart = np.abs(one[finite] - two[finite])
        size = np.abs(one)[finite]
        assert (apart <= 2.0**-7 * (size + size.mean())).all()


@pytest.mark.slow
@pytest.mark.parametrize(("ta", "tb"), list(product((0, 1), (0, 1))))
def test_products(ta, tb):
    m, n, k = 70, 90, 72
    a = normal(k, m) if ta else normal(m, k)
    b = normal(n, k) if tb else normal(k, n)
    given = {"a": a, "b": b, "c": empty(m, n), "bias": normal(n), "residual": normal(m, n)}
    dims = dict(zip("PQRS", (*a.shape, *b.shape), strict=True))
    consts = {"TA": ta, "TB": tb, "ACT": "silu", "BM": 64, "BN": 64, "BK": 64}
    agree(gemm, given | {"alpha": 0.7, "beta": 2.0}, consts, dims)


OPTIONS = ["plain", "softcap", "window", "mask", "sink", "used", "all"]


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(("causal", "overlap"), list(product((False, True), (0, 1))))
def test_attention(option, causal, overlap):
    s, n, d = 70, 150, 64
    on = {x for x in OPTIONS if option in (x, "all")}
    given = {"q": normal(1, 2, s, d), "k": normal(1, 1, n, d), "v": normal(1, 1, n, d)}
    given |= {"o": empty(1, 2, s, d), "lse": np.full((1, 2, s), np.nan, np.float32)}
    given["mask"] = (RNG.uniform(size=(1, s, n)) < 0.5).astype(np.uint8) if "mask" in on else None
    given["sink"] = normal(2, dtype=np.float32) if "sink" in on else None
    given["used"] = np.array([101], np.uint32) if "used" in on else None
    if "used" in on:
        given["k"][:, :, 101:] = given["v"][:, :, 101:] = np.nan
    given |= {"scale": 0.25, "softcap": 0.75 * ("softcap" in on)}
    given["window"] = 40 * ("window" in on)
    consts = {"CAUSAL": causal, "CAPPED": "softcap" in on, "WINDOWED": "window" in on}
    consts |= {"BM": 64, "BN": 64, "OVERLAP": overlap, "PERSISTENT": 2 * overlap}
    agree(sdpa_prefill, given, consts, {"B": 1, "H": 2, "G": 1, "S": s, "L": n, "D": d, "E": d})


@pytest.mark.slow
@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_sequences_one_after_another(causal):
    """Of 40, 0, 1 and 70 queries over 70, 5, 0 and 100 keys."""
    d, first, keys = 64, np.array([0, 40, 40, 41, 111]), np.array([0, 70, 75, 75, 175])
    given = {"q": normal(111, 2, d), "k": normal(175, 1, d), "v": normal(175, 1, d)}
    given |= {"queries": first.astype(np.uint32), "keys": keys.astype(np.uint32)}
    given |= {"o": empty(111, 2, d), "lse": np.full((111, 2), np.nan, np.float32)}
    given |= {"scale": 0.25, "longest": 70}
    consts = {"CAUSAL": causal, "BM": 64, "BN": 64, "OVERLAP": 1, "PERSISTENT": 3 * causal}
    dims = {"H": 2, "G": 1, "D": d, "E": d, "N": 111, "L": 175, "P": 5}
    agree(sdpa_prefill_varlen, given, consts, dims)


@pytest.mark.slow
@pytest.mark.parametrize("dil", [1, 2])
def test_convolution(dil):
    """Boxes of 2 x 4 x 8 pixels that reach beyond every edge, of channels that are no tile."""
    b, h, w, c, n = 3, 7, 9, 72, 70
    given = {"x": normal(b, h, w, c), "w": normal(n, 3, 3, c), "bias": normal(n)}
    given |= {"residual": normal(b, h, w, n), "y": empty(b, h, w, n)}
    consts = {"PAD": dil, "DIL": dil, "ACT": "silu", "BOX": (2, 4, 8), "BM": 64, "BN": 64, "BK": 64}
    sizes = (b, h, w, c, n, 3, 3, c)
    agree(conv2d, given, consts, dict(zip("BHWCNRSD", sizes, strict=True)))


@pytest.mark.slow
@pytest.mark.parametrize("splits", [1, 2])
def test_a_few_tokens_over_a_cache(splits):
    """Rows of a group's heads and tokens, one sequence shorter than a tile of keys."""
    rows, keys, d = 15, 150, 64
    given = {"q": normal(2, 1, rows, d), "k": normal(2, 1, keys, d), "v": normal(2, 1, keys, d)}
    given |= {"used": np.array([141, 2], np.uint32), "sink": normal(3, dtype=np.float32)}
    given["k"][1, :, 2:] = given["v"][1, :, 2:] = np.nan
    given["part"] = np.full((2, 1, rows, splits, d), np.nan, np.float32)
    given["stat"] = np.full((2, 1, rows, splits, 2), np.nan, np.float32)
    given |= {"scale": 0.25, "softcap": 0.0, "window": 0, "tokens": 5}
    consts = {"CAPPED": False, "WINDOWED": False, "BM": 64, "BN": 64, "CONSUMERS": 1}
    consts["PERSISTENT"] = splits  # one group walks over all of them, or two over four
    sizes = {"B": 2, "G": 1, "F": rows, "L": keys, "D": d, "E": d, "H": 3, "P": splits}
    agree(sdpa_decode_divided, given, consts, sizes)


@pytest.mark.parametrize(
    ("dtype", "m", "n", "math", "wanted"),
    [
        (bf16, 8192, 8192, "strict", (128, 256, 64, 3)),
        (bf16, 1024, 1024, "strict", (128, 64, 128, 4)),
        (bf16, 48, 8192, "strict", (48, 64, 256, 3)),
        (bf16, 128, 8192, "strict", (128, 64, 64, 8)),
        (bf16, 64, 4096, "strict", (64, 64, 128, 6)),
        (bf16, 33, 14336, "strict", (48, 128, 128, 4)),
        (bf16, 16, 28672, "strict", (16, 256, 64, 5)),
        (f32, 16, 8192, "tf32", (16, 64, 128, 4)),
        (f32, 8192, 8192, "tf32", (128, 256, 32, 3)),
        (f32, 8192, 8192, "strict", (128, 128, 32, 2)),
    ],
)
def test_a_schedule_may_ask_for_dtypes_and_sizes(dtype, m, n, math, wanted):
    """Wide tiles where there are enough of them, few rows as columns; both roads have room."""
    a, b = (TensorArg(dtype, (rows, 512), (512, 1)) for rows in (m, n))
    arguments = {"a": a, "b": b, "bias": None, "residual": None}
    consts = gemm.schedule["sm_90"] | {"TB": 1, "MATH": math}
    bound = bind(gemm, arguments, consts, shared_bytes=SM_90A.shared_bytes)
    made = lower(specialise(gemm, bound, 32), SM_90A)
    assert tuple(bound.consts[n] for n in ("BM", "BN", "BK", "STAGES")) == wanted
    assert (made.preferred is not None) == (dtype is bf16 or math == "tf32")
    check_budget(made, SM_90A)
