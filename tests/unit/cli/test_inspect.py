"""`iron inspect` lists kernels and shows one: source, IR between passes, text, counts, files."""

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from iron.cli.app import run
from iron.ir.core import tiled
from iron.ir.parse import parse_kernel
from iron.ir.text import print_kernel
from iron.lang import KernelFunction
from iron.passes import THREAD_PASSES
from iron.worker.discover import kernels, modules

STAGES = ["before", *(name for name, _ in THREAD_PASSES)]
LIBRARY = {n: k for m in modules(("iron.kernels",)) for n, k in kernels(m).items()}


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["inspect", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_it_lists_every_kernel(capsys: pytest.CaptureFixture[str]):
    found = {k["name"]: k for k in document(capsys)["kernels"]}
    assert found.keys() == LIBRARY.keys()
    assert found["rms_norm"]["module"] == "iron.kernels.norm.rms_norm"
    assert run(["inspect"]) == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"^{name} ", text, re.MULTILINE) for name in LIBRARY)


SHOWN = [n for n, k in LIBRARY.items() if isinstance(k, KernelFunction)]
THIRD = [n if i % 3 == 0 else pytest.param(n, marks=pytest.mark.slow) for i, n in enumerate(SHOWN)]


@pytest.mark.parametrize("name", THIRD)
def test_every_kernel_shows_every_text(name: str, capsys: pytest.CaptureFixture[str]):
    shown = document(capsys, name, "--target", "cpu", "--target", "cuda")
    texts = {s["file"]: s["text"] for s in shown["sections"]}
    assert list(texts) == ["cpu.ll", "cuda.cu"]
    assert f"define void @iron_{name}(" in texts["cpu.ll"]
    assert re.search(rf"__global__ .*\biron_{name}\(", texts["cuda.cu"])


def test_the_plain_view_is_source_and_ir(capsys: pytest.CaptureFixture[str]):
    assert run(["inspect", "rms_norm"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("// rms_norm[f32,")
    assert "def rms_norm(" in text
    assert "--- IR before passes" in text
    assert f"--- IR after pass `{STAGES[-1]}`" in text


def test_the_ir_parses_and_each_pass_is_the_one_named(capsys: pytest.CaptureFixture[str]):
    shown = document(capsys, "rms_norm", "--pass", "all")
    files = [s["file"] for s in shown["sections"]]
    assert files == ["source.py", *(f"{i:02}-{name}.ir" for i, name in enumerate(STAGES))]
    texts = [s["text"] for s in shown["sections"][1:]]
    now = parse_kernel(texts[0])
    for (name, apply), text in zip(THREAD_PASSES, texts[1:], strict=True):
        now = apply(now)
        assert print_kernel(now) == print_kernel(parse_kernel(text)), name
    assert "rsqrt" in texts[0]
    assert "rsqrt" not in texts[-1]
    (one,) = document(capsys, "rms_norm", "--pass", "elementary")["sections"]
    assert one["text"] == texts[1 + STAGES[1:].index("elementary")]


def test_stats_count_what_the_ir_has(capsys: pytest.CaptureFixture[str]):
    stats = document(capsys, "rms_norm", "--stats")["stats"]
    assert stats.keys() == set(STAGES)
    (last,) = document(capsys, "rms_norm", "--pass", STAGES[-1])["sections"]
    body = parse_kernel(last["text"]).body
    assert stats[STAGES[-1]] == dict(Counter(op.name for op in body.walk()))
    assert stats["before"]["rsqrt"] == 1
    assert run(["inspect", "rms_norm", "--stats"]) == 0
    before_elementary = STAGES.index("elementary")
    row = r"^rsqrt" + r" +1" * before_elementary + r" +0"
    assert re.search(row, capsys.readouterr().out, re.MULTILINE)


def test_cost_counts_one_thread(capsys: pytest.CaptureFixture[str]):
    assert set(document(capsys, "rms_norm", "--cost")["cost"]) == {
        *("flops", "integer", "read", "written", "live"),
    }
    half = document(capsys, "rms_norm", "--cost", "--dtype", "f16")["cost"]
    full = document(capsys, "rms_norm", "--cost", "--dtype", "f32")["cost"]
    assert 2 * half["read"] == full["read"] > 0
    assert run(["inspect", "rms_norm", "--cost"]) == 0
    assert re.search(r"^flops +[1-9]", capsys.readouterr().out, re.MULTILINE)


def test_tiles_say_where_they_are_kept(capsys: pytest.CaptureFixture[str]):
    asked = ("gemm", "--dtype", "f16", "--target", "cuda:sm_80")
    _, shown = document(capsys, *asked, "--pass", "place")["sections"]
    assert shown["file"] == "place.txt"
    assert "products of simdgroups" in shown["text"]
    lines = [line for line in shown["text"].splitlines() if " staged " in line]
    assert len(lines) == 2
    assert all("an operand of `mma`" in line for line in lines)
    _, made = document(capsys, *asked, "--pass", "tiles")["sections"]
    assert "simd_mma" in made["text"]
    assert not tiled(parse_kernel(made["text"]))
    _, general = document(capsys, "gemm", "--pass", "place")["sections"]
    assert "walked by loops" in general["text"]


RINGED = ("--dtype", "bf16", "--variant", "BM=128", "--variant", "BN=128", "--variant", "BK=64")


def test_each_pass_of_rings_says_what_it_decided(capsys: pytest.CaptureFixture[str]):
    def text(name: str, stage: str, *asked: str) -> str:
        given = (name, *asked, "--target", "cuda:sm_90a", "--pass", stage)
        _, found, *_ = document(capsys, *given)["sections"]
        assert found["file"] == f"sm90-{stage}.txt"
        return found["text"]

    gemm = (*RINGED, "--variant", "TA=0", "--variant", "TB=1", "--variant", "CONSUMERS=2")
    place = text("gemm", "place", *gemm)
    assert place.count("ring 0, 128 x 64") == 2
    assert "registers, 64 a thread  none  the result of `mma`" in place
    assert re.search(
        r"^0 +0 1 +\d+ +bf16 128 x 64, bf16 128 x 64 ", text("gemm", "ring", *gemm), re.MULTILINE
    )
    assert "as it was; no product that needs another" in text("gemm", "skew", *gemm)
    assert re.search(r"^consumer +2 x 128 ", text("gemm", "roles", *gemm), re.MULTILINE)
    order = text("gemm", "await", *gemm)
    at = [order.index(w) for w in ("ring_claim", "ring_copy", "ring_wait", "wgmma ", "wgmma_wait")]
    assert at == sorted(at)
    assert "no fault is found" in order
    heads = ("--dtype", "bf16", "--variant", "BM=128", "--variant", "BN=128")
    attention = (*heads, "--variant", "OVERLAP=1", "--variant", "CAUSAL=True")
    assert "the last product runs beside the next turn's first" in text(
        "sdpa_prefill", "skew", *attention
    )
    assert "two loops; 1 masks drop nothing" in text("sdpa_prefill", "peel", *attention)
    held = r"registers +none +a computed factor of `mma`"
    assert re.search(held, text("sdpa_prefill", "place", *attention))


def test_a_pass_of_rings_elsewhere_is_refused(capsys: pytest.CaptureFixture[str]):
    for asked, why in (
        (("--dtype", "bf16", "--target", "cuda:sm_80"), "sm_80 has no rings"),
        (("--dtype", "f32", "--target", "cuda:sm_90a"), "a factor is f32"),
    ):
        assert run(["inspect", "gemm", *asked, "--pass", "ring"]) != 0
        assert why in capsys.readouterr().err


def test_dtype_and_variant_choose_the_case(capsys: pytest.CaptureFixture[str]):
    half = document(capsys, "softmax", "--dtype", "f16", "--variant", "LOG=True")
    assert half["dtypes"] == {"T": "f16"}
    assert half["consts"]["LOG"] == "True"
    before = next(s["text"] for s in half["sections"] if s["file"] == "00-before.ir")
    assert "f16" in before
    wide = document(capsys, "rms_norm", "--variant", "THREADS=64", "--variant", "VEC=1")
    assert (wide["threads"], wide["consts"]["VEC"]) == (64, "1")
    assert "VEC=1" in wide["case"]


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    out = tmp_path / "new" / "place"
    assert run(["inspect", "copy", "--pass", "all", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert len(list(out.iterdir())) == len(STAGES) + 1
    assert str(out / "source.py") in printed
    assert "def copy(" not in printed
    assert "def copy(" in (out / "source.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["softmx"], "did you mean `softmax`"),
        (["norm"], "rms_norm"),
        (["zebra"], "`iron inspect` lists the kernels"),
        (["softmax", "--pass", "ded"], "it takes all, fuse"),
        (["softmax", "--pass", "place"], "`softmax` has no tiles"),
        (["softmax", "--target", "tpu"], "targets are cpu:"),
        (["softmax", "--dtype", "i8"], "dtype: f32, f16"),
        (["softmax", "--variant", "LOG"], "is not K=V"),
        (["softmax", "--variant", "LOG=perhaps"], "LOG: False, True"),
        (["softmax", "--variant", "LOGG=True"], "no case of `softmax` has"),
    ],
)
def test_bad_usage(arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]):
    assert run(["inspect", *arguments]) == 2
    shown = capsys.readouterr()
    assert "E0803" in shown.err
    assert told in shown.err
    assert shown.out == ""


def test_a_plan_has_source_only(capsys: pytest.CaptureFixture[str]):
    plans = [n for n, k in LIBRARY.items() if not isinstance(k, KernelFunction)]
    assert plans
    assert [s["file"] for s in document(capsys, plans[0])["sections"]] == ["source.py"]
    assert run(["inspect", plans[0], "--target", "cpu"]) == 2
    assert "is a plan" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "file").write_text("")
    assert run(["inspect", "copy", "-o", str(tmp_path / "file")]) == 1
    assert "E0802" in capsys.readouterr().err


def test_a_project_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert run(["init", "inspected"]) == 0
    monkeypatch.chdir("inspected")
    bad = tmp_path / "inspected" / "inspected" / "kernels" / "bad.py"
    assert document(capsys, "scaled_add")["kernel"] == "scaled_add"
    bad.write_text("import no_such_module\n")
    assert run(["inspect"]) == 1
    shown = capsys.readouterr()
    assert "scaled_add" in shown.out
    assert "no_such_module" in shown.err


def test_help_has_an_example(capsys: pytest.CaptureFixture[str]):
    assert run(["inspect", "--help"]) == 0
    assert "Example:" in capsys.readouterr().out
