"""e^x and what is built from it.

Every body splits x = n ln 2 + r with |r| <= ln 2 / 2. Adding 1.5 x 2^23 rounds x / ln 2 to an
integer that then sits in the low bits of the sum, so no float to integer conversion is needed.
The coefficients are minimax fits (Remez), rounded to f32 one after another.
"""

from __future__ import annotations

from iron.elementary.expression import Expr, polynomial, where

SCALED = "y * 2^n"
"""The surface of a product that is `scaled`, which promises a small n."""

MAGIC = 12582912.0  # 1.5 * 2^23
MAGIC_BITS = 0x4B400000
ONE_BITS = 0x3F800000
LOG2_E = 1.4426950408889634
LN2_HIGH = 0.693145751953125
LN2_LOW = 1.4286068203094173e-06

# (e^r - 1 - r) / r^2, error below 2^-28
EXP = (
    0.0013953325105831027,
    0.008368613198399544,
    0.04166628047823906,
    0.1666652262210846,
    0.5,
)
# (2^r - 1) / r on -1/2 to 1/2, error below 2^-28, and a shorter one below 2^-23
EXP2 = (
    0.0001544039841974154,
    0.0013391203247010708,
    0.009618106298148632,
    0.05550360307097435,
    0.24022650718688965,
    0.6931471824645996,
)
EXP2_SHORT = (
    0.0013407407095655799,
    0.009671983309090137,
    0.05550307780504227,
    0.24022233486175537,
    0.6931472420692444,
)
# (tanh x - x) / x^3 in x^2 up to 0.65, error below 2^-27
TANH = (
    -0.005528085399419069,
    0.020482847467064857,
    -0.053692810237407684,
    0.13330897688865662,
    -0.3333326280117035,
)
# (sinh x - x) / x^3 in x^2 up to 1, error below 2^-31
SINH = (2.7860594400408445e-06, 0.00019842342589981854, 0.008333312347531319, 0.1666666716337204)


def exp(x: Expr) -> Expr:
    """e to the x over the full range, results below 2^-126 rounded once."""
    fraction, n = _split(x.at_least(-104.0).at_most(89.0))
    return scaled(_power(fraction), n)


def exp2(x: Expr) -> Expr:
    """2 to the x; x - n is exact, so only the polynomial errs."""
    x = x.at_least(-151.0).at_most(129.0)
    shifted = x + MAGIC
    r = x - (shifted - MAGIC)
    return scaled(r.fma(polynomial(r, *EXP2), 1.0), shifted.ints())


def fast_exp2(x: Expr) -> Expr:
    """2 to the x with one scaling step; what is below 2^-125 may become 0."""
    x = x.at_least(-126.0).at_most(128.0)
    shifted = x + MAGIC
    r = x - (shifted - MAGIC)
    twice = r.fma(polynomial(r, *(2 * c for c in EXP2_SHORT)), 2.0)
    return twice * power_of_two(shifted.ints() - 1)


def expm1(x: Expr) -> Expr:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), halved inside so that 2^128 never appears."""
    r, n = _split(x.at_least(-18.0).at_most(89.0))
    q = polynomial(r, *EXP).fma(r * r, r)
    half = power_of_two(n - 1)
    far = q.fma(half, half - 0.5)
    return where(n.equals(MAGIC_BITS), q, far + far).copysign(x)


def sigmoid(x: Expr) -> Expr:
    """e / (1 + e) below 0 and 1 / (1 + e) above, with e = exp(-|x|), which never overflows.

    A reciprocal is cheaper than a quotient on GPUs, and scaling by 2^(n + 24) 2^-24 than by halves.
    """
    r, n = _split((-abs(x)).at_least(-104.0))
    e = _power(r) * power_of_two(n, 24) * 2.0**-24
    return where(x < 0.0, e, 1.0) * (1.0 / (e + 1.0))


def tanh(x: Expr) -> Expr:
    """An odd polynomial near 0, else 1 - 2 / (e^2|x| + 1) with the sign of x."""
    a = abs(x)
    z = a * a
    near = (polynomial(z, *TANH) * z).fma(a, a)
    r, n = _split((a + a).at_most(20.0))
    e = _power(r) * power_of_two(n)
    far = 1.0 - 2.0 / (e + 1.0)
    return where(a < 0.625, near, far).copysign(x)


def sinh(x: Expr) -> Expr:
    """An odd polynomial below 1, else h - 1 / (4 h) with h = e^|x| / 2."""
    a = abs(x)
    z = a * a
    near = (polynomial(z, *SINH) * z).fma(a, a)
    half = _half_exp(a)
    return where(a < 1.0, near, half - 0.25 / half).copysign(x)


def cosh(x: Expr) -> Expr:
    """h + 1 / (4 h) with h = e^|x| / 2."""
    half = _half_exp(abs(x))
    return half + 0.25 / half


def _half_exp(a: Expr) -> Expr:
    r, n = _split(a.at_most(91.0))
    return scaled(_power(r), n - 1)


def _split(x: Expr) -> tuple[Expr, Expr]:
    """r and the bits of n + MAGIC, where x = n ln 2 + r."""
    shifted = x.fma(LOG2_E, MAGIC)
    n = shifted - MAGIC
    return n.fma(-LN2_LOW, n.fma(-LN2_HIGH, x)), shifted.ints()


def _power(r: Expr) -> Expr:
    """e^r for |r| <= ln 2 / 2."""
    return polynomial(r, *EXP).fma(r * r, r) + 1.0


def power_of_two(n: Expr, more: int = 0) -> Expr:
    """2^(n + more) as f32, -126 to 127; n may carry MAGIC_BITS, whose low nine bits are 0."""
    return ((n << 23) + (ONE_BITS + (more << 23))).float()


def scaled(y: Expr, n: Expr) -> Expr:
    """y 2^n for -252 <= n <= 254 in two steps, so that a subnormal result is rounded once.

    n carries MAGIC_BITS. The last product is marked, for targets that scale in one step.
    """
    half = n >> 1
    most, rest = y * power_of_two(half), power_of_two(n - half)
    return y.of(y.b.emit("mul", most.value, rest.value, surface=SCALED))
