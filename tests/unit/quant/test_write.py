"""Files written here are read by the gguf and safetensors packages, and by ourselves."""

from pathlib import Path

import gguf
import numpy as np
import pytest

from iron.errors import KernelError
from iron.quant import write_safetensors
from iron.quant.encode import quantize
from iron.quant.format import FORMATS, Encode
from iron.quant.read_gguf import read_gguf
from iron.quant.read_safetensors import read_safetensors
from iron.quant.write_gguf import write_gguf

W = np.random.default_rng(21).normal(size=(256, 512)).astype(np.float32)
WRITTEN = [
    f for f in FORMATS.values() if f.ids.ggml is not None and f.encode is not Encode.DECODE_ONLY
]


@pytest.mark.parametrize("fmt", WRITTEN, ids=repr)
def test_every_encoded_type(tmp_path: Path, fmt):
    held = quantize(W[:8], fmt)
    write_gguf(tmp_path / "x.gguf", {"a.weight": held, "norm": W[0]})
    back = read_gguf(tmp_path / "x.gguf")
    assert back.weight("a.weight").fmt is fmt
    assert np.array_equal(back.weight("a.weight").decode(), held.decode())
    assert np.array_equal(back.array("norm"), W[0])
    try:
        gguf.GGMLQuantizationType(fmt.ids.ggml)
    except ValueError:
        assert fmt.name == "gguf_q2_0"  # newer than the package
        return
    first = gguf.GGUFReader(tmp_path / "x.gguf").tensors[0]
    assert first.shape.tolist() == [512, 8]
    assert first.n_bytes == held.nbytes


def test_metadata_there_and_back(tmp_path: Path):
    given = {
        "general.architecture": "test", "a.flag": True, "a.small": 7, "a.negative": -7,
        "a.large": 1 << 40, "a.less": -(1 << 40), "a.float": 0.5, "a.text": "grün",
        "a.words": ["x", "ein"], "a.numbers": [1, -2], "a.floats": [0.5, 1.5],
        "a.bytes": np.arange(4, dtype=np.uint8),
    }  # fmt: skip
    write_gguf(tmp_path / "x.gguf", {"t": np.arange(6, dtype=np.int32)}, given)
    mine, theirs = read_gguf(tmp_path / "x.gguf"), gguf.GGUFReader(tmp_path / "x.gguf")
    for key, value in given.items():
        held = mine.metadata[key]
        assert np.array_equal(held, value), key
        assert np.array_equal(theirs.fields[key].contents(), value), key
    assert mine.array("t").tolist() == list(range(6))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [("k", None, "no NoneType"), ("k", 1 << 70, "does not fit 64 bits"), ("k", [], "no array of")],
)
def test_metadata_that_gguf_lacks(tmp_path: Path, key, value, message):
    held = np.array([], object) if value == [] else value
    with pytest.raises(KernelError, match=message) as caught:
        write_gguf(tmp_path / "x.gguf", {"t": W}, {key: held})
    assert caught.value.id == "E0802"
    assert list(tmp_path.iterdir()) == []


def test_formats_and_dtypes_that_gguf_lacks(tmp_path: Path):
    for tensor, message in (
        (quantize(W, "mlx_int4_g64"), "GGUF has no type for mlx_int4_g64"),
        (quantize(W, "mxfp4"), "did you mean gguf_mxfp4"),
        (W.astype(np.uint16), "no type for uint16"),
    ):
        with pytest.raises(KernelError, match=message) as caught:
            write_gguf(tmp_path / "x.gguf", {"t": tensor})
        assert caught.value.id == "E0804"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing(tmp_path: Path):
    with pytest.raises(KernelError, match=r"x\.gguf: No such file") as caught:
        write_gguf(tmp_path / "none" / "x.gguf", {"t": W})
    assert caught.value.id == "E0802"


def test_an_old_file_survives_a_failure(tmp_path: Path):
    path = tmp_path / "x.gguf"
    write_gguf(path, {"t": W})
    before = path.read_bytes()
    with pytest.raises(KernelError):
        write_gguf(path, {"t": W.astype(np.uint16)})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def dialects() -> list[str]:
    """Every encodable format that safetensors holds."""
    out = []
    for fmt in FORMATS.values():
        try:
            write_safetensors.names(fmt)
            out += [fmt.name] * (fmt.encode is not Encode.DECODE_ONLY)
        except KernelError:
            continue
    return out


@pytest.mark.parametrize("name", dialects())
def test_every_dialect_written_is_read(tmp_path: Path, name: str):
    held = quantize(W, name)
    arrays = write_safetensors.planes(held)
    config = {"p": write_safetensors.settings(held.fmt)}
    stem = "p.weight" if held.fmt.body == "dense" else "p"
    plan = write_safetensors.layout(
        [("p", s, stem + s, dtype, shape) for s, (dtype, shape, _) in arrays.items()],
        {"quantization_config": config} if config["p"] else {},
    )
    path = tmp_path / "x.safetensors"
    data = bytearray(plan.header.ljust(plan.size, b"\0"))
    for piece in plan.pieces:
        raw = np.ascontiguousarray(arrays[piece.plane][2]).tobytes()
        assert len(raw) == piece.size
        data[piece.offset : piece.offset + piece.size] = raw
    path.write_bytes(data)
    back = read_safetensors(path).weight("p.weight")
    assert back.fmt is held.fmt
    for plane, array in held.planes.items():
        assert np.array_equal(back.planes[plane], array), plane


def test_the_families_that_safetensors_holds():
    found = set(dialects())
    assert {"f32", "bf16", "mlx_int4_g64", "mxfp4", "mxfp8_e4m3", "nvfp4", "nvfp4_ct"} <= found
    assert {"int8_row_f32", "int4_sym_g128_bf16", "fp8_e4m3_row", "fp8_e4m3_b128_f32"} <= found
    assert not any(f.startswith(("gguf", "gptq", "awq", "kv", "aura")) for f in found)
    with pytest.raises(KernelError, match="no dialect of safetensors holds gguf_q4_0"):
        write_safetensors.names(FORMATS["gguf_q4_0"])
