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
static inline i32 iron_shl_i32(i32 a, i32 b) {
  return (i32)((u32)a << ((u32)b & 31u));
}
static inline f32 iron_abs_f32(f32 x) {
  return iron_bits_to_f32(iron_f32_to_bits(x) & 0x7fffffffu);
}
static inline f32 iron_max_f32(f32 a, f32 b) {
  return a > b || a != a ? a : b;
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

struct iron_unary_bf16_op_silu_vec1_arguments {
  f32 slope;
  i32 N;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void iron_unary_bf16_op_silu_vec1(
    device const bf16* x [[buffer(0)]],
    device bf16* y [[buffer(1)]],
    constant iron_unary_bf16_op_silu_vec1_arguments& arguments [[buffer(2)]],
    const uint group_position [[threadgroup_position_in_grid]],
    const uint simd_index [[simdgroup_index_in_threadgroup]],
    const uint lane_index [[thread_index_in_simdgroup]]) {
  const f32 slope = arguments.slope;
  const i32 N = arguments.N;
  const i32 thread_index = (i32)(simd_index * 32u + lane_index);
  const u32 group_index = group_position;
  const i32 group0 = (i32)group_index;
  const i32 chunk = group0 * 256 + thread_index;
  if (chunk < N) {
    device const bf16* x_run = x + chunk;
    const bf16 part = x_run[0];
    const f32 value = iron_bf16_to_f32(part);
    const f32 t = iron_max_bound_f32(-iron_abs_f32(value), -104.0f);
    const f32 t2 = iron_fma_f32(t, 1.442695f, 1.2582912e+07f);
    const f32 t3 = t2 - 1.2582912e+07f;
    const f32 t4 = iron_fma_f32(t3, -1.4286068e-06f, iron_fma_f32(t3, -0.69314575f, t));
    const f32 t5 = iron_fma_f32(iron_fma_f32(0.0013953325f, t4, 0.008368613f), t4, 0.04166628f);
    const f32 t6 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t5, t4, 0.16666523f), t4, 0.5f), t4 * t4, t4);
    const f32 t7 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t2), 23), 1266679808));
    const f32 t8 = (t6 + 1.0f) * t7 * 5.9604645e-08f;
    const f32 t9 = iron_max_bound_f32(value, -104.0f) * ((value < 0.0f ? t8 : 1.0f) * (1.0f / (t8 + 1.0f)));
    device bf16* y_run = y + chunk;
    y_run[0] = iron_f32_to_bf16(t9);
  }
}
