"""The reference of the op table is up to date and names every row once."""

import re
from pathlib import Path

from iron.ir.ops import arith
from iron.ir.table import TABLE
from iron.report.ops_page import main, page

PAGE = Path(__file__).parents[3] / "docs" / "ops.md"


def test_page_is_what_the_table_says():
    assert PAGE.read_text() == page(), "run `python -m iron.report.ops_page`"


def test_every_row_has_one_line_with_its_meaning():
    text = page()
    named = re.findall(r"^\| `([a-z0-9_]+)` \|", text, re.MULTILINE)
    assert sorted(named) == sorted(TABLE)
    for row in TABLE.values():
        assert row.doc.replace("|", "\\|") in text


def test_changed_row_changes_the_page(monkeypatch, tmp_path: Path):
    before = page()
    monkeypatch.delattr(arith, "fma")
    assert page() != before
    assert main([str(tmp_path / "ops.md")]) == 0
    assert "`fma`" not in (tmp_path / "ops.md").read_text()
