"""Random bytes decode to the bits that the gguf package gives, for every type it decodes."""

import gguf
import numpy as np
import pytest

from iron.quant.format import FORMATS, Format, by_ggml
from iron.quant.tensor import QTensor
from tests.property.seeds import SEEDS

BLOCKS = [f for f in FORMATS.values() if f.block_bytes]
WITHOUT = {"gguf_q1_0", "gguf_q2_0", "gguf_q8_1", "gguf_q8_k"}  # the package has no decoder
COVERED = [f for f in BLOCKS if f.name not in WITHOUT]


def theirs(fmt: Format, raw: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return gguf.dequantize(raw, gguf.GGMLQuantizationType(fmt.ids.ggml))


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal bits, all NaNs being one."""
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fmt", COVERED, ids=repr)
def test_random_bytes(fmt: Format, seed: int):
    rng = np.random.default_rng(seed)
    rows, blocks = 61, 8192 // fmt.block
    raw = rng.integers(0, 256, (rows, blocks * fmt.block_bytes), np.uint8)
    got = QTensor(fmt, {"blocks": raw}, (rows, blocks * fmt.block)).decode()
    assert same(got, theirs(fmt, raw)), f"{fmt}, seed {seed}"


@pytest.mark.parametrize("fmt", COVERED, ids=repr)
def test_extreme_bytes(fmt: Format):
    raw = np.repeat(np.arange(256, dtype=np.uint8)[:, None], fmt.block_bytes, axis=1)
    got = QTensor(fmt, {"blocks": raw}, (256, fmt.block)).decode()
    assert same(got, theirs(fmt, raw))


def test_what_the_package_does_not_decode_is_known():
    for fmt in BLOCKS:
        try:
            theirs(fmt, np.zeros((1, fmt.block_bytes), np.uint8))
            missing = False
        except (NotImplementedError, ValueError):
            missing = True
        assert missing == (fmt.name in WITHOUT), fmt


def test_sizes_agree():
    for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
        fmt = by_ggml(int(kind))
        if kind.name == "Q8_1":
            assert (block, size) == (32, 40), "the package has corrected its size of Q8_1"
            assert (fmt.block, fmt.block_bytes) == (32, 36)
        elif fmt is not None and fmt.block_bytes:
            assert (fmt.block, fmt.block_bytes) == (block, size), kind
        elif fmt is not None:
            assert (1, fmt.bits // 8) == (block, size), kind


def test_every_type_of_the_package_is_in_the_table():
    plain = {"I8", "I16", "I32", "I64", "F64"}
    assert {k.name for k in gguf.GGMLQuantizationType if by_ggml(int(k)) is None} == plain
