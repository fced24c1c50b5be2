"""What to write instead: help for what Python has and a kernel does not."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from iron import lang

NODES: dict[str, str] = {
    "While": "every loop is a bounded `for`; leave it early with `if c: ...; break`",
    "Continue": "put the rest of the body under an `if`",
    "Assert": "state a precondition with `require(condition, message)`",
    "FunctionDef": "define it outside, marked @inline",
    "Import": "import at the top of the file",
    "ImportFrom": "import at the top of the file",
    "NamedExpr": "assign on a line of its own",
    "AnnAssign": "leave the annotation out; a value has the dtype of what made it",
    "Try": "nothing in a kernel raises",
    "Raise": "state a precondition with `require(condition, message)`",
    "Dict": "make it outside and pass it as a Const",
    "Set": "use a tuple",
}
"""By the class of a node of the tree."""

CALLS: dict[str, str] = {
    "float": "convert a value with `f32(x)`",
    "int": "convert a value with `i32(x)`",
    "bool": "compare it with 0",
    "print": "write it to an `Out`, and print that after the call",
    "round": "`rint` of iron.lang rounds a value",
}
"""By the name of a function that computes with Python's own numbers."""


def for_call(name: str) -> str:
    """What takes run-time values where the Python function `name` takes none."""
    if name in lang.__all__:
        return f"`{name}` of iron.lang takes run-time values"
    return CALLS.get(name, "")


def for_name(name: str, known: Iterable[str]) -> str:
    """The names nearest to one that is not defined, or where it is to be imported from."""
    if name in lang.__all__:
        return f"`from iron.lang import {name}`"
    near = difflib.get_close_matches(name, [n for n in known if not n.startswith("__")], 2)
    return f"did you mean {' or '.join(f'`{n}`' for n in near)}?" if near else ""
