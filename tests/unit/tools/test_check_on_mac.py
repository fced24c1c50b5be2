"""`tools/check_on_mac.sh` without a Mac: its steps, its verdicts, and what it packs."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "check_on_mac.sh"

# What it calls, as scripts that note how they were called. A Metal compiler writes its output.
XCRUN = """#!/bin/sh
echo "xcrun $*" >> "$NOTED"
[ "$3" = "$REFUSED" ] && exit 1
while [ $# -gt 0 ]; do [ "$1" = -o ] && : > "$2"; shift; done
exit 0
"""
SW_VERS = "#!/bin/sh\necho ProductVersion: 15.1\n"
# Stands for Python: `iron emit` leaves one kernel and Iron's own script for the compiler.
PYTHON = """#!/bin/sh
echo "python $*" >> "$NOTED"
[ "$3" = "$BROKEN" ] && { echo "broken on purpose"; exit 1; }
if [ "$3" = emit ]; then
  mkdir -p "$FOLDER/artefacts/metal"
  : > "$FOLDER/artefacts/metal/iron_k.metal"
  cp "$BUILD" "$FOLDER/artefacts/metal/build.sh"
fi
exit 0
"""


def run(tmp_path: Path, *flags: str, python: str = "", **told: str) -> tuple[int, str, list[str]]:
    """Exit status, output and the calls of a run in dry mode."""
    from iron.emit.documents import METALLIB

    tools, noted = tmp_path / "bin", tmp_path / "noted"
    tools.mkdir()
    (tmp_path / "build.sh").write_text(METALLIB)
    for name, text in (("xcrun", XCRUN), ("sw_vers", SW_VERS), ("stub-python", PYTHON)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    known = {"NOTED": str(noted), "FOLDER": str(tmp_path / "mac"), "BROKEN": "", "REFUSED": ""}
    known |= {"BUILD": str(tmp_path / "build.sh"), "PYTHON": python or str(tools / "stub-python")}
    done = subprocess.run(
        ["bash", str(SCRIPT), "--dry", "-o", str(tmp_path / "mac"), *flags],
        env=os.environ | known | told | {"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr, noted.read_text().splitlines()


def test_every_step_runs_and_is_packed(tmp_path: Path):
    status, said, noted = run(tmp_path, "-f", "cast")
    assert status == 0, said
    calls = [" ".join(line.split()[:4]) for line in noted]
    for step in ("iron device", "iron emit", "pytest -q", "iron test", "iron bench"):
        assert f"python -m {step}" in calls
    assert sum(" metal -std=" in line and "-fno-fast-math" in line for line in noted) == 1
    assert sum(" metallib " in line for line in noted) == 1
    assert all("-f cast" in line for line in noted if "-m iron" in line and "device" not in line)
    with tarfile.open(tmp_path / "mac.tar.gz") as packed:
        names = packed.getnames()
    steps = ("machine", "device", "emit", "metallib", "contract", "cases", "benches")
    assert {f"mac/{step}.log" for step in steps} < set(names)
    assert "mac/summary.txt" in names
    assert (tmp_path / "mac" / "machine.log").read_text().startswith("ProductVersion: 15.1")


@pytest.mark.parametrize(
    ("told", "failed"),
    [
        ({"BROKEN": "test"}, "cases"),
        ({"REFUSED": "metal"}, "metallib"),
        ({"BROKEN": "emit"}, "emit"),
    ],
)
def test_a_step_that_fails_is_named_and_the_others_run(tmp_path: Path, told: dict, failed: str):
    status, said, noted = run(tmp_path, **told)
    assert status == 1
    assert f"failed: {failed}" in said
    assert any("-m iron bench" in line for line in noted)
    assert f"{failed:12} FAILED" in (tmp_path / "mac" / "summary.txt").read_text()


def test_without_metal_tools_the_rest_runs(tmp_path: Path):
    status, said, noted = run(tmp_path, REFUSED="--find")
    assert status == 0, said
    assert "xcode-select --install" in said
    assert not any("macosx metal" in line for line in noted)


def test_elsewhere_it_asks_for_dry_mode():
    if sys.platform == "darwin":
        return
    done = subprocess.run(["bash", str(SCRIPT)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "this is no Mac" in done.stdout


@pytest.mark.slow
def test_iron_itself_in_dry_mode(tmp_path: Path):
    """The commands that the script gives are those that Iron takes."""
    status, said, _ = run(tmp_path, "-f", "kv_append", python=sys.executable)
    assert status == 0, said
    rows = json.loads((tmp_path / "mac" / "cases.json").read_text())["rows"]
    assert rows
    assert all(row["ok"] for row in rows)
    assert json.loads((tmp_path / "mac" / "benches.json").read_text())
