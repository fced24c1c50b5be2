"""The codec's bodies agree with each other: one element, one chunk, a dot product, whole rows."""

import numpy as np
import pytest

from iron.quant.format import FORMATS
from iron.quant.tensor import Planes
from tests.unit.quant.sample import random_tensor, sides


@pytest.mark.parametrize("name", FORMATS)
def test_element_chunk_and_rows_agree(name: str):
    fmt = FORMATS[name]
    n, k = sides(fmt)
    weight = random_tensor(fmt, n, k, seed=1)
    whole = weight.decode()
    assert np.isfinite(whole).all()
    assert whole.std() > 0
    w = Planes(weight.planes)
    rows = np.arange(n)[:, None]
    single = np.broadcast_to(fmt.decode(w, rows, np.arange(k)[None, :]), whole.shape)
    assert np.array_equal(single, whole)
    c = k // fmt.vec - 1
    for e in (0, 1, fmt.vec // 2, fmt.vec - 1):
        one = np.zeros(fmt.vec, np.float32)
        one[e] = 1
        got = fmt.dot(w, 3, c, one)
        assert got == whole[3, fmt.at(c) + e]
        assert got.dtype == np.float32


def test_the_tail_of_a_row_is_decoded():
    weight = random_tensor(FORMATS["f16"], 3, 37, seed=3)
    assert np.array_equal(weight.decode(), weight.planes["values"].astype(np.float32))
