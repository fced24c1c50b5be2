"""Generated code is what was read and agreed to: about thirty texts, compared line by line."""

import difflib
from pathlib import Path

import pytest

from tests.golden.texts import HERE, hosts, pairs, written

PAIRS = list(pairs())
ADVICE = "if the new text is right: python -m tests.golden, then read the difference"


def difference(path: Path, now: str) -> str:
    """Empty when the file holds `now`."""
    before = path.read_text().splitlines() if path.exists() else []
    lines = list(difflib.unified_diff(before, now.splitlines(), "golden", "now", lineterm=""))
    return "\n".join([*lines, ADVICE]) if lines or not path.exists() else ""


@pytest.mark.parametrize(("target", "name"), PAIRS)
def test_the_text_is_the_golden_one(target: str, name: str):
    assert difference(*written(target, name)) == ""


def test_the_hosts_are_the_golden_ones():
    for path, text in hosts().items():
        assert difference(path, text) == ""


def test_every_golden_text_is_made():
    made = {written(target, name)[0] for target, name in PAIRS} | set(hosts())
    held = {p for p in HERE.glob("*/*") if p.is_file() and p.parent.name != "__pycache__"}
    assert held == made
    assert len(PAIRS) >= 20


def test_a_changed_text_is_seen():
    path, text = written(*PAIRS[0])
    assert difference(path, text.replace("\n", "\n\n", 1)).endswith(ADVICE)
    assert difference(HERE / "cuda" / "nothing.cu", "") != ""
