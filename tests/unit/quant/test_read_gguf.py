"""GGUF files written by the gguf package are read as it reads them; bad files are named."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest

from iron.errors import KernelError
from iron.quant.read_gguf import read_gguf
from iron.quant.write_gguf import layout, metadata_entry

Kind = gguf.GGMLQuantizationType
DATA = np.random.default_rng(5).normal(size=(6, 64)).astype(np.float32)


def write(path: Path) -> Path:
    """A small file with metadata of every type and tensors of several."""
    writer = gguf.GGUFWriter(path, "test")
    writer.add_uint8("a.u8", 200)
    writer.add_int8("a.i8", -3)
    writer.add_uint16("a.u16", 60000)
    writer.add_int16("a.i16", -300)
    writer.add_uint32("a.u32", 4_000_000_000)
    writer.add_int32("a.i32", -70000)
    writer.add_uint64("a.u64", 1 << 40)
    writer.add_int64("a.i64", -(1 << 40))
    writer.add_float32("a.f32", 0.5)
    writer.add_float64("a.f64", 0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.text", "grün")
    writer.add_array("tokenizer.ggml.tokens", ["<s>", "ein", "Ġ"])
    writer.add_array("tokenizer.ggml.token_type", [3, 1, 1])
    writer.add_array("a.floats", [0.5, 1.5])
    writer.add_tensor("norm", DATA[0])
    writer.add_tensor("plain", DATA.astype(np.float16))
    for name, kind in (("q4_0", Kind.Q4_0), ("q4_1", Kind.Q4_1), ("q8_0", Kind.Q8_0)):
        writer.add_tensor(name, gguf.quantize(DATA, kind), raw_dtype=kind)
    stacked = gguf.quantize(np.stack([DATA, -DATA]), Kind.Q8_0)
    writer.add_tensor("experts", stacked, raw_dtype=Kind.Q8_0)
    writer.add_tensor("ids", np.arange(5, dtype=np.int32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "small.gguf")


def test_metadata(path: Path):
    held = read_gguf(path).metadata
    assert held["a.u8"] == 200
    assert held["a.i8"] == -3
    assert held["a.u16"] == 60000
    assert held["a.i16"] == -300
    assert held["a.u32"] == 4_000_000_000
    assert held["a.i32"] == -70000
    assert held["a.u64"] == 1 << 40
    assert held["a.i64"] == -(1 << 40)
    assert held["a.f32"] == 0.5
    assert held["a.f64"] == 0.1
    assert held["a.bool"] is True
    assert held["a.text"] == "grün"
    assert held["tokenizer.ggml.tokens"] == ["<s>", "ein", "Ġ"]
    assert held["tokenizer.ggml.token_type"].tolist() == [3, 1, 1]
    assert held["a.floats"].tolist() == [0.5, 1.5]
    assert held["general.architecture"] == "test"


def test_tensors_agree_with_the_gguf_package(path: Path):
    mine, theirs = read_gguf(path), gguf.GGUFReader(path)
    assert list(mine.entries) == [t.name for t in theirs.tensors]
    for tensor in theirs.tensors:
        if tensor.name == "ids":
            assert mine.array("ids").tolist() == [0, 1, 2, 3, 4]
            continue
        want = gguf.dequantize(tensor.data, tensor.tensor_type)
        got = mine.weight(tensor.name).decode()
        assert np.array_equal(got.reshape(want.shape), want), tensor.name
    assert mine.weight("experts").shape == (2, 6, 64)
    assert np.array_equal(mine.array("norm"), DATA[0])
    assert not mine.array("norm").flags.writeable


def replaced(path: Path, at: int, raw: bytes) -> Path:
    """The file with some bytes replaced."""
    data = bytearray(path.read_bytes())
    data[at : at + len(raw)] = raw
    path.write_bytes(data)
    return path


def record(path: Path, name: str) -> int:
    """Where the tensor record of `name` has its axis count."""
    key = struct.pack("<Q", len(name)) + name.encode()
    return path.read_bytes().rindex(key) + len(key)


def bad_files(path: Path) -> dict[str, tuple[bytes | None, int, str]]:
    """name -> (replacement, place, what the message must say)."""
    q4_0, plain = record(path, "q4_0"), record(path, "plain")
    return {
        "magic": (b"GGML", 0, "byte 0: the magic is b'GGML'"),
        "big endian": (struct.pack(">I", 3), 4, "byte 4: a big-endian file"),
        "version": (struct.pack("<I", 1), 4, "GGUF version 1"),
        "count": (struct.pack("<Q", 1 << 60), 8, "cannot hold"),
        "removed type": (struct.pack("<I", 4), q4_0 + 20, "tensor q4_0, byte .*Q4_2.* was removed"),
        "unknown type": (struct.pack("<I", 43), q4_0 + 20, "tensor q4_0, .*type 43 is unknown"),
        "private type": (struct.pack("<I", 99), q4_0 + 20, "type 99 belongs to a private fork"),
        "K": (struct.pack("<Q", 65), q4_0 + 4, "K = 65 is not a multiple of the gguf_q4_0 block"),
        "shape": (struct.pack("<Q", 1 << 40), plain + 12, "tensor plain, .*the file ends at"),
        "axes": (struct.pack("<I", 9), plain, "9 axes"),
        "offset": (struct.pack("<Q", 7), plain + 24, "offset 7 is not a multiple of 32"),
        "overlap": (struct.pack("<Q", 0), plain + 24, "overlap"),
    }


BAD = ["magic", "big endian", "version", "count", "removed type", "unknown type", "private type"]
BAD += ["K", "shape", "axes", "offset", "overlap"]


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named(path: Path, case: str):
    raw, at, message = bad_files(path)[case]
    with pytest.raises(KernelError, match=message) as caught:
        read_gguf(replaced(path, at, raw))
    assert caught.value.id == "E0801"
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("kept", [0, 3, 4, 10, 24, 100, 500, -13])
def test_a_truncated_file_is_named(path: Path, kept: int):
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(KernelError, match="byte") as caught:
        read_gguf(path)
    assert caught.value.id == "E0801"


def test_every_flipped_header_byte_ends_in_a_result_or_an_error(path: Path):
    whole = path.read_bytes()
    header = read_gguf(path).entries["norm"].offset
    ids = set()
    for at in range(0, header, 3):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        try:
            read_gguf(path)
        except KernelError as caught:
            ids.add(caught.id)
    assert ids == {"E0801"}


def test_wrong_ways_to_read(path: Path, tmp_path: Path):
    file = read_gguf(path)
    for call, message in (
        (lambda: file.weight("nope"), "tensor nope, byte 0: the file has no such tensor"),
        (lambda: file.weight("ids"), "tensor ids, .*not a weight format"),
        (lambda: file.array("q4_0"), "tensor q4_0, .*holds gguf_q4_0"),
        (lambda: read_gguf(tmp_path / "missing"), "No such file"),
        (lambda: read_gguf(tmp_path), "directory"),
    ):
        with pytest.raises(KernelError, match=message):
            call()


def test_a_file_beyond_four_gibibytes(tmp_path: Path):
    rows = (1 << 32) // 4 // 1024 + 3
    plan = layout(
        [metadata_entry("general.architecture", "test")],
        [("hole", (rows, 1024), 0, rows * 4096), ("last", (6, 64), 0, DATA.nbytes)],
    )
    assert plan.pieces[1].offset > 1 << 32
    path = tmp_path / "big.gguf"
    with path.open("wb") as out:  # a hole takes no room on the disk
        out.write(plan.header)
        out.seek(plan.pieces[1].offset)
        out.write(DATA.tobytes())
    file = read_gguf(path)
    assert np.array_equal(file.weight("last").decode(), DATA)
    assert not file.weight("hole").decode_rows(rows - 1, rows).any()
    with path.open("r+b") as out:
        out.truncate(plan.pieces[1].offset + 100)
    with pytest.raises(KernelError, match=rf"tensor last, byte {plan.pieces[1].offset}: needs"):
        read_gguf(path)
