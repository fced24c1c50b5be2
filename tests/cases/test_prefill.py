"""Reported failures of tiled attention elsewhere: masks, windows, head ratios, empty sequences."""

from typing import Any

import numpy as np
import pytest

from iron.analysis.budget import check_budget
from iron.compiler import lower
from iron.dtypes import DType, f16, f32
from iron.errors import KernelError
from iron.front import TensorArg, bind, specialise
from iron.kernels.sdpa.prefill import sdpa_prefill
from iron.kernels.sdpa.prefill_varlen import sdpa_prefill_varlen
from iron.targets.apple import APPLE7
from tests.cases.conftest import blank

Array = np.ndarray[Any, Any]


def attend(q: Array, k: Array, v: Array, **options: Any) -> tuple[Array, Array]:
    """Heads of one batch, [heads, rows, size] each, in tiles of 16 x 16."""
    given = {"scale": 1.0, "softcap": 0.0, "window": 0, "BM": 16, "BN": 16} | options
    out = {"o": blank((1, *q.shape[:2], v.shape[-1])), "lse": blank((1, *q.shape[:2]))}
    o, lse = sdpa_prefill(q=q[None], k=k[None], v=v[None], **out, **given)
    return o[0], lse[0]


def padded(rows: Any, width: int = 16) -> Array:
    """Rows of numbers as f32, filled with zeros to a head size."""
    held = np.asarray(rows, np.float32)
    return np.pad(held, [(0, 0)] * (held.ndim - 1) + [(0, width - held.shape[-1])])


def test_a_fully_masked_row_gives_zeros():
    """mlx 2395, burn 4697: garbage or NaN where a row sees nothing."""
    rows, values = padded([[1, 0], [0, 1], [1, 1]]), padded([[1, 2], [3, 4], [5, 6]])
    mask = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 0]], np.uint8)
    o, lse = attend(rows[None], rows[None], values[None], mask=mask[None], scale=2**-0.5)
    assert np.allclose(o[0, :, :2], [[3, 4], [0, 0], [1, 2]], atol=1e-5)
    assert np.array_equal(o[0, 1], np.zeros(16))
    assert lse[0, 1] == -np.inf
    assert np.isfinite(lse[0, [0, 2]]).all()


@pytest.mark.parametrize("window", [1, 3, 6, 100])
def test_a_sliding_window_counts_itself(window: int):
    """mlx-lm 390: one key too many."""
    v = np.array([1, 2, 4, 8, 16, 32], np.float32)
    zero = np.zeros((1, 6, 16), np.float32)
    values = np.repeat(v[:, None], 16, 1)
    o, _ = attend(zero, zero, values[None], window=window, CAUSAL=True)
    want = np.array([v[max(0, i + 1 - window) : i + 1].mean() for i in range(6)])
    assert np.allclose(o[0], np.repeat(want[:, None], 16, 1), rtol=1e-5)
    if window == 3:
        assert np.allclose(want, [1, 1.5, 7 / 3, 14 / 3, 28 / 3, 56 / 3])


def test_a_window_of_128_sees_128_keys():
    zero, values = np.zeros((1, 130, 16), np.float32), np.ones((1, 130, 16), np.float32)
    values[0, :2] = 1000.0
    o, lse = attend(zero, zero, values, window=128, CAUSAL=True)
    assert np.allclose(o[0, 129], 1.0, rtol=1e-5)
    assert np.allclose(lse[0], np.log(np.minimum(np.arange(130) + 1, 128)), atol=1e-5)


@pytest.mark.parametrize("heads", [(10, 2), (14, 2), (5, 1), (6, 6), (12, 4)])
@pytest.mark.parametrize("length", [1, 17])
def test_every_ratio_of_heads(heads: tuple[int, int], length: int):
    """llama.cpp 26404, flashinfer 2895: ratios that are no power of two."""
    h, g = heads
    value = np.arange(1, g + 1, dtype=np.float32)[:, None, None]
    v = np.broadcast_to(value, (g, length, 96)).copy()
    q, k = np.zeros((h, length, 96), np.float32), np.zeros((g, length, 96), np.float32)
    o, _ = attend(q, k, v)
    want = np.arange(h) // (h // g) + 1
    assert np.allclose(o, np.broadcast_to(want[:, None, None], o.shape), rtol=1e-5)


def test_heads_that_do_not_divide_are_refused():
    q, k = np.zeros((5, 3, 16), np.float32), np.zeros((2, 3, 16), np.float32)
    with pytest.raises(KernelError, match="multiple of the key heads") as refused:
        attend(q, k, k)
    assert refused.value.id == "E0702"


def packed(queries: list[int], keys: list[int], v: Array) -> tuple[Array, Array]:
    """Sequences of these lengths, one head, all scores 0, causal."""
    n, m = sum(queries), sum(keys)
    values = np.repeat(np.asarray(v, np.float32)[:, None, None], 16, 2)
    return sdpa_prefill_varlen(
        q=np.zeros((n, 1, 16), np.float32),
        k=np.zeros((m, 1, 16), np.float32),
        v=values,
        queries=np.cumsum([0, *queries]).astype(np.uint32),
        keys=np.cumsum([0, *keys]).astype(np.uint32),
        o=blank((n, 1, 16)),
        lse=blank((n, 1)),
        scale=1.0,
        longest=max(queries),
        CAUSAL=True,
        BM=16,
        BN=16,
    )


def test_empty_sequences_in_a_batch():
    """flash-attention 1537: an error or NaN."""
    o, lse = packed([0, 1, 0, 2], [0, 3, 0, 5], np.arange(8.0))
    assert np.allclose(o[:, 0], np.repeat([[1.0], [4.5], [5.0]], 16, 1), rtol=1e-6)
    assert np.allclose(lse[:, 0], np.log([3, 4, 5]), atol=1e-6)
    o, _ = packed([0, 0], [0, 0], np.zeros(0))
    assert o.shape == (0, 1, 16)
    o, _ = packed([1], [1], np.array([7.0]))
    assert np.allclose(o, 7.0)


@pytest.mark.parametrize("poison", [np.nan, np.inf])
@pytest.mark.parametrize("length", [1, 4, 5])
def test_unused_cache_rows_are_never_read(poison: float, length: int):
    """flash-attention 1745, vllm 47305: NaN of unused slots in the result."""
    v = np.full((1, 40, 16), poison, np.float32)
    v[0, :length] = np.arange(length, dtype=np.float32)[:, None]
    k = np.full((1, 40, 16), poison, np.float32)
    k[0, :length] = 1.0
    o, _ = attend(np.zeros((1, 3, 16), np.float32), k, v, used=np.uint32([length]))
    assert np.allclose(o, (length - 1) / 2, rtol=1e-6)


@pytest.mark.parametrize("dtype", [f16, f32])
@pytest.mark.parametrize("size", [64, 96, 256])
def test_a_tile_leaves_room_for_the_bytes_after_each_row(dtype: DType, size: int):
    """32 KiB of group memory, of which tiles without those bytes would have taken all."""
    held = TensorArg(dtype, (1, 2, 64, size))
    given = {"q": held, "k": held, "v": held, "o": held, "lse": TensorArg(f32, (1, 2, 64))}
    given |= {"used": None, "mask": None, "sink": None}
    bound = bind(
        sdpa_prefill,
        given,
        {},
        scalars=("scale", "softcap", "window"),
        simd=APPLE7.simd,
        shared_bytes=APPLE7.shared_bytes,
    )
    check_budget(lower(specialise(sdpa_prefill, bound, APPLE7.simd), APPLE7), APPLE7)
