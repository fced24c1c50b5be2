"""Blocks are written byte for byte as the gguf package writes them; it reads our files."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from iron.quant.encode import quantize
from iron.quant.format import FORMATS
from tests.property.seeds import SEEDS

KINDS = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "TQ1_0", "TQ2_0", "MXFP4")


def weights(seed: int, rows: int = 96) -> np.ndarray:
    """Rows of every scale, some with zeros, ties, constants and subnormals."""
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(rows, 512)) * np.exp2(rng.integers(-20, 8, (rows, 1)))
    w[0] = 0
    w[1] = 0.25
    w[2] = rng.integers(-8, 9, 512) / 2
    w[3, :300] = 0
    w[4] = rng.integers(-127, 128, 512)
    w[5] = -np.abs(w[5])
    return w.astype(np.float32)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_same_bytes(kind: str, seed: int):
    w = weights(seed)
    got = quantize(w, f"gguf_{kind.lower()}").planes["blocks"]
    with np.errstate(all="ignore"):
        want = gguf.quantize(w, gguf.GGMLQuantizationType[kind])
    assert np.array_equal(got, want), f"{kind}, seed {seed}"


def test_every_encoder_of_the_package_is_compared():
    able = []
    for kind in gguf.GGMLQuantizationType:
        try:
            gguf.quantize(np.ones((1, 256), np.float32), kind)
            able.append(kind.name)
        except NotImplementedError:
            continue
    assert set(able) - {"F32", "F16", "BF16"} == set(KINDS)


@pytest.mark.parametrize("name", [f for f in FORMATS if f.startswith("gguf_q") and "_k" in f][:5])
def test_k_quants_written_here_are_read_there(name: str, tmp_path: Path):
    w = weights(4, 32)
    held = quantize(w, name)
    writer = gguf.GGUFWriter(tmp_path / "k.gguf", "test")
    kind = gguf.GGMLQuantizationType(held.fmt.ids.ggml)
    writer.add_tensor("w", held.planes["blocks"], raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    (tensor,) = gguf.GGUFReader(tmp_path / "k.gguf").tensors
    assert np.array_equal(gguf.dequantize(tensor.data, tensor.tensor_type), held.decode())
