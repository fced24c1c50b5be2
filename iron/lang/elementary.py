"""Elementary functions of f32: the same body on every backend, f64 rounded to f32 outside kernels.

The stated error holds in kernels; there is no difference between backends.
"""

from __future__ import annotations

from iron.lang import eager
from iron.lang.value import Value


def exp(x: Value) -> Value:
    """e^x, within 1.5 ulp.

    >>> exp(f32(1))
    np.float32(2.7182817)
    """
    return eager.apply("exp", x)


def exp2(x: Value) -> Value:
    """2^x, within 1.5 ulp.

    >>> exp2(f32(3))
    np.float32(8.0)
    """
    return eager.apply("exp2", x)


def expm1(x: Value) -> Value:
    """e^x - 1, accurate near 0.

    >>> expm1(f32(0))
    np.float32(0.0)
    """
    return eager.apply("expm1", x)


def log(x: Value) -> Value:
    """The natural logarithm; NaN below 0, -inf at 0.

    >>> log(f32(1))
    np.float32(0.0)
    """
    return eager.apply("log", x)


def log2(x: Value) -> Value:
    """The logarithm to base 2.

    >>> log2(f32(8))
    np.float32(3.0)
    """
    return eager.apply("log2", x)


def log10(x: Value) -> Value:
    """The logarithm to base 10.

    >>> log10(f32(1000))
    np.float32(3.0)
    """
    return eager.apply("log10", x)


def log1p(x: Value) -> Value:
    """log(1 + x), accurate near 0.

    >>> log1p(f32(0))
    np.float32(0.0)
    """
    return eager.apply("log1p", x)


def sin(x: Value) -> Value:
    """The sine of x radians, for |x| up to 2^20.

    >>> sin(f32(0))
    np.float32(0.0)
    """
    return eager.apply("sin", x)


def cos(x: Value) -> Value:
    """The cosine of x radians, for |x| up to 2^20.

    >>> cos(f32(0))
    np.float32(1.0)
    """
    return eager.apply("cos", x)


def tan(x: Value) -> Value:
    """The tangent of x radians, for |x| up to 2^20.

    >>> tan(f32(0))
    np.float32(0.0)
    """
    return eager.apply("tan", x)


def asin(x: Value) -> Value:
    """The angle in -pi/2 .. pi/2 whose sine is x; NaN outside -1 .. 1.

    >>> asin(f32(1))
    np.float32(1.5707964)
    """
    return eager.apply("asin", x)


def acos(x: Value) -> Value:
    """The angle in 0 .. pi whose cosine is x; NaN outside -1 .. 1.

    >>> acos(f32(1))
    np.float32(0.0)
    """
    return eager.apply("acos", x)


def atan(x: Value) -> Value:
    """The angle in -pi/2 .. pi/2 whose tangent is x.

    >>> atan(f32(1))
    np.float32(0.7853982)
    """
    return eager.apply("atan", x)


def atan2(a: Value, b: Value) -> Value:
    """The angle of the point (b, a) in -pi .. pi.

    >>> atan2(f32(0), f32(1))
    np.float32(0.0)
    """
    return eager.apply("atan2", a, b)


def sinh(x: Value) -> Value:
    """(e^x - e^-x) / 2.

    >>> sinh(f32(0))
    np.float32(0.0)
    """
    return eager.apply("sinh", x)


def cosh(x: Value) -> Value:
    """(e^x + e^-x) / 2.

    >>> cosh(f32(0))
    np.float32(1.0)
    """
    return eager.apply("cosh", x)


def tanh(x: Value) -> Value:
    """sinh(x) / cosh(x), within 2 ulp.

    >>> tanh(f32(0))
    np.float32(0.0)
    """
    return eager.apply("tanh", x)


def asinh(x: Value) -> Value:
    """log(x + sqrt(x^2 + 1)).

    >>> asinh(f32(0))
    np.float32(0.0)
    """
    return eager.apply("asinh", x)


def acosh(x: Value) -> Value:
    """log(x + sqrt(x^2 - 1)); NaN below 1.

    >>> acosh(f32(1))
    np.float32(0.0)
    """
    return eager.apply("acosh", x)


def atanh(x: Value) -> Value:
    """log((1 + x) / (1 - x)) / 2; NaN outside -1 .. 1.

    >>> atanh(f32(0))
    np.float32(0.0)
    """
    return eager.apply("atanh", x)


def erf(x: Value) -> Value:
    """2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.

    >>> erf(f32(1))
    np.float32(0.8427008)
    """
    return eager.apply("erf", x)


def erfinv(x: Value) -> Value:
    """The number whose `erf` is x; NaN outside -1 .. 1.

    >>> erfinv(f32(1))
    np.float32(inf)
    """
    return eager.apply("erfinv", x)


def power(a: Value, b: Value) -> Value:
    """a^b by the rules of C99 pow. `a ** b` is the same.

    >>> power(f32(2), f32(10))
    np.float32(1024.0)
    """
    return eager.apply("pow", a, b)


def rsqrt(x: Value) -> Value:
    """1 / sqrt(x), within 1.5 ulp.

    >>> rsqrt(f32(4))
    np.float32(0.5)
    """
    return eager.apply("rsqrt", x)


def sigmoid(x: Value) -> Value:
    """1 / (1 + e^-x), within 3 ulp.

    >>> sigmoid(f32(0))
    np.float32(0.5)
    """
    return eager.apply("sigmoid", x)


def fast_exp2(x: Value) -> Value:
    """2^x; the target's approximation is allowed.

    >>> fast_exp2(f32(3))
    np.float32(8.0)
    """
    return eager.apply("fast_exp2", x)


def fast_rcp(x: Value) -> Value:
    """1 / x; the target's approximation is allowed.

    >>> fast_rcp(f32(4))
    np.float32(0.25)
    """
    return eager.apply("fast_rcp", x)


def fast_rsqrt(x: Value) -> Value:
    """1 / sqrt(x); the target's approximation is allowed.

    >>> fast_rsqrt(f32(4))
    np.float32(0.5)
    """
    return eager.apply("fast_rsqrt", x)
