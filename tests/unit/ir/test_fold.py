"""Folding changes no bit: every rule, found by trying every row with every special constant."""

import itertools

import numpy as np
import pytest

from iron.dtypes import DTYPES, DType, bool_, f32, i32, u8, u32
from iron.ir import fold as folding
from iron.ir import scalar
from iron.ir.build import Builder
from iron.ir.core import Block, Value, const_of, is_const
from iron.ir.table import OpDef, elementwise
from iron.ir.types import vector
from tests.unit.ir import truth
from tests.unit.ir.specials import SPECIALS, array, plain
from tests.unit.ir.test_scalar import ROWS


def letters(row: OpDef) -> list[str]:
    return row.sig.split("->")[0].split()


def evaluate(block: Block, known: dict[Value, np.ndarray], result: Value) -> np.ndarray:
    with scalar.quiet():
        for op in block.ops:
            args = [known[a] for a in op.args]
            known[op.results[0]] = op.attrs[0] if op.name == "const" else op.row.ref(*args)
    return np.broadcast_to(known[result], np.shape(next(iter(known.values()))))


def differences(row: OpDef, t: DType, operands) -> list[tuple]:
    """Cases in which the folded form of `row` differs from its `ref`.

    `operands(builder)` gives the operands and the variables among them.
    """
    builder = Builder()
    with builder.block() as block:
        args, variables = operands(builder)
        result = builder.emit(row.name, *args)
    columns = list(
        zip(*itertools.product(*(SPECIALS[v.type.name] for v in variables)), strict=True)
    )
    known = {
        v: array(list(c), v.type) for v, c in zip(variables, columns or [[]] * 9, strict=False)
    }
    folded = evaluate(block, dict(known), result)
    with scalar.quiet():
        held = [known.get(a) if a in known else const_of(a) for a in args]
        direct = np.broadcast_to(row.ref(*held), folded.shape)
    elem = result.type
    pairs = zip(plain(folded, elem), plain(direct, elem), strict=True)
    return [pair for pair in pairs if pair[0] != pair[1]]


def fresh(row: OpDef, t: DType) -> list[Value]:
    return [Value(bool_ if letter == "b" else t) for letter in letters(row)]


def one_constant(row: OpDef, t: DType, at: int, bits) -> list[tuple]:
    """The row with the constant `bits` at operand `at` and variables elsewhere."""

    def operands(b: Builder):
        args = fresh(row, t)
        kind = args[at].type
        args[at] = b.const(array([bits], kind)[0], kind)
        return args, [a for i, a in enumerate(args) if i != at]

    return differences(row, t, operands)


def all_differences(row: OpDef, t: DType) -> list:
    """Over every operand held at every special constant, and over equal operands."""
    count, out = len(letters(row)), []
    if count == 1:
        return out
    for at in range(count):
        kind = bool_ if letters(row)[at] == "b" else t
        values = SPECIALS[kind.name]
        if row.name == "fma":
            values = [v for v in values if v & 0x7FFFFFFF in (0, 0x3F800000, 0x7F800000)]
        for bits in values:
            out += [(at, bits, d) for d in one_constant(row, t, at, bits)]
    same = [i for i, letter in enumerate(letters(row)) if letter == "T"]

    def twice(b: Builder):
        args = fresh(row, t)
        for i in same[1:]:
            args[i] = args[same[0]]
        return args, list(dict.fromkeys(args))

    return out + differences(row, t, twice)


@pytest.mark.parametrize(("row", "t"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_folding_with_a_constant_or_with_itself_changes_no_bit(row, t):
    assert all_differences(row, t)[:5] == []


@pytest.mark.parametrize(("row", "t"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_constants_compute_what_the_row_says(row, t):
    values = SPECIALS[t.name]
    chosen = values[:: 1 if len(letters(row)) == 1 else max(1, len(values) // 9)]
    for case in itertools.product(
        *(SPECIALS["bool"] if letter == "b" else chosen for letter in letters(row))
    ):
        b = Builder()
        with b.block():
            kinds = [v.type for v in fresh(row, t)]
            held = [array([c], k)[0] for c, k in zip(case, kinds, strict=True)]
            result = b.emit(row.name, *(b.const(h, k) for h, k in zip(held, kinds, strict=True)))
        assert is_const(result)
        out = bool_ if row.sig.endswith("b") else t
        with scalar.quiet():
            want = np.asarray([row.ref(*held)])
        assert plain(np.asarray([const_of(result)]), out) == plain(want, out)


def planted(name: str, wrong):
    """A fold that is wrong for `name`, in place of the right one."""
    right = folding.fold

    def fold(b, row, args, attrs):
        if row.name == name and (found := wrong(b, args)) is not None:
            return found
        return right(b, row, args, attrs)

    return fold


def constant(value: Value, wanted: float) -> bool:
    return is_const(value) and bool(const_of(value) == wanted)


WRONG = {
    "float x + 0": ("add", f32, lambda b, a: a[0] if constant(a[1], 0) else None),
    "float 0 + x": ("add", f32, lambda b, a: a[1] if constant(a[0], 0) else None),
    "float x - -0": ("sub", f32, lambda b, a: a[0] if constant(a[1], 0) else None),
    "float x * 0": ("mul", f32, lambda b, a: a[1] if constant(a[1], 0) else None),
    "float x - x": ("sub", f32, lambda b, a: b.const(0, f32) if a[0] is a[1] else None),
    "float x == x": ("eq", f32, lambda b, a: b.const(True, bool_) if a[0] is a[1] else None),
    "float x / x": ("div", f32, lambda b, a: b.const(1, f32) if a[0] is a[1] else None),
    "float fmax(x, -inf)": ("fmax", f32, lambda b, a: a[0] if constant(a[1], -np.inf) else None),
    "x // x": ("floordiv", i32, lambda b, a: b.const(1, i32) if a[0] is a[1] else None),
    "0 // x is x": ("floordiv", i32, lambda b, a: a[1] if constant(a[0], 0) else None),
    "x % -1 is x": ("mod", i32, lambda b, a: a[0] if constant(a[1], -1) else None),
    "shift by the width": (
        "shl",
        u32,
        lambda b, a: b.const(0, u32) if constant(a[1], 32) else None,
    ),
    "u8 and 127": ("and", u8, lambda b, a: a[0] if constant(a[1], 127) else None),
    "where takes the other": ("where", f32, lambda b, a: a[2] if constant(a[0], 1) else None),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_planted_wrong_fold_is_seen(name, monkeypatch):
    row, t, wrong = WRONG[name]
    monkeypatch.setattr("iron.ir.build.fold", planted(row, wrong))
    (found,) = [r for r in elementwise() if r.name == row]
    assert all_differences(found, t) != []


FOLDS = [
    ("add", i32, 0), ("add", f32, -0.0), ("sub", f32, 0.0), ("sub", u32, 0), ("mul", f32, 1.0),
    ("mul", i32, 0), ("div", f32, 1.0), ("floordiv", i32, 1), ("and", u32, 0xFFFFFFFF),
    ("and", i32, 0), ("or", u8, 255), ("or", i32, 0), ("xor", u32, 0), ("shl", i32, 0),
    ("shr", u32, 0), ("and", bool_, True), ("and", bool_, False), ("or", bool_, True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "t", "value"), FOLDS)
def test_an_identity_is_taken(name, t, value):
    b, x = Builder(), Value(t)
    with b.block() as block:
        c = b.const(value, t)
        b.emit(name, x, c)
        assert len(block.ops) == 1


def test_nothing_is_folded_without_folding():
    b, x = Builder(fold=False), Value(i32)
    with b.block() as block:
        b.emit("add", x, b.const(0, i32))
        b.emit("add", b.const(1, i32), b.const(1, i32))
    assert [op.name for op in block.ops] == ["const", "add", "const", "const", "add"]


def test_vectors_fold_like_their_elements():
    b, x = Builder(), Value(vector(f32, 4))
    with b.block():
        assert b.emit("mul", x, b.const(1.0, x.type)) is x
        assert b.emit("add", x, b.const(0.0, x.type)) is not x
        total = b.emit("add", b.const(1.0, x.type), b.const(2.0, x.type))
        assert total is b.const(3.0, x.type)


def test_vector_parts_are_found_again():
    b, x = Builder(), Value(vector(i32, 3))
    with b.block():
        parts = [b.emit("extract", x, attrs=(i,)) for i in range(3)]
        assert b.emit("pack", *parts) is x
        assert b.emit("pack", *parts[::-1]) is not x
        assert b.emit("pack", *parts[:2]) is not x
        assert b.emit("extract", b.emit("pack", *parts[::-1]), attrs=(0,)) is parts[2]
        assert b.emit("extract", b.emit("splat", parts[1], attrs=(5,)), attrs=(4,)) is parts[1]


@pytest.mark.parametrize("t", DTYPES.values(), ids=lambda t: t.name)
def test_casting_to_the_same_type_is_nothing(t):
    b, x = Builder(), Value(t)
    with b.block():
        assert b.emit("cast", x, attrs=(t,)) is x


@pytest.mark.parametrize("a", DTYPES.values(), ids=lambda t: t.name)
def test_constant_casts_compute_what_cast_says(a):
    for to, bits in itertools.product(DTYPES.values(), SPECIALS[a.name]):
        b = Builder()
        with b.block():
            result = b.emit("cast", b.const(array([bits], a)[0], a), attrs=(to,))
        (have,) = plain(np.asarray([const_of(result)]), to)
        want = truth.cast(bits, a, to)
        assert have == ("nan" if to.is_float and truth.is_nan(want, to) else want)


def test_bitcast_of_a_constant_of_another_width_is_left():
    b = Builder()
    with b.block():
        assert not is_const(b.emit("bitcast", b.const(1, u32), attrs=(u8,)))
        assert const_of(b.emit("bitcast", b.const(1.0, f32), attrs=(u32,))) == 0x3F800000


def test_constants_are_numbered_by_their_bits():
    b = Builder()
    with b.block():
        assert b.const(0.0, f32) is not b.const(-0.0, f32)
        assert b.const(float("nan"), f32) is b.const(float("nan"), f32)
        assert b.const(1, i32) is not b.const(1, u32)
