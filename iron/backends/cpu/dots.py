"""Products of bytes: by the instructions for them where the CPU has some, else by 16-bit ones."""

from __future__ import annotations

from collections.abc import Callable

from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names
from iron.backends.cpu.types import lanes
from iron.dtypes import i32
from iron.ir.core import Op
from iron.ir.types import element

FLIP = -0x7F7F7F80
"""The sign bit of each byte: added to a signed byte it gives an unsigned one 128 higher."""

_PAIRS = {
    4: "llvm.x86.sse2.pmadd.wd",
    8: "llvm.x86.avx2.pmadd.wd",
    16: "llvm.x86.avx512.pmaddw.d.512",
}
_LEAST = 4
"""Lanes of the narrowest vector instruction."""


def _dot4(e: Emitter, op: Op) -> list[Names]:
    (result,) = op.results
    x = Lanes(e.w, i32, e.width(result))
    a, b, c = (e.names(v, x.width)[0] for v in op.args)
    first, second = (element(v.type).kind == "i" for v in op.args[:2])
    return [(dot4(e, x, (first, second), a, b, c),)]


def dot4(e: Emitter, x: Lanes, signed: tuple[bool, bool], a: str, b: str, c: str) -> str:
    """c plus the products of the bytes of a and b, `signed` or not."""
    widest = 16 if e.target.has("avx512") else 8
    x86 = e.target.triple.startswith("x86_64")
    if not x86 or x.width < _LEAST:
        return _by_shifts(x, signed, a, b, c)
    if e.target.has("avxvnni") or (e.target.has("avx512") and e.target.has("avx512vnni")):
        form = _by_bytes
    else:
        form = _by_pairs
    return _in_parts(x, min(widest, x.width), lambda y, *v: form(y, signed, *v), a, b, c)


def _in_parts(x: Lanes, width: int, form: Callable[..., str], *operands: str) -> str:
    """`form` on `width` lanes at a time."""
    if width == x.width:
        return form(x, *operands)
    parts: list[str] = []
    for start in range(0, x.width, width):
        at = list(range(start, start + width))
        some = (x.w.pick(o, x.ll, x.width, at) for o in operands)
        parts.append(form(Lanes(x.w, i32, width), *some))
    return x.w.concat(parts, x.ll, width)


def _by_bytes(x: Lanes, signed: tuple[bool, bool], a: str, b: str, c: str) -> str:
    """`vpdpbusd` takes unsigned and signed bytes; others differ from such by 128 a byte."""
    if signed == (True, False):
        a, b = b, a
    elif signed == (True, True):
        more = _vpdpbusd(x, c, x.op("xor", a, x.const(FLIP)), b)
        return x.op("sub", more, _vpdpbusd(x, x.const(0), x.const(FLIP), b))
    elif signed == (False, False):
        less = _vpdpbusd(x, c, a, x.op("xor", b, x.const(FLIP)))
        return x.op("sub", less, _vpdpbusd(x, x.const(0), a, x.const(FLIP)))
    return _vpdpbusd(x, c, a, b)


def _vpdpbusd(x: Lanes, c: str, a: str, b: str) -> str:
    bits, bytes_ = 32 * x.width, lanes("i8", 4 * x.width)
    parts = [x.w.let(f"bitcast {x.t} {v} to {bytes_}") for v in (a, b)]
    name = f"llvm.x86.avx512.vpdpbusd.{bits}"
    return x.w.call(x.t, name, (x.t, c), *((bytes_, p) for p in parts))


def _by_pairs(x: Lanes, signed: tuple[bool, bool], a: str, b: str, c: str) -> str:
    """Even bytes and odd bytes as 16-bit numbers, whose products are added in pairs."""
    half = lanes("i16", 2 * x.width)
    eight = x.w.splat("8", "i16", 2 * x.width)

    def bytes_of(word: str, negative: bool) -> tuple[str, str]:
        pair = x.w.let(f"bitcast {x.t} {word} to {half}")
        high = x.w.let(f"shl {half} {pair}, {eight}")
        down = "ashr" if negative else "lshr"
        return (
            x.w.let(f"{down} {half} {high}, {eight}"),
            x.w.let(f"{down} {half} {pair}, {eight}"),
        )

    for even in zip(bytes_of(a, signed[0]), bytes_of(b, signed[1]), strict=True):
        sums = x.w.call(x.t, _PAIRS[x.width], *((half, v) for v in even))
        c = x.op("add", c, sums)
    return c


def _by_shifts(x: Lanes, signed: tuple[bool, bool], a: str, b: str, c: str) -> str:
    """Byte by byte."""
    for byte in range(4):
        parts: list[str] = []
        for word, negative in zip((a, b), signed, strict=True):
            high = x.op("shl", word, x.const(24 - 8 * byte)) if byte < 3 else word
            parts.append(x.op("ashr" if negative else "lshr", high, x.const(24)))
        c = x.op("add", c, x.op("mul", *parts))
    return c


RULES = {"dot4": _dot4}
