"""The vocabulary on numpy: the scalar semantics, weak literals, and refusals."""

import itertools

import numpy as np
import pytest

import iron.lang as lang
from iron.errors import KernelError
from iron.ir import scalar
from iron.ir.table import TABLE
from iron.lang import bf16, f16, f32, i32, u8, u32

RENAMED = {"abs": "absolute", "min": "minimum", "max": "maximum", "pow": "power"}
FLOATS = np.array([0.0, -0.0, 1.5, -2.5, np.inf, -np.inf, np.nan], np.float32)
INTEGERS = np.array([0, 1, -1, 7, 2**31 - 1, -(2**31)], np.int32)


def rows(kind: str) -> list[str]:
    import iron.ir.ops  # noqa: F401

    named = [r for r in TABLE.values() if r.sig and kind in r.kinds]
    return [r.name for r in named if hasattr(lang, RENAMED.get(r.name, r.name))]


@pytest.mark.parametrize("kind", ["f", "i"])
def test_a_function_is_its_row(kind: str):
    values = FLOATS if kind == "f" else INTEGERS
    seen = 0
    for name in rows(kind):
        row, function = TABLE[name], getattr(lang, RENAMED.get(name, name))
        if name in ("where", "cast"):
            continue
        columns = np.array(list(itertools.product(values, repeat=len(row.operands)))).T
        with scalar.quiet():
            if row.ref is not None:
                want = row.ref(*columns)
            else:
                want = row.truth(*columns.astype(np.float64)).astype(np.float32)
        got = function(*columns)
        assert got.dtype == values.dtype, name
        np.testing.assert_array_equal(got, want, err_msg=name)
        seen += 1
    assert seen > 5


def test_python_numbers_stay_python_numbers():
    assert lang.sqrt(4.0) == 2.0
    assert type(lang.sqrt(4.0)) is float
    assert lang.maximum(3, 4) == 4
    assert type(lang.maximum(3, 4)) is int
    assert lang.exp(1.0) == pytest.approx(np.e, rel=1e-15)
    assert lang.clz(1) == 31


def test_a_literal_takes_the_dtype_it_meets():
    assert lang.minimum(u32([1, 5]), 3).dtype == np.uint32
    assert lang.where(np.array([True, False]), f32(1), 0).dtype == np.float32
    assert lang.where(np.array([True, False]), 1, 0).dtype == np.int32
    assert lang.where(np.array([True, False]), 1.0, 0).dtype == np.float32


@pytest.mark.parametrize(
    ("call", "id"),
    [
        (lambda: lang.maximum(f32(1), i32(1)), "E0201"),
        (lambda: lang.exp(f16(1)), "E0201"),
        (lambda: lang.exp(i32(1)), "E0201"),
        (lambda: lang.sqrt(np.float64(1)), "E0201"),
        (lambda: lang.maximum(i32(1), 0.5), "E0202"),
        (lambda: lang.popcount(0.5), "E0202"),
        (lambda: lang.exp(lang.thread), "E0113"),
        (lambda: lang.vec([1, 2]), "E0204"),
        (lambda: lang.dot(i32([1]), i32([1])), "E0201"),
        (lambda: lang.where(True, f32(1), i32(1)), "E0201"),
    ],
)
def test_refusals(call, id):
    with pytest.raises(KernelError) as caught:
        call()
    assert caught.value.id == id


def test_casts_follow_the_language():
    assert u8(300) == 44
    assert i32(f32(np.nan)) == 0
    assert u32(f32(-1.0)) == 0
    assert f32(bf16(1.0)) == 1.0


@lang.inline
def unpack(word, shift, scale):
    return f32((word >> shift) & 15) * scale + lang.where(word == 0, 0.0, scale)


def test_inline_is_one_body_for_scalars_and_arrays():
    words, scale = np.array([0, 0xAB], np.uint32), np.float32(0.5)
    whole = unpack(words, 4, scale)
    assert whole.dtype == np.float32
    np.testing.assert_array_equal(whole, [unpack(w, 4, scale) for w in words])
    np.testing.assert_array_equal(whole, [0.0, 5.5])


def test_inline_wraps_without_a_warning():
    square = lang.inline(lambda x: x * x)
    assert square(np.uint32(2**31 + 1)) == 1  # warnings are errors in this suite


def test_kernel_only_names_are_refused_at_the_callers_line():
    line = test_kernel_only_names_are_refused_at_the_callers_line.__code__.co_firstlineno
    for number, (function, arguments) in enumerate(
        [
            (lang.groups, (1,)),
            (lang.each, (1,)),
            (lang.require, (True,)),
            (lang.strided, (4,)),
            (lang.scratch, (f32, 4)),
            (lang.shared, (4, f32)),
            (lang.barrier, ()),
            (lang.group_sum, (f32(1),)),
            (lang.group_scan, (lang.add, 0, f32(1))),
            (lang.group_xor, (f32(1), 1)),
            (lang.simd_ballot, (True,)),
            (lang.simd_mma, ([], [], [])),
            (lang.atomic_add, (None, 0, 1)),
        ]
    ):
        with pytest.raises(KernelError) as caught:
            function(*arguments)
        loc = caught.value.diagnostic.loc
        assert caught.value.id == "E0113", number
        assert loc.file == __file__
        assert loc.line > line


@pytest.mark.parametrize("name", ["thread", "simd_width", "lane"])
def test_sentinels_have_no_value_on_the_host(name: str):
    sentinel = getattr(lang, name)
    for use in (lambda: sentinel + 1, lambda: 2 * sentinel, lambda: range(sentinel)):
        with pytest.raises(KernelError, match=name):
            use()
