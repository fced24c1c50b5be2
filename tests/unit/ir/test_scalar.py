"""Every row with a meaning x dtype x all pairs of special values, against independent truths."""

import itertools
import random
from fractions import Fraction

import numpy as np
import pytest

from iron.dtypes import DTYPES, DType, bool_, f16, f32, i32, u64
from iron.ir import ops as _rows  # noqa: F401
from iron.ir import scalar
from iron.ir.table import TABLE, OpDef, elementwise
from tests.unit.ir import truth
from tests.unit.ir.specials import SPECIALS, array, canonical, plain, ties

KINDS = {"f": [f32], "b": [bool_], "i": [], "u": [], "s": list(truth.STORAGE)}
for _t in DTYPES.values():
    if _t.is_integer:
        KINDS[_t.kind].append(_t)

ROWS = [
    (row, t)
    for row in elementwise()
    if row.ref is not None and row.name != "cast"
    for kind in row.kinds
    for t in KINDS[kind]
]


def operands(row: OpDef, t: DType) -> list[list]:
    """For each operand the values it takes over the whole product of special values."""
    letters = row.sig.split("->")[0].split()
    values = SPECIALS[t.name]
    if len(letters) == 3 and t.is_float and "b" not in letters:
        values = thinned(values)
    each = [SPECIALS["bool"] if letter == "b" else values for letter in letters]
    return [list(column) for column in zip(*itertools.product(*each), strict=True)]


def thinned(values: list) -> list:
    keep = {0, 1, 0x7FFFFF, 0x800000, 0x3F7FFFFF, 0x3F800000, 0x3F800001, 0x3F800002, 0x40000000}
    keep |= {
        0x7F7FFFFF,
        0x7F800000,
        0x7FC00000,
        0x4B800000,
        0x4B7FFFFF,
        0x3F000000,
        0x3F800800,
        0x19000000,
    }
    return [v for v in values if v & 0x7FFFFFFF in keep]


def wrong(row: OpDef, t: DType, ref) -> list[tuple]:
    """Operands for which `ref` differs from the truth."""
    letters, out = row.sig.split("->")
    columns = operands(row, t)
    types = [bool_ if letter == "b" else t for letter in letters.split()]
    result = bool_ if out == "b" else t
    with scalar.quiet():
        got = ref(*(array(c, u) for c, u in zip(columns, types, strict=True)))
    assert got.dtype == result.np
    true = truth.row(row.name, t)
    if t.kind == "s":  # only `where` takes storage floats
        true = truth.FLOAT[row.name]
    want = [canonical(true(*args), result) for args in zip(*columns, strict=True)]
    have = plain(got, result)
    return [a for a, g, w in zip(zip(*columns, strict=True), have, want, strict=True) if g != w]


@pytest.mark.parametrize(("row", "t"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_row_on_all_pairs_of_special_values(row, t):
    assert wrong(row, t, row.ref)[:5] == []


@pytest.mark.parametrize(("row", "t"), ROWS, ids=lambda v: getattr(v, "name", v))
def test_scalars_and_arrays_agree(row, t):
    columns = [c[:: max(1, len(c) // 40)] for c in operands(row, t)]
    letters = row.sig.split("->")[0].split()
    types = [bool_ if letter == "b" else t for letter in letters]
    arrays = [array(c, u) for c, u in zip(columns, types, strict=True)]
    with scalar.quiet():
        together = row.ref(*arrays)
        for i, args in enumerate(zip(*arrays, strict=True)):
            single = row.ref(*args)
            assert isinstance(single, np.generic)
            assert single.dtype == together.dtype
            same = single.tobytes() == together[i].tobytes()
            assert same or (single != single and together[i] != together[i])


WRONG = {
    "max keeps the first zero": ("max", f32, lambda a, b: np.where((a >= b) | (a != a), a, b)),
    "min ignores a NaN": ("min", f32, np.fmin),
    "np.floor_divide by zero": ("floordiv", i32, lambda a, b: np.where(b == 0, -1, a // b)),
    "truncating division": ("floordiv", i32, lambda a, b: np.where(b == 0, 0, np.fix(a / b))),
    "shift not taken modulo": ("shl", i32, lambda a, b: np.where(b > 31, 0, scalar.shl(a, b))),
    "fma rounded twice": ("fma", f32, lambda a, b, c: a * b + c),
    "fma in f64": ("fma", f32, lambda a, b, c: (a.astype("f8") * b + c).astype("f4")),
    "rint away from zero": ("rint", f32, lambda a: np.trunc(a + np.copysign(np.float32(0.5), a))),
    "a zero loses its sign": ("sign", f32, np.sign),
    "logical shift": ("shr", i32, lambda a, b: scalar.shr(a.view("u4"), b.view("u4")).view("i4")),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_meaning_is_seen(name):
    row, t, ref = WRONG[name]
    with np.errstate(all="ignore"):
        assert wrong(TABLE[row], t, lambda *a: np.asarray(ref(*a)).astype(ref_type(row, t)))


def ref_type(row: str, t: DType):
    return np.bool_ if TABLE[row].sig.endswith("b") else t.np


CASTS = list(itertools.product(DTYPES.values(), repeat=2))


@pytest.mark.parametrize(("a", "b"), CASTS, ids=lambda t: t.name)
def test_cast_of_every_special_value(a, b):
    values = SPECIALS[a.name] + (ties() if a is f32 else [])
    have = plain(np.asarray(scalar.cast(array(values, a), b)), b)
    want = [canonical(truth.cast(v, a, b), b) for v in values]
    assert [(v, h, w) for v, h, w in zip(values, have, want, strict=True) if h != w] == []


@pytest.mark.parametrize("t", truth.STORAGE, ids=lambda t: t.name)
def test_storage_floats_round_trip_and_ties_go_to_even(t):
    every = list(range(1 << 16))
    wide = scalar.cast(array(every, t), f32)
    assert plain(wide, f32) == [canonical(truth.convert(v, t, f32), f32) for v in every]
    assert plain(scalar.cast(wide, t), t) == [canonical(v, t) for v in every]


LITERALS = [0, 1, -1, 255, 256, 2**31, 2**53 + 1, 2**64 - 1, -(2**63), 2**100]
LITERALS += [2**24 + 1, (2**24 + 1) * 2**30 + 1, -((2**24 + 1) * 2**30 + 1)]


@pytest.mark.parametrize("t", DTYPES.values(), ids=lambda t: t.name)
def test_literal_integers(t):
    for v in LITERALS:
        (have,) = plain(np.asarray([scalar.cast(v, t)]), t)
        assert have == truth.cast(v, i32 if t is not i32 else u64, t), v


@pytest.mark.parametrize("t", DTYPES.values(), ids=lambda t: t.name)
def test_literal_floats(t):
    values = [0.0, -0.0, 0.5, 1.5, 2.5, -0.75, 1e30, -1e30, 1 + 2.0**-24, float("inf"), 1e-46]
    for v in [*values, float("nan")]:
        wide = literal_f32(v)
        (have,) = plain(np.asarray([scalar.cast(v, t)]), t)
        if t.is_integer:
            assert have == (0 if v != v else max(t.min, min(t.max, int(np.clip(v, -1e40, 1e40)))))
        elif t.kind == "b":
            assert have == (v != 0)
        else:
            assert have == canonical(truth.cast(wide, f32, t), t)


def literal_f32(v: float) -> int:
    sign = int(np.signbit(v))
    special = "nan" if v != v else "inf" if abs(v) == float("inf") else Fraction(abs(v))
    return truth.encode(sign, special, f32)


def test_fma_of_random_values_near_cancellation():
    rng = random.Random(0)
    a = [rng.getrandbits(32) for _ in range(4000)]
    b = [rng.getrandbits(32) for _ in range(4000)]
    c = []
    for x, y in zip(a, b, strict=True):
        product = truth.f_mul(x, y) ^ 0x80000000
        c.append((product + rng.randrange(-2, 3)) & 0xFFFFFFFF)
    for third in (c, [rng.getrandbits(32) for _ in a]):
        with scalar.quiet():
            have = plain(scalar.fma(*(array(v, f32) for v in (a, b, third))), f32)
        want = [canonical(truth.f_fma(*v), f32) for v in zip(a, b, third, strict=True)]
        assert have == want


def test_bitcast_keeps_bits_at_every_width():
    words = np.array([0x80000001, 0x7F800000, 0xDEADBEEF, 0], np.uint32)
    assert scalar.bitcast(words, f32).tobytes() == words.tobytes()
    halves = scalar.bitcast(words, f16)
    assert halves.shape == (8,)
    assert halves.tobytes() == words.tobytes()
    assert scalar.bitcast(halves, DTYPES["u32"]).tolist() == words.tolist()
    assert scalar.bitcast(np.uint32(0x3F800000), f32) == np.float32(1)


def test_the_case_banks_divisions_and_shifts():
    a = np.array([7, -7, 7, -7, -6, -1])
    b = np.array([2, 2, -2, -2, 2, 8])
    for t in ("i8", "i16", "i32", "i64"):
        x, y = a.astype(DTYPES[t].np), b.astype(DTYPES[t].np)
        assert scalar.floordiv(x, y).tolist() == [3, -4, -4, 3, -3, -1]
        assert scalar.mod(x, y).tolist() == [1, 1, -1, -1, 0, 7]
    assert scalar.shl(np.int32(1), np.int32(31)) == -(2**31)
    assert [int(scalar.shl(np.int32(1), np.int32(n))) for n in (32, 40, -1)] == [1, 256, -(2**31)]
    assert scalar.shl(np.uint8(200), np.uint8(1)) == 144
