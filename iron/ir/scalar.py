"""The one scalar semantics: what each elementwise op means, on numpy scalars and arrays.

The folder, the interpreter and eager `lang` calls use these functions; every backend is tested
against them. Integers wrap at their width, `//` and `%` floor as Python's do, `x // 0 = x % 0 = 0`,
shift counts are taken modulo the width, float to integer saturates and sends NaN to 0, and casts
to or from a storage float pass through f32. Callers silence numpy's floating-point warnings.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iron.dtypes import DType, of_numpy

Array = Any  # a numpy scalar or array


def quiet() -> np.errstate:
    """The context in which these functions are to be called."""
    return np.errstate(all="ignore")


# --- arithmetic -----------------------------------------------------------------------------------


def fma(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded once: the f64 sum is rounded to odd, which leaves one rounding to f32."""
    x, y, z = (np.asarray(v, np.float64) for v in (a, b, c))
    product = x * y
    total = np.asarray(product + z)
    virtual = total - product
    lost = (product - (total - virtual)) + (z - virtual)
    bits = total.view(np.int64)
    inexact = (lost != 0) & np.isfinite(lost) & np.isfinite(total) & (total != 0)
    to_odd = inexact & ((bits & 1) == 0)
    step = np.where((lost > 0) == (total > 0), 1, -1)
    odd = np.where(to_odd, (bits + step).view(np.float64), total)
    return odd.astype(np.float32)[()]


def floordiv(a: Array, b: Array) -> Array:
    """The quotient rounded towards minus infinity; 0 when b is 0; the least value // -1 wraps."""
    dtype = np.result_type(a, b)
    zero, minus = b == 0, _minus_one(b)
    safe = np.where(zero | minus, dtype.type(1), b)
    quotient = np.where(minus, np.negative(a), np.floor_divide(a, safe))
    return np.where(zero, dtype.type(0), quotient).astype(dtype)[()]


def mod(a: Array, b: Array) -> Array:
    """a - floordiv(a, b) * b, with the sign of b; 0 when b is 0 or -1."""
    dtype = np.result_type(a, b)
    trivial = (b == 0) | _minus_one(b)
    safe = np.where(trivial, dtype.type(1), b)
    return np.where(trivial, dtype.type(0), np.remainder(a, safe)).astype(dtype)[()]


def _minus_one(b: Array) -> Array:
    return b == -1 if np.asarray(b).dtype.kind == "i" else np.zeros(np.shape(b), bool)


def maximum(a: Array, b: Array) -> Array:
    """a if a > b or a is NaN, else b."""
    return np.where((a > b) | (a != a), a, b)[()]


def minimum(a: Array, b: Array) -> Array:
    """a if a < b or a is NaN, else b."""
    return np.where((a < b) | (a != a), a, b)[()]


def fmax(a: Array, b: Array) -> Array:
    """a if a > b or b is NaN, else b: a NaN operand is ignored."""
    return np.where((a > b) | (b != b), a, b)[()]


def fmin(a: Array, b: Array) -> Array:
    """a if a < b or b is NaN, else b: a NaN operand is ignored."""
    return np.where((a < b) | (b != b), a, b)[()]


def mulhi(a: Array, b: Array) -> Array:
    """The high half of the double-width product."""
    dtype = np.asarray(a).dtype
    bits = dtype.itemsize * 8
    if bits < 64:
        wide = np.int64 if dtype.kind == "i" else np.uint64
        product = np.asarray(a).astype(wide) * np.asarray(b).astype(wide)
        return (product >> wide(bits)).astype(dtype)[()]
    high = _mulhi_u64(np.asarray(a).astype(np.uint64), np.asarray(b).astype(np.uint64))
    if dtype.kind == "i":
        low_a, low_b = np.asarray(a).astype(np.uint64), np.asarray(b).astype(np.uint64)
        high = high - np.where(np.asarray(a) < 0, low_b, np.uint64(0))
        high = high - np.where(np.asarray(b) < 0, low_a, np.uint64(0))
    return high.astype(dtype)[()]


def _mulhi_u64(a: Array, b: Array) -> Array:
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + ((a0 * b0) >> half)
    cross = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (cross >> half)


def dot4(a: Array, b: Array, c: Array) -> Array:
    """c plus the products of the four bytes of a and b, wrapping; an i32 holds signed bytes."""
    total = np.asarray(c).astype(np.int64)
    for byte in range(4):
        total = total + _byte(a, byte) * _byte(b, byte)
    return total.astype(np.int32)[()]


def _byte(word: Array, number: int) -> np.ndarray[Any, Any]:
    value = np.asarray(word)
    signed = value.dtype.kind == "i"
    moved = _unsigned(value) >> np.uint32(8 * number)
    return moved.astype(np.int8 if signed else np.uint8).astype(np.int64)


# --- bits -----------------------------------------------------------------------------------------


def shl(a: Array, b: Array) -> Array:
    """a shifted left by b modulo the width."""
    return np.left_shift(a, _count(a, b))


def shr(a: Array, b: Array) -> Array:
    """a shifted right by b modulo the width: logical for unsigned, arithmetic for signed."""
    return np.right_shift(a, _count(a, b))


def _count(a: Array, b: Array) -> Array:
    dtype = np.asarray(a).dtype
    return np.bitwise_and(b, dtype.type(dtype.itemsize * 8 - 1))


def popcount(x: Array) -> Array:
    """The number of one bits."""
    dtype = np.asarray(x).dtype
    return np.bitwise_count(_unsigned(x)).astype(dtype)[()]


def clz(x: Array) -> Array:
    """Zero bits above the highest one; the width for 0."""
    dtype = np.asarray(x).dtype
    bits = dtype.itemsize * 8
    smear = _unsigned(x)
    shift = 1
    while shift < bits:
        smear = smear | (smear >> smear.dtype.type(shift))
        shift *= 2
    return (bits - np.bitwise_count(smear).astype(np.int64)).astype(dtype)[()]


def ctz(x: Array) -> Array:
    """Zero bits below the lowest one; the width for 0."""
    dtype = np.asarray(x).dtype
    value = _unsigned(x)
    below = ~value & (value - value.dtype.type(1))
    return np.bitwise_count(below).astype(dtype)[()]


def reverse_bits(x: Array) -> Array:
    """The bits in opposite order."""
    dtype = np.asarray(x).dtype
    value = _unsigned(x)
    bits = dtype.itemsize * 8
    shift = 1
    while shift < bits:
        pattern = int(("0" * shift + "1" * shift) * (bits // (2 * shift)), 2)
        low, by = value.dtype.type(pattern), value.dtype.type(shift)
        value = ((value & low) << by) | ((value >> by) & low)
        shift *= 2
    return value.view(dtype)[()]


def _unsigned(x: Array) -> np.ndarray[Any, Any]:
    value = np.asarray(x)
    return value.view(np.dtype(f"u{value.dtype.itemsize}"))


# --- conversions ----------------------------------------------------------------------------------


def cast(x: Array, to: DType) -> Array:
    """`x` converted to `to`: see the module's rules."""
    if isinstance(x, int | float) and not isinstance(x, np.generic):
        return _literal(x, to)
    value = np.asarray(x)
    source = value.dtype
    if source == to.np:
        return value[()]
    with quiet():
        if to.kind == "b":
            return (value != 0)[()]
        if source.kind == "f" and source.itemsize == 8:
            value = value if to.is_integer else value.astype(np.float32)
        elif _is_storage(source) or (to.kind == "s" and source.kind != "b"):
            value = value.astype(np.float32)
        if to.is_integer and value.dtype.kind == "f":
            return _saturate(value, to)
        return value.astype(to.np)[()]


def _literal(x: int | float, to: DType) -> Array:
    with quiet():
        if to.is_integer and isinstance(x, int):
            wrapped = int(x) & ((1 << to.bits) - 1)
            if to.kind == "i" and wrapped >> (to.bits - 1):
                wrapped -= 1 << to.bits
            return to.np.type(wrapped)
        if to.is_integer:
            return _saturate(np.asarray(x, np.float64), to)
        if to.kind == "b":
            return to.np.type(x)
        wide = np.float32(_sticky(x) if isinstance(x, int) else x)
        return wide if to.kind == "f" else wide.astype(to.np)


def _sticky(x: int) -> float:
    """x with 53 bits, the last one set if any bit was dropped: f32 then rounds only once."""
    size = abs(x)
    drop = max(0, size.bit_length() - 53)
    kept = size >> drop | (size & ((1 << drop) - 1) != 0)
    value = math.ldexp(kept, drop) if drop < 900 else math.inf
    return -value if x < 0 else value


def _is_storage(dtype: np.dtype[Any]) -> bool:
    known = of_numpy(dtype)
    return known is not None and known.kind == "s"


def _saturate(value: Array, to: DType) -> Array:
    whole = np.trunc(np.where(value != value, 0, value).astype(np.float64))
    low, high = to.min, to.max
    inside = np.clip(whole, float(low), np.nextafter(float(high) + 1.0, 0.0))
    out = inside.astype(np.int64 if to.kind == "i" else np.uint64).astype(to.np)
    out = np.where(whole >= float(high), to.np.type(high), out)
    return np.where(whole <= float(low), to.np.type(low), out)[()]


def bitcast(x: Array, to: DType) -> Array:
    """The same bits as `to`: elementwise when widths are equal, else along the last axis."""
    value = np.ascontiguousarray(x)
    size = value.dtype.itemsize
    if size == to.np.itemsize:
        return value.view(to.np).reshape(np.shape(x))[()]
    shape = np.shape(x)
    if size > to.np.itemsize:
        ratio = size // to.np.itemsize
        tail = (ratio,) if not shape else (*shape[:-1], shape[-1] * ratio)
        return value.view(to.np).reshape(tail)
    return value.view(to.np).reshape((*shape[:-1], shape[-1] * size // to.np.itemsize))


def where(condition: Array, a: Array, b: Array) -> Array:
    """a where the condition holds, else b."""
    return np.where(condition, a, b)[()]


def sign(x: Array) -> Array:
    """-1, 0 or 1 with the type of x; NaN stays NaN, and a zero keeps its sign."""
    return np.where((x == 0) | (x != x), x, np.where(x > 0, 1, -1).astype(np.asarray(x).dtype))[()]


def copysign(a: Array, b: Array) -> Array:
    """The magnitude of a with the sign bit of b."""
    return np.copysign(a, b)
