"""What each elementwise row means, written again with Python integers, fractions and `struct`.

Values are Python objects: bool, int, or for floats their bits (an int). Nothing here uses numpy
arithmetic or `iron.ir.scalar`.
"""

from collections.abc import Callable
from fractions import Fraction
from math import isqrt

from iron.dtypes import DType, bf16, f16, f32

FORMATS = {"f32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}  # exponent and fraction bits
NAN = "nan"


def wrap(value: int, t: DType) -> int:
    value &= (1 << t.bits) - 1
    return value - (1 << t.bits) if t.kind == "i" and value >> (t.bits - 1) else value


# --- floats as exact numbers ----------------------------------------------------------------------


def decode(bits: int, t: DType) -> tuple[int, Fraction | str]:
    """The sign bit, and the magnitude as a fraction, `inf` or `nan`."""
    e_bits, f_bits = FORMATS[t.name]
    sign, fraction = bits >> (e_bits + f_bits), bits & ((1 << f_bits) - 1)
    exponent = bits >> f_bits & ((1 << e_bits) - 1)
    bias = (1 << (e_bits - 1)) - 1
    if exponent == (1 << e_bits) - 1:
        return sign, NAN if fraction else "inf"
    whole = fraction | (1 << f_bits) if exponent else fraction
    return sign, whole * Fraction(2) ** (max(exponent, 1) - bias - f_bits)


def encode(sign: int, magnitude: Fraction | str, t: DType) -> int:
    """The bits of the nearest value of `t`, ties to even, overflow to infinity."""
    e_bits, f_bits = FORMATS[t.name]
    top, bias = (1 << e_bits) - 1, (1 << (e_bits - 1)) - 1
    head = sign << (e_bits + f_bits)
    if magnitude == NAN:
        return head | top << f_bits | 1 << (f_bits - 1)
    if magnitude == "inf":
        return head | top << f_bits
    assert isinstance(magnitude, Fraction)
    if magnitude == 0:
        return head
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    step = Fraction(2) ** (max(exponent, 1 - bias) - f_bits)
    count, rest = divmod(magnitude, step)
    if rest * 2 > step or (rest * 2 == step and count % 2):
        count += 1
    biased = max(exponent, 1 - bias) + bias - 1  # a carry out of the fraction raises the exponent
    return head | min((biased << f_bits) + int(count), top << f_bits)


def is_nan(bits: int, t: DType) -> bool:
    return decode(bits, t)[1] == NAN


def number(bits: int, t: DType) -> Fraction | float:
    """A comparable number; infinities are Python's."""
    sign, magnitude = decode(bits, t)
    value = float("inf") if magnitude == "inf" else magnitude
    return -value if sign else value  # type: ignore[operator]


def convert(bits: int, a: DType, b: DType) -> int:
    return encode(*decode(bits, a), b)


NAN32 = 0x7FC00000


def f_add(a: int, b: int) -> int:
    (sa, x), (sb, y) = decode(a, f32), decode(b, f32)
    if NAN in (x, y) or (x == y == "inf" and sa != sb):
        return NAN32
    if "inf" in (x, y):
        return a if x == "inf" else b
    total = (-x if sa else x) + (-y if sb else y)  # type: ignore[operator]
    if total == 0:
        return 0x80000000 if sa and sb and x == 0 else 0
    return encode(int(total < 0), abs(total), f32)


def f_mul(a: int, b: int) -> int:
    (sa, x), (sb, y) = decode(a, f32), decode(b, f32)
    if NAN in (x, y) or ("inf" in (x, y) and 0 in (x, y)):
        return NAN32
    return encode(sa ^ sb, "inf" if "inf" in (x, y) else x * y, f32)  # type: ignore[operator]


def f_div(a: int, b: int) -> int:
    (sa, x), (sb, y) = decode(a, f32), decode(b, f32)
    if NAN in (x, y) or x == y == "inf" or x == y == 0:
        return NAN32
    if x == "inf" or y == 0:
        return encode(sa ^ sb, "inf", f32)
    return encode(sa ^ sb, Fraction(0) if y == "inf" else x / y, f32)  # type: ignore[operator]


def f_fma(a: int, b: int, c: int) -> int:
    (sa, x), (sb, y), (sc, z) = decode(a, f32), decode(b, f32), decode(c, f32)
    product_inf = "inf" in (x, y)
    if NAN in (x, y, z) or (product_inf and 0 in (x, y)):
        return NAN32
    sign = sa ^ sb
    if product_inf or z == "inf":
        if product_inf and z == "inf" and sign != sc:
            return NAN32
        return encode(sign if product_inf else sc, "inf", f32)
    total = x * y * (-1 if sign else 1) + (-z if sc else z)  # type: ignore[operator]
    if total == 0:
        both_minus = sign and sc and z == 0 and x * y == 0  # type: ignore[operator]
        return 0x80000000 if both_minus else 0
    return encode(int(total < 0), abs(total), f32)


def f_sqrt(a: int) -> int:
    sign, x = decode(a, f32)
    if x == NAN or (sign and x != 0):
        return NAN32
    if x == "inf" or x == 0:
        return a
    assert isinstance(x, Fraction)
    scale = 4**200  # a perfect square: the root of x * scale has far more bits than f32
    root = isqrt(x.numerator * scale // x.denominator)
    sticky = 0 if root * root * x.denominator == x.numerator * scale else 1
    return encode(0, Fraction(2 * root + sticky, 2 * 2**200), f32)


def f_round(kind: str) -> Callable[[int], int]:
    def rounded(a: int) -> int:
        sign, x = decode(a, f32)
        if isinstance(x, str):
            return NAN32 if x == NAN else a
        v = -x if sign else x
        down = v.numerator // v.denominator
        up = -((-v.numerator) // v.denominator)
        near = round(v)  # Python's round of a Fraction is half to even
        trunc = up if sign else down
        value = {"floor": down, "ceil": up, "rint": near, "trunc": trunc}[kind]
        return encode(sign, Fraction(abs(value)), f32)

    return rounded


def f_pick(name: str) -> Callable[[int, int], int]:
    def pick(a: int, b: int) -> int:
        an, bn = is_nan(a, f32), is_nan(b, f32)
        if name in ("min", "max") and (an or bn):
            return NAN32
        if name in ("fmin", "fmax") and (an or bn):
            return NAN32 if an and bn else b if an else a
        x, y = number(a, f32), number(b, f32)
        return a if (x < y if name.endswith("min") else x > y) else b

    return pick


def f_compare(test: Callable[[object, object], bool], unordered: bool) -> Callable[..., bool]:
    def compare(a: int, b: int) -> bool:
        if is_nan(a, f32) or is_nan(b, f32):
            return unordered
        return test(number(a, f32), number(b, f32))

    return compare


def f_sign(a: int) -> int:
    sign, x = decode(a, f32)
    if x == NAN or x == 0:
        return a
    return encode(sign, Fraction(1), f32)


COMPARE: dict[str, Callable[..., bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}

FLOAT: dict[str, Callable[..., int | bool]] = {
    "add": f_add,
    "sub": lambda a, b: f_add(a, b ^ 0x80000000),
    "mul": f_mul,
    "div": f_div,
    "fma": f_fma,
    "sqrt": f_sqrt,
    "neg": lambda a: a ^ 0x80000000,
    "abs": lambda a: a & 0x7FFFFFFF,
    "copysign": lambda a, b: a & 0x7FFFFFFF | b & 0x80000000,
    "sign": f_sign,
    **{n: f_round(n) for n in ("floor", "ceil", "rint", "trunc")},
    **{n: f_pick(n) for n in ("min", "max", "fmin", "fmax")},
    **{n: f_compare(f, n == "ne") for n, f in COMPARE.items()},
    "where": lambda c, a, b: a if c else b,
}


# --- integers and bool ----------------------------------------------------------------------------


def integer(name: str, t: DType) -> Callable[..., int | bool]:
    """The row `name` on integers of `t`."""
    n, mask = t.bits, (1 << t.bits) - 1
    if name in COMPARE:
        return COMPARE[name]
    exact: dict[str, Callable[..., int]] = {
        "add": lambda a, b: a + b,
        "sub": lambda a, b: a - b,
        "mul": lambda a, b: a * b,
        "floordiv": lambda a, b: a // b if b else 0,
        "mod": lambda a, b: a % b if b else 0,
        "mulhi": lambda a, b: a * b >> n,
        "neg": lambda a: -a,
        "abs": abs,
        "sign": lambda a: (a > 0) - (a < 0),
        "min": min,
        "max": max,
        "and": lambda a, b: a & b,
        "or": lambda a, b: a | b,
        "xor": lambda a, b: a ^ b,
        "not": lambda a: ~a,
        "shl": lambda a, b: a << b % n,
        "shr": lambda a, b: a >> b % n,
        "popcount": lambda a: bin(a & mask).count("1"),
        "clz": lambda a: n - (a & mask).bit_length(),
        "ctz": lambda a: ((a & -a) & mask).bit_length() - 1 if a else n,
        "reverse_bits": lambda a: int(f"{a & mask:0{n}b}"[::-1], 2),
        "where": lambda c, a, b: a if c else b,
    }
    f = exact[name]
    return lambda *args: wrap(f(*args), t)


BOOL: dict[str, Callable[..., bool]] = {
    "and": lambda a, b: a and b,
    "or": lambda a, b: a or b,
    "xor": lambda a, b: a != b,
    "not": lambda a: not a,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "where": lambda c, a, b: a if c else b,
}


# --- conversions ----------------------------------------------------------------------------------


def cast(value: int | bool, a: DType, b: DType) -> int | bool:
    """`value` of `a` (bits, if a float) as `b` (bits, if a float)."""
    if a is b:
        return value
    if a.is_float:
        return _from_float(value, a, b)
    if b.kind == "b":
        return value != 0
    if not b.is_float:
        return wrap(int(value), b)
    wide = encode(int(value < 0), Fraction(abs(int(value))), f32)
    return wide if b is f32 else convert(wide, f32, b)


def _from_float(value: int, a: DType, b: DType) -> int | bool:
    sign, x = decode(value, a)
    if b.kind == "b":
        return x != 0
    if b.is_float:
        return convert(value, a, b)
    if x == NAN:
        return 0
    if x == "inf":
        return b.min if sign else b.max
    assert isinstance(x, Fraction)
    whole = x.numerator // x.denominator
    return max(b.min, min(b.max, -whole if sign else whole))


def row(name: str, t: DType) -> Callable[..., int | bool]:
    """The truth of a row on dtype `t`, on values as `SPECIALS` holds them."""
    if t.kind == "b":
        return BOOL[name]
    if t.is_float:
        return FLOAT[name]
    return integer(name, t)


STORAGE = (f16, bf16)
