"""CUDA C++ as NVRTC compiles it: no header, warp shuffles, IEEE arithmetic without contraction."""

from __future__ import annotations

from collections.abc import Sequence

from iron.backends import mma, ptx, ptx_functions, sm80
from iron.backends.clike.dialect import Argument, Dialect
from iron.backends.clike.functions import shared_functions
from iron.backends.clike.words import in_words
from iron.dtypes import DTYPES, DType
from iron.ir.core import Kernel
from iron.targets.nvidia import EARLY_THREADS, STATIC_SHARED

TYPEDEFS = """
typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
"""


def _approximate(name: str, instruction: str) -> str:
    return f"""
IRON_DEVICE f32 iron_fast_{name}_f32(f32 x) {{
  f32 y;
  asm("{instruction}.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}}"""


_INTRINSICS = {
    "iron_f32_to_bits": "IRON_DEVICE u32 iron_f32_to_bits(f32 x) { return __float_as_uint(x); }",
    "iron_bits_to_f32": "IRON_DEVICE f32 iron_bits_to_f32(u32 x) { return __uint_as_float(x); }",
    "iron_f16_to_f32": """
IRON_DEVICE f32 iron_f16_to_f32(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}""",
    "iron_f32_to_f16": """
IRON_DEVICE f16 iron_f32_to_f16(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}""",
    "iron_f32_to_bf16": """
IRON_DEVICE bf16 iron_f32_to_bf16(f32 x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}""",
    "iron_min_bound_f32": """
IRON_DEVICE f32 iron_min_bound_f32(f32 a, f32 b) {
  f32 y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}""",
    "iron_max_bound_f32": """
IRON_DEVICE f32 iron_max_bound_f32(f32 a, f32 b) {
  f32 y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}""",
    "iron_fma_f32": """
IRON_DEVICE f32 iron_fma_f32(f32 a, f32 b, f32 c) {
  return __fmaf_rn(a, b, c);
}""",
    "iron_fast_exp2_f32": _approximate("exp2", "ex2"),
    "iron_fast_rcp_f32": _approximate("rcp", "rcp"),
    "iron_fast_rsqrt_f32": _approximate("rsqrt", "rsqrt"),
    "iron_sqrt_f32": "IRON_DEVICE f32 iron_sqrt_f32(f32 x) { return __fsqrt_rn(x); }",
    "iron_rint_f32": "IRON_DEVICE f32 iron_rint_f32(f32 x) { return rintf(x); }",
    "iron_floor_f32": "IRON_DEVICE f32 iron_floor_f32(f32 x) { return floorf(x); }",
    "iron_ceil_f32": "IRON_DEVICE f32 iron_ceil_f32(f32 x) { return ceilf(x); }",
    "iron_trunc_f32": "IRON_DEVICE f32 iron_trunc_f32(f32 x) { return truncf(x); }",
    "iron_popcount_u32": "IRON_DEVICE u32 iron_popcount_u32(u32 x) { return (u32)__popc(x); }",
    "iron_popcount_u64": "IRON_DEVICE u64 iron_popcount_u64(u64 x) { return (u64)__popcll(x); }",
    "iron_clz_u32": "IRON_DEVICE u32 iron_clz_u32(u32 x) { return (u32)__clz((int)x); }",
    "iron_mulhi_u32": "IRON_DEVICE u32 iron_mulhi_u32(u32 a, u32 b) { return __umulhi(a, b); }",
    "iron_mulhi_i32": "IRON_DEVICE i32 iron_mulhi_i32(i32 a, i32 b) { return __mulhi(a, b); }",
    "iron_reverse_bits_u32": "IRON_DEVICE u32 iron_reverse_bits_u32(u32 x) { return __brev(x); }",
    "iron_ballot": "IRON_DEVICE u64 iron_ballot(bool x) { return __ballot_sync(0xffffffffu, x); }",
    # A small launch may begin while the one before it ends: it waits here, and lets the next begin.
    "iron_take_turn": f"""
IRON_DEVICE void iron_take_turn() {{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= {EARLY_THREADS}u) {{
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }}
#endif
}}""",
}


def _dots() -> dict[str, str]:
    """Products of four bytes and their sum in one instruction."""
    kinds = {"i32": "s32", "u32": "u32"}
    return {
        f"iron_dot4_{a}_{b}": f"""
IRON_DEVICE i32 iron_dot4_{a}_{b}({a} a, {b} b, i32 c) {{
  i32 y;
  asm("dp4a.{kinds[a]}.{kinds[b]} %0, %1, %2, %3;" : "=r"(y) : "r"(a), "r"(b), "r"(c));
  return y;
}}"""
        for a in kinds
        for b in kinds
    }


def _shuffles() -> dict[str, str]:
    """Exchange between lanes; a type narrower than 32 bits travels as one."""
    made: dict[str, str] = {}
    for t in DTYPES.values():
        wide = str(t) if t.bits >= 32 else "u32"
        for name, instruction in (("xor", "__shfl_xor_sync"), ("up", "__shfl_up_sync")):
            made[f"iron_shuffle_{name}_{t}"] = (
                f"IRON_DEVICE {t} iron_shuffle_{name}_{t}({t} x, i32 step) "
                f"{{ return ({t}){instruction}(0xffffffffu, ({wide})x, step); }}"
            )
        made[f"iron_shifted_{t}"] = (
            f"IRON_DEVICE {t} iron_shifted_{t}({t} x, {t} unit, i32 place) {{\n"
            f"  const {t} left = iron_shuffle_up_{t}(x, 1);\n"
            f"  return place > 0 ? left : unit;\n}}"
        )
    return made


def _atomics() -> dict[str, str]:
    names = {"add": "atomicAdd", "min": "atomicMin", "max": "atomicMax"}
    names |= {"and": "atomicAnd", "or": "atomicOr", "xor": "atomicXor"}
    return {
        f"iron_atomic_{kind}_{t}_{where}": (
            f"IRON_DEVICE {t} iron_atomic_{kind}_{t}_{where}({t}* at, {t} value) "
            f"{{ return {instruction}(at, value); }}"
        )
        for kind, instruction in names.items()
        for t in ("i32", "u32")
        for where in ("shared", "global")
    }


def words() -> dict[str, str]:
    """Neighbours that one instruction moves, or a few of 16 bytes; small ones share u32 words."""
    made: dict[str, str] = {}
    for t in DTYPES.values():
        for size in (2, 4, 8, 16, 32, 64):
            bytes, name = size * t.bytes, f"iron_{t}x{size}"
            held = f"u32 w[{bytes // 4}]" if in_words(t, size) else f"{t} e[{size}]"
            made[name] = f"struct alignas({min(16, bytes)}) {name} {{ {held}; }};"
    return made


def _functions() -> dict[str, str]:
    own = {
        **words(),
        **_INTRINSICS,
        **_dots(),
        **_shuffles(),
        **_atomics(),
        **mma.CUDA,
        **ptx_functions.functions(),
        **sm80.FUNCTIONS,
    }
    shared = {n: t for n, t in shared_functions("IRON_DEVICE ").items() if n not in own}
    return {**own, **shared}


def opening(symbol: str, arguments: Sequence[Argument], kernel: Kernel) -> list[str]:
    """The head of a kernel, up to its brace."""
    rows = [f"    {_parameter(a)}" for a in arguments]
    return [
        f'extern "C" __global__ void __launch_bounds__({kernel.threads}) {symbol}(',
        ",\n".join(rows) + ") {",
    ]


def _entry(symbol: str, arguments: Sequence[Argument], kernel: Kernel) -> list[str]:
    return [*opening(symbol, arguments, kernel), "  iron_take_turn();"]


def _parameter(a: Argument) -> str:
    if a.mapped:
        return f"const __grid_constant__ iron_tensor_map {a.name}"
    if not a.pointer:
        return f"const {a.dtype} {a.name}"
    return f"{'' if a.written else 'const '}{a.dtype}* {a.name}"


def _pointer(space: str, dtype: DType) -> str:
    return f"{'const ' if space in ('in', 'table') else ''}{dtype}*"


CUDA = Dialect(
    name="cuda",
    typedefs=TYPEDEFS,
    functions=_functions(),
    entry=_entry,
    thread="(i32)threadIdx.x",
    group="blockIdx.x",
    counts="u32",
    shared="__shared__",
    constant="static __device__ const",
    barrier="__syncthreads()",
    hold="__syncwarp()",
    pointer=_pointer,
    most_declared=STATIC_SHARED,
    keywords=frozenset({"__shared__", "warpSize", "gridDim", "blockDim"}),
    rules={**ptx.RULES, **mma.RULES, **sm80.RULES},
)
