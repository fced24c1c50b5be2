"""The codec's bodies agree with each other: one element, one chunk, a dot product, whole rows."""

import pickle

import numpy as np
import pytest

from iron.errors import KernelError
from iron.quant.format import FORMATS, by_name
from iron.quant.format.regular import chunk
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


def test_chunks_are_whole_words_and_parts_of_groups():
    for fmt in FORMATS.values():
        if fmt.body == "stream":
            assert fmt.vec * fmt.bits % 32 == 0, fmt
            assert not fmt.group or fmt.group % fmt.vec == 0 or fmt.vec % fmt.group == 0, fmt
    assert chunk(6, 48) == 16
    with pytest.raises(ValueError, match="3 bits in groups of 48"):
        chunk(3, 48)


def test_a_format_travels_by_name():
    for fmt in (FORMATS["gguf_q4_k"], by_name("fp8_e4m3_b2x32_f32")):
        back = pickle.loads(pickle.dumps(fmt))
        assert back == fmt
        assert repr(back) == fmt.name


def test_names_of_other_software():
    assert by_name("mlx_mxfp4") is FORMATS["mxfp4"]
    assert by_name("q4_k") is FORMATS["gguf_q4_k"]
    with pytest.raises(KernelError, match=r"no format called gguf_q4_z") as caught:
        by_name("gguf_q4_z")
    assert "did you mean gguf_q4_" in str(caught.value)
