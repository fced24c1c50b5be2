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
static inline f32 iron_bits_to_f32(u32 x) { return as_type<f32>(x); }
static inline i32 iron_shuffle_xor_i32(i32 x, i32 step) {
  return simd_shuffle_xor(x, (ushort)step);
}
static inline f32 iron_shuffle_xor_f32(f32 x, i32 step) {
  return simd_shuffle_xor(x, (ushort)step);
}

struct iron_arg_reduce_f32_op_max_with_names_arguments {
  i32 R;
  i32 N;
  i64 x_stride0;
  i64 names_stride0;
};

[[max_total_threads_per_threadgroup(256)]]
kernel void iron_arg_reduce_f32_op_max_with_names(
    device const f32* x [[buffer(0)]],
    device const u32* names [[buffer(1)]],
    device u32* y [[buffer(2)]],
    constant iron_arg_reduce_f32_op_max_with_names_arguments& arguments [[buffer(3)]],
    const uint group_position [[threadgroup_position_in_grid]],
    const uint simd_index [[simdgroup_index_in_threadgroup]],
    const uint lane_index [[thread_index_in_simdgroup]]) {
  const i32 R = arguments.R;
  const i32 N = arguments.N;
  const i64 x_stride0 = arguments.x_stride0;
  const i64 names_stride0 = arguments.names_stride0;
  threadgroup f32 pile[8];
  threadgroup i32 pile2[8];
  const i32 thread_index = (i32)(simd_index * 32u + lane_index);
  const u32 group_index = group_position;
  const i32 row = (i32)group_index;
  i32 at = 0;
  f32 best = iron_bits_to_f32(0xff800000u);
  for (i32 i = thread_index; i < N; i += 256) {
    const f32 value = x[(i64)row * x_stride0 + i];
    const bool a_nan = best != best;
    const bool b_nan = value != value;
    const bool level = best == value || (a_nan && b_nan);
    const bool better = value > best || (b_nan && !a_nan) || (level && i < at);
    at = better ? i : at;
    best = better ? value : best;
  }
  f32 reduce = best;
  i32 at2 = at;
  for (i32 step = 1; step < 32; step *= 2) {
    const f32 other = iron_shuffle_xor_f32(reduce, step);
    const i32 other2 = iron_shuffle_xor_i32(at2, step);
    const bool upper = (thread_index & step) != 0;
    const f32 low = upper ? other : reduce;
    const i32 low2 = upper ? other2 : at2;
    const f32 high = upper ? reduce : other;
    const i32 high2 = upper ? at2 : other2;
    const bool a_nan2 = low != low;
    const bool b_nan2 = high != high;
    const bool level2 = low == high || (a_nan2 && b_nan2);
    const bool better2 = high > low || (b_nan2 && !a_nan2) || (level2 && high2 < low2);
    reduce = better2 ? high : low;
    at2 = better2 ? high2 : low2;
  }
  if (thread_index % 32 == 0) {
    pile[thread_index / 32] = reduce;
    pile2[thread_index / 32] = at2;
  }
  iron_barrier();
  reduce = pile[0];
  at2 = pile2[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next = pile[run];
    const i32 next2 = pile2[run];
    const bool a_nan3 = reduce != reduce;
    const bool b_nan3 = next != next;
    const bool level3 = reduce == next || (a_nan3 && b_nan3);
    const bool better3 = next > reduce || (b_nan3 && !a_nan3) || (level3 && next2 < at2);
    reduce = better3 ? next : reduce;
    at2 = better3 ? next2 : at2;
  }
  if (thread_index == 0) {
    const u32 names_at = names[(i64)row * names_stride0 + at2];
    y[row] = names_at;
  }
}
