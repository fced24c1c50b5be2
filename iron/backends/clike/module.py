"""Several entries in one source, as an engine loads them: one prelude, and equal tables once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from iron.backends.clike.dialect import Dialect
from iron.backends.clike.render import Text
from iron.errors import Loc

_DECLARED = re.compile(r"(\w+)\[\d+\] = ")


def joined(texts: Sequence[Text], notes: Sequence[str], dialect: Dialect) -> Text:
    """The texts after one another, each under its note. The whole is called by the first."""
    tables: dict[str, str] = {}
    lines: list[str] = []
    places: list[Loc | None] = []
    for text, note in zip(texts, notes, strict=True):
        count = sum(table.count("\n") + 1 for table in text.tables)
        body = "\n".join(text.body.split("\n")[count:])
        head: list[str] = [""] * bool(lines) + [f"// {note}"]
        for table in text.tables:
            declared, body = _placed(table, body, tables)
            head += declared.split("\n") if declared else []
        lines += [*head, *body.split("\n")]
        places += [*[None] * len(head), *text.places[count:]]
    whole = "\n".join(lines)
    prelude = dialect.prelude(whole)
    return replace(texts[0], prelude=prelude, body=whole, places=tuple(places), tables=())


def _placed(table: str, body: str, known: dict[str, str]) -> tuple[str, str]:
    """A table's declaration, empty when it is there already, and the body with its name."""
    found = _DECLARED.search(table)
    assert found is not None
    name, number = found[1], 1
    if known.get(name) == table:
        return "", body
    while name in known or (name != found[1] and re.search(rf"\b{name}\b", body)):
        number += 1
        name = f"{found[1]}_{number}"
    known[name] = table
    if name == found[1]:
        return table, body
    return table.replace(found[1], name, 1), re.sub(rf"\b{found[1]}\b", name, body)
