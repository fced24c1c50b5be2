"""Arithmetic vocabulary beyond Python's operators: on values in a kernel, on numpy arrays outside.

One meaning in both places. Integers wrap at their width, NaN propagates unless a name begins with
`f`, and storage floats (f16, bf16) must be converted before arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from iron.dtypes import DType, f32, i32
from iron.lang import eager
from iron.lang.dim import Dim, DimExpr, binary
from iron.lang.elementary import (
    acos as acos,
)
from iron.lang.elementary import (
    acosh as acosh,
)
from iron.lang.elementary import (
    asin as asin,
)
from iron.lang.elementary import (
    asinh as asinh,
)
from iron.lang.elementary import (
    atan as atan,
)
from iron.lang.elementary import (
    atan2 as atan2,
)
from iron.lang.elementary import (
    atanh as atanh,
)
from iron.lang.elementary import (
    cos as cos,
)
from iron.lang.elementary import (
    cosh as cosh,
)
from iron.lang.elementary import (
    erf as erf,
)
from iron.lang.elementary import (
    erfinv as erfinv,
)
from iron.lang.elementary import (
    exp as exp,
)
from iron.lang.elementary import (
    exp2 as exp2,
)
from iron.lang.elementary import (
    expm1 as expm1,
)
from iron.lang.elementary import (
    fast_exp2 as fast_exp2,
)
from iron.lang.elementary import (
    fast_rcp as fast_rcp,
)
from iron.lang.elementary import (
    fast_rsqrt as fast_rsqrt,
)
from iron.lang.elementary import (
    log as log,
)
from iron.lang.elementary import (
    log1p as log1p,
)
from iron.lang.elementary import (
    log2 as log2,
)
from iron.lang.elementary import (
    log10 as log10,
)
from iron.lang.elementary import (
    power as power,
)
from iron.lang.elementary import (
    rsqrt as rsqrt,
)
from iron.lang.elementary import (
    sigmoid as sigmoid,
)
from iron.lang.elementary import (
    sin as sin,
)
from iron.lang.elementary import (
    sinh as sinh,
)
from iron.lang.elementary import (
    tan as tan,
)
from iron.lang.elementary import (
    tanh as tanh,
)
from iron.lang.value import Shape, Value

inf: Final = float("inf")
nan: Final = float("nan")


# --- arithmetic -----------------------------------------------------------------------------------


def add(a: Value, b: Value) -> Value:
    """a + b, as a function for `group_reduce` and `group_scan`.

    >>> add(u32(4294967295), 2)
    np.uint32(1)
    """
    return eager.apply("add", a, b)


def fma(a: Value, b: Value, c: Value) -> Value:
    """a * b + c, rounded once.

    >>> fma(f32(3), f32(4), f32(0.5))
    np.float32(12.5)
    """
    return eager.apply("fma", a, b, c)


def mulhi(a: Value, b: Value) -> Value:
    """The high half of the double-width product of two integers.

    >>> mulhi(u32(1 << 31), u32(6))
    np.uint32(3)
    """
    return eager.apply("mulhi", a, b)


def dot4(a: Value, b: Value, c: Value) -> Value:
    """c plus the sum of the products of the four bytes of a and b, as a wrapping i32.

    a and b are words: the bytes of an i32 are signed, those of a u32 are not; c is an i32.

    >>> dot4(u32(0xFF000001), i32(-1), i32(6))
    np.int32(-250)
    """
    return eager.words("dot4", a, b, c)


def absolute(x: Value) -> Value:
    """|x|; the least signed integer stays itself. `abs(x)` is the same.

    >>> absolute(i32(-3))
    np.int32(3)
    """
    return eager.apply("abs", x)


def sign(x: Value) -> Value:
    """-1, 0 or 1; a zero keeps its sign and NaN stays NaN.

    >>> sign(f32(-2.5))
    np.float32(-1.0)
    """
    return eager.apply("sign", x)


def copysign(a: Value, b: Value) -> Value:
    """The magnitude of a with the sign bit of b.

    >>> copysign(f32(2), f32(-0.0))
    np.float32(-2.0)
    """
    return eager.apply("copysign", a, b)


def minimum(a: Value, b: Value) -> Value:
    """a if a < b or a is NaN, else b; NaN propagates.

    >>> minimum(i32(3), -2)
    np.int32(-2)
    """
    return eager.apply("min", a, b)


def maximum(a: Value, b: Value) -> Value:
    """a if a > b or a is NaN, else b; NaN propagates.

    >>> maximum(f32(nan), 1.0)
    np.float32(nan)
    """
    return eager.apply("max", a, b)


def fmin(a: Value, b: Value) -> Value:
    """a if a < b or b is NaN, else b: a NaN operand is ignored.

    >>> fmin(f32(nan), 1.0)
    np.float32(1.0)
    """
    return eager.apply("fmin", a, b)


def fmax(a: Value, b: Value) -> Value:
    """a if a > b or b is NaN, else b: a NaN operand is ignored.

    >>> fmax(f32(nan), 1.0)
    np.float32(1.0)
    """
    return eager.apply("fmax", a, b)


def sqrt(x: Value) -> Value:
    """The square root of x, correctly rounded; NaN below 0.

    >>> sqrt(f32(2))
    np.float32(1.4142135)
    """
    return eager.apply("sqrt", x)


def rint(x: Value) -> Value:
    """The integral value nearest to x, ties to even.

    >>> rint(f32(2.5))
    np.float32(2.0)
    """
    return eager.apply("rint", x)


def floor(x: Value) -> Value:
    """The greatest integral value not above x.

    >>> floor(f32(-0.5))
    np.float32(-1.0)
    """
    return eager.apply("floor", x)


def ceil(x: Value) -> Value:
    """The least integral value not below x.

    >>> ceil(f32(1.25))
    np.float32(2.0)
    """
    return eager.apply("ceil", x)


def trunc(x: Value) -> Value:
    """The integral part of x.

    >>> trunc(f32(-1.75))
    np.float32(-1.0)
    """
    return eager.apply("trunc", x)


# --- bits -----------------------------------------------------------------------------------------


def bitcast(x: Value, dtype: DType) -> Value:
    """The bits of x as `dtype`; a vector when the widths differ, along the last axis of an array.

    The sign and payload of a NaN are unspecified. E0201 when the bits do not divide evenly.

    >>> bitcast(f32(1), u32)
    np.uint32(1065353216)
    """
    from iron.ir import scalar

    held = eager.literal("bitcast", x, f32 if isinstance(x, float) else i32)
    return scalar.bitcast(held, dtype)


def popcount(x: Value) -> Value:
    """The number of one bits.

    >>> popcount(u8(0b1011))
    np.uint8(3)
    """
    return eager.apply("popcount", x)


def clz(x: Value) -> Value:
    """Zero bits above the highest one; the width for 0.

    >>> clz(u32(1))
    np.uint32(31)
    """
    return eager.apply("clz", x)


def ctz(x: Value) -> Value:
    """Zero bits below the lowest one; the width for 0.

    >>> ctz(u32(8))
    np.uint32(3)
    """
    return eager.apply("ctz", x)


def reverse_bits(x: Value) -> Value:
    """The bits in opposite order.

    >>> reverse_bits(u8(1))
    np.uint8(128)
    """
    return eager.apply("reverse_bits", x)


# --- choice and vectors ---------------------------------------------------------------------------


def where(condition: Value, a: Value, b: Value) -> Value:
    """a where the condition holds, else b; both sides are evaluated (`a if c else b` is lazy).

    >>> where(i32(3) > 2, f32(1), 0.0)
    np.float32(1.0)
    """
    from iron.ir import scalar

    dtype = eager.common("where", a, b) or eager.joined(a, b)
    return scalar.where(
        condition, eager.literal("where", a, dtype), eager.literal("where", b, dtype)
    )


def dot(a: Value, b: Value) -> Value:
    """a[0] * b[0] + a[1] * b[1] + ..., from left to right; over the last axis of arrays.

    Both operands are f32 vectors of one length (convert storage floats first).

    >>> dot(vec([f32(1), f32(2)]), vec([f32(3), f32(4)]))
    np.float32(11.0)
    """
    from iron.ir import scalar

    if eager.common("dot", a, b) is not f32 or a.shape[-1:] != b.shape[-1:]:
        raise eager.error("E0201", "`dot` takes two f32 vectors of one length")
    with scalar.quiet():
        total = a[..., 0] * b[..., 0]
        for i in range(1, a.shape[-1]):
            total = total + a[..., i] * b[..., i]
    return total


def vec(items: Sequence[Value]) -> Value:
    """The vector of the given scalars (1 to 64 of one dtype); a new last axis for arrays.

    >>> vec([i32(1), i32(2)])
    array([1, 2], dtype=int32)
    """
    import numpy as np

    dtype = eager.common("vec", *items)
    if dtype is None:
        raise eager.error("E0204", "`vec` needs values with a dtype, such as f32(1)")
    return np.stack([eager.literal("vec", item, dtype) for item in items], axis=-1)


def zeros(shape: Shape, dtype: DType) -> Value:
    """A vector of zeros; `shape` is a length or a tuple of one. In a tile kernel a tile.

    >>> zeros(2, f32)
    array([0., 0.], dtype=float32)
    """
    return full(shape, 0, dtype)


def full(shape: Shape, value: Value, dtype: DType) -> Value:
    """A vector of equal elements; `shape` is a length or a tuple of one. In a tile kernel a tile.

    >>> full((2,), -inf, f32)
    array([-inf, -inf], dtype=float32)
    """
    import numpy as np

    return np.full(shape, dtype(value), dtype.np)


def iota(n: int, dtype: DType = i32) -> Value:
    """The vector 0, 1, .. n - 1. In a tile kernel a tile of one axis.

    >>> iota(3)
    array([0, 1, 2], dtype=int32)
    """
    import numpy as np

    return np.arange(n, dtype=dtype.np)


def table(array: Any, dtype: DType) -> Value:
    """A constant array made from compile-time numbers, indexable at run time.

    Small tables become immediates; larger ones travel with the kernel as hidden data.

    >>> table([1, 2, 4, 8], u8)[3]
    np.uint8(8)
    """
    import numpy as np

    from iron.ir import scalar

    return np.ascontiguousarray(scalar.cast(np.asarray(array), dtype))


# --- sizes ----------------------------------------------------------------------------------------


def cdiv(a: Any, b: Any) -> Any:
    """a / b rounded up: the number of blocks of b that cover a. Also an expression of dims.

    >>> cdiv(1001, 64)
    16
    """
    if isinstance(a, Dim | DimExpr) or isinstance(b, Dim | DimExpr):
        return binary("cdiv", a, b)
    return -(-a // b)


def next_pow2(n: int) -> int:
    """The least power of two not below n (1 for n <= 1).

    >>> next_pow2(65)
    128
    """
    return 1 << max(0, int(n) - 1).bit_length()
