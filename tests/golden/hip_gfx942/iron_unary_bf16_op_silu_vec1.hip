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
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? __builtin_inff() : (bits) == 0xff800000u ? -__builtin_inff() \
                                                                    : __builtin_nanf(""))
IRON_DEVICE i32 iron_thread() {
  return (i32)__builtin_amdgcn_workitem_id_x();
}
IRON_DEVICE u32 iron_group() {
  return __builtin_amdgcn_workgroup_id_x();
}
IRON_DEVICE u32 iron_f32_to_bits(f32 x) {
  return __builtin_bit_cast(u32, x);
}
IRON_DEVICE f32 iron_bits_to_f32(u32 x) {
  return __builtin_bit_cast(f32, x);
}
IRON_DEVICE f32 iron_fma_f32(f32 a, f32 b, f32 c) {
  return __builtin_fmaf(a, b, c);
}
IRON_DEVICE i32 iron_add_i32(i32 a, i32 b) {
  return (i32)((u32)a + (u32)b);
}
IRON_DEVICE i32 iron_shl_i32(i32 a, i32 b) {
  return (i32)((u32)a << ((u32)b & 31u));
}
IRON_DEVICE f32 iron_abs_f32(f32 x) {
  return iron_bits_to_f32(iron_f32_to_bits(x) & 0x7fffffffu);
}
IRON_DEVICE f32 iron_max_f32(f32 a, f32 b) {
  return a > b || a != a ? a : b;
}
IRON_DEVICE f32 iron_max_bound_f32(f32 a, f32 b) {
  return iron_max_f32(a, b);
}
IRON_DEVICE f32 iron_bf16_to_f32(bf16 x) {
  return iron_bits_to_f32((u32)x << 16);
}
IRON_DEVICE bf16 iron_f32_to_bf16(f32 x) {
  const u32 b = iron_f32_to_bits(x);
  return x != x ? (bf16)0x7fc0 : (bf16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

extern "C" __global__ void __launch_bounds__(256) iron_unary_bf16_op_silu_vec1(
    const bf16* x,
    bf16* y,
    const f32 slope,
    const i32 N) {
  const i32 thread_index = iron_thread();
  const u32 group_index = iron_group();
  const i32 group0 = (i32)group_index;
  const i32 chunk = group0 * 256 + thread_index;
  if (chunk < N) {
    const bf16* x_run = x + chunk;
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
    bf16* y_run = y + chunk;
    y_run[0] = iron_f32_to_bf16(t9);
  }
}
