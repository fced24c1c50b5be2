"""Functions that rendered text calls, written once in the C that every dialect shares.

Each follows `ir/scalar.py` to the bit. A dialect passes the words that stand before a function
and replaces the few entries for which it has an instruction.
"""

from __future__ import annotations

from collections.abc import Callable

from iron.dtypes import DTYPES, DType, i32, u32

Put = Callable[[str, str, str, str], None]

_SIGNED = [t for t in DTYPES.values() if t.kind == "i"]
_UNSIGNED = [t for t in DTYPES.values() if t.kind == "u"]
_INTEGERS = [*_UNSIGNED, *_SIGNED]  # signed definitions call unsigned ones


def shared_functions(before: str, long_suffix: str = "ll") -> dict[str, str]:
    """Name to definition, callees before callers; `before` qualifies each function."""
    made: dict[str, str] = {}

    def add(name: str, result: str, parameters: str, body: str) -> None:
        made[name] = f"{before}{result} {name}({parameters}) {{\n{_indented(body)}\n}}"

    for t in _INTEGERS:
        _integer(t, add)
    for a in (u32, i32):
        for b in (u32, i32):
            add(f"iron_dot4_{a}_{b}", "i32", f"{a} a, {b} b, i32 c", _dot4(a, b))
    _floats(add)
    for t in _INTEGERS:
        add(f"iron_f32_to_{t}", str(t), "f32 x", _saturating(t, long_suffix))
    add("iron_bf16_to_f32", "f32", "bf16 x", "return iron_bits_to_f32((u32)x << 16);")
    add(
        "iron_f32_to_bf16",
        "bf16",
        "f32 x",
        "const u32 b = iron_f32_to_bits(x);\n"
        "return x != x ? (bf16)0x7fc0 : (bf16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);",
    )
    return made


def _indented(body: str) -> str:
    return "\n".join(f"  {line}" for line in body.split("\n"))


def _integer(t: DType, put: Put) -> None:
    unsigned = f"u{t.bits}"
    for name, symbol in (("add", "+"), ("sub", "-"), ("mul", "*")):
        if t.kind == "i" and t.bits >= 32:
            put(
                f"iron_{name}_{t}",
                str(t),
                f"{t} a, {t} b",
                f"return ({t})(({unsigned})a {symbol} ({unsigned})b);",
            )
    put(f"iron_neg_{t}", str(t), f"{t} x", f"return ({t})(({unsigned})0 - ({unsigned})x);")
    if t.kind == "i":
        put(f"iron_abs_{t}", str(t), f"{t} x", f"return x < 0 ? iron_neg_{t}(x) : x;")
        put(f"iron_sign_{t}", str(t), f"{t} x", f"return ({t})(x > 0 ? 1 : x < 0 ? -1 : 0);")
    put(f"iron_min_{t}", str(t), f"{t} a, {t} b", "return a < b ? a : b;")
    put(f"iron_max_{t}", str(t), f"{t} a, {t} b", "return a > b ? a : b;")
    put(f"iron_floordiv_{t}", str(t), f"{t} a, {t} b", _quotient(t))
    put(f"iron_mod_{t}", str(t), f"{t} a, {t} b", _remainder(t))
    count = f"(({unsigned})b & {t.bits - 1}u)"
    put(f"iron_shl_{t}", str(t), f"{t} a, {t} b", f"return ({t})(({unsigned})a << {count});")
    put(f"iron_shr_{t}", str(t), f"{t} a, {t} b", f"return ({t})(a >> {count});")
    put(f"iron_mulhi_{t}", str(t), f"{t} a, {t} b", _high_product(t))
    _bit_counts(t, put)


def _dot4(a: DType, b: DType) -> str:
    """The sum in u32, where wrapping is defined."""
    products = [f"{_byte('a', a, n)} * {_byte('b', b, n)}" for n in range(4)]
    lines = [f"sum += (u32)({p});" for p in products]
    return "\n".join(["u32 sum = (u32)c;", *lines, "return (i32)sum;"])


def _byte(word: str, t: DType, number: int) -> str:
    moved = f"({word} >> {8 * number})" if number else word
    return f"(i32)({'i8' if t.kind == 'i' else 'u8'}){moved}"


def _quotient(t: DType) -> str:
    if t.kind == "u":
        return f"return b == 0 ? ({t})0 : ({t})(a / b);"
    return (
        "if (b == 0) return 0;\n"
        f"if (b == -1) return iron_neg_{t}(a);\n"
        f"const {t} q = ({t})(a / b);\n"
        f"return (a % b != 0 && (a < 0) != (b < 0)) ? ({t})(q - 1) : q;"
    )


def _remainder(t: DType) -> str:
    if t.kind == "u":
        return f"return b == 0 ? ({t})0 : ({t})(a % b);"
    return (
        "if (b == 0 || b == -1) return 0;\n"
        f"const {t} r = ({t})(a % b);\n"
        f"return (r != 0 && (r < 0) != (b < 0)) ? ({t})(r + b) : r;"
    )


def _high_product(t: DType) -> str:
    if t.bits < 64:
        wide = f"{t.kind}64"
        return f"return ({t})((({wide})a * ({wide})b) >> {t.bits});"
    if t.kind == "u":
        return (
            "const u64 a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;\n"
            "const u64 middle = a1 * b0 + ((a0 * b0) >> 32);\n"
            "const u64 cross = a0 * b1 + (middle & 0xffffffffu);\n"
            "return a1 * b1 + (middle >> 32) + (cross >> 32);"
        )
    return (
        "u64 high = iron_mulhi_u64((u64)a, (u64)b);\n"
        "if (a < 0) high -= (u64)b;\n"
        "if (b < 0) high -= (u64)a;\n"
        "return (i64)high;"
    )


def _bit_counts(t: DType, put: Put) -> None:
    u = f"u{t.bits}"
    steps = [1 << k for k in range(t.bits.bit_length() - 1)]
    put(
        f"iron_popcount_{t}",
        str(t),
        f"{t} x",
        f"{u} v = ({u})x;\nu32 n = 0;\n"
        f"for (; v != 0; v = ({u})(v & (v - 1))) n += 1;\nreturn ({t})n;",
    )
    smear = "\n".join(f"v = ({u})(v | (v >> {s}));" for s in steps)
    put(
        f"iron_clz_{t}",
        str(t),
        f"{t} x",
        f"{u} v = ({u})x;\n{smear}\nreturn ({t})({t.bits} - (i32)iron_popcount_{u}(v));",
    )
    put(
        f"iron_ctz_{t}",
        str(t),
        f"{t} x",
        f"const {u} v = ({u})x;\nreturn ({t})iron_popcount_{u}(({u})(~v & (v - 1)));",
    )
    put(
        f"iron_reverse_bits_{t}",
        str(t),
        f"{t} x",
        f"{u} v = ({u})x, r = 0;\n"
        f"for (u32 i = 0; i < {t.bits}u; ++i, v = ({u})(v >> 1)) "
        f"r = ({u})((r << 1) | (v & 1));\n"
        f"return ({t})r;",
    )


def _floats(put: Put) -> None:
    put(
        "iron_abs_f32",
        "f32",
        "f32 x",
        "return iron_bits_to_f32(iron_f32_to_bits(x) & 0x7fffffffu);",
    )
    put("iron_sign_f32", "f32", "f32 x", "return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x;")
    put(
        "iron_copysign_f32",
        "f32",
        "f32 a, f32 b",
        "return iron_bits_to_f32((iron_f32_to_bits(a) & 0x7fffffffu) | "
        "(iron_f32_to_bits(b) & 0x80000000u));",
    )
    put("iron_min_f32", "f32", "f32 a, f32 b", "return a < b || a != a ? a : b;")
    put("iron_max_f32", "f32", "f32 a, f32 b", "return a > b || a != a ? a : b;")
    put("iron_min_bound_f32", "f32", "f32 a, f32 b", "return iron_min_f32(a, b);")
    put("iron_max_bound_f32", "f32", "f32 a, f32 b", "return iron_max_f32(a, b);")
    put("iron_fmin_f32", "f32", "f32 a, f32 b", "return a < b || b != b ? a : b;")
    put("iron_fmax_f32", "f32", "f32 a, f32 b", "return a > b || b != b ? a : b;")


def _saturating(t: DType, long_suffix: str) -> str:
    """Beyond the range the nearest end, NaN to 0; the comparisons are exact powers of two."""
    high = f"{2.0 ** (t.bits - (t.kind == 'i')):.1f}f"
    low = f"-{2.0 ** (t.bits - 1):.1f}f" if t.kind == "i" else "0.0f"
    most = _literal(t.max, t, long_suffix)
    least = _literal(t.min, t, long_suffix)
    return (
        "if (x != x) return 0;\n"
        f"if (x >= {high}) return {most};\n"
        f"if (x <= {low}) return {least};\n"
        f"return ({t})x;"
    )


def _literal(value: int, t: DType, long_suffix: str) -> str:
    suffix = "u" + (long_suffix if t.bits == 64 else "")
    if t.kind == "i":
        return f"({t})(u{t.bits})0x{value & ((1 << t.bits) - 1):x}{suffix}"
    return f"({t})0x{value:x}{suffix}"
