"""The page of a run: whole, self-contained, escaped; in a browser it draws and sorts."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from iron.bench import ceilings
from iron.bench.snapshot import document
from iron.bench.tree import Tree
from iron.report.bench_page import HEADS, page
from iron.report.roofline import Axis, Dot, axis, roofline
from iron.report.units import digits, seconds
from tests.unit.bench.rows import CEILINGS, peer, row

ROWS = [
    row(1e-3, kernel="slow", flops=64e6, peers=[peer(2e-3)]),
    row(2e-4, kernel="fast", flops=None, read=1e6, written=1e6),
    row(5e-4, kernel="middle", flops=1e8, peers=[peer(1e-4)]),
]
FAULT = {"kernel": "<bad>", "tags": "f32", "shape": "N=1", "kind": "crash", "text": "a & b"}


def whole(rows=ROWS) -> str:
    return page(document("cpu", rows, [FAULT], {"device": "box <1>"}, Tree("f" * 40), "a note"))


class Cells(HTMLParser):
    """The text of the table's body, row by row, and the tags left open."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list) -> None:
        if tag not in ("meta", "line", "polyline", "br"):
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert tag in ("line", "polyline") or self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "td":
            self.rows[-1][-1] += data


def cells(text: str) -> list[list[str]]:
    parser = Cells()
    parser.feed(text.replace("/>", "></line>"))
    assert parser.open == []
    return [r for r in parser.rows if r]


def test_every_row_and_column_is_there():
    found = cells(whole())
    assert [r[0] for r in found] == ["slow[f32]", "fast[f32]", "middle[f32]"]
    assert {len(r) for r in found} == {len(HEADS)}
    assert "AHEAD" in found[0][12]
    assert "BEHIND" in found[2][12]


def test_nothing_is_loaded_from_elsewhere():
    text = whole()
    assert not re.search(r"(src|href)=|https?://|@import|url\(", text)


def test_text_is_escaped():
    text = whole()
    assert "&lt;bad&gt;" in text
    assert "box &lt;1&gt;" in text
    assert "<bad>" not in text


def test_a_run_without_rows_is_a_page():
    assert "Not timed" in whole([])


# --- the plot -------------------------------------------------------------------------------------


def test_an_axis_is_logarithmic():
    found = axis([0.3, 40], 0, 300)
    assert (found.low, found.high) == (0.1, 100)
    assert found.at(1) == pytest.approx(100)
    assert found.decades() == pytest.approx([0.1, 1, 10, 100])
    assert Axis(1, 10, 200, 0).at(math.sqrt(10)) == pytest.approx(100)


def test_a_dot_on_the_roof_lies_on_the_line():
    top = ceilings.read(CEILINGS)
    dots = [Dot("memory", 1.0, 40e9, "AHEAD"), Dot("arithmetic", 20.0, 200e9, "")]
    text = roofline(dots, top)
    points = re.search(r'polyline class="roof" points="([^"]+)"', text)[1].split()
    (x0, y0), (x1, y1), (_, y2) = (tuple(map(float, p.split(","))) for p in points)
    spots = [tuple(map(float, m)) for m in re.findall(r'cx="([\d.]+)" cy="([\d.]+)"', text)]
    on_slope = y0 + (spots[0][0] - x0) / (x1 - x0) * (y1 - y0)
    assert spots[0][1] == pytest.approx(on_slope, abs=0.3)
    assert spots[1][1] == pytest.approx(y1, abs=0.2) == pytest.approx(y2, abs=0.2)


def test_units():
    assert [seconds(t) for t in (3e-7, 1.234e-5, 0.0456, 9.999e-4, 7.0)] == [
        "300 ns", "12.3 us", "45.6 ms", "1.00 ms", "7.00 s",
    ]  # fmt: skip
    assert [digits(v) for v in (None, 0.0, 1234.6, 12.34, 0.001234)] == [
        "", "0", "1235", "12.3", "0.0012",
    ]  # fmt: skip


# --- in a browser ---------------------------------------------------------------------------------


def opened(file: Path, address: str = "") -> str:
    """The document after its script ran."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium: apt-get install chromium")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    home = f"--user-data-dir={file.parent / 'profile'}"
    done = subprocess.run(
        [browser, *flags, home, "--dump-dom", f"file://{file}{address}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


@pytest.mark.slow
def test_a_browser_draws_and_sorts(tmp_path: Path):
    file = tmp_path / "run.html"
    file.write_text(whole())
    assert [r[0][:4] for r in cells(opened(file))] == ["slow", "fast", "midd"]
    column = HEADS.index("us")
    assert [r[0][:4] for r in cells(opened(file, f"#sort={column}"))] == ["fast", "midd", "slow"]
    falling = opened(file, f"#sort=-{column}")
    assert [r[0][:4] for r in cells(falling)] == ["slow", "midd", "fast"]
    assert 'aria-sort="descending"' in falling
    peers = HEADS.index("best peer")  # rows without one stay last, whichever way
    for sign in ("", "-"):
        assert cells(opened(file, f"#sort={sign}{peers}"))[-1][0] == "fast[f32]"
    assert falling.count("<circle") == 2
