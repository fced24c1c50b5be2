"""Runs on disk: written and read back, refused when they are something else; receipts."""

import json
import subprocess
from pathlib import Path

import pytest

from iron.bench import receipt, snapshot
from iron.bench.tree import Tree, clean, tree
from iron.errors import KernelError
from tests.unit.bench.rows import peer, row

MACHINE = {"device": "AMD EPYC(TM) 9B14 96-Core"}


def run(*rows, commit="a" * 40, dirty=False):
    return snapshot.document("cpu", rows, [], MACHINE, Tree(commit, dirty))


def test_a_run_comes_back(tmp_path: Path):
    found = run(row(), row(kernel="other", peers=[peer(2e-3)]))
    snapshot.save(found, tmp_path / "deep" / "run.json")
    back = snapshot.load(tmp_path / "deep" / "run.json")
    assert back["commit"] == "a" * 40
    assert [r["kernel"] for r in back["rows"]] == ["twice", "other"]
    assert back["rows"][1]["figures"]["verdict"] == "AHEAD"
    assert back["ceilings"]["copy"] == 40e9
    assert snapshot.text_of(back) == (tmp_path / "deep" / "run.json").read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [("not json", "no snapshot"), ("[]", "no rows"), ('{"rows": [], "schema": 99}', "schema 99")],
)
def test_other_files_are_refused(tmp_path: Path, text: str, why: str):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(KernelError, match=why) as caught:
        snapshot.load(tmp_path / "x.json")
    assert caught.value.id == "E0801"


def test_a_missing_file_and_an_impossible_folder(tmp_path: Path):
    with pytest.raises(KernelError, match="E0801"):
        snapshot.load(tmp_path / "absent.json")
    (tmp_path / "file").write_text("")
    with pytest.raises(KernelError, match="E0802"):
        snapshot.save(run(row()), tmp_path / "file" / "x.json")


def test_names_for_folders():
    assert snapshot.slug(MACHINE) == "amd-epyc-9b14-96-core"
    assert snapshot.slug({"device": "NVIDIA H200"}) == "nvidia-h200"
    assert snapshot.slug({}) == "unknown"


# --- receipts -------------------------------------------------------------------------------------


def test_a_receipt_lies_by_device_and_backend(tmp_path: Path):
    path = receipt.write(tmp_path / "kept", run(row()))
    assert path == tmp_path / "kept" / "amd-epyc-9b14-96-core" / "cpu.json"
    (found,) = receipt.receipts(tmp_path / "kept")
    assert (found.device, found.backend, found.level) == ("amd-epyc-9b14-96-core", "cpu", "ran")


def test_runs_of_one_commit_make_one_receipt(tmp_path: Path):
    receipt.write(tmp_path, run(row(1e-3), row(1e-3, kernel="other")))
    receipt.write(tmp_path, run(row(2e-3)))
    (found,) = receipt.receipts(tmp_path)
    medians = {r["kernel"]: r["time"]["median"] for r in found.document["rows"]}
    assert medians["twice"] == pytest.approx(2e-3, rel=0.02)
    assert medians["other"] == pytest.approx(1e-3, rel=0.02)


@pytest.mark.parametrize("later", [{"commit": "b" * 40}, {"dirty": True}])
def test_runs_of_other_trees_replace_it(tmp_path: Path, later: dict):
    receipt.write(tmp_path, run(row(), row(kernel="other")))
    receipt.write(tmp_path, run(row(), **later))
    (found,) = receipt.receipts(tmp_path)
    assert [r["kernel"] for r in found.document["rows"]] == ["twice"]


def test_a_fault_is_part_of_the_receipt_until_the_row_runs(tmp_path: Path):
    fault = {"kernel": "twice", "tags": "f32", "shape": "N=4Mi", "kind": "crash", "text": "SIGSEGV"}
    broken = snapshot.document("cpu", [], [fault], MACHINE, Tree("a" * 40))
    receipt.write(tmp_path, {**broken, "ceilings": None})
    (found,) = receipt.receipts(tmp_path)
    assert found.document["faults"] == [fault]


# --- the tree -------------------------------------------------------------------------------------


def git(folder: Path, *arguments: str) -> None:
    who = ("-c", "user.name=n", "-c", "user.email=e@x")
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_figures_tie_to_a_commit(tmp_path: Path):
    assert tree(tmp_path) == Tree("none")
    git(tmp_path, "init")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-m", "x")
    found = clean(tmp_path)
    assert len(found.commit) == 40
    assert not found.dirty
    (tmp_path / "a").write_text("2")
    with pytest.raises(KernelError, match="--allow-dirty"):
        clean(tmp_path)
    assert clean(tmp_path, allow_dirty=True) == Tree(found.commit, True)


def test_receipts_leave_a_tree_clean(tmp_path: Path):
    """So that a device can be measured in parts."""
    git(tmp_path, "init")
    for name in ("own/a", "own/baselines/cpu/cpu.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("1")
    git(tmp_path, "add", "own")
    git(tmp_path, "commit", "-m", "x")
    project = tmp_path / "own"
    (project / "baselines" / "cpu" / "cpu.json").write_text("2")
    (project / "baselines" / "new.json").write_text("3")
    assert not clean(project).dirty
    (tmp_path / "baselines").write_text("not this project's")
    with pytest.raises(KernelError, match="--allow-dirty"):
        clean(project)


def test_receipts_in_a_given_folder_leave_a_tree_clean(tmp_path: Path):
    """Inside of the tree, where git would name its folders alone, and outside of it."""
    git(tmp_path, "init", "own")
    project, inside, outside = (tmp_path / name for name in ("own", "own/out", "out"))
    (project / "a").write_text("1")
    git(project, "add", "a")
    git(project, "commit", "-m", "x")
    receipt.write(inside, run(row()))
    receipt.write(outside, run(row()))
    assert not clean(project, receipts=inside).dirty
    with pytest.raises(KernelError, match="--allow-dirty"):
        clean(project, receipts=outside)  # what lies inside is nobody's receipt then
    (inside / "amd-epyc-9b14-96-core" / "cpu.json").unlink()
    assert not clean(project, receipts=outside).dirty
    for other in ("out/cpu.json", "out/amd/deep/cpu.json", "out/amd/code.py", "b"):
        (project / other).parent.mkdir(parents=True, exist_ok=True)
        (project / other).write_text("x")
        with pytest.raises(KernelError, match="--allow-dirty"):
            clean(project, receipts=inside)
        (project / other).unlink()


def test_a_copy_without_history_is_told_its_commit(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("IRON_COMMIT", "d" * 40)
    assert clean(tmp_path) == Tree("d" * 40)


def test_a_receipt_of_an_earlier_commit(tmp_path: Path):
    git(tmp_path, "init")
    kept = tmp_path / "kept"
    receipt.write(kept, run(row(1e-3)))
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "x")
    receipt.write(kept, run(row(2e-3), commit="b" * 40))
    old = receipt.committed(kept, MACHINE, "cpu", "HEAD")
    assert old is not None
    assert old["rows"][0]["time"]["median"] == pytest.approx(1e-3, rel=0.02)
    assert receipt.committed(kept, {"device": "other"}, "cpu", "HEAD") is None
    assert receipt.committed(tmp_path / "elsewhere", MACHINE, "cpu", "HEAD") is None
    assert json.loads(snapshot.text_of(old))["commit"] == "a" * 40
