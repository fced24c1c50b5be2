"""Reported failures of quantised products: few rows, tails of tiles, zeros."""

from typing import Any

import numpy as np
import pytest

from iron.kernels.gemm.qmv import qmv
from iron.quant.encode import quantize
from iron.quant.format import by_name
from iron.quant.tensor import QTensor
from tests.cases.conftest import blank

ROWS = [1, 4, 7, 31, 32, 33, 63, 64, 65, 96]
KNOWN = {0: -22, 1: -18, 2: -14, 3: -10, 4: -6, 5: -2, 6: 2, 7: 6, 31: -18, 32: -14, 63: -10,
         64: -6, 95: -2}  # fmt: skip


def whole_numbers(n: int) -> Any:
    """w[n, k] = ((n + k) mod 15) - 7."""
    return (np.arange(n)[:, None] + np.arange(64)) % 15 - 7


def stream(codes: Any) -> QTensor:
    """Affine 4-bit codes with scale 1 and bias -7: the integers themselves."""
    nibbles = (codes + 7).astype(np.uint32).reshape(len(codes), -1, 8)
    words = (nibbles << (4 * np.arange(8, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    one = np.ones((len(codes), 1), np.float16)
    planes = {"codes": words, "scales": one, "biases": -7 * one}
    return QTensor(by_name("mlx_int4_g64"), planes, codes.shape)


def blocks(codes: Any) -> QTensor:
    """Blocks of 32 with a scale of 1; nibble j and j + 16 share a byte."""
    halves = (codes + 8).astype(np.uint8).reshape(len(codes), 2, 2, 16)
    packed = halves[:, :, 0] | (halves[:, :, 1] << 4)
    scale = np.broadcast_to(np.array([1], "<f2").view(np.uint8), (len(codes), 2, 2))
    raw = np.concatenate([scale, packed], -1).reshape(len(codes), -1)
    return QTensor(by_name("gguf_q4_0"), {"blocks": np.ascontiguousarray(raw)}, codes.shape)


@pytest.mark.parametrize("layout", [stream, blocks])
@pytest.mark.parametrize("batch", [1, 2, 5])
def test_few_rows_and_tails(layout: Any, batch: int):
    """mlx 665, mlx 4250: rows of a partial tile are NaN or zero."""
    for n in ROWS:
        codes = whole_numbers(n)
        y = qmv(x=np.ones((batch, 64), np.float32), w=layout(codes), y=blank((batch, n)))
        assert np.array_equal(y, np.broadcast_to(codes.sum(1), (batch, n)))
        assert all(y[0, i] == v for i, v in KNOWN.items() if i < n)


def test_zero_weights_give_zeros():
    for name in ("gguf_q4_0", "gguf_q4_1", "gguf_q8_0", "mlx_int4_g64", "mlx_int8_g64"):
        w = quantize(np.zeros((33, 64)), name)
        y = qmv(x=np.ones((1, 64), np.float32), w=w, y=blank((1, 33)))
        assert np.array_equal(y, np.zeros((1, 33)))
