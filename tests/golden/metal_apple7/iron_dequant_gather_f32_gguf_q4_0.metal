#include <metal_stdlib>
#pragma METAL fp math_mode(safe)
#pragma METAL fp contract(off)
using namespace metal;
typedef char i8; typedef short i16; typedef int i32; typedef long i64;
typedef uchar u8; typedef ushort u16; typedef uint u32; typedef ulong u64;
typedef ushort f16; typedef ushort bf16; typedef float f32;
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? INFINITY : (bits) == 0xff800000u ? -INFINITY : NAN)
static inline f32 iron_f16_to_f32(f16 x) { return (f32)as_type<half>(x); }
static inline u16 iron_shl_u16(u16 a, u16 b) {
  return (u16)((u16)a << ((u16)b & 15u));
}
static inline u32 iron_min_u32(u32 a, u32 b) {
  return a < b ? a : b;
}

struct iron_dequant_gather_f32_gguf_q4_0_arguments {
  f32 scale;
  i32 V;
  i32 D;
  i32 R;
  i64 w_blocks_stride0;
  i64 y_stride0;
};

[[max_total_threads_per_threadgroup(128)]]
kernel void iron_dequant_gather_f32_gguf_q4_0(
    device const u8* w_blocks [[buffer(0)]],
    device const u32* idx [[buffer(1)]],
    device f32* y [[buffer(2)]],
    constant iron_dequant_gather_f32_gguf_q4_0_arguments& arguments [[buffer(3)]],
    const uint group_position [[threadgroup_position_in_grid]],
    const uint simd_index [[simdgroup_index_in_threadgroup]],
    const uint lane_index [[thread_index_in_simdgroup]]) {
  const f32 scale = arguments.scale;
  const i32 V = arguments.V;
  const i32 D = arguments.D;
  const i32 R = arguments.R;
  const i64 w_blocks_stride0 = arguments.w_blocks_stride0;
  const i64 y_stride0 = arguments.y_stride0;
  const i32 thread_index = (i32)(simd_index * 32u + lane_index);
  const u32 group_index = group_position;
  const i32 r = (i32)group_index;
  const u32 wanted = idx[r];
  const u32 row = iron_min_u32(wanted, (u32)(V - 1));
  const bool t = wanted == 4294967295u;
  for (i32 i = thread_index; i < D; i += 128) {
    f32 _choice;
    if (t) {
      _choice = 0.0f;
    } else {
      const i32 t2 = (i >> 5) * 18;
      const u8 w_blocks_at = w_blocks[(i64)row * w_blocks_stride0 + (t2 + 2 + (i & 15))];
      const f32 x = (f32)(i32)((u32)w_blocks_at >> (u32)(((i & 31) >> 4) * 4) & 15u) - 8.0f;
      const u8 w_blocks_at2 = w_blocks[(i64)row * w_blocks_stride0 + t2];
      const u8 w_blocks_at3 = w_blocks[(i64)row * w_blocks_stride0 + (t2 + 1)];
      const f32 s = iron_f16_to_f32((f16)(u16)((u16)w_blocks_at2 | iron_shl_u16((u16)w_blocks_at3, (u16)8)));
      _choice = scale * (s * x);
    }
    y[(i64)r * y_stride0 + i] = _choice;
  }
}
