"""How far a result may lie from its reference: the tolerance classes, and nothing else decides it.

An element passes when |got - want| <= A + R |want|, where A and R come from the class, the dtype of
the output and the condition that the oracle returns; a result equal to the reference rounded to the
dtype always passes, non-finite elements must agree, and all NaNs count as one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.dtypes import DType, ulp
from iron.lang.dim import Dim, DimExpr, TypeVar
from iron.lang.math import cdiv
from iron.lang.suite import Tolerance

Array = np.ndarray[Any, Any]

U32 = 2.0**-24
TINY = 1e-38
SCORES_EXACT_BELOW = 64.0  # attention scores up to here cost no extra error in exp


class CaseError(Exception):
    """A case, oracle or tolerance that is itself wrong."""


@dataclass(frozen=True, slots=True)
class Bound:
    """`absolute` and `relative` of one output; `exact` means bit for bit."""

    absolute: Any = 0.0
    relative: float = 0.0
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """The comparison of one output: `worst` is error over allowed error; `bad` counts failures."""

    worst: float
    bad: int
    index: tuple[int, ...] | None = None
    got: Any = None
    want: Any = None


def bound(
    tol: Tolerance, reference: Any, condition: Any, dtype: DType, env: Mapping[str, Any]
) -> Bound:
    """The bound of class `tol` for an output of `dtype`.

    `env` gives the dims and dtype variables that the class names. Raises CaseError for a missing
    or wrong condition.
    """
    if tol.name == "EXACT" or not dtype.is_float:
        return Bound(exact=True)
    terms = _terms(tol, reference, condition)
    absolute, extra = _CLASSES[tol.name](tol, terms, env)
    unit = ulp(dtype)
    return Bound(absolute, unit if tol.name == "CODEC" else 2 * unit + extra)


_Class = Callable[[Tolerance, list[Array], Mapping[str, Any]], tuple[Any, float]]


def _elementwise(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return np.maximum(4 * U32 * terms[0], TINY), 2e-5 if tol.quick else 2e-6


def _reduction(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return (8 + math.log2(max(1, length(tol, env)))) * U32 * terms[0], 0.0


def _products(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return 8 * _operand(tol, env) * terms[0] + 4 * U32 * terms[1], 0.0


def _coded(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return _products(tol, terms, env)[0] + terms[2], 0.0


def _softmax(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return 1e-7, 1e-5


def _attention(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    root, total, *rest = terms
    absolute = 8 * _operand(tol, env) * root + 1e-5 * total
    score = rest[0] if rest else np.zeros(())
    if tol.operand == "tf32":
        absolute = absolute + 2.0**-10 * score * root
    large = np.where(score > SCORES_EXACT_BELOW, score, 0.0)
    return absolute + 4 * U32 * large * root, 0.0


def _recurrence(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return 1e-5 * math.sqrt(max(1, length(tol, env))) * terms[0], 0.0


def _codec(tol: Tolerance, terms: list[Array], env: Mapping[str, Any]) -> tuple[Any, float]:
    return 0.0, 0.0


_CLASSES: dict[str, _Class] = {
    "ELT": _elementwise,
    "RED": _reduction,
    "DOT": _products,
    "DOT8": _coded,
    "SOFT": _softmax,
    "ATTN": _attention,
    "RECUR": _recurrence,
    "CODEC": _codec,
}
_CONDITIONS = {"RED": (1,), "DOT": (2,), "DOT8": (3,), "ATTN": (2, 3)}


def _terms(tol: Tolerance, reference: Any, condition: Any) -> list[Array]:
    """The condition terms of the class, as float64 arrays that fit the reference's shape."""
    if tol.name == "RECUR":
        finite = np.abs(reference)[np.isfinite(reference)]
        return [np.asarray(finite.max() if finite.size else 0.0)]
    if tol.name == "ELT" and condition is None:
        return [np.zeros(())]
    given = condition if isinstance(condition, tuple) else (condition,)
    given = () if condition is None else given
    wanted = _CONDITIONS.get(tol.name)
    if wanted is not None and len(given) not in wanted:
        raise CaseError(f"{tol} needs {wanted[0]} condition term(s), the oracle gave {len(given)}")
    shape = np.shape(reference)
    terms = [np.asarray(term, np.float64) for term in given]
    for term in terms:
        if term.ndim and np.broadcast_shapes(term.shape, shape) != shape:
            raise CaseError(f"condition of shape {term.shape} for an output of shape {shape}")
        if np.any(term < 0):
            raise CaseError("a condition is negative")
    return terms


def length(tol: Tolerance, env: Mapping[str, Any]) -> int:
    """The n of RED(n) and RECUR(n): a number, a dim, or an expression of dims as text."""
    n = tol.n
    try:
        if isinstance(n, Dim | DimExpr):
            return n.evaluate(env)
        if isinstance(n, str):
            names = {"__builtins__": {}, "cdiv": cdiv, "min": min, "max": max, **env}
            return int(eval(n, names))  # the text is the kernel author's own
        return int(n)
    except (KeyError, NameError) as unknown:
        raise CaseError(f"{tol}: no axis or dim gives {unknown}") from None


def _operand(tol: Tolerance, env: Mapping[str, Any]) -> float:
    operand = tol.operand
    if isinstance(operand, TypeVar):
        operand = env[operand.name]
    if operand is None:
        return U32
    return 2.0**-11 if operand == "tf32" else ulp(operand)


def rounded(reference: Any, dtype: DType) -> Array:
    """The reference as `dtype`; CaseError for an integer output that does not hold it."""
    plain = np.ma.getdata(reference)
    with np.errstate(all="ignore"):
        held = np.asarray(plain).astype(dtype.np)
        if dtype.is_integer and not np.array_equal(held.astype(plain.dtype), plain):
            raise CaseError(f"the oracle's values do not fit {dtype}")
    return held


def compare(got: Array, reference: Any, allowed: Bound, dtype: DType) -> Difference:
    """`got` against `reference`; elements that the reference masks are left out."""
    want = rounded(reference, dtype)
    same = (_bits(got) == _bits(want)) | (_is_nan(got) & _is_nan(want))
    same = same | np.ma.getmaskarray(reference)
    if allowed.exact:
        return _difference(np.where(same, 0.0, np.inf), got, want)
    exact = np.asarray(np.ma.getdata(reference), np.float64)
    with np.errstate(all="ignore"):
        found = got.astype(np.float64)
        limit = allowed.absolute + allowed.relative * np.abs(exact)
        error = np.abs(found - exact)
        ratio = np.where(error == 0, 0.0, error / limit)
    finite = np.isfinite(exact) & np.isfinite(found)
    ratio = np.where(finite, ratio, np.inf)
    return _difference(np.where(same, np.minimum(ratio, 1.0) * finite, ratio), got, exact)


def _difference(ratio: Array, got: Array, want: Array) -> Difference:
    if ratio.size == 0:
        return Difference(0.0, 0)
    ratio = np.nan_to_num(ratio, nan=np.inf, posinf=np.inf)
    bad = ratio > 1.0
    worst = float(ratio.max())
    if not bad.any():
        return Difference(worst, 0)
    first = tuple(int(i) for i in np.argwhere(bad)[0])[: got.ndim]
    return Difference(worst, int(bad.sum()), first, got[first], want[first])


def _bits(array: Array) -> Array:
    bits = np.ascontiguousarray(array).view(np.dtype(f"u{array.dtype.itemsize}"))
    return bits.reshape(array.shape)  # ascontiguousarray gives a 0-d array an axis


def _is_nan(array: Array) -> Array:
    return np.asarray(array != array)
