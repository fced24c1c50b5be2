"""The suite's plugin: what did not run is named, and fails a run in CI; so does the budget."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = {
    "tests/fast/test_one.py": "def test_a(): pass\n\ndef test_b(): pass\n",
    "tests/odd/test_two.py": (
        "import pytest\n\ndef test_c(): pass\n\n@pytest.mark.slow\ndef test_d(): pass\n"
    ),
    "pytest.ini": "[pytest]\ntestpaths = tests\nmarkers =\n  slow\n",
}
SKIPPED = "import pytest\n\ndef test_s():\n    pytest.skip('no such tool')\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(suite: Path, *arguments: str, ci: bool = True, budget: float = 60) -> tuple[int, str]:
    code = (
        "import sys, pytest, tools.roads as roads\n"
        f"roads.BUDGET_CPU_SECONDS = {budget}\n"
        "sys.exit(pytest.main(['-q', '-p', 'tools.roads', *sys.argv[1:]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=suite,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CI": "true" if ci else ""},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_a_whole_run_is_right(suite: Path):
    status, text = run(suite)
    assert status == 0, text
    lines = {line.split()[0]: line.split() for line in text.splitlines() if " tests " in line}
    assert lines["fast"][1] == "2"
    assert lines["odd"][1] == "1"
    assert lines["total"][1] == "3"
    assert "3 passed, 1 deselected" in text
    assert {line.split()[3] for line in text.splitlines() if " CPU s tests/" in line} == {
        *("tests/fast/test_one.py", "tests/odd/test_two.py"),
    }
    assert "not run: 1 tests: slow, they wait for --full (make full)" in text


def test_the_switch_opens_what_waits(suite: Path):
    text = run(suite, "--full")[1]
    assert "4 passed" in text
    assert "not run" not in text


def test_a_skip_is_named_and_fails_in_ci(suite: Path):
    (suite / "tests/odd/test_skip.py").write_text(SKIPPED)
    status, text = run(suite)
    assert status == 1
    assert "FAILED skipped: tests/odd/test_skip.py::test_s: Skipped: no such tool" in text
    status, text = run(suite, ci=False)
    assert status == 0
    assert "not run: 1 tests: Skipped: no such tool" in text


def test_an_idle_road_is_named_and_fails_in_ci(suite: Path):
    (suite / "tests/silent").mkdir()
    (suite / "tests/silent/test_none.py").write_text("")
    status, text = run(suite)
    assert status == 1
    assert "FAILED road silent did not run" in text
    assert run(suite, ci=False)[0] == 0
    assert run(suite, "tests/fast")[0] == 0


def test_over_budget_fails_everywhere(suite: Path):
    status, text = run(suite, ci=False, budget=0)
    assert status == 1
    assert "over the budget" in text
    status, text = run(suite, "--full", ci=False, budget=0)
    assert status == 0, text


def test_a_failure_stays_a_failure(suite: Path):
    (suite / "tests/fast/test_bad.py").write_text("def test_x(): assert False\n")
    status, text = run(suite)
    assert status == 1
    assert "1 failed" in text


def test_the_table_adds_up_over_processes(suite: Path):
    status, text = run(suite, "-n", "2")
    assert status == 0, text
    assert "total" in text
    assert "3 passed" in text
    assert "not run: 1 tests: slow" in text
