#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef ushort f16; typedef ushort bf16; typedef float f32;
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? INFINITY : (bits) == 0xff800000u ? -INFINITY : NAN)
static inline u32 iron_f32_to_bits(f32 x) { return as_type<u32>(x); }
static inline f32 iron_bits_to_f32(u32 x) { return as_type<f32>(x); }
static inline f32 iron_fma_f32(f32 a, f32 b, f32 c) { return fma(a, b, c); }
static inline i32 iron_add_i32(i32 a, i32 b) {
  return (i32)((u32)a + (u32)b);
}
static inline i32 iron_sub_i32(i32 a, i32 b) {
  return (i32)((u32)a - (u32)b);
}
static inline i32 iron_shl_i32(i32 a, i32 b) {
  return (i32)((u32)a << ((u32)b & 31u));
}
static inline f32 iron_min_f32(f32 a, f32 b) {
  return a < b || a != a ? a : b;
}
static inline f32 iron_max_f32(f32 a, f32 b) {
  return a > b || a != a ? a : b;
}
static inline f32 iron_min_bound_f32(f32 a, f32 b) {
  return iron_min_f32(a, b);
}
static inline f32 iron_max_bound_f32(f32 a, f32 b) {
  return iron_max_f32(a, b);
}
static inline f32 iron_bf16_to_f32(bf16 x) {
  return iron_bits_to_f32((u32)x << 16);
}
static inline bf16 iron_f32_to_bf16(f32 x) {
  const u32 b = iron_f32_to_bits(x);
  return x != x ? (bf16)0x7fc0 : (bf16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

struct iron_unary_bf16_op_silu_math_fast_arguments {
  f32 slope;
  i32 N;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void iron_unary_bf16_op_silu_math_fast(
    device const bf16* x [[buffer(0)]],
    device bf16* y [[buffer(1)]],
    constant iron_unary_bf16_op_silu_math_fast_arguments& arguments [[buffer(2)]],
    const uint group_position [[threadgroup_position_in_grid]],
    const uint simd_index [[simdgroup_index_in_threadgroup]],
    const uint lane_index [[thread_index_in_simdgroup]]) {
  const f32 slope = arguments.slope;
  const i32 N = arguments.N;
  const i32 thread_index = (i32)(simd_index * 32u + lane_index);
  const u32 group_index = group_position;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 256 + thread_index;
  if (i < N) {
    const bf16 x_at = x[i];
    const f32 value = iron_bf16_to_f32(x_at);
    const f32 t = iron_min_bound_f32(iron_max_bound_f32(value * -1.442695f, -126.0f), 128.0f);
    const f32 t2 = t + 1.2582912e+07f;
    const f32 t3 = t - (t2 - 1.2582912e+07f);
    const f32 t4 = iron_fma_f32(iron_fma_f32(0.0026814814f, t3, 0.019343967f), t3, 0.111006156f);
    const f32 t5 = iron_fma_f32(t3, iron_fma_f32(iron_fma_f32(t4, t3, 0.48044467f), t3, 1.3862945f), 2.0f);
    const i32 t6 = iron_add_i32(iron_shl_i32(iron_sub_i32((i32)iron_f32_to_bits(t2), 1), 23), 1065353216);
    const f32 t7 = iron_max_bound_f32(value, -104.0f) * (1.0f / (1.0f + t5 * iron_bits_to_f32((u32)t6)));
    y[i] = iron_f32_to_bf16(t7);
  }
}
