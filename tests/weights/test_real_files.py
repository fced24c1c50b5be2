"""Real models: read, converted there and back, and read by the gguf package."""

import re
from fnmatch import fnmatch
from pathlib import Path

import gguf
import numpy as np
import pytest
import safetensors.numpy

from examples.smollm2.fetch import model_file
from iron.cli.app import run
from iron.quant.encode import quantize
from iron.quant.format import FORMATS, Encode
from iron.quant.read_gguf import read_gguf
from iron.quant.read_safetensors import read_safetensors
from iron.quant.repack import to_planes
from iron.quant.write_gguf import write_gguf
from tests.weights.silero import silero

K_QUANTS = ("gguf_q2_k", "gguf_q3_k", "gguf_q4_k", "gguf_q5_k", "gguf_q6_k", "gguf_iq4_xs")


def test_smollm2_is_read_as_the_gguf_package_reads_it():
    mine, theirs = read_gguf(model_file()), gguf.GGUFReader(model_file())
    assert len(mine.entries) == 272
    assert len(mine.metadata) == 33
    assert len(mine.metadata["tokenizer.ggml.tokens"]) == 49152
    assert len(mine.metadata["tokenizer.ggml.merges"]) == 48900
    for tensor in theirs.tensors[::30]:
        want = gguf.dequantize(tensor.data, tensor.tensor_type)
        got = mine.weight(tensor.name)
        assert np.array_equal(got.decode().reshape(want.shape), want), tensor.name
        assert np.array_equal(to_planes(got).decode().reshape(want.shape), want), tensor.name
    formats = [e.fmt.name for e in mine.entries.values() if e.fmt]
    assert (formats.count("gguf_q4_1"), formats.count("f32"), formats.count("gguf_q8_0")) == (
        210, 61, 1,
    )  # fmt: skip


# Relative error of the coarsest format of each width on these weights, with some room
BOUNDS = {1: 2.5, 2: 0.9, 3: 0.4, 4: 0.2, 5: 0.1, 6: 0.07, 7: 0.02, 8: 0.07, 16: 0.002, 32: 1e-9}


def data(path: Path, names: list[str]) -> dict[str, bytes]:
    """The bytes of tensors."""
    file = read_gguf(path)
    held = [file.entry(name) for name in names]
    return {e.name: file.source.bytes(e.offset, e.size).tobytes() for e in held}


@pytest.mark.parametrize(
    ("only", "count"), [("blk.29.*", 7), pytest.param("blk.*", 210, marks=pytest.mark.slow)]
)
def test_smollm2_there_and_back(
    only: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source, there, back = model_file(), tmp_path / "there.gguf", tmp_path / "back.gguf"
    assert run(["quantize", str(source), str(there), "--format", "q8_0", "--only", only]) == 0
    there_said = capsys.readouterr().out
    assert run(["quantize", str(there), str(back), "--format", "q4_1", "--only", only]) == 0
    back_said = capsys.readouterr().out
    for said, bound in ((there_said, 0.01), (back_said, 0.01)):
        found = re.search(r"(\d+) of 272 tensors converted, mean relative error ([\d.e-]+)", said)
        assert found
        assert int(found[1]) == count
        assert 0 < float(found[2]) < bound
    first, last = read_gguf(source), read_gguf(back)
    header = min(e.offset for e in first.entries.values())
    assert np.array_equal(first.source.data[:header], last.source.data[:header])
    assert first.source.size == last.source.size
    kept = [e.name for e in first.entries.values() if e.fmt and e.fmt.name != "gguf_q4_1"]
    assert len(kept) == 62
    kept += [e.name for e in first.entries.values() if not fnmatch(e.name, only)]
    assert data(source, kept) == data(back, kept) == data(there, kept)


def test_silero_is_read_as_the_safetensors_package_reads_it():
    mine, theirs = read_safetensors(silero()), safetensors.numpy.load_file(silero())
    assert len(theirs) == 15
    assert set(mine.entries) == set(theirs)
    for name, want in theirs.items():
        assert np.array_equal(mine.array(name), want)
        if want.ndim > 1:
            assert np.array_equal(mine.weight(name).decode(), want)


@pytest.mark.parametrize("name", K_QUANTS)
def test_blocks_of_real_weights_are_read_by_gguf(tmp_path: Path, name: str):
    w = read_safetensors(silero()).array("stft_conv.weight").reshape(258, 256)
    held = quantize(w, name)
    path = tmp_path / "silero.gguf"
    write_gguf(path, {"stft.weight": held, "bias": w[0]})
    tensor = next(t for t in gguf.GGUFReader(path).tensors if t.name == "stft.weight")
    theirs = gguf.dequantize(tensor.data, tensor.tensor_type)
    assert np.array_equal(theirs, held.decode())
    relative = np.linalg.norm(theirs - w) / np.linalg.norm(w)
    assert relative < {"gguf_q2_k": 0.4, "gguf_q3_k": 0.2}.get(name, 0.1)


def test_every_encoder_on_real_weights():
    lstm = read_safetensors(silero()).array("lstm_cell.weight_hh")
    w = np.concatenate([lstm, lstm], axis=1)
    encoded = [f for f in FORMATS.values() if f.encode is not Encode.DECODE_ONLY]
    for fmt in encoded:
        if 256 % fmt.multiple:
            continue
        got = quantize(w, fmt).decode()
        assert np.isfinite(got).all(), fmt
        relative = np.linalg.norm(got.astype(np.float64) - w) / np.linalg.norm(w)
        assert relative < BOUNDS[fmt.bits], (fmt, relative)
