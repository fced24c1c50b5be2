"""The table's rows state enough for everything that reads them."""

import pytest

from iron.dtypes import bool_, f32, i32
from iron.ir import ops as _rows  # noqa: F401
from iron.ir.core import Value
from iron.ir.table import TABLE, OpDef, OpTypeError, Trait, defop, elementwise
from iron.ir.types import element

ROWS = list(TABLE.values())


def faults(row: OpDef) -> list[str]:
    """What a row leaves unsaid."""
    letters = row.sig.split("->")[0].split()
    pure_elementwise = row.has(Trait.PURE) and row.has(Trait.ELEMENTWISE)
    expanded = row.has(Trait.EXPANDED)
    rules = {
        "its doc is a sentence": row.doc.endswith("."),
        "its signature matches its operands": not row.sig or len(letters) == len(row.operands),
        "a row with a signature is pure and elementwise": not row.sig or pure_elementwise,
        "a row with a signature takes some kind": not row.sig or bool(row.kinds),
        "expanded rows, and no others, have a float64 truth": expanded == (row.truth is not None),
        "an expanded row states its bound": not expanded or row.ulp > 0,
        "an elementwise row has a meaning": not pure_elementwise or expanded or bool(row.ref),
        "a row with regions says how many": not row.has(Trait.REGION) or row.regions > 0,
        "a commutative row has two operands": not row.has(Trait.COMMUTATIVE)
        or len(row.operands) == 2,
        "units are of kinds it takes": set(row.unit) <= set(row.kinds),
    }
    return [rule for rule, holds in rules.items() if not holds]


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_row_says_what_is_needed(row):
    assert faults(row) == []
    assert TABLE[row.name] is row


@pytest.mark.parametrize("row", elementwise(), ids=lambda r: r.name)
def test_inference_of_signatures(row):
    letters, out = row.sig.split("->")
    kinds = {"f": f32, "i": i32}
    for kind, t in kinds.items():
        args = [Value(bool_ if letter == "b" else t) for letter in letters.split()]
        attrs = (f32,) if out == "x" else ()
        if kind not in row.kinds:
            with pytest.raises(OpTypeError):
                row.infer(args, attrs, ())
            continue
        (result,) = row.infer(args, attrs, ())
        assert element(result) is {"T": t, "b": bool_, "x": f32}[out]


def bad(**changes) -> OpDef:
    facts = {"doc": "Something.", "sig": "T T->T", "kinds": "f", "ref": max}
    facts |= {"traits": Trait.PURE | Trait.ELEMENTWISE}
    name = "planted"
    try:
        return defop(name, "a b", **{**facts, **changes})
    finally:
        TABLE.pop(name, None)


@pytest.mark.parametrize(
    "changes",
    [
        {"doc": "no sentence"},
        {"sig": "T->T"},
        {"traits": Trait.ELEMENTWISE, "ref": None},
        {"kinds": ""},
        {"ref": None},
        {"unit": {"i": 1}},
        {"truth": max},
    ],
)
def test_a_row_that_leaves_something_unsaid_is_seen(changes):
    assert faults(bad()) == []
    assert len(faults(bad(**changes))) == 1


def test_a_second_row_of_one_name_is_refused():
    with pytest.raises(ValueError, match="twice"):
        defop("add", "a b", sig="T T->T", kinds="f", doc="Again.")
