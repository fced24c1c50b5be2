#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef ushort f16; typedef ushort bf16; typedef float f32;
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? INFINITY : (bits) == 0xff800000u ? -INFINITY : NAN)
static inline i32 iron_mul_i32(i32 a, i32 b) {
  return (i32)((u32)a * (u32)b);
}
static inline i32 iron_neg_i32(i32 x) {
  return (i32)((u32)0 - (u32)x);
}
static inline i32 iron_floordiv_i32(i32 a, i32 b) {
  if (b == 0) return 0;
  if (b == -1) return iron_neg_i32(a);
  const i32 q = (i32)(a / b);
  return (a % b != 0 && (a < 0) != (b < 0)) ? (i32)(q - 1) : q;
}
static inline i32 iron_mod_i32(i32 a, i32 b) {
  if (b == 0 || b == -1) return 0;
  const i32 r = (i32)(a % b);
  return (r != 0 && (r < 0) != (b < 0)) ? (i32)(r + b) : r;
}

struct iron_copy_f32_rank3_arguments {
  i32 shape_0;
  i32 shape_1;
  i32 shape_2;
  i64 x_stride0;
  i64 x_stride1;
  i64 x_stride2;
  i64 y_stride0;
  i64 y_stride1;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void iron_copy_f32_rank3(
    device const f32* x [[buffer(0)]],
    device f32* y [[buffer(1)]],
    constant iron_copy_f32_rank3_arguments& arguments [[buffer(2)]],
    const uint group_position [[threadgroup_position_in_grid]],
    const uint simd_index [[simdgroup_index_in_threadgroup]],
    const uint lane_index [[thread_index_in_simdgroup]]) {
  const i32 shape_0 = arguments.shape_0;
  const i32 shape_1 = arguments.shape_1;
  const i32 shape_2 = arguments.shape_2;
  const i64 x_stride0 = arguments.x_stride0;
  const i64 x_stride1 = arguments.x_stride1;
  const i64 x_stride2 = arguments.x_stride2;
  const i64 y_stride0 = arguments.y_stride0;
  const i64 y_stride1 = arguments.y_stride1;
  const i32 thread_index = (i32)(simd_index * 32u + lane_index);
  const u32 group_index = group_position;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 256 + thread_index;
  if (i < iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2)) {
    const i32 t = i % shape_2;
    const i32 i2 = i / shape_2;
    const i32 t2 = iron_mod_i32(i2, shape_1);
    const i32 i3 = iron_floordiv_i32(i2, shape_1);
    const i32 t3 = iron_mod_i32(i3, shape_0);
    const f32 x_at = x[(i64)t3 * x_stride0 + (i64)t2 * x_stride1 + (i64)t * x_stride2];
    y[(i64)t3 * y_stride0 + (i64)t2 * y_stride1 + t] = x_at;
  }
}
