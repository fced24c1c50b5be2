"""A run as one HTML file: the roofline, and a table that sorts by any column.

Nothing is loaded from elsewhere. A column is sorted by a click on its head, or on arrival by the
address's `#sort=NUMBER`, with a minus for falling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from iron.bench import ceilings as ceilings_of
from iron.bench.metrics import Figures
from iron.bench.snapshot import Document, derived
from iron.report.roofline import Dot, roofline
from iron.report.units import digits, microseconds, percent, times

STYLE = """
:root { color-scheme: light dark; --ink: #1c1e21; --paper: #fff; --line: #d5d9de; --soft: #6b7280;
  --good: #15803d; --bad: #b91c1c; --even: #1d4ed8; --roof: #b45309; }
@media (prefers-color-scheme: dark) { :root { --ink: #e5e7eb; --paper: #16181c; --line: #33383f;
  --soft: #9ca3af; --good: #4ade80; --bad: #f87171; --even: #93c5fd; --roof: #fbbf24; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.facts, .note { color: var(--soft); }
.roofline { width: 100%; max-width: 760px; }
.roofline text { fill: var(--soft); font-size: 12px; } .roofline .grid { stroke: var(--line); }
.roofline .roof { fill: none; stroke: var(--roof); stroke-width: 2; }
circle { fill: var(--even); fill-opacity: .75; } circle.ahead { fill: var(--good); }
circle.behind { fill: var(--bad); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: .3rem .6rem; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th:nth-child(-n+2), td:nth-child(-n+2), td.word { text-align: left; }
th { cursor: pointer; position: sticky; top: 0; background: var(--paper); }
th[aria-sort=ascending]::after { content: " \\25b2"; }
th[aria-sort=descending]::after { content: " \\25bc"; }
.AHEAD { color: var(--good); } .BEHIND { color: var(--bad); } .doubt { color: var(--roof); }
"""

SCRIPT = """
const table = document.querySelector("table"), heads = [...table.tHead.rows[0].cells];
function sort(column, down) {
  const rows = [...table.tBodies[0].rows], key = row => row.cells[column].dataset.key;
  const numbers = rows.every(row => key(row) === "" || !isNaN(key(row)));
  rows.sort((a, b) => {
    const p = key(a), q = key(b);
    if (p === "" || q === "") return (p === "") - (q === "");
    const order = numbers ? p - q : p.localeCompare(q);
    return down ? -order : order;
  });
  table.tBodies[0].append(...rows);
  heads.forEach((head, i) => i === column
    ? head.setAttribute("aria-sort", down ? "descending" : "ascending")
    : head.removeAttribute("aria-sort"));
}
heads.forEach((head, i) =>
  head.addEventListener("click", () => sort(i, head.ariaSort === "ascending")));
const asked = location.hash.match(/^#sort=(-?)(\\d+)$/);
if (asked && heads[asked[2]]) sort(+asked[2], asked[1] === "-");
"""

HEADS = ("kernel", "size", "us", "GB/s", "GFLOP/s", "op/byte", "best peer", "its us", "peer/iron",
         "limit us", "of limit", "held by", "verdict", "doubts")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell shows, what it sorts by, and how it looks."""

    text: str
    key: float | str | None
    look: str = ""

    def html(self) -> str:
        """The cell."""
        key = "" if self.key is None else escape(str(self.key), quote=True)
        look = f' class="{self.look}"' if self.look else ""
        return f'<td{look} data-key="{key}">{escape(self.text)}</td>'


def page(found: Document) -> str:
    """The whole file."""
    whole = derived(found)
    rows = [_row(row, of, doubts) for row, (of, doubts) in zip(found["rows"], whole, strict=True)]
    machine = found["machine"].get("device", "unknown device")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>iron bench: {escape(machine)}</title>",
        f"<style>{STYLE}</style></head><body>",
        f"<h1>{escape(found['backend'])} on {escape(machine)}</h1>",
        *_facts(found),
        *_plot(found, [of for of, _ in whole]),
        "<h2>Rows</h2>",
        '<div class="scroll"><table><thead><tr>',
        *(f"<th>{escape(h)}</th>" for h in HEADS),
        "</tr></thead><tbody>",
        *("<tr>" + "".join(c.html() for c in cells) + "</tr>" for cells in rows),
        "</tbody></table></div>",
        *_faults(found),
        f"<script>{SCRIPT}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _facts(found: Document) -> list[str]:
    dirty = " with uncommitted changes" if found["dirty"] else ""
    words = escape(found["note"])
    note = f'<p class="note">{words}</p>' if words else ""
    text = f"{found['created']}, commit {found['commit'][:12]}{dirty}"
    if found["ceilings"]:
        top = ceilings_of.read(found["ceilings"])
        text += (
            f"; measured ceilings: copy {digits(top.copy / 1e9)} GB/s, "
            f"read {digits(top.read / 1e9)} GB/s, f32 {digits(top.flops / 1e9)} GFLOP/s, "
            f"empty launch {microseconds(top.launch)} us"
        )
    return [f'<p class="facts">{escape(text)}</p>', note]


def _plot(found: Document, whole: Sequence[Figures]) -> list[str]:
    dots = [
        Dot(
            f"{row['kernel']}[{row['tags']}]({row['shape']})",
            of.intensity,
            1e9 * of.gflops,
            of.verdict,
        )
        for row, of in zip(found["rows"], whole, strict=True)
        if of.intensity and of.gflops
    ]
    if not dots:
        return ['<p class="note">No row declares its operations, so there is no roofline.</p>']
    return ["<h2>Roofline</h2>", roofline(dots, ceilings_of.read(found["ceilings"]))]


def _row(row: Mapping[str, Any], of: Figures, doubts: tuple[str, ...]) -> list[Cell]:
    best = of.best
    name = f"{row['kernel']}[{row['tags']}]"
    peer_time = best.time.median if best else None
    return [
        Cell(name, name, "word"),
        Cell(row["shape"], row["read"] + row["written"], "word"),
        Cell(microseconds(of.time.median), of.time.median),
        Cell(digits(of.rate), of.rate),
        Cell(digits(of.gflops), of.gflops),
        Cell(digits(of.intensity), of.intensity),
        Cell(f"{best.name} {best.version}" if best else "", best.name if best else None, "word"),
        Cell("" if peer_time is None else microseconds(peer_time), peer_time),
        Cell(times(of.ratio), of.ratio),
        Cell(microseconds(of.limit), of.limit),
        Cell(percent(of.share), of.share),
        Cell(of.bottleneck, of.bottleneck, "word"),
        Cell(of.words, of.words or None, f"word {of.verdict}".strip()),
        Cell("; ".join(doubts), "; ".join(doubts) or None, "word doubt"),
    ]


def _faults(found: Document) -> list[str]:
    if not found["faults"]:
        return []
    lines = [
        f"<li>{escape(f['kernel'])}[{escape(f['tags'])}]({escape(f['shape'])}): "
        f"{escape(f['kind'])}: {escape(f['text'])}</li>"
        for f in found["faults"]
    ]
    return ["<h2>Not timed</h2>", "<ul>", *lines, "</ul>"]
