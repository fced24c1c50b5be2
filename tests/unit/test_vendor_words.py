"""Hardware is data: what compiles for every target knows no vendor's name or term."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

IRON = Path(__file__).parents[2] / "iron"
NEUTRAL = ("analysis", "elementary", "front", "ir", "lang", "passes", "tiles", "compiler.py")
WORDS = re.compile(
    r"\b(cuda|hip|metal|nvidia|amd|apple|intel|warps?|threadgroups?|wavefronts?|cdna|rdna"
    r"|sm_\d+a?|gfx\d+)\b",
    re.IGNORECASE,
)
ALLOWED = {
    "compiler.py": {"sm_90"},  # the one target that has a road of its own, in tiles/sm90
    "ir/ops/ring.py": {"nvidia"},  # the table of atoms whose layout an op's operands have
}


def neutral_files() -> Iterator[Path]:
    for name in NEUTRAL:
        root = IRON / name
        found = [root] if root.is_file() else sorted(root.rglob("*.py"))
        yield from (p for p in found if "sm90" not in p.relative_to(IRON).parts)


def words(text: str) -> set[str]:
    """The vendor words in a text, in lower case."""
    return {w.lower() for w in WORDS.findall(text)}


@pytest.mark.parametrize(
    "path", list(neutral_files()), ids=lambda p: p.relative_to(IRON).as_posix()
)
def test_no_vendor_word(path: Path) -> None:
    name = path.relative_to(IRON).as_posix()
    assert words(path.read_text()) - ALLOWED.get(name, set()) == set()


def test_a_vendor_word_is_found() -> None:
    assert words('if target.has("cuda"): ...  # a warp of an sm_90a') == {"cuda", "warp", "sm_90a"}
    assert words("swarm, hipster, apples, gfxless") == set()
