"""`iron build` and `iron emit` on a project: rows, red rows, and bytes that are always the same."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest

from iron.cli.app import run
from iron.emit.manifest import schema

ROOT = Path(__file__).parents[3]

KERNELS = '''"""Two of one factory, one with a choice."""
import numpy as np
from iron.lang import ELT, EXACT, Const, In, Out, dims, each, f32, group_sum, groups, kernel
from iron.lang import require, strided
R, N = dims("R N")

def scaled(factor):
    @kernel
    def scale(x: In[f32, N], y: Out[f32, N]):
        """y = factor x."""
        (i,) = each(N)
        y[i] = x[i] * factor

    @scale.oracle
    def _(x):
        return {"y": x * factor}, {"y": np.abs(x)}

    @scale.case(N=[3, 8], tol=ELT)
    def _(rng, N):
        return {"x": rng.normal(N)}

    scale.bench(N=1024)
    return scale

twice, thrice = scaled(2.0), scaled(3.0)

@kernel(choose={"VEC": {"gpu": [4, 1], "cpu": [1, 4]}})
def copy_rows(x: In[f32, R, N], y: Out[f32, R, N], *, VEC: Const = 1, THREADS: Const = 64):
    """y = x."""
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "N must be a multiple of VEC")
    for i in strided(N, VEC):
        y[row, i : i + VEC] = x[row, i : i + VEC]

@copy_rows.oracle
def _(x):
    return {"y": x}

@copy_rows.case(R=[2], N=[8], tol=EXACT)
def _(rng, R, N):
    return {"x": rng.normal(R, N)}

copy_rows.bench(R=2, N=1024)
'''

BAD = '''

@kernel
def outlaw(x: In[f32, N], y: Out[f32, N]):
    """Nothing."""
    (i,) = each(N)
    y[i] = x[i] and 1

@outlaw.oracle
def _(x):
    return {"y": x}

@outlaw.case(N=[3], tol=EXACT)
def _(rng, N):
    return {"x": rng.normal(N)}

outlaw.bench(N=1024)
'''


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [n for n in os.environ if n.startswith("IRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("IRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("IRON_JOBS", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    home = tmp_path / "mine"
    (home / "own").mkdir(parents=True)
    (home / "own" / "__init__.py").write_text("")
    (home / "own" / "kernels.py").write_text(KERNELS)
    (home / "pyproject.toml").write_text('[tool.iron]\nkernels = ["own"]\n')
    monkeypatch.chdir(home)
    return home


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def emitted(project: Path, seed: int) -> dict[str, bytes]:
    command = (
        sys.executable,
        "-m",
        "iron",
        "emit",
        "--targets",
        "cpu,cuda:sm_90a,hip,metal,vulkan",
    )
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    command += ("-o", "out")
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return files(project / "out")


def test_artefacts_are_the_same_bytes_in_two_processes_and_places(project: Path):
    elsewhere = project.parent / "elsewhere"
    shutil.copytree(project, elsewhere)
    first, second = emitted(project, 1), emitted(elsewhere, 2)
    assert first == second
    manifest = json.loads(first["manifest.json"])
    jsonschema.validate(manifest, schema())
    named = {f["path"] for k in manifest["kernels"] for t in k["targets"] for f in t["files"]}
    hosts = {"c/iron_kernels.c", "c/iron_kernels.h", "swift/IronKernels.swift", "metal/build.sh"}
    assert named | hosts | {"manifest.json"} == set(first)
    # Each file under the symbol of its kernel.
    for kernel in manifest["kernels"]:
        for target in kernel["targets"]:
            assert all(kernel["symbol"] in file["path"] for file in target["files"])


def test_two_closures_of_one_factory_get_two_symbols(project: Path):
    assert run(["emit", "-f", "twice", "-f", "thrice", "--targets", "cpu", "-o", "out"]) == 0
    found = json.loads(Path("out/manifest.json").read_text())["kernels"]
    symbols = {k["symbol"] for k in found}
    assert len(symbols) == 2
    assert {k["name"] for k in found} == {"scale"}
    # One alias for both would name neither.
    assert {k["alias"] for k in found} == symbols


def test_a_kernel_that_cannot_be_built_is_one_red_row_and_nothing_is_written(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    with (project / "own" / "kernels.py").open("a") as file:
        file.write(BAD)
    before = sorted(os.listdir(project))
    assert run(["build", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    red = [row for row in told["rows"] if row["faults"]]
    assert [row["kernel"] for row in red] == ["outlaw"]
    assert "E0109" in red[0]["faults"][0]["text"]
    assert {row["kernel"] for row in told["rows"]} == {"twice", "thrice", "copy_rows", "outlaw"}
    assert run(["emit", "-o", "out"]) == 1
    assert sorted(os.listdir(project)) == before


def test_choices_are_alternatives_in_order_of_preference(project: Path):
    assert run(["emit", "-f", "copy_rows", "--emit", "ir", "-o", "out"]) == 0
    found = json.loads(Path("out/manifest.json").read_text())["kernels"]
    order = {k["consts"]["VEC"]: k["targets"][0]["preference"] for k in found}
    assert order == {1: 0, 4: 1}
    assert {k["choice_of"] for k in found} == {"iron_copy_rows"}
    assert {k["alias"] for k in found} == {"iron_copy_rows_vec1", "iron_copy_rows_vec4"}


BAD_USAGE: dict[str, Callable[[], list[str]]] = {
    "--emit and --out": lambda: ["build", "--emit", "c"],
    "no `exe`": lambda: ["emit", "--emit", "exe", "-o", "out"],
    "no target `tpu`": lambda: ["build", "--targets", "tpu"],
    "no artefact directory": lambda: ["emit", "-o", "own"],
}


@pytest.mark.parametrize("said", BAD_USAGE)
def test_bad_usage_is_named(project: Path, capsys: pytest.CaptureFixture[str], said: str):
    assert run(BAD_USAGE[said]()) in (1, 2)
    assert said in capsys.readouterr().err.replace("\n", " ")
    assert not (project / "out").exists()


def test_nothing_chosen_is_bad_usage(project: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["emit", "-f", "nowhere", "-o", "out"]) == 2
    assert "no kernel matches" in capsys.readouterr().out
    assert not (project / "out").exists()


def test_the_same_code_shows_no_difference_and_other_code_does(
    project: Path, capsys: pytest.CaptureFixture[str]
):
    assert run(["snap", "--code", "--targets", "cpu,cuda", "-o", "before"]) == 0
    assert "8 texts for cpu:x86-64-v3, cuda:sm_80 in before" in capsys.readouterr().out
    file = project / "own" / "kernels.py"
    # Places in the source are no part of the code.
    file.write_text(file.read_text().replace("def scaled(factor", "\n\ndef scaled(factor"))
    assert run(["diff", "--code", "before"]) == 0
    assert "no difference in 8 texts" in capsys.readouterr().out
    file.write_text(file.read_text().replace("THREADS: Const = 64", "THREADS: Const = 128"))
    assert run(["diff", "--code", "before", "-f", "vec4 cuda"]) == 1
    shown = capsys.readouterr().out
    assert '-extern "C" __global__ void __launch_bounds__(64) iron_copy_rows_vec4(' in shown
    assert '+extern "C" __global__ void __launch_bounds__(128) iron_copy_rows_vec4(' in shown
    assert "1 of 8 texts differ" in shown
