"""HIP as clang compiles it without any header: CUDA's shape, AMD's instructions.

A wave of 32 or of 64 lanes is part of the text. With HIP's own headers the same text compiles: it
defines the words of HIP only where they are missing, and nothing else without `iron_` before it.
"""

from __future__ import annotations

from dataclasses import replace

from iron.backends import mma
from iron.backends.clike.dialect import Dialect
from iron.backends.clike.functions import shared_functions
from iron.backends.cuda import CUDA, opening, words
from iron.dtypes import DTYPES, DType

TYPEDEFS = """
#pragma clang fp contract(off)
#ifndef __global__
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(threads) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#endif
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) \\
  ((bits) == 0x7f800000u ? __builtin_inff() : (bits) == 0xff800000u ? -__builtin_inff() \\
                                                                    : __builtin_nanf(""))
"""

_INTRINSICS = {
    "iron_thread": """
IRON_DEVICE i32 iron_thread() {
  return (i32)__builtin_amdgcn_workitem_id_x();
}""",
    "iron_group": """
IRON_DEVICE u32 iron_group() {
  return __builtin_amdgcn_workgroup_id_x();
}""",
    "iron_barrier": """
IRON_DEVICE void iron_barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}""",
    "iron_f32_to_bits": """
IRON_DEVICE u32 iron_f32_to_bits(f32 x) {
  return __builtin_bit_cast(u32, x);
}""",
    "iron_bits_to_f32": """
IRON_DEVICE f32 iron_bits_to_f32(u32 x) {
  return __builtin_bit_cast(f32, x);
}""",
    "iron_f16_to_f32": """
IRON_DEVICE f32 iron_f16_to_f32(f16 x) {
  return (f32)__builtin_bit_cast(_Float16, x);
}""",
    "iron_f32_to_f16": """
IRON_DEVICE f16 iron_f32_to_f16(f32 x) {
  return __builtin_bit_cast(f16, (_Float16)x);
}""",
    "iron_fma_f32": """
IRON_DEVICE f32 iron_fma_f32(f32 a, f32 b, f32 c) {
  return __builtin_fmaf(a, b, c);
}""",
    "iron_fast_exp2_f32": """
IRON_DEVICE f32 iron_fast_exp2_f32(f32 x) {
  return __builtin_amdgcn_exp2f(x);
}""",
    "iron_fast_rcp_f32": """
IRON_DEVICE f32 iron_fast_rcp_f32(f32 x) {
  return __builtin_amdgcn_rcpf(x);
}""",
    "iron_fast_rsqrt_f32": """
IRON_DEVICE f32 iron_fast_rsqrt_f32(f32 x) {
  return __builtin_amdgcn_rsqf(x);
}""",
    "iron_sqrt_f32": "IRON_DEVICE f32 iron_sqrt_f32(f32 x) { return __builtin_sqrtf(x); }",
    "iron_rint_f32": "IRON_DEVICE f32 iron_rint_f32(f32 x) { return __builtin_rintf(x); }",
    "iron_floor_f32": "IRON_DEVICE f32 iron_floor_f32(f32 x) { return __builtin_floorf(x); }",
    "iron_ceil_f32": "IRON_DEVICE f32 iron_ceil_f32(f32 x) { return __builtin_ceilf(x); }",
    "iron_trunc_f32": "IRON_DEVICE f32 iron_trunc_f32(f32 x) { return __builtin_truncf(x); }",
    "iron_popcount_u32": """
IRON_DEVICE u32 iron_popcount_u32(u32 x) {
  return (u32)__builtin_popcount(x);
}""",
    "iron_popcount_u64": """
IRON_DEVICE u64 iron_popcount_u64(u64 x) {
  return (u64)__builtin_popcountll(x);
}""",
    "iron_clz_u32": """
IRON_DEVICE u32 iron_clz_u32(u32 x) {
  return x == 0 ? 32u : (u32)__builtin_clz(x);
}""",
    "iron_reverse_bits_u32": """
IRON_DEVICE u32 iron_reverse_bits_u32(u32 x) {
  return __builtin_bitreverse32(x);
}""",
}

_LANES = {
    32: """
IRON_DEVICE i32 iron_lane() {
  return (i32)__builtin_amdgcn_mbcnt_lo(~0u, 0u);
}""",
    64: """
IRON_DEVICE i32 iron_lane() {
  return (i32)__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
}""",
}

_FROM_LANE = """
IRON_DEVICE u32 iron_from_lane(u32 x, i32 lane) {
  return (u32)__builtin_amdgcn_ds_bpermute(4 * lane, (i32)x);
}"""


def _lanes(wave: int) -> dict[str, str]:
    """What the lanes of a wave exchange; values travel as words of 32 bits."""
    made = {"iron_lane": _LANES[wave], "iron_from_lane": _FROM_LANE}
    made["iron_ballot"] = (
        f"IRON_DEVICE u64 iron_ballot(bool x) {{ return __builtin_amdgcn_ballot_w{wave}(x); }}"
    )
    for t in DTYPES.values():
        for name, symbol in (("xor", "^"), ("up", "-")):
            made[f"iron_shuffle_{name}_{t}"] = (
                f"IRON_DEVICE {t} iron_shuffle_{name}_{t}({t} x, i32 step) {{\n"
                f"  const i32 lane = iron_lane() {symbol} step;\n{_moved(t)}\n}}"
            )
        made[f"iron_shifted_{t}"] = (
            f"IRON_DEVICE {t} iron_shifted_{t}({t} x, {t} unit, i32 place) {{\n"
            f"  const {t} left = iron_shuffle_up_{t}(x, 1);\n"
            f"  return place > 0 ? left : unit;\n}}"
        )
    return made


def _moved(t: DType) -> str:
    if t.kind == "f":
        return "  return iron_bits_to_f32(iron_from_lane(iron_f32_to_bits(x), lane));"
    if t.bits <= 32:
        return f"  return ({t})iron_from_lane((u32)x, lane);"
    return (
        "  const u64 low = iron_from_lane((u32)x, lane);\n"
        "  const u64 high = iron_from_lane((u32)((u64)x >> 32), lane);\n"
        f"  return ({t})(high << 32 | low);"
    )


def _atomics() -> dict[str, str]:
    scopes = {"shared": "WORKGROUP", "global": "AGENT"}
    return {
        f"iron_atomic_{kind}_{t}_{where}": (
            f"IRON_DEVICE {t} iron_atomic_{kind}_{t}_{where}({t}* at, {t} value) {{\n"
            f"  return __hip_atomic_fetch_{kind}(at, value, __ATOMIC_RELAXED, "
            f"__HIP_MEMORY_SCOPE_{scope});\n}}"
        )
        for kind in ("add", "min", "max", "and", "or", "xor")
        for t in ("i32", "u32")
        for where, scope in scopes.items()
    }


def _functions(wave: int) -> dict[str, str]:
    own = {**words(), **_INTRINSICS, **_lanes(wave), **_atomics(), **mma.HIP[wave]}
    shared = {n: t for n, t in shared_functions("IRON_DEVICE ").items() if n not in own}
    return {**own, **shared}


def _dialect(wave: int) -> Dialect:
    return replace(
        CUDA,
        name="hip",
        typedefs=TYPEDEFS,
        functions=_functions(wave),
        entry=opening,
        thread="iron_thread()",
        group="iron_group()",
        barrier="iron_barrier()",
        hold="",
        most_declared=0,
    )


HIP = {wave: _dialect(wave) for wave in (32, 64)}
"""The dialect for each width of a wave."""
