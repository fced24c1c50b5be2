#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef ushort f16; typedef ushort bf16; typedef float f32;
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? INFINITY : (bits) == 0xff800000u ? -INFINITY : NAN)
static inline void iron_barrier() {
  threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
}
static inline f32 iron_f16_to_f32(f16 x) { return (f32)as_type<half>(x); }
static inline f16 iron_f32_to_f16(f32 x) { return as_type<f16>((half)x); }
static inline f32 iron_fma_f32(f32 a, f32 b, f32 c) { return fma(a, b, c); }
static inline f32 iron_sqrt_f32(f32 x) { return precise::sqrt(x); }
static inline f32 iron_shuffle_xor_f32(f32 x, i32 step) {
  return simd_shuffle_xor(x, (ushort)step);
}

struct iron_rms_norm_f16_vec4_with_w_arguments {
  f32 eps;
  i32 R;
  i32 N;
  i64 x_stride0;
  i64 y_stride0;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void iron_rms_norm_f16_vec4_with_w(
    device const f16* x [[buffer(0)]],
    device const f16* w [[buffer(1)]],
    device f16* y [[buffer(2)]],
    constant iron_rms_norm_f16_vec4_with_w_arguments& arguments [[buffer(3)]],
    const uint group_position [[threadgroup_position_in_grid]],
    const uint simd_index [[simdgroup_index_in_threadgroup]],
    const uint lane_index [[thread_index_in_simdgroup]]) {
  const f32 eps = arguments.eps;
  const i32 R = arguments.R;
  const i32 N = arguments.N;
  const i64 x_stride0 = arguments.x_stride0;
  const i64 y_stride0 = arguments.y_stride0;
  threadgroup f32 pile[8];
  const i32 thread_index = (i32)(simd_index * 32u + lane_index);
  const u32 group_index = group_position;
  const i32 row = (i32)group_index;
  const i32 t = thread_index * 4;
  f32 squares = 0.0f;
  for (i32 i = t; i < N; i += 1024) {
    device const f16* x_run = x + (i64)row * x_stride0 + i;
    const f16 part = x_run[0];
    const f16 part2 = x_run[1];
    const f16 part3 = x_run[2];
    const f16 part4 = x_run[3];
    const f32 chunk = iron_f16_to_f32(part);
    const f32 chunk2 = iron_f16_to_f32(part2);
    const f32 chunk3 = iron_f16_to_f32(part3);
    const f32 chunk4 = iron_f16_to_f32(part4);
    const f32 t2 = iron_fma_f32(chunk3, chunk3, iron_fma_f32(chunk, chunk, chunk2 * chunk2));
    squares = squares + iron_fma_f32(chunk4, chunk4, t2);
  }
  f32 total = squares;
  for (i32 step = 1; step < 32; step *= 2) {
    const f32 other = iron_shuffle_xor_f32(total, step);
    total = total + other;
  }
  if (thread_index % 32 == 0) {
    pile[thread_index / 32] = total;
  }
  iron_barrier();
  total = pile[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next = pile[run];
    total = total + next;
  }
  const f32 scale = 1.0f / iron_sqrt_f32(total / (f32)N + eps);
  for (i32 i2 = t; i2 < N; i2 += 1024) {
    device const f16* x_run2 = x + (i64)row * x_stride0 + i2;
    const f16 part5 = x_run2[0];
    const f16 part6 = x_run2[1];
    const f16 part7 = x_run2[2];
    const f16 part8 = x_run2[3];
    const f32 unit = iron_f16_to_f32(part5) * scale;
    const f32 unit2 = iron_f16_to_f32(part6) * scale;
    const f32 unit3 = iron_f16_to_f32(part7) * scale;
    const f32 unit4 = iron_f16_to_f32(part8) * scale;
    device const f16* w_run = w + i2;
    const f16 part9 = w_run[0];
    const f16 part10 = w_run[1];
    const f16 part11 = w_run[2];
    const f16 part12 = w_run[3];
    const f32 out = unit * iron_f16_to_f32(part9);
    const f32 out2 = unit2 * iron_f16_to_f32(part10);
    const f32 out3 = unit3 * iron_f16_to_f32(part11);
    const f32 out4 = unit4 * iron_f16_to_f32(part12);
    device f16* y_run = y + (i64)row * y_stride0 + i2;
    y_run[0] = iron_f32_to_f16(out);
    y_run[1] = iron_f32_to_f16(out2);
    y_run[2] = iron_f32_to_f16(out3);
    y_run[3] = iron_f32_to_f16(out4);
  }
}
