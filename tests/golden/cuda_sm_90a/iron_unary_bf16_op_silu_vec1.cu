typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? __builtin_inff() : (bits) == 0xff800000u ? -__builtin_inff() \
                                                                    : __builtin_nanf(""))
IRON_DEVICE u32 iron_f32_to_bits(f32 x) { return __float_as_uint(x); }
IRON_DEVICE f32 iron_bits_to_f32(u32 x) { return __uint_as_float(x); }
IRON_DEVICE bf16 iron_f32_to_bf16(f32 x) {
  bf16 y;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
IRON_DEVICE f32 iron_max_bound_f32(f32 a, f32 b) {
  f32 y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
IRON_DEVICE f32 iron_fma_f32(f32 a, f32 b, f32 c) {
  return __fmaf_rn(a, b, c);
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
IRON_DEVICE f32 iron_bf16_to_f32(bf16 x) {
  return iron_bits_to_f32((u32)x << 16);
}

extern "C" __global__ void __launch_bounds__(256) iron_unary_bf16_op_silu_vec1(
    const bf16* x,
    bf16* y,
    const f32 slope,
    const i32 N) {
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
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
