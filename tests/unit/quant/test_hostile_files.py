"""Files that are wrong in the ways files are: named by file, tensor and byte, and nothing written.

Each goes through `iron quantize --force` onto an existing output, and through `iron weights`.
"""

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from iron.cli.app import run
from iron.quant.encode import quantize
from iron.quant.read_gguf import read_gguf
from iron.quant.read_safetensors import read_safetensors
from iron.quant.write_gguf import write_gguf
from tests.unit.quant.checkpoint import E4M3, write

W = np.random.default_rng(61).normal(size=(8, 64)).astype(np.float32)
PRECIOUS = b"what was there before"


@dataclass(frozen=True)
class Hostile:
    """A bad file, and the tensor, the byte and the words that its message must name."""

    path: Path
    tensor: str
    byte: int
    words: str


def gguf(folder: Path, weights: dict | None = None) -> Path:
    """A sound file: a norm, a matrix of blocks and one of floats."""
    path = folder / "in.gguf"
    held = {"norm": W[0], "a.weight": quantize(W, "gguf_q4_0"), "b.weight": W}
    write_gguf(path, weights or held, {"general.name": "x"})
    return path


def patched(path: Path, at: int, raw: bytes) -> Path:
    data = bytearray(path.read_bytes())
    data[at : at + len(raw)] = raw
    path.write_bytes(data)
    return path


def record(path: Path, name: str) -> tuple[int, int]:
    """Where the record of a tensor begins, and where its axes are counted."""
    key = struct.pack("<Q", len(name)) + name.encode()
    at = path.read_bytes().rindex(key)
    return at, at + len(key)


# --- GGUF -----------------------------------------------------------------------------------------


def truncated_header(folder: Path) -> Hostile:
    path = gguf(folder)
    _, axes = record(path, "a.weight")
    path.write_bytes(path.read_bytes()[: axes + 6])
    return Hostile(path, "", axes + 4, "the file ends at")


def truncated_data(folder: Path) -> Hostile:
    path = gguf(folder)
    at = read_gguf(path).entry("b.weight").offset
    path.write_bytes(path.read_bytes()[:-1])
    return Hostile(path, "b.weight", at, "the file ends at")


def wrong_magic(folder: Path) -> Hostile:
    return Hostile(patched(gguf(folder), 0, b"ggml"), "", 0, "the magic is b'ggml'")


def big_endian(folder: Path) -> Hostile:
    return Hostile(patched(gguf(folder), 4, struct.pack(">I", 3)), "", 4, "a big-endian file")


def odd_alignment(folder: Path) -> Hostile:
    path = folder / "in.gguf"
    write_gguf(path, {"b.weight": W}, {"general.name": "x", "general.alignment": 32})
    key = struct.pack("<Q", 17) + b"general.alignment"
    at = path.read_bytes().index(key)
    words = "general.alignment is 33, not a power of two"
    return Hostile(patched(path, at + len(key) + 4, struct.pack("<I", 33)), "", at, words)


def of_type(number: int, words: str) -> Callable[[Path], Hostile]:
    def make(folder: Path) -> Hostile:
        path = gguf(folder)
        start, axes = record(path, "a.weight")
        return Hostile(
            patched(path, axes + 20, struct.pack("<I", number)), "a.weight", start, words
        )

    return make


def odd_row(folder: Path) -> Hostile:
    path = gguf(folder)
    start, axes = record(path, "a.weight")
    words = "K = 63 is not a multiple of the gguf_q4_0 block of 32"
    return Hostile(patched(path, axes + 4, struct.pack("<Q", 63)), "a.weight", start, words)


def longer_shape(folder: Path) -> Hostile:
    path = gguf(folder)
    at = read_gguf(path).entry("b.weight").offset
    _, axes = record(path, "b.weight")
    return Hostile(patched(path, axes + 12, struct.pack("<Q", 9)), "b.weight", at, "needs 2304")


def overlapping_shape(folder: Path) -> Hostile:
    path = gguf(folder)
    _, axes = record(path, "a.weight")
    at = read_gguf(path).entry("b.weight").offset
    words = "the data overlap those of a.weight"
    return Hostile(patched(path, axes + 12, struct.pack("<Q", 9)), "b.weight", at, words)


def nan_weight(folder: Path) -> Hostile:
    w = W.copy()
    w[3, 5] = np.nan
    path = gguf(folder, {"norm": W[0], "b.weight": w})
    at = read_gguf(path).entry("b.weight").offset + (3 * 64 + 5) * 4
    return Hostile(path, "b.weight", at, "the weight [3, 5] is nan")


def nan_scale(folder: Path) -> Hostile:
    path = gguf(folder)
    at = read_gguf(path).entry("a.weight").offset + 18 * 3
    patched(path, at, np.array([np.nan], np.float16).tobytes())
    return Hostile(path, "a.weight", at, "the weight [1, 32] is nan")


# --- safetensors ----------------------------------------------------------------------------------


def packed(**changed: np.ndarray | None) -> dict[str, np.ndarray]:
    """A checkpoint of every anchor: MLX, FP8, packed integers, GPTQ and plain floats."""
    held: dict[str, np.ndarray | None] = {
        "a.weight": np.zeros((8, 8), np.uint32),
        "a.scales": np.ones((8, 1), np.float16),
        "a.biases": np.zeros((8, 1), np.float16),
        "b.weight": W,
        "c.weight": W.astype(E4M3),
        "c.weight_scale": W[:, :1],
        "d.weight_packed": np.zeros((8, 8), np.int32),
        "d.weight_scale": np.ones((8, 2), np.float16),
        "d.weight_shape": np.array([8, 64], np.int64),
        "e.qweight": np.zeros((8, 32), np.int32),
        "e.qzeros": np.zeros((2, 4), np.int32),
        "e.scales": np.ones((2, 32), np.float16),
    }
    held |= {name.replace("__", "."): value for name, value in changed.items()}
    return {name: value for name, value in held.items() if value is not None}


def safetensors(folder: Path, **changed: np.ndarray | None) -> Path:
    return write(folder, packed(**changed))


def offset(path: Path, name: str) -> int:
    return read_safetensors(path).entry(name).offset


def without(part: str, anchor: str, words: str) -> Callable[[Path], Hostile]:
    def make(folder: Path) -> Hostile:
        path = safetensors(folder, **{part.replace(".", "__"): None})
        return Hostile(path, anchor, offset(path, anchor), words)

    return make


def with_part(part: str, held: np.ndarray, named: str, words: str) -> Callable[[Path], Hostile]:
    def make(folder: Path) -> Hostile:
        path = safetensors(folder, **{part.replace(".", "__"): held})
        return Hostile(path, named, offset(path, named), words)

    return make


def cut(folder: Path) -> Hostile:
    path = safetensors(folder)
    path.write_bytes(path.read_bytes()[:40])
    return Hostile(path, "", 0, "the header claims")


def not_json(folder: Path) -> Hostile:
    path = safetensors(folder)
    return Hostile(patched(path, 8, b"PK"), "", 8, "the header is not JSON")


def reworded(name: str, key: str, value: object, byte: int | str, words: str):
    """A header with one record changed; `byte` is a place, or the tensor that stands there."""

    def make(folder: Path) -> Hostile:
        path = safetensors(folder)
        at = offset(path, byte) if isinstance(byte, str) else byte
        raw = path.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        held = json.loads(raw[8 : 8 + size])
        held[name][key] = value
        text = json.dumps(held).encode()
        at = at + len(text) - size if isinstance(byte, str) else at
        path.write_bytes(len(text).to_bytes(8, "little") + text + raw[8 + size :])
        return Hostile(path, name, at, words)

    return make


def nan_in_safetensors(folder: Path) -> Hostile:
    w = W.copy()
    w[7, 63] = -np.inf
    path = safetensors(folder, b__weight=w)
    return Hostile(path, "b.weight", offset(path, "b.weight") + 511 * 4, "[7, 63] is -inf")


CASES: dict[str, Callable[[Path], Hostile]] = {
    "truncated header": truncated_header,
    "truncated data": truncated_data,
    "wrong magic": wrong_magic,
    "big-endian": big_endian,
    "alignment": odd_alignment,
    "unknown type": of_type(43, "type 43 is unknown"),
    "private type": of_type(1000, "type 1000 belongs to a private fork"),
    **{f"removed type {n}": of_type(n, "was removed") for n in (4, 5, 31, 32, 33, 36, 37, 38)},
    "K": odd_row,
    "shape beyond the file": longer_shape,
    "shape beyond the tensor": overlapping_shape,
    "NaN": nan_weight,
    "NaN scale": nan_scale,
    "safetensors: truncated header": cut,
    "safetensors: wrong magic": not_json,
    "safetensors: unknown dtype": reworded("b.weight", "dtype", "F7", 8, "dtype F7 is unknown"),
    "safetensors: shape": reworded("b.weight", "shape", [8, 65], "b.weight", "takes 2080 bytes"),
    "safetensors: K": with_part(
        "d.weight_shape", np.array([8, 63], np.int64), "d.weight_packed", "K = 63 is not a multiple"
    ),
    "safetensors: shape of codes": with_part(
        "d.weight_shape", np.array([9, 64], np.int64), "d.weight_packed", "has shape"
    ),
    "safetensors: shape of a scale": with_part(
        "c.weight_scale", W[:3, :3], "c.weight_scale", "does not tile"
    ),
    "MLX without scales": without("a.scales", "a.weight", "without a.scales"),
    "FP8 without a scale": without("c.weight_scale", "c.weight", "scale tensor"),
    "packed without a scale": without("d.weight_scale", "d.weight_packed", "d.weight_scale"),
    "GPTQ without scales": without("e.scales", "e.qweight", "without e.scales"),
    "GPTQ without zeros": without("e.qzeros", "e.qweight", "without e.qzeros"),
    "safetensors: infinity": nan_in_safetensors,
}


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = run(list(arguments))
    out = capsys.readouterr()
    return status, " ".join((out.out + out.err).split())


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_written_and_the_place_is_named(case: str, tmp_path: Path, capsys):
    hostile = CASES[case](tmp_path)
    out = tmp_path / ("out" + hostile.path.suffix)
    out.write_bytes(PRECIOUS)
    before = sorted(tmp_path.iterdir())
    fmt = "q8_0" if hostile.path.suffix == ".gguf" else "mlx_int4_g32"
    arguments = ["quantize", str(hostile.path), str(out), "-F", fmt, "--force"]
    status, text = said(capsys, *arguments)
    where = f" tensor {hostile.tensor}," if hostile.tensor else ""
    assert status == 1
    assert f"{hostile.path}:{where} byte {hostile.byte}: " in text
    assert hostile.words in text
    assert "Traceback" not in text
    assert out.read_bytes() == PRECIOUS
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("case", CASES)
def test_weights_says_what_is_wrong(case: str, tmp_path: Path, capsys):
    hostile = CASES[case](tmp_path)
    status, text = said(capsys, "weights", str(hostile.path), "--check")
    assert status == 1
    assert str(hostile.path) in text
    assert f"tensor {hostile.tensor}," in text or not hostile.tensor
    assert "Traceback" not in text


def test_the_sound_files_are_converted(tmp_path: Path, capsys):
    for path, fmt in ((gguf(tmp_path), "q8_0"), (safetensors(tmp_path), "mlx_int4_g32")):
        out = tmp_path / ("out" + path.suffix)
        assert said(capsys, "weights", str(path), "--check")[0] == 0
        assert said(capsys, "quantize", str(path), str(out), "-F", fmt)[0] == 0
        assert out.stat().st_size > 100
