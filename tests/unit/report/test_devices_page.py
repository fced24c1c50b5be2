"""The pages of what ran where are what the receipts say, and every row is on them."""

from pathlib import Path

import pytest

from iron.bench import receipt
from iron.bench.snapshot import document
from iron.bench.tree import RECEIPTS, Tree
from iron.emit.targets import FAMILIES
from iron.report.devices_page import COLUMNS, devices, main, performance
from tests.unit.bench.rows import peer, row

ROOT = Path(__file__).parents[3]
TREE = Tree("c" * 40)


@pytest.mark.parametrize(
    ("name", "page"), [("tested-devices", devices), ("performance", performance)]
)
def test_pages_are_what_the_receipts_say(name: str, page):
    held = (ROOT / "docs" / f"{name}.md").read_text()
    assert held == page(list(receipt.receipts(ROOT / RECEIPTS))), (
        "run `python -m iron.report.devices_page`"
    )


def test_receipts_are_as_the_program_wrote_them():
    from iron.bench.snapshot import load, text_of

    for path in (ROOT / "baselines").glob("*/*.json"):
        assert text_of(load(path)) == path.read_text(), path


@pytest.fixture
def project(tmp_path: Path) -> Path:
    fault = {
        "kernel": "broken",
        "tags": "f32",
        "shape": "N=1",
        "kind": "crash",
        "text": "x[f32](N=1)",
    }
    rows = [row(peers=[peer(2e-3)]), row(0.5e-3, tags="f16,OP=silu", kernel="other")]
    run = document("cpu", rows, [fault], {"device": "Box 1", "llvmlite": "0.50"}, TREE)
    receipt.write(tmp_path / RECEIPTS, run)
    emitted = document("metal", [], [], {"device": "Apple M1"}, TREE)
    receipt.write(tmp_path / RECEIPTS, emitted, level="emitted")
    (tmp_path / "docs").mkdir()
    return tmp_path


def test_every_backend_says_what_was_done_with_it(project: Path):
    text = devices(list(receipt.receipts(project / RECEIPTS)))
    assert "| cpu | ran here | Box 1 |" in text
    assert "| metal | emitted only | Apple M1 |" in text
    for name in FAMILIES:
        assert f"| {name} | " in text
    assert "| Box 1 | cpu | llvmlite 0.50 | `cccccccccccc` |" in text
    assert "2 of 3" in text


def test_no_row_is_dropped(project: Path):
    text = performance(list(receipt.receipts(project / RECEIPTS)))
    lines = [t for t in text.splitlines() if t.startswith("| ")]
    assert lines[0] == "| " + " | ".join(COLUMNS) + " |"
    assert len(lines) == 1 + 3
    assert lines[1].startswith("| twice | N=4Mi | f32 | ")
    assert "AHEAD" in lines[1]
    assert "what the memory can" in next(t for t in lines if t.startswith("| other OP=silu"))
    assert lines[-1].endswith("not timed (crash): x[f32]\\(N=1) |")


def test_what_a_fault_says_is_no_link(project: Path):
    """A page's links lead somewhere; the label of a call looks like one."""
    text = performance(list(receipt.receipts(project / RECEIPTS)))
    assert "x[f32]\\(N=1)" in text
    assert "](N=1)" not in text


def test_pages_are_written(project: Path):
    assert main([str(project)]) == 0
    assert "Box 1" in (project / "docs" / "tested-devices.md").read_text()
    assert "AHEAD" in (project / "docs" / "performance.md").read_text()
