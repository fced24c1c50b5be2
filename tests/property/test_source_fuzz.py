"""Random sources mean the same to the compiler and to Python; planted faults are found."""

import subprocess
import sys
from pathlib import Path

import pytest

from iron.front import loops, statements
from tests.property import source_programs
from tests.property.source_programs import Node, failure, judge, shrink

SEEDS = (3, 11, 101)
ROOT = Path(__file__).parents[2]


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
def test_compiled_sources_agree_with_python(seed: int):
    assert failure(seed, ROOT / "build" / "fuzz", ("interpreter", "cpu")) == ""


def test_crossed_branches_are_found_shrunk_and_replayable(monkeypatch, tmp_path: Path):
    right = statements.branch

    def crossed(trace, condition, then, other, names):
        right(trace, condition, other, then, names)

    nodes = [
        Node("f2 += 1.0"),
        Node("if thread > 3:", [Node("pass"), Node("i2 = i0")], [Node("else:", [Node("i0 += 1")])]),
        Node("xs[0] = f0"),
    ]
    path = tmp_path / "source.py"
    with monkeypatch.context() as planted:
        planted.setattr(statements, "branch", crossed)
        wrong = judge(nodes, path)
        assert "Python gives" in wrong
        small = shrink(nodes, path, wrong)
    assert sum(len(list(n.lines(0))) for n in small) <= 4
    command = [sys.executable, str(path)]
    replayed = subprocess.run(command, cwd=ROOT, env={"PYTHONPATH": "."}, capture_output=True)
    assert replayed.returncode == 0, replayed.stderr.decode()


def test_a_failing_seed_says_how_to_replay_it(monkeypatch, tmp_path: Path):
    def wrong(nodes, path, seed=0, roads=()):
        path.write_text(source_programs.source(nodes, path))
        return "y[0] differs: Python gives 1"

    monkeypatch.setattr(source_programs, "judge", wrong)
    said = failure(7, tmp_path, ("interpreter",))
    assert said.startswith("seed 7: y[0] differs")
    assert said.endswith(f"replay: PYTHONPATH=. python {tmp_path}/source_7.py")
    assert (tmp_path / "source_7.py").exists()


def test_a_lost_break_is_found(monkeypatch, tmp_path: Path):
    right = loops._breaking

    def going_on(trace, statement, rest):
        return right(trace, statement, rest) and False

    monkeypatch.setattr(loops, "_breaking", going_on)
    body = [Node("if k1 == 1:", [Node("break")]), Node("i0 += 1")]
    wrong = judge([Node("for k1 in range(3):", body)], tmp_path / "source.py")
    assert "Python gives" in wrong
