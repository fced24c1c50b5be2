"""Metal Shading Language, plain: free functions, no templates, a structure for what is no pointer.

Arithmetic is exact where the library is compiled with `mathMode` safe. 64-bit integers need Metal
2.2, and a value of 64 bits goes from lane to lane as two words.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.backends import msl_matrix
from iron.backends.clike.dialect import Argument, Dialect
from iron.backends.clike.functions import shared_functions
from iron.dtypes import DTYPES, DType
from iron.ir.core import Kernel

MOST_BUFFERS = 31
"""Entries of a function's buffer argument table (Metal feature set tables)."""

TYPEDEFS = """
#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef ushort f16; typedef ushort bf16; typedef float f32;
#define IRON_CONSTANT_F32(bits) \\
  ((bits) == 0x7f800000u ? INFINITY : (bits) == 0xff800000u ? -INFINITY : NAN)
"""

_BEFORE = "static inline "

_INTRINSICS = {
    "iron_barrier": """
static inline void iron_barrier() {
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
}""",
    "iron_f32_to_bits": "static inline u32 iron_f32_to_bits(f32 x) { return as_type<u32>(x); }",
    "iron_bits_to_f32": "static inline f32 iron_bits_to_f32(u32 x) { return as_type<f32>(x); }",
    "iron_f16_to_f32": "static inline f32 iron_f16_to_f32(f16 x) { return (f32)as_type<half>(x); }",
    "iron_f32_to_f16": "static inline f16 iron_f32_to_f16(f32 x) { return as_type<f16>((half)x); }",
    "iron_fma_f32": "static inline f32 iron_fma_f32(f32 a, f32 b, f32 c) { return fma(a, b, c); }",
    "iron_sqrt_f32": "static inline f32 iron_sqrt_f32(f32 x) { return precise::sqrt(x); }",
    "iron_rint_f32": "static inline f32 iron_rint_f32(f32 x) { return rint(x); }",
    "iron_floor_f32": "static inline f32 iron_floor_f32(f32 x) { return floor(x); }",
    "iron_ceil_f32": "static inline f32 iron_ceil_f32(f32 x) { return ceil(x); }",
    "iron_trunc_f32": "static inline f32 iron_trunc_f32(f32 x) { return trunc(x); }",
    "iron_popcount_u32": "static inline u32 iron_popcount_u32(u32 x) { return popcount(x); }",
    "iron_clz_u32": "static inline u32 iron_clz_u32(u32 x) { return clz(x); }",
    "iron_mulhi_u32": "static inline u32 iron_mulhi_u32(u32 a, u32 b) { return mulhi(a, b); }",
    "iron_mulhi_i32": "static inline i32 iron_mulhi_i32(i32 a, i32 b) { return mulhi(a, b); }",
    "iron_reverse_bits_u32": """
static inline u32 iron_reverse_bits_u32(u32 x) {
  return reverse_bits(x);
}""",
    "iron_ballot": """
static inline u64 iron_ballot(bool x) {
  return (u64)(simd_vote::vote_t)simd_ballot(x);
}""",
}


def _shuffles() -> dict[str, str]:
    made: dict[str, str] = {}
    for t in DTYPES.values():
        for name in ("xor", "up"):
            made[f"iron_shuffle_{name}_{t}"] = (
                f"{_BEFORE}{t} iron_shuffle_{name}_{t}({t} x, i32 step) {{\n"
                f"{_moved(t, f'simd_shuffle_{name}')}\n}}"
            )
        made[f"iron_shifted_{t}"] = (
            f"{_BEFORE}{t} iron_shifted_{t}({t} x, {t} unit, i32 place) {{\n"
            f"  const {t} left = iron_shuffle_up_{t}(x, 1);\n"
            f"  return place > 0 ? left : unit;\n}}"
        )
    return made


def _moved(t: DType, function: str) -> str:
    if t.bits == 64:
        return (
            f"  const u64 low = {function}((u32)x, (ushort)step);\n"
            f"  const u64 high = {function}((u32)((u64)x >> 32), (ushort)step);\n"
            f"  return ({t})(high << 32 | low);"
        )
    if t.bits == 32:
        return f"  return {function}(x, (ushort)step);"
    return f"  return ({t}){function}((u32)x, (ushort)step);"


def _atomics() -> dict[str, str]:
    spaces = {"shared": "threadgroup", "global": "device"}
    return {
        f"iron_atomic_{kind}_{t}_{where}": (
            f"{_BEFORE}{t} iron_atomic_{kind}_{t}_{where}({space} {t}* at, {t} value) {{\n"
            f"  return atomic_fetch_{kind}_explicit(({space} {atomic}*)at, value, "
            "memory_order_relaxed);\n}"
        )
        for kind in ("add", "min", "max", "and", "or", "xor")
        for t, atomic in (("i32", "atomic_int"), ("u32", "atomic_uint"))
        for where, space in spaces.items()
    }


def _functions() -> dict[str, str]:
    own = {**_INTRINSICS, **_shuffles(), **_atomics()}
    shared = {n: t for n, t in shared_functions(_BEFORE, "l").items() if n not in own}
    return {**own, **shared}


# --- the entry ------------------------------------------------------------------------------------

_IDS = (
    "const uint group_position [[threadgroup_position_in_grid]]",
    "const uint simd_index [[simdgroup_index_in_threadgroup]]",
    "const uint lane_index [[thread_index_in_simdgroup]]",
)


def _entry(symbol: str, arguments: Sequence[Argument], kernel: Kernel) -> list[str]:
    """The structure, the signature, and the structure's fields under their own names."""
    buffers = [a for a in arguments if a.pointer]
    values = [a for a in arguments if not a.pointer]
    rows = [
        f"device {'' if a.written else 'const '}{a.dtype}* {a.name} [[buffer({n})]]"
        for n, a in enumerate(buffers)
    ]
    head: list[str] = []
    if values:
        fields = [f"  {a.dtype} {a.name};" for a in values]
        head = [f"struct {symbol}_arguments {{", *fields, "};", ""]
        rows.append(f"constant {symbol}_arguments& arguments [[buffer({len(buffers)})]]")
    parameters = ",\n    ".join([*rows, *_IDS])
    return [
        *head,
        f"[[max_total_threads_per_threadgroup({kernel.threads})]]",
        f"kernel void {symbol}(\n    {parameters}) {{",
        *(f"  const {a.dtype} {a.name} = arguments.{a.name};" for a in values),
    ]


_SPACES = {
    "in": "device const",
    "out": "device",
    "inout": "device",
    "shared": "threadgroup",
    "table": "constant",
}


def _pointer(space: str, dtype: DType) -> str:
    return f"{_SPACES[space]} {dtype}*"


MSL = Dialect(
    name="metal",
    typedefs=TYPEDEFS,
    functions=_functions(),
    entry=_entry,
    thread="(i32)(simd_index * {simd}u + lane_index)",
    group="group_position",
    counts="u32",
    shared="threadgroup",
    constant="constant",
    barrier="iron_barrier()",
    pointer=_pointer,
    long_suffix="l",
    spelled=msl_matrix.spelled,
    rules=msl_matrix.RULES,
    keywords=frozenset(
        {
            *("arguments", "group_position", "simd_index", "lane_index"),
            *("buffer", "threadgroup_position_in_grid", "max_total_threads_per_threadgroup"),
            *("simdgroup_index_in_threadgroup", "thread_index_in_simdgroup"),
            *("fragment", "vertex", "sampler", "texture", "patch", "object", "mesh", "visible"),
            *("metal", "INFINITY", "NAN", "uchar", "uint", "ulong", "ulong2", "bfloat"),
        }
    ),
)
