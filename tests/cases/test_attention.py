"""Reported failures of attention kernels elsewhere: masks, windows, head ratios, poison."""

from typing import Any

import numpy as np
import pytest

from iron.errors import KernelError
from iron.kernels.sampling.softmax import softmax
from iron.kernels.sdpa.decode import sdpa_decode
from iron.kernels.sdpa.decode_split import sdpa_decode_two_pass
from tests.cases.conftest import blank

Array = np.ndarray[Any, Any]
WAYS = {"one pass": (sdpa_decode, {}), "two pass": (sdpa_decode_two_pass, {"SPLITS": 3})}


@pytest.fixture(params=WAYS)
def attend(request: pytest.FixtureRequest) -> Any:
    """Attention of rows of queries (one head axis each) over one cache, by either way."""
    kernel, consts = WAYS[request.param]

    def run(q: Array, k: Array, v: Array, used: Any, **options: Any) -> tuple[Array, Array]:
        b, h, _ = q.shape
        given = {"scale": 1.0, "softcap": 0.0, "window": 0, "first": 0} | options
        out = {"o": blank((b, h, v.shape[-1])), "lse": blank((b, h))}
        shared = [np.broadcast_to(a, (b, *a.shape)) if a.ndim == 3 else a for a in (k, v)]
        return kernel(
            q=q,
            k=shared[0],
            v=shared[1],
            used=np.asarray(used, np.uint32),
            **out,
            **given,
            **consts,
        )

    return run


def padded(rows: Any, width: int = 8) -> Array:
    """Rows of numbers as f32, filled with zeros to a head size."""
    held = np.asarray(rows, np.float32)
    return np.pad(held, [(0, 0)] * (held.ndim - 1) + [(0, width - held.shape[-1])])


def test_a_fully_masked_row_gives_zeros(attend: Any):
    """mlx 2395, burn 4697: garbage or NaN where a row sees nothing."""
    rows, values = padded([[1, 0], [0, 1], [1, 1]]), padded([[1, 2], [3, 4], [5, 6]])
    mask = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]], np.uint8)
    o, lse = attend(rows[:, None], rows[None], values[None], [3, 3, 3], mask=mask, scale=2**-0.5)
    assert np.allclose(o[:, 0, :2], [[3, 4], [0, 0], [1, 2]], atol=1e-6)
    assert np.array_equal(o[1], np.zeros_like(o[1]))
    assert lse[1, 0] == -np.inf
    assert np.isfinite(lse[[0, 2]]).all()


def test_softmax_of_nothing_but_minus_infinity():
    """The plain form follows the formula to NaN, the other gives zeros; one -inf weighs 0."""
    x = np.array([[-np.inf] * 4, [0, -np.inf, 1, 2]], np.float32)
    plain = softmax(x=x, y=blank(x.shape), scale=1.0)
    zeros = softmax(x=x, y=blank(x.shape), scale=1.0, ZERO=True)
    assert np.isnan(plain[0]).all()
    assert np.array_equal(zeros[0], np.zeros(4))
    for y in (plain, zeros):
        assert y[1, 1] == 0.0
        assert np.allclose(y[1], np.exp(x[1]) / np.exp(x[1]).sum(), atol=1e-7)


@pytest.mark.parametrize("window", [1, 3, 6, 100])
def test_a_sliding_window_counts_itself(attend: Any, window: int):
    """mlx-lm 390: one key too many."""
    v = np.array([1, 2, 4, 8, 16, 32], np.float32)
    zero = np.zeros((6, 8), np.float32)
    values = np.repeat(v[:, None], 8, 1)
    o, _ = attend(zero[:, None], zero[None], values[None], range(1, 7), window=window)
    want = [v[max(0, i + 1 - window) : i + 1].mean() for i in range(6)]
    assert np.allclose(o[:, 0], np.repeat(np.array(want)[:, None], 8, 1), rtol=1e-6)
    if window == 3:
        assert np.allclose(want, [1, 1.5, 7 / 3, 14 / 3, 28 / 3, 56 / 3])


def test_a_window_of_128_sees_128_keys(attend: Any):
    zero = np.zeros((1, 130, 8), np.float32)
    values = np.zeros((1, 130, 8), np.float32)
    values[0, :2] = 1000.0
    values[0, 2:] = 1.0
    o, lse = attend(np.zeros((1, 1, 8), np.float32), zero, values, [130], window=128)
    assert np.allclose(o, 1.0, rtol=1e-6)
    assert np.allclose(lse, np.log(128), rtol=1e-6)


@pytest.mark.parametrize("heads", [(10, 2), (14, 2), (5, 1), (6, 6), (12, 4)])
@pytest.mark.parametrize("width", [64, 96, 128])
@pytest.mark.parametrize("length", [1, 17])
def test_every_ratio_of_heads(attend: Any, heads: tuple[int, int], width: int, length: int):
    """llama.cpp 26404, flashinfer 2895: ratios that are no power of two."""
    h, g = heads
    value = np.arange(1, g + 1, dtype=np.float32)[:, None, None]
    v = np.broadcast_to(value, (g, length, width)).copy()
    q, k = np.zeros((1, h, width), np.float32), np.zeros((g, length, width), np.float32)
    o, _ = attend(q, k, v, [length])
    want = np.arange(h) // (h // g) + 1
    assert np.allclose(o[0], np.repeat(want[:, None], width, 1), rtol=1e-6)


def test_heads_that_do_not_divide_are_refused(attend: Any):
    q, k = np.zeros((1, 5, 8), np.float32), np.zeros((2, 3, 8), np.float32)
    with pytest.raises(KernelError, match="multiple of the key heads") as refused:
        attend(q, k, k, [3])
    assert refused.value.id == "E0702"


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("length", [1, 4, 5])
def test_unused_cache_rows_are_never_read(attend: Any, poison: float, length: int):
    """flash-attention 1745, vllm 47305: NaN of unused slots in the result."""
    v = np.full((1, 16, 8), poison, np.float32)
    v[0, :length] = np.arange(length, dtype=np.float32)[:, None]
    k = np.full((1, 16, 8), poison, np.float32)
    k[0, :length] = 1.0
    o, _ = attend(np.zeros((1, 1, 8), np.float32), k, v, [length])
    assert np.array_equal(o, np.full((1, 1, 8), (length - 1) / 2, np.float32))
