"""The classes are the stated formulas: just inside passes, just outside fails."""

import math

import numpy as np
import pytest

from iron.check.tolerance import CaseError, bound, compare, rounded
from iron.dtypes import bf16, f16, f32, u32
from iron.lang import ATTN, CODEC, DOT, DOT8, ELT, EXACT, RECUR, RED, SOFT, dims, dtypes

U = 2.0**-24
(N,) = dims("N")
T = dtypes("T", f32, f16)
WANT = np.array([1.5, -2.0, 0.0])
ENV = {"N": 1024, "M": 3, "T": f16}


@pytest.mark.parametrize(
    ("tol", "condition", "dtype", "absolute", "relative"),
    [
        (ELT, 10.0, f32, 40 * U, 2 * U + 2e-6),
        (ELT, None, f32, 1e-38, 2 * U + 2e-6),
        (ELT.fast(), 10.0, f16, 40 * U, 2 * 2.0**-11 + 2e-5),
        (RED(1), 10.0, bf16, 80 * U, 2 * 2.0**-8),
        (RED("N"), 10.0, f32, 180 * U, 2 * U),
        (RED(N), 10.0, f32, 180 * U, 2 * U),
        (RED("cdiv(N, 2) * M // 3"), 10.0, f32, 170 * U, 2 * U),
        (DOT, (2.0, 5.0), f32, 16 * U + 20 * U, 2 * U),
        (DOT8, (2.0, 5.0, 0.25), f32, 16 * U + 20 * U + 0.25, 2 * U),
        (DOT.rounded("tf32"), (2.0, 5.0), f32, 16 * 2.0**-11 + 20 * U, 2 * U),
        (DOT.rounded(bf16), (2.0, 5.0), bf16, 16 * 2.0**-8 + 20 * U, 2 * 2.0**-8),
        (SOFT, None, f16, 1e-7, 2 * 2.0**-11 + 1e-5),
        (ATTN, (2.0, 5.0), f32, 16 * U + 5e-5, 2 * U),
        (ATTN.rounded(T), (2.0, 5.0), f16, 16 * 2.0**-11 + 5e-5, 2 * 2.0**-11),
        (ATTN, (2.0, 5.0, 64.0), f32, 16 * U + 5e-5, 2 * U),
        (ATTN, (2.0, 5.0, 100.0), f32, 16 * U + 5e-5 + 800 * U, 2 * U),
        (
            ATTN.rounded("tf32"),
            (2.0, 5.0, 3.0),
            f32,
            16 * 2.0**-11 + 5e-5 + 6 * 2.0**-10,
            2 * U,
        ),
        (RECUR(16), None, f32, 4e-5 * 2.0, 2 * U),
        (CODEC, None, f16, 0.0, 2.0**-11),
    ],
)
def test_bound(tol, condition, dtype, absolute, relative):
    allowed = bound(tol, WANT, condition, dtype, ENV)
    assert np.max(allowed.absolute) == pytest.approx(absolute, rel=1e-12)
    assert allowed.relative == pytest.approx(relative, rel=1e-12)


@pytest.mark.parametrize("scale", [0.99, 1.01])
def test_a_bound_separates(scale):
    allowed = bound(RED(2), WANT, np.full(3, 1e6), f32, {})
    limit = 9 * U * 1e6 + 2 * U * np.abs(WANT)
    got = (WANT + scale * limit).astype(np.float32)
    found = compare(got, WANT, allowed, f32)
    assert (found.bad == 0) == (scale < 1)
    assert found.worst == pytest.approx(scale, rel=1e-2)


def test_exact_is_bitwise_and_all_nans_are_one():
    allowed = bound(EXACT, WANT, None, f32, {})
    zero = np.array([0.0], np.float32)
    assert compare(-zero, zero, allowed, f32).bad == 1
    other = np.array([0x7FC00001], np.uint32).view(np.float32)
    assert compare(other, np.array([np.nan]), allowed, f32).bad == 0
    assert compare(np.nextafter(zero, 1), zero, allowed, f32).bad == 1


def test_integers_are_exact_whatever_the_class():
    allowed = bound(ELT, np.array([5]), np.array([1e9]), u32, {})
    assert compare(np.array([6], np.uint32), np.array([5]), allowed, u32).bad == 1


@pytest.mark.parametrize(
    ("got", "want", "passes"),
    [
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (-np.inf, np.inf, False),
        (np.inf, 1e6, True),  # overflows f16
        (np.inf, 60000.0, False),
        (1.0, np.inf, False),
    ],
)
def test_non_finite_elements_must_agree(got, want, passes):
    reference = np.array([1.0, want])
    allowed = bound(ELT, reference, np.ones(2), f16, {})
    found = compare(np.array([1.0, got], np.float16), reference, allowed, f16)
    assert (found.bad == 0) == passes
    assert found.index == (None if passes else (1,))


def test_a_correctly_rounded_subnormal_passes():
    want = np.array([1.3e-7, 3e-8])
    allowed = bound(RED(1), want, want, f16, {})
    got = want.astype(np.float16)
    assert compare(got, want, allowed, f16).bad == 0
    assert compare(got * np.float16(2), want, allowed, f16).bad == 2


def test_masked_elements_are_left_out():
    want = np.ma.array([1.0, 2.0], mask=[False, True])
    allowed = bound(EXACT, want, None, f32, {})
    assert compare(np.array([1, 9], np.float32), want, allowed, f32).bad == 0
    assert compare(np.array([9, 2], np.float32), want, allowed, f32).bad == 1


@pytest.mark.parametrize(
    ("tol", "condition"),
    [
        (RED(3), None),
        (DOT, np.ones(3)),
        (DOT8, (np.ones(3), np.ones(3))),
        (ATTN, np.ones(3)),
        (RED("Q"), np.ones(3)),
        (RED(1), np.ones((2, 3))),
        (RED(1), -np.ones(3)),
    ],
)
def test_a_missing_or_wrong_condition_is_a_fault_of_the_case(tol, condition):
    with pytest.raises(CaseError):
        bound(tol, WANT, condition, f32, ENV)


def test_integer_references_must_fit():
    with pytest.raises(CaseError):
        rounded(np.array([-1]), u32)
    with pytest.raises(CaseError):
        rounded(np.array([0.5]), u32)


def test_empty_outputs_compare():
    empty = np.zeros((0, 3))
    assert compare(empty.astype(np.float32), empty, bound(SOFT, empty, None, f32, {}), f32).bad == 0


def test_worst_is_of_the_bound():
    allowed = bound(SOFT, np.array([1.0]), None, f32, {})
    limit = 1e-7 + 2 * U + 1e-5
    found = compare(np.array([1 + limit / 2], np.float32), np.array([1.0]), allowed, f32)
    assert math.isclose(found.worst, 0.5, rel_tol=2e-2)
