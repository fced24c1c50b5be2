"""The pages of what ran where, `docs/tested-devices.md` and `docs/performance.md`, from receipts.

`python -m iron.report.devices_page` writes them; a test refuses pages that the receipts outgrew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

from iron.bench import ceilings as ceilings_of
from iron.bench.receipt import LEVELS, Receipt, receipts
from iron.bench.snapshot import derived
from iron.bench.tree import RECEIPTS
from iron.emit.targets import FAMILIES
from iron.report.units import digits, microseconds, percent, times

ROOT: Final = Path(__file__).parents[2]

DEVICES_HEAD = """\
# Tested devices

This page is generated from the receipts in `baselines/` by `python -m iron.report.devices_page`.
`iron bench --receipt` writes a receipt; nobody edits one. One that was written elsewhere, with
`--baselines FOLDER`, counts once its `<device>/<backend>.json` is copied there.

*ran here*: kernels were verified on the device and then timed. *compiled only*: the target's own
compiler or assembler took them. *emitted only*: their text is made and checked, not compiled.

"""

ROWS_HEAD = """\
# Performance

This page is generated from the receipts in `baselines/` by `python -m iron.report.devices_page`.
What each column means, and what it does not, is said in [measuring](measuring.md).

"""

RANK: Final = {name: rank for rank, name in enumerate(LEVELS)}


def devices(found: Sequence[Receipt]) -> str:
    """The page of devices."""
    lines = [DEVICES_HEAD + "| backend | state | device |", "|---|---|---|"]
    for backend in _backends(found):
        own = sorted((r for r in found if r.backend == backend), key=lambda r: RANK[r.level])
        if own:
            state, names = LEVELS[own[0].level], ", ".join(_device(r) for r in own)
        else:
            state, names = LEVELS[_level(backend)], ""
        lines.append(f"| {backend} | {state} | {names} |")
    lines += ["", "## Receipts", ""]
    heads = ("device", "backend", "driver, compiler", "commit", "date", "kernels right", "rows")
    lines += _table(heads, [_receipt(r) for r in found])
    return "\n".join(lines) + "\n"


def _backends(found: Sequence[Receipt]) -> list[str]:
    return list(dict.fromkeys([*FAMILIES, *(r.backend for r in found)]))


def _level(backend: str) -> str:
    """What is done with a backend's kernels on machines without its device."""
    family = FAMILIES[backend]
    beyond = [s for suffixes in family.kinds.values() for s in suffixes if s != family.text]
    return "compiled" if beyond else "emitted"


def _device(receipt: Receipt) -> str:
    return str(receipt.document["machine"].get("device", receipt.device))


def _receipt(receipt: Receipt) -> list[str]:
    found, machine = receipt.document, receipt.document["machine"]
    wrong = {f["kernel"] for f in found["faults"]}
    right = {r["kernel"] for r in found["rows"]} - wrong
    tools = [f"{n} {machine[n]}" for n in ("driver", "nvrtc", "llvmlite") if n in machine]
    return [
        _device(receipt),
        receipt.backend,
        ", ".join(tools),
        f"`{found['commit'][:12]}`{' (dirty)' if found['dirty'] else ''}",
        found["created"][:10],
        f"{len(right)} of {len(right | wrong)}",
        str(len(found["rows"])),
    ]


# --- rows -----------------------------------------------------------------------------------------

COLUMNS: Final = ("op", "shape", "dtype", "Iron us", "best peer us", "peer/Iron", "limit us",
                  "limit/Iron", "error", "verdict")  # fmt: skip


def performance(found: Sequence[Receipt]) -> str:
    """The page of rows: one table a receipt, no row left out."""
    lines = [ROWS_HEAD.rstrip("\n")]
    for receipt in (r for r in found if r.document["rows"]):
        document = receipt.document
        top = ceilings_of.read(document["ceilings"])
        lines += [
            "",
            f"## {receipt.backend} on {_device(receipt)}",
            "",
            f"{document['created'][:10]}, commit `{document['commit'][:12]}`. Measured in the run: "
            f"copy {digits(top.copy / 1e9)} GB/s,",
            f"read {digits(top.read / 1e9)} GB/s, f32 arithmetic {digits(top.flops / 1e9)} "
            f"GFLOP/s, empty launch {microseconds(top.launch)} us.",
            "",
            *_table(COLUMNS, _rows(document)),
        ]
    return "\n".join(lines) + "\n"


def _rows(document: dict[str, Any]) -> Iterable[list[str]]:
    for row, (of, doubts) in zip(document["rows"], derived(document), strict=True):
        tags = row["tags"].split(",")
        consts = ",".join(t for t in tags if "=" in t)
        peer = f"{microseconds(of.best.time.median)} {of.best.name}" if of.best else ""
        yield [
            row["kernel"] + (f" {consts}" if consts else ""),
            row["shape"],
            ",".join(t for t in tags if "=" not in t),
            microseconds(of.time.median),
            peer,
            times(of.ratio),
            microseconds(of.limit),
            percent(of.share),
            digits(row["verified"]["worst"]),
            of.words + (f" ({'; '.join(doubts)})" if doubts else ""),
        ]
    for fault in document["faults"]:
        blank = [""] * 6
        why = fault["text"].splitlines()[0] if fault["text"] else ""
        state = f"not timed ({fault['kind']}): {why}"
        yield [fault["kernel"], fault["shape"], fault["tags"], *blank, state]


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    held = ["| " + " | ".join(map(_plain, row)) + " |" for row in rows]
    if not held:
        return ["None yet."]
    return ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads), *held]


def _plain(cell: str) -> str:
    """A cell's text that ends no column and begins no link."""
    return cell.replace("|", "\\|").replace("](", "]\\(")


def main(arguments: list[str]) -> int:
    """Writes both pages below the given folder, or below this project's; 0."""
    root = Path(arguments[0]) if arguments else ROOT
    found = list(receipts(root / RECEIPTS))
    (root / "docs" / "tested-devices.md").write_text(devices(found), "utf-8")
    (root / "docs" / "performance.md").write_text(performance(found), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
