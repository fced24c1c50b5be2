"""Conversion rows: casts by the rules of `ir/scalar.py`, bit casts, and vectors as components.

A value of a vector type is one component an element, each with its own lanes.
"""

from __future__ import annotations

import struct

from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter, Names
from iron.backends.cpu.types import float_literal, lanes, literal, scalar, spread
from iron.dtypes import DType, bf16, f32, i32, u32
from iron.ir.core import Op
from iron.ir.types import element


def cast(x: Lanes, value: str, to: DType) -> str:
    """`value` of dtype `x.dtype` converted to `to`."""
    source = x.dtype
    if source is to:
        return value
    if source.kind == "s":
        return cast(x.of(f32), _widen(x, value), to)
    if to.kind == "s":
        return _narrow(x.of(f32), cast(x, value, f32), to)
    if to.kind == "b":
        return x.compare("une" if source.kind == "f" else "ne", value, x.const(0))
    if source.kind == "f":
        return _saturate(x, value, to)
    if to.kind == "f":
        return x.convert("sitofp" if source.kind == "i" else "uitofp", value, "float")
    if source.bits == to.bits:
        return value
    opcode = "trunc" if to.bits < source.bits else "sext" if source.kind == "i" else "zext"
    return x.convert(opcode, value, scalar(to))


def _widen(x: Lanes, value: str) -> str:
    if x.dtype.name == "f16":
        half = x.convert("bitcast", value, "half")
        return x.w.let(f"fpext {lanes('half', x.width)} {half} to {lanes('float', x.width)}")
    u = x.of(u32)
    bits = u.op("shl", x.convert("zext", value, u.ll), u.const(16))
    return u.convert("bitcast", bits, "float")


def _narrow(x: Lanes, value: str, to: DType) -> str:
    if to.name == "f16":
        half = x.convert("fptrunc", value, "half")
        return x.w.let(f"bitcast {lanes('half', x.width)} {half} to {lanes('i16', x.width)}")
    return _round_to_bf16(x, value)


def _round_to_bf16(x: Lanes, value: str) -> str:
    """Nearest even on the bits."""
    u = x.of(u32)
    bits = x.convert("bitcast", value, u.ll)
    odd = u.op("and", u.op("lshr", bits, u.const(16)), u.const(1))
    rounded = u.op("add", bits, u.op("add", odd, u.const(0x7FFF)))
    high = u.op("lshr", rounded, u.const(16))
    high = u.select(x.is_nan(value), u.const(0x7FC0), high)
    return u.convert("trunc", high, "i16")


def _by_instruction(x: Lanes, value: str) -> str:
    """Nearest even by an instruction that takes subnormals for 0; by bits where there is one."""
    half = lanes("i16", x.width)
    cell = x.w.cell(half)
    parts = [x.w.pick(value, x.ll, x.width, list(range(at, at + 16))) for at in (0, 16)]
    name = "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
    both = x.w.call("<32 x bfloat>", name, *(("<16 x float>", p) for p in reversed(parts)))
    x.w.do(f"store {half} {x.w.let(f'bitcast <32 x bfloat> {both} to {half}')}, ptr {cell}")
    small = [
        x.w.call("<16 x i1>", _CLASS, ("<16 x float>", p), ("i32", str(_SUBNORMAL))) for p in parts
    ]
    rare, common = x.w.fresh("subnormal"), x.w.fresh("rounded")
    x.w.branch(x.w.any(x.w.let(f"or <16 x i1> {small[0]}, {small[1]}"), 16), rare, common)
    x.w.label(rare)
    x.w.do(f"store {half} {_round_to_bf16(x, value)}, ptr {cell}")
    x.w.jump(common)
    x.w.label(common)
    return x.w.let(f"load {half}, ptr {cell}")


_CLASS = "llvm.x86.avx512.fpclass.ps.512"
_SUBNORMAL = 0x20


def _below(limit: int) -> float:
    """The greatest f32 that is not above `limit`."""
    (value,) = struct.unpack("<f", struct.pack("<f", limit))
    if value > limit:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        (value,) = struct.unpack("<f", struct.pack("<I", bits - 1))
    return value


def _saturate(x: Lanes, value: str, to: DType) -> str:
    """Float to integer with clamps: the saturating intrinsic becomes one conversion a lane."""
    low, top = _below(to.min), _below(to.max)
    least, most = (spread(float_literal(v), "float", x.width) for v in (low, top))
    inside = x.select(x.order("gt", value, least), value, least)
    inside = x.select(x.order("lt", inside, most), inside, most)
    through = to if to.bits >= 32 else i32
    y = x.of(through)
    whole = x.convert("fptoui" if through.kind == "u" else "fptosi", inside, y.ll)
    if top < to.max:
        whole = y.select(x.order("gt", value, most), y.const(to.max), whole)
    whole = y.select(x.is_nan(value), y.const(0), whole)
    return whole if through is to else y.convert("trunc", whole, scalar(to))


# --- bit casts ------------------------------------------------------------------------------------


def _as_bits(x: Lanes, value: str) -> str:
    return x.convert("bitcast", value, f"i{x.dtype.bits}") if x.dtype.kind == "f" else value


def _from_bits(x: Lanes, value: str) -> str:
    """`value`, an integer of `x.dtype`'s width, as `x.dtype`."""
    if x.dtype.kind != "f":
        return value
    return x.w.let(f"bitcast {lanes(f'i{x.dtype.bits}', x.width)} {value} to {x.t}")


def recast(x: Lanes, parts: list[str], to: DType) -> list[str]:
    """The bits of the components `parts` as components of `to`, little end first."""
    y = x.of(to)
    have, want = x.dtype.bits, to.bits
    bits = [_as_bits(x, p) for p in parts]
    source, result = lanes(f"i{have}", x.width), lanes(f"i{want}", x.width)
    out: list[str] = []
    if have >= want:
        for whole in bits:
            for k in range(have // want):
                piece = whole
                if k:
                    by = x.w.splat(str(k * want), f"i{have}", x.width)
                    piece = x.w.let(f"lshr {source} {whole}, {by}")
                if have > want:
                    piece = x.w.let(f"trunc {source} {piece} to {result}")
                    x.w.pieces[piece] = whole, have, k
                out.append(piece)
    else:
        ratio = want // have
        for k in range(0, len(bits), ratio):
            out.append(_joined(x, bits[k : k + ratio], want))
    return [_from_bits(y, b) for b in out]


def _joined(x: Lanes, bits: list[str], want: int) -> str:
    source, result = lanes(f"i{x.dtype.bits}", x.width), lanes(f"i{want}", x.width)
    first, *_ = x.w.pieces.get(bits[0], ("",))
    if first and all(x.w.pieces.get(b) == (first, want, k) for k, b in enumerate(bits)):
        return first  # the pieces of a word, together again
    whole = ""
    for k, part in enumerate(bits):
        grown = x.w.let(f"zext {source} {part} to {result}")
        if k:
            by = x.w.splat(str(k * x.dtype.bits), f"i{want}", x.width)
            grown = x.w.let(f"shl {result} {grown}, {by}")
        whole = x.w.let(f"or {result} {whole}, {grown}") if whole else grown
    return whole


# --- the rows -------------------------------------------------------------------------------------


def _cast(e: Emitter, op: Op) -> list[Names]:
    result = op.results[0]
    x, to = Lanes(e.w, element(op.args[0].type), e.width(result)), op.attr("to")
    names = e.names(op.args[0], x.width)
    if x.dtype is f32 and to is bf16 and x.width == 32 and _rounds_to_bf16(e):
        return [tuple(_by_instruction(x, c) for c in names)]
    return [tuple(cast(x, c, to) for c in names)]


def _rounds_to_bf16(e: Emitter) -> bool:
    return e.target.has("avx512") and e.target.has("avx512bf16")


def _bitcast(e: Emitter, op: Op) -> list[Names]:
    x = Lanes(e.w, element(op.args[0].type), e.width(op.results[0]))
    return [tuple(recast(x, list(e.names(op.args[0], x.width)), op.attr("to")))]


def _const(e: Emitter, op: Op) -> list[Names]:
    return [(literal(*op.attrs),)]


def _splat(e: Emitter, op: Op) -> list[Names]:
    return [e.names(op.args[0], e.width(op.results[0])) * op.attr("count")]


def _pack(e: Emitter, op: Op) -> list[Names]:
    width = e.width(op.results[0])
    return [tuple(e.names(a, width)[0] for a in op.args)]


def _extract(e: Emitter, op: Op) -> list[Names]:
    return [(e.names(op.args[0], e.width(op.results[0]))[op.attr("at")],)]


RULES = {
    "cast": _cast,
    "bitcast": _bitcast,
    "const": _const,
    "splat": _splat,
    "pack": _pack,
    "extract": _extract,
}
