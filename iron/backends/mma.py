"""Products of a simdgroup as text: `mma.sync` of CUDA, MFMA and WMMA of AMD's GPUs.

Sources: PTX ISA 9.0, "Warp-level Matrix Instructions: mma"; LLVM's AMDGPU built-in functions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iron.backends.clike import sums
from iron.ir.core import Op
from iron.ir.ops.matrix import TOTALS, words_of

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

FORMATS = {
    "f16": ("m16n8k16", "f16"),
    "bf16": ("m16n8k16", "bf16"),
    "tf32": ("m16n8k8", "tf32"),
    "i8": ("m16n8k32", "s8"),
    "u8": ("m16n8k32", "u8"),
}
"""Shape and name of operands in PTX."""


def instruction(elem: str) -> str:
    """The PTX that adds a product to c0 .. c3."""
    (shape, ptx), total = FORMATS[elem], TOTALS[elem]
    held, kind = ("f32", "f") if total.is_float else ("s32", "r")
    sums = ", ".join(f'"+{kind}"(c{i})' for i in range(4))
    words = ", ".join(f'"r"({w})' for w in ("a0", "a1", "a2", "a3", "b0", "b1"))
    return (
        f'asm volatile("mma.sync.aligned.{shape}.row.col.{held}.{ptx}.{ptx}.{held} "\n'
        '      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"\n'
        f"      : {sums}\n      : {words});"
    )


def _cuda(elem: str) -> str:
    t = TOTALS[elem]
    return f"""
IRON_DEVICE void iron_mma_{elem}({t}& c0, {t}& c1, {t}& c2, {t}& c3, u32 a0, u32 a1, u32 a2,
                                 u32 a3, u32 b0, u32 b1) {{
  {instruction(elem)}
}}"""


CUDA = {f"iron_mma_{elem}": _cuda(elem) for elem in FORMATS}

_AMD = {
    (64, "f16"): ("_Float16", "__builtin_amdgcn_mfma_f32_16x16x16f16", ", 0, 0, 0"),
    (64, "bf16"): ("short", "__builtin_amdgcn_mfma_f32_16x16x16bf16_1k", ", 0, 0, 0"),
    (64, "i8"): ("long", "__builtin_amdgcn_mfma_i32_16x16x32_i8", ", 0, 0, 0"),
    (32, "f16"): ("_Float16", "__builtin_amdgcn_wmma_f32_16x16x16_f16_w32_gfx12", ""),
    (32, "bf16"): ("short", "__builtin_amdgcn_wmma_f32_16x16x16_bf16_w32_gfx12", ""),
}
"""By the width of a wave and the format: the elements of an operand, and the built-in function."""
BUILTINS = frozenset(name for _, name, _ in _AMD.values())


def _hip(wave: int, elem: str) -> str:
    """The instruction's accumulators lie by columns: as the transposed product they lie by rows."""
    held, builtin, rest = _AMD[wave, elem]
    t, words = TOTALS[elem], 2 if wave == 64 else 4
    sums = range(2 * words)
    count = 8 if held == "long" else 2
    size = words * 4 // count
    operand = held if held == "long" else "operand"
    named = f"  typedef {held} operand __attribute__((ext_vector_type({size})));\n"
    given = ", ".join(f"u32 {x}{i}" for x in "ab" for i in range(words))
    return f"""
IRON_DEVICE void iron_mma_{elem}({", ".join(f"{t}& c{i}" for i in sums)}, {given}) {{
{"" if held == "long" else named}\
  typedef u32 words __attribute__((ext_vector_type({words})));
  typedef {t} sums __attribute__((ext_vector_type({len(sums)})));
  const words a = {{{", ".join(f"a{i}" for i in range(words))}}};
  const words b = {{{", ".join(f"b{i}" for i in range(words))}}};
  sums c = {{{", ".join(f"c{i}" for i in sums)}}};
  c = {builtin}(__builtin_bit_cast({operand}, b), __builtin_bit_cast({operand}, a), c{rest});
{chr(10).join(f"  c{i} = c[{i}];" for i in sums)}
}}"""


HIP = {
    wave: {f"iron_mma_{elem}": _hip(w, elem) for w, elem in _AMD if w == wave} for wave in (32, 64)
}


def simd_mma(r: Renderer, op: Op) -> None:
    """The sums become variables that the product changes."""
    many = words_of(op.args)
    words = [r.expr(w).text for w in op.args[:many]]
    names = [
        sums.variable(r, s, result.name or "sum")
        for s, result in zip(op.args[many:], op.results, strict=True)
    ]
    r.line(f"iron_mma_{op.attr('elem')}({', '.join([*names, *words])});")
    for name, result in zip(names, op.results, strict=True):
        sums.bind(r, result, name)


RULES: dict[str, Callable[[Renderer, Op], None]] = {"simd_mma": simd_mma}
