"""`iron build` and `iron emit` on a project: rows, red rows, and bytes that are always the same."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def made(home: Path) -> Path:
    (home / "own").mkdir(parents=True)
    (home / "own" / "__init__.py").write_text("")
    (home / "own" / "kernels.py").write_text(KERNELS)
    (home / "pyproject.toml").write_text('[tool.iron]\nkernels = ["own"]\n')
    return home


@pytest.fixture
def project(tmp_path: Path, settings: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("IRON_JOBS", "1")
    home = made(tmp_path / "mine")
    monkeypatch.chdir(home)
    return home


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def emitted(home: Path, seed: int) -> dict[str, bytes]:
    targets = "cpu,cuda:sm_90a,hip,metal,vulkan"
    command = (sys.executable, "-m", "iron", "emit", "--targets", targets, "-o", "out")
    own = {"PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT), "IRON_JOBS": "1"}
    environment = {**{n: v for n, v in os.environ.items() if not n.startswith("IRON_")}, **own}
    done = subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return files(home / "out")


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Everything that is emitted of the project, by path."""
    return emitted(made(tmp_path_factory.mktemp("first") / "mine"), 1)


@pytest.fixture(scope="module")
def kernels(first: dict[str, bytes]) -> list[dict[str, Any]]:
    """The kernels of its manifest."""
    manifest = json.loads(first["manifest.json"])
    jsonschema.validate(manifest, schema())
    return manifest["kernels"]


def test_artefacts_are_the_same_bytes_in_two_processes_and_places(
    first: dict[str, bytes], kernels: list[dict[str, Any]], tmp_path: Path
):
    assert emitted(made(tmp_path / "elsewhere"), 2) == first
    named = {f["path"] for k in kernels for t in k["targets"] for f in t["files"]}
    hosts = {"c/iron_kernels.c", "c/iron_kernels.h", "swift/IronKernels.swift", "metal/build.sh"}
    assert named | hosts | {"manifest.json"} == set(first)
    # Each file under the symbol of its kernel.
    for kernel in kernels:
        for target in kernel["targets"]:
            assert all(kernel["symbol"] in file["path"] for file in target["files"])


def test_two_closures_of_one_factory_get_two_symbols(kernels: list[dict[str, Any]]):
    scales = [k for k in kernels if k["name"] == "scale"]
    for target in ("cpu:x86-64-v3", "cuda:sm_90a", "vulkan:usual"):
        found = [k for k in scales if target in [t["target"] for t in k["targets"]]]
        assert len({k["symbol"] for k in found}) == 2
        # One alias for both would name neither.
        assert {k["alias"] for k in found} == {k["symbol"] for k in found}


def test_choices_are_alternatives_in_order_of_preference(kernels: list[dict[str, Any]]):
    copies = [k for k in kernels if k["name"] == "copy_rows"]
    assert {k["choice_of"] for k in copies} == {"iron_copy_rows"}
    assert {k["alias"] for k in copies} == {"iron_copy_rows_vec1", "iron_copy_rows_vec4"}
    order = {
        (t["target"].split(":")[0], k["consts"]["VEC"]): t["preference"]
        for k in copies
        for t in k["targets"]
    }
    assert (order["cpu", 1], order["cpu", 4]) == (0, 1)
    assert (order["cuda", 4], order["cuda", 1]) == (0, 1)


@pytest.mark.slow
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


BAD_USAGE: dict[str, Callable[[], list[str]]] = {
    "--emit and --out": lambda: ["build", "--emit", "c"],
    "no `exe`": lambda: ["emit", "--emit", "exe", "-o", "out"],
    "no target `tpu`": lambda: ["build", "--targets", "tpu"],
    "no artefact directory": lambda: ["emit", "-o", "own"],
}


@pytest.mark.slow
@pytest.mark.parametrize("said", BAD_USAGE)
def test_bad_usage_is_named(project: Path, capsys: pytest.CaptureFixture[str], said: str):
    assert run(BAD_USAGE[said]()) in (1, 2)
    assert said in capsys.readouterr().err.replace("\n", " ")
    assert not (project / "out").exists()


@pytest.mark.slow
def test_nothing_chosen_is_bad_usage(project: Path, capsys: pytest.CaptureFixture[str]):
    assert run(["emit", "-f", "nowhere", "-o", "out"]) == 2
    assert "no kernel matches" in capsys.readouterr().err
    assert not (project / "out").exists()


@pytest.mark.slow
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
