"""Every `python` and `console` block of the README and of docs/ runs, in an empty folder."""

import re
from pathlib import Path

import pytest

from tests.docs.blocks import PAGES, ROOT, Session, blocks, check_output, commands

ERRORS = ROOT / "docs" / "errors.md"
RUN = [p for p in PAGES if p != ERRORS]
KINDS = {"python", "console", "output", "text", "sh", "toml", "json", "ini", ""}


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", RUN, ids=label)
def test_page_runs(page: Path, tmp_path: Path):
    Session(page, tmp_path).run(blocks(page.read_text()))


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_page_is_well_formed(page: Path):
    text = page.read_text()
    unknown = {b.kind for b in blocks(text)} - KINDS
    assert not unknown, f"blocks of unknown kind: {unknown}"
    generated = "This page is generated" in text
    for number, line in enumerate([] if generated else text.splitlines(), 1):
        assert len(line) <= 100 or "|" in line or "](" in line, f"line {number} is too long"


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path):
    for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for name in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE):
            assert name in targets, f"{label(page)}: make {name}"


def session(tmp_path: Path, text: str) -> Session:
    made = Session(Path("page.md"), tmp_path)
    made.run(blocks(text))
    return made


def test_blocks_share_a_session_and_keep_line_numbers(tmp_path: Path):
    text = "# T\n\n```python\nx = 2\n```\n\n```python\nprint(x + 1)\n```\n```output\n3\n```\n"
    assert session(tmp_path, text).space["x"] == 2
    with pytest.raises(ZeroDivisionError) as fault:
        session(tmp_path, "a\nb\n```python\n1 / 0\n```\n")
    assert fault.traceback[-1].lineno + 1 == 4


def test_console_shares_a_folder_and_a_place(tmp_path: Path):
    session(
        tmp_path,
        "```console\n$ mkdir a && cd a\n$ pwd\n.../a\n$ ls\n```\n"
        "```python file=m.py\nprint('mine')\n```\n"
        "```console\n$ python m.py\nmine\n$ false\n$ echo $?\n1\n```\n",
    )


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert 1 == 2\n```\n",
        "```python\nprint(1)\n```\n```output\n2\n```\n",
        "```console\n$ echo 1\n2\n```\n",
        "```console\n$ false\n```\n",
        "```console\n$ (exit 3)\n$ echo $?\n1\n```\n",
        "```console\nno command\n```\n",
        "```python\nx = 1\n",
    ],
)
def test_a_wrong_page_is_seen(tmp_path: Path, text: str):
    with pytest.raises((AssertionError, ValueError)):
        session(tmp_path, text)


def test_ellipsis_spans_lines():
    check_output("a ... d\ne", "a b\nc d\ne\n", "here")
    with pytest.raises(AssertionError):
        check_output("a ... d", "a b\nc\n", "here")


def test_commands_of_a_block():
    (block,) = blocks("```console\n$ one\nx\ny\n$ two\n```\n")
    assert commands(block) == [("one", "x\ny\n", ("two", ""), 2), ("two", "", ("", ""), 5)]
