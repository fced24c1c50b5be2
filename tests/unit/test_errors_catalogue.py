"""Every id of the catalogue has a bad and a good example in docs/errors.md, and they are right."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from iron.errors import CATALOGUE, KernelError
from tests.docs.blocks import ROOT, Block, Session, blocks

PAGE = ROOT / "docs" / "errors.md"
HEADING = re.compile(r"^### (E\d{4}): (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    """What the page holds on one id."""

    title: str
    line: int
    bad: tuple[Block, ...]
    good: tuple[Block, ...]


def sections(text: str) -> tuple[Block, dict[str, Section]]:
    """The prelude, and the section of each id."""
    found = [b for b in blocks(text) if b.kind == "python"]
    (prelude,) = [b for b in found if "prelude" in b.words]
    heads = [(text[: m.start()].count("\n") + 1, m[1], m[2]) for m in HEADING.finditer(text)]
    ends = [line for line, _, _ in heads[1:]] + [len(text)]
    out: dict[str, Section] = {}
    for (line, id, title), end in zip(heads, ends, strict=True):
        assert id not in out, f"{id} has two sections"
        inside = [b for b in found if line < b.line < end]
        bad = tuple(b for b in inside if "bad" in b.words)
        good = tuple(b for b in inside if "good" in b.words)
        assert len(bad) + len(good) == len(inside), f"{id}: a block is neither bad nor good"
        out[id] = Section(title, line, bad, good)
    return prelude, out


PRELUDE, SECTIONS = sections(PAGE.read_text())


def run(block: Block, folder: Path) -> None:
    """Runs the prelude and then the block, as if they were one file."""
    import iron

    session = Session(PAGE, folder)
    with iron.use(None):
        session.run([PRELUDE, block])


def test_every_id_has_a_section_and_no_other():
    assert list(SECTIONS) == list(CATALOGUE)
    assert {id: s.title for id, s in SECTIONS.items()} == CATALOGUE


def test_every_id_is_raised_somewhere():
    sources = [p for p in (ROOT / "iron").rglob("*.py") if p.name != "errors.py"]
    text = "\n".join(p.read_text() for p in sources)
    assert [id for id in CATALOGUE if f'"{id}"' not in text] == []


@pytest.mark.parametrize("id", CATALOGUE)
def test_every_section_has_both_examples(id: str):
    assert SECTIONS[id].bad
    assert SECTIONS[id].good


@pytest.mark.parametrize("id", SECTIONS)
def test_the_bad_example_raises_exactly_that(id: str, tmp_path: Path):
    for block in SECTIONS[id].bad:
        with pytest.raises(KernelError) as caught:
            run(block, tmp_path)
        assert caught.value.id == id, str(caught.value)
        assert caught.value.diagnostic.message


@pytest.mark.parametrize("id", SECTIONS)
def test_the_good_example_runs(id: str, tmp_path: Path):
    for block in SECTIONS[id].good:
        run(block, tmp_path)


def test_a_page_that_swaps_examples_is_seen(tmp_path: Path):
    section = SECTIONS["E0404"]
    with pytest.raises(KernelError):
        run(section.bad[0], tmp_path)
    run(section.good[0], tmp_path)
    _, swapped = sections(PAGE.read_text().replace("python bad", "python good"))
    assert not swapped["E0404"].bad
