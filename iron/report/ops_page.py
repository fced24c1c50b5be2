"""The reference page of the op table, `docs/ops.md`; nothing on it is written by hand.

`python -m iron.report.ops_page` writes it; a test refuses a page that the table has outgrown.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

from iron.dtypes import DTYPES
from iron.ir import ops
from iron.ir.table import OpDef, Trait

TITLES = {
    "arith": "Arithmetic, comparison and bits",
    "convert": "Conversion and vectors",
    "memory": "Memory",
    "control": "Control",
    "group": "Groups",
    "tile": "Tiles",
    "copy": "Copies beside the threads",
    "matrix": "Products of simdgroups",
    "fragment": "Opaque matrices of simdgroups",
    "ring": "Rings and products of warpgroups",
    "elementary": "Elementary functions",
}
_KINDS = {"f": "floats", "s": "storage floats", "i": "signed", "u": "unsigned", "b": "bool"}
_TRAITS = {
    Trait.PURE: "pure",
    Trait.COMMUTATIVE: "commutative",
    Trait.COLLECTIVE: "collective",
    Trait.READS: "reads",
    Trait.WRITES: "writes",
    Trait.HINT: "a hint",
}

HEAD = """\
# The ops of the IR

This page is generated from the op table (`iron/ir/ops/`) by `python -m iron.report.ops_page`.

A row of the table states an op's operands, types and meaning once; verification, folding, the
text form, the interpreter, the random programs and the backends read it. A trailing `*` stands for
any number of operands. In a signature `T` is one dtype of the listed kinds, `b` is bool, and `x` is
the dtype that the attribute names; operands may also be vectors of one length or tiles of one
shape. What an integer or a cast does at its edges is stated in `iron/ir/scalar.py`.
"""


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD, _kinds()]
    for topic, title in TITLES.items():
        parts.append(_section(title, getattr(ops, topic)))
    return "\n".join(parts)


def _kinds() -> str:
    lines = ["| kind | dtypes |", "|---|---|"]
    for kind, title in _KINDS.items():
        names = ", ".join(t.name for t in DTYPES.values() if t.kind == kind)
        lines.append(f"| {title} | {names} |")
    return "\n".join(lines) + "\n"


def _section(title: str, topic: ModuleType) -> str:
    rows = [row for row in vars(topic).values() if isinstance(row, OpDef)]
    bounded = any(row.ulp for row in rows)
    intro = (topic.__doc__ or "").strip()
    head = ["op", "operands", "attributes", "types", *(["ULP"] if bounded else []), "meaning"]
    lines = [f"## {title}", "", intro, "", _line(head), _line(["---"] * len(head))]
    for row in rows:
        bound = [f"{row.ulp:g}"] if bounded else []
        cells = [f"`{row.name}`", _words(row.operands), _words(row.attrs), _types(row)]
        lines.append(_line([*cells, *bound, _meaning(row)]))
    return "\n".join(lines) + "\n"


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _words(names: tuple[str, ...]) -> str:
    return " ".join(f"`{name}`" for name in names)


def _types(row: OpDef) -> str:
    if not row.sig:
        return ""
    left, right = row.sig.split("->")
    kinds = ", ".join(_KINDS[k] for k in row.kinds)
    return f"`{left.strip()} -> {right.strip()}`: {kinds}"


def _meaning(row: OpDef) -> str:
    traits = [name for trait, name in _TRAITS.items() if row.has(trait)]
    if row.regions:
        traits.append(f"{row.regions} region{'s' if row.regions > 1 else ''}")
    return f"{row.doc} *{', '.join(traits)}*" if traits else row.doc


def main(argv: list[str]) -> int:
    """Writes the page to the path given, or to `docs/ops.md`."""
    Path(argv[0] if argv else "docs/ops.md").write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
