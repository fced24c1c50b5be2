"""Conversions are atomic and resumable, tell their error, and name what is wrong."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest

from iron.errors import KernelError
from iron.quant import convert as module
from iron.quant.convert import convert
from iron.quant.encode import quantize
from iron.quant.plan import make_plan
from iron.quant.read_gguf import read_gguf
from iron.quant.read_safetensors import read_safetensors
from iron.quant.write_gguf import write_gguf
from tests.unit.quant.checkpoint import write

RNG = np.random.default_rng(31)
NAMES = ("a.weight", "b.weight", "c.weight")
W = {name: RNG.normal(size=(64, 128)).astype(np.float32) for name in NAMES}
ODD = RNG.normal(size=(5, 33)).astype(np.float32)
NORM = RNG.normal(size=128).astype(np.float32)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Three matrices, one whose K does not divide, a norm and integers."""
    path = tmp_path / "in.gguf"
    plain = {**W, "odd.weight": ODD, "norm": NORM, "ids": np.arange(7, dtype=np.int32)}
    write_gguf(path, plain, {"general.file_type": 0, "general.alignment": 64, "a.text": "x"})
    return path


def run(source: Path, out: Path, fmt: str, only: tuple[str, ...] = ("*",)):
    return convert(make_plan(source, out, fmt, only), out)


def test_a_conversion(source: Path, tmp_path: Path):
    out = tmp_path / "out.gguf"
    results, resumed = run(source, out, "q8_0")
    before, after = read_gguf(source), read_gguf(out)
    assert resumed == 0
    assert [r.name for r in results] == list(before.entries)
    for result in results[:3]:
        assert result.after == "gguf_q8_0"
        want, got = W[result.name], after.weight(result.name).decode()
        assert np.array_equal(got, quantize(want, "gguf_q8_0").decode())
        miss = got.astype(np.float64) - want
        relative = np.sqrt((miss**2).sum() / (want.astype(np.float64) ** 2).sum())
        assert result.error == pytest.approx(relative, rel=1e-6)
        assert result.worst == pytest.approx(np.abs(miss).max(), rel=1e-6)
        assert result.bits_per_weight == 8.5
    assert results[3].note == "kept: K = 33 is not a multiple of 32"
    assert np.array_equal(after.array("odd.weight"), ODD)
    assert np.array_equal(after.array("norm"), NORM)
    assert after.array("ids").tolist() == list(range(7))
    assert after.metadata["general.file_type"] == 7
    assert after.metadata["general.quantization_version"] == 2
    assert after.metadata["a.text"] == "x"
    assert after.alignment == 64
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.gguf", "out.gguf"]


def test_only_some_tensors(source: Path, tmp_path: Path):
    out = tmp_path / "out.gguf"
    results, _ = run(source, out, "q4_0", ("a.*", "c.*"))
    assert [r.after for r in results[:3]] == ["gguf_q4_0", "f32", "gguf_q4_0"]
    assert np.array_equal(read_gguf(out).array("b.weight"), W["b.weight"])


def test_a_matrix_larger_than_a_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, out = tmp_path / "in.safetensors", tmp_path / "out.safetensors"
    write(tmp_path, {"a.weight": W["a.weight"]}).rename(path)
    whole = {}
    for rows in (1 << 22, 5 * 128):
        monkeypatch.setattr(module, "ROWS_AT_ONCE", rows)
        for fmt in ("mlx_int3_g64", "nvfp4", "int4_sym_row_f16", "fp8_e4m3_b128_f32", "gguf_q6_k"):
            target = out.with_suffix(".gguf") if fmt.startswith("gguf") else out
            run(path, target, fmt) if fmt != "gguf_q6_k" else None
            if target.exists():
                raw = target.read_bytes()
                assert whole.setdefault(fmt, raw) == raw, fmt
                target.unlink()
    assert len(whole) == 4


def test_lossless_ways_lose_nothing(tmp_path: Path):
    held = {"a.weight": quantize(W["a.weight"], "gguf_q4_1")}
    held["b.weight"] = quantize(W["b.weight"], "gguf_q8_0")
    path = tmp_path / "in.gguf"
    write_gguf(path, held)
    results, _ = run(path, tmp_path / "out.safetensors", "mlx_int4_g32", ("a.*", "b.*"))
    assert results[0].error == 0
    assert results[1].error > 0
    back = read_safetensors(tmp_path / "out.safetensors").weight("a.weight")
    assert np.array_equal(back.decode(), held["a.weight"].decode())
    run(tmp_path / "out.safetensors", tmp_path / "again.gguf", "q4_1")
    again = read_gguf(tmp_path / "again.gguf").weight("a.weight")
    assert np.array_equal(again.planes["blocks"], held["a.weight"].planes["blocks"])


def test_an_interrupted_run_goes_on(source: Path, tmp_path: Path, monkeypatch):
    out, whole = tmp_path / "out.gguf", tmp_path / "whole.gguf"
    run(source, whole, "q5_1")
    seen = []

    def stop_at_c(name: str, count: int) -> None:
        seen.append(name)
        if name == "c.weight":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(make_plan(source, out, "q5_1"), out, stop_at_c)
    assert not out.exists()
    assert (tmp_path / "out.gguf.part").exists()
    encoded = []
    real = module.encode
    monkeypatch.setattr(module, "encode", lambda f, w: encoded.append(w) or real(f, w))
    results, resumed = run(source, out, "q5_1")
    assert resumed == 2
    assert len(encoded) == 1
    assert len(results) == 6
    assert results[0].error > 0
    assert out.read_bytes() == whole.read_bytes()
    names = {"in.gguf", "out.gguf", "whole.gguf"}
    assert {p.name for p in tmp_path.iterdir()} == names


@pytest.mark.parametrize("change", ["format", "source", "journal", "part"])
def test_another_request_starts_afresh(source: Path, tmp_path: Path, change: str):
    out = tmp_path / "out.gguf"

    def stop(name: str, count: int) -> None:
        if name == "b.weight":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(make_plan(source, out, "q4_0"), out, stop)
    fmt = "q4_1" if change == "format" else "q4_0"
    if change == "source":
        os.utime(source, ns=(1, 1))
    if change == "journal":
        (tmp_path / "out.gguf.part.json").write_text("{")
    if change == "part":
        (tmp_path / "out.gguf.part").write_bytes(b"short")
    _, resumed = run(source, out, fmt)
    assert resumed == 0
    assert np.array_equal(
        read_gguf(out).weight("a.weight").decode(), quantize(W["a.weight"], f"gguf_{fmt}").decode()
    )


def test_a_nan_names_file_tensor_and_byte(tmp_path: Path):
    w = W["b.weight"].copy()
    w[3, 5] = np.nan
    path, out = tmp_path / "in.gguf", tmp_path / "out.gguf"
    write_gguf(path, {"a.weight": W["a.weight"], "b.weight": w})
    out.write_bytes(b"precious")
    offset = read_gguf(path).entry("b.weight").offset + (3 * 128 + 5) * 4
    message = rf"in\.gguf: tensor b.weight, byte {offset}: the weight \[3, 5\] is nan"
    with pytest.raises(KernelError, match=message) as caught:
        run(path, out, "q4_0")
    assert caught.value.id == "E0804"
    assert out.read_bytes() == b"precious"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.gguf", "out.gguf"]


def test_an_overflow_names_the_tensor(tmp_path: Path):
    path, out = tmp_path / "in.gguf", tmp_path / "out.gguf"
    write_gguf(path, {"a.weight": W["a.weight"] * np.float32(1e9)})
    with pytest.raises(KernelError, match=r"tensor a.weight, byte \d+: .* overflows f16"):
        run(path, out, "q4_0")
    assert not out.exists()


def test_a_full_disk(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    out = tmp_path / "out.gguf"
    out.write_bytes(b"precious")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(KernelError, match=r"out\.gguf: No space left") as caught:
        run(source, out, "q4_0")
    assert caught.value.id == "E0802"
    assert out.read_bytes() == b"precious"
    monkeypatch.undo()
    run(source, out, "q4_0")
    assert read_gguf(out).weight("a.weight").fmt.name == "gguf_q4_0"


def test_two_writers(source: Path, tmp_path: Path):
    out = tmp_path / "out.gguf"
    found = []

    def second(name: str, count: int) -> None:
        if not found:
            found.append(name)
            with pytest.raises(KernelError, match="another process is writing it"):
                run(source, out, "q4_0")

    convert(make_plan(source, out, "q4_0"), out, second)
    assert found


@pytest.mark.parametrize(
    ("fmt", "out", "only", "error", "message"),
    [
        ("iq1_s", "o.gguf", "*", "E0804", "gguf_iq1_s is not encoded: .*neighbour tables"),
        ("q4_9", "o.gguf", "*", "E0803", "no format called q4_9"),
        ("q4_0", "o.bin", "*", "E0803", "a .gguf or a .safetensors file"),
        ("q4_0", "o.gguf", "none*", "E0803", "no matrix is called none"),
        ("mlx_int4_g64", "o.gguf", "*", "E0804", "GGUF has no type for mlx_int4_g64"),
        ("q4_0", "o.safetensors", "*", "E0804", "no dialect of safetensors holds gguf_q4_0"),
        ("q4_k", "o.gguf", "*", "E0804", "no tensor can be gguf_q4_k: .*not a multiple of 256"),
        ("kv_int8", "o.safetensors", "*", "E0804", "no dialect"),
    ],
)
def test_requests_that_cannot_be_met(source, tmp_path, fmt, out, only, error, message):
    with pytest.raises(KernelError, match=message) as caught:
        run(source, tmp_path / out, fmt, (only,))
    assert caught.value.id == error
    assert [p.name for p in tmp_path.iterdir()] == ["in.gguf"]


def test_what_an_output_cannot_hold(tmp_path: Path):
    held = {"a.weight": quantize(W["a.weight"], "gguf_q4_0"), "b.weight": W["b.weight"]}
    write_gguf(tmp_path / "in.gguf", held)
    with pytest.raises(KernelError, match=r"tensor a.weight, byte \d+: safetensors cannot hold"):
        run(tmp_path / "in.gguf", tmp_path / "o.safetensors", "mxfp4", ("b.*",))
    write(tmp_path, {"a.weight": W["a.weight"], "flag": np.zeros(3, np.uint8)})
    with pytest.raises(KernelError, match=r"tensor flag, byte \d+: GGUF cannot hold"):
        run(tmp_path / "model.safetensors", tmp_path / "o.gguf", "q4_0")


def test_the_journal_says_what_was_done(source: Path, tmp_path: Path):
    out = tmp_path / "out.gguf"

    def stop(name: str, count: int) -> None:
        if name == "b.weight":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert(make_plan(source, out, "q4_0"), out, stop)
    held = json.loads((tmp_path / "out.gguf.part.json").read_text())
    assert [row["name"] for row in held["done"]] == ["a.weight"]


def test_a_folder_of_shards(tmp_path: Path):
    folder = tmp_path / "model"
    for name in NAMES[:2]:
        write(folder, {name: W[name]}).rename(folder / f"{name}.safetensors")
    held = {name: f"{name}.safetensors" for name in NAMES[:2]}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": held}))
    out = tmp_path / "out.safetensors"
    results, _ = run(folder, out, "mlx_int4_g32")
    assert [r.name for r in results] == list(NAMES[:2])
    back = read_safetensors(out)
    for name in NAMES[:2]:
        want = quantize(W[name], "mlx_int4_g32").decode()
        assert np.array_equal(back.weight(name).decode(), want)
