"""`iron quantize` and `iron weights`: output, exit status, and every wrong use."""

import json
from pathlib import Path

import numpy as np
import pytest

from iron.cli.app import run
from iron.quant.encode import quantize
from iron.quant.read_gguf import read_gguf
from iron.quant.write_gguf import write_gguf
from tests.unit.quant.checkpoint import E4M3, write

W = np.random.default_rng(41).normal(size=(64, 128)).astype(np.float32)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_gguf("in.gguf", {"a.weight": W, "b.weight": W, "norm": W[0]}, {"x.y": 3})
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = run(list(arguments))
    out = capsys.readouterr()
    return status, out.out, out.err


def test_quantize(capsys):
    status, out, err = said(capsys, "quantize", "in.gguf", "out.gguf", "--format", "q4_0")
    assert status == 0
    assert err == ""
    assert "f32 -> gguf_q4_0" in out
    assert "2 of 3 tensors converted, mean relative error" in out
    assert "wrote out.gguf" in out
    assert read_gguf("out.gguf").weight("b.weight").fmt.name == "gguf_q4_0"


def test_quantize_as_json(capsys):
    only = ["--only", "a.*", "--json"]
    status, out, _ = said(capsys, "quantize", "in.gguf", "o.gguf", "-F", "q8_0", *only)
    held = json.loads(out)
    assert status == 0
    assert [t["after"] for t in held["tensors"]] == ["gguf_q8_0", "f32", "f32"]
    assert 0 < held["tensors"][0]["error"] < 0.01
    assert held["tensors"][1]["error"] == 0
    assert held["bytes"] == Path("o.gguf").stat().st_size


def test_an_existing_output_is_kept(capsys):
    Path("out.gguf").write_bytes(b"precious")
    arguments = ["quantize", "in.gguf", "out.gguf", "--format", "q4_0"]
    status, _, err = said(capsys, *arguments)
    assert status == 2
    assert "out.gguf exists" in err
    assert "--force" in err
    assert Path("out.gguf").read_bytes() == b"precious"
    assert said(capsys, *arguments, "--force")[0] == 0
    assert read_gguf("out.gguf").entries


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["in.gguf", "in.gguf", "--format", "q4_0"], 2, "the same file"),
        (["in.gguf", "o.gguf", "--format", "q9"], 2, "no format called q9"),
        (["in.gguf", "o.gguf"], 2, "Missing option"),
        (["none.gguf", "o.gguf", "--format", "q4_0"], 1, "none.gguf: No such file"),
        (["in.gguf", "o.gguf", "--format", "iq2_xs"], 1, "is not encoded"),
        (["in.txt", "o.gguf", "--format", "q4_0"], 2, "a .gguf file, a .safetensors file"),
    ],
)
def test_wrong_uses(capsys, arguments, status, message):
    got, _, err = said(capsys, "quantize", *arguments)
    assert got == status
    assert message in " ".join(err.split())
    assert not Path("o.gguf").exists()
    assert "Traceback" not in err


def test_weights(capsys):
    status, out, _ = said(capsys, "weights", "in.gguf")
    assert status == 0
    lines = out.splitlines()
    assert lines[0].split() == ["tensor", "format", "shape", "bits", "size"]
    assert lines[1].split() == ["a.weight", "f32", "64x128", "32.000", "32.0", "KiB"]
    assert "3 tensors, 16,512 weights" in lines[-1]


def test_weights_as_json(capsys):
    write_gguf("q.gguf", {"a.weight": quantize(W, "gguf_q4_0")}, {"x.y": 3})
    status, out, _ = said(capsys, "weights", "q.gguf", "--json")
    held = json.loads(out)
    assert status == 0
    assert held["faults"] == []
    assert held["metadata"]["x.y"] == 3
    (row,) = held["tensors"]
    assert row["format"] == "gguf_q4_0"
    assert row["bits_per_weight"] == 4.5
    assert row["shape"] == [64, 128]


def test_weights_finds_nan(capsys):
    w = W.copy()
    w[2, 3] = np.inf
    write_gguf("nan.gguf", {"a.weight": W, "b.weight": w})
    assert said(capsys, "weights", "nan.gguf")[0] == 0
    status, out, _ = said(capsys, "weights", "nan.gguf", "--check")
    assert status == 1
    assert "wrong: nan.gguf: tensor b.weight, byte" in out
    assert "1 weights are NaN or infinite, the first at [2, 3]" in out


def test_weights_of_a_broken_checkpoint(capsys, tmp_path: Path):
    tensors = {
        "a.weight": W,
        "b.weight": W.astype(E4M3),
        "c.qweight": np.zeros((8, 32), np.int32),
        "c.scales": np.zeros((2, 32), np.float16),
        "d.weight": W.astype(E4M3),
        "d.weight_scale_inv": W[:3, :3],
    }
    path = write(tmp_path, tensors)
    status, out, _ = said(capsys, "weights", str(path))
    assert status == 1
    assert "a.weight" in out
    faults = [line for line in out.splitlines() if line.startswith("wrong:")]
    assert len(faults) == 3
    text = "\n".join(faults)
    assert "tensor b.weight, byte" in text
    assert "tensor c.qweight" in text
    assert "a packed weight without c.qzeros" in text
    assert "tensor d.weight_scale_inv" in text


@pytest.mark.parametrize("kept", [0, 3, 30, 200])
def test_weights_of_a_truncated_file(capsys, kept: int):
    Path("cut.gguf").write_bytes(Path("in.gguf").read_bytes()[:kept])
    status, _, err = said(capsys, "weights", "cut.gguf")
    assert status == 1
    assert "cut.gguf" in err
    assert "byte" in err
