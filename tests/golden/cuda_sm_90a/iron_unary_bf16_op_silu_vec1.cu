typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) \
  ((bits) == 0x7f800000u ? __builtin_inff() : (bits) == 0xff800000u ? -__builtin_inff() \
                                                                    : __builtin_nanf(""))
struct alignas(16) iron_bf16x8 { bf16 e[8]; };
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

// takes any arguments
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

// needs rows of x at multiples of 16 bytes, rows of y at multiples of 16 bytes, neighbours move 8 at a time
extern "C" __global__ void __launch_bounds__(256) iron_unary_bf16_op_silu_vec1_neighbours(
    const bf16* x,
    bf16* y,
    const f32 slope,
    const i32 N) {
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 chunk = group0 * 256 + thread_index;
  const i32 t = chunk * 8;
  if (t < N) {
    const iron_bf16x8 x_run = *(const iron_bf16x8*)(x + t);
    const bf16 part = x_run.e[0];
    const bf16 part2 = x_run.e[1];
    const bf16 part3 = x_run.e[2];
    const bf16 part4 = x_run.e[3];
    const bf16 part5 = x_run.e[4];
    const bf16 part6 = x_run.e[5];
    const bf16 part7 = x_run.e[6];
    const bf16 part8 = x_run.e[7];
    const f32 value = iron_bf16_to_f32(part);
    const f32 value2 = iron_bf16_to_f32(part2);
    const f32 value3 = iron_bf16_to_f32(part3);
    const f32 value4 = iron_bf16_to_f32(part4);
    const f32 value5 = iron_bf16_to_f32(part5);
    const f32 value6 = iron_bf16_to_f32(part6);
    const f32 value7 = iron_bf16_to_f32(part7);
    const f32 value8 = iron_bf16_to_f32(part8);
    const f32 t2 = iron_max_bound_f32(-iron_abs_f32(value), -104.0f);
    const f32 t3 = iron_max_bound_f32(-iron_abs_f32(value2), -104.0f);
    const f32 t4 = iron_max_bound_f32(-iron_abs_f32(value3), -104.0f);
    const f32 t5 = iron_max_bound_f32(-iron_abs_f32(value4), -104.0f);
    const f32 t6 = iron_max_bound_f32(-iron_abs_f32(value5), -104.0f);
    const f32 t7 = iron_max_bound_f32(-iron_abs_f32(value6), -104.0f);
    const f32 t8 = iron_max_bound_f32(-iron_abs_f32(value7), -104.0f);
    const f32 t9 = iron_max_bound_f32(-iron_abs_f32(value8), -104.0f);
    const f32 t10 = iron_fma_f32(t2, 1.442695f, 1.2582912e+07f);
    const f32 t11 = iron_fma_f32(t3, 1.442695f, 1.2582912e+07f);
    const f32 t12 = iron_fma_f32(t4, 1.442695f, 1.2582912e+07f);
    const f32 t13 = iron_fma_f32(t5, 1.442695f, 1.2582912e+07f);
    const f32 t14 = iron_fma_f32(t6, 1.442695f, 1.2582912e+07f);
    const f32 t15 = iron_fma_f32(t7, 1.442695f, 1.2582912e+07f);
    const f32 t16 = iron_fma_f32(t8, 1.442695f, 1.2582912e+07f);
    const f32 t17 = iron_fma_f32(t9, 1.442695f, 1.2582912e+07f);
    const f32 t18 = t10 - 1.2582912e+07f;
    const f32 t19 = t11 - 1.2582912e+07f;
    const f32 t20 = t12 - 1.2582912e+07f;
    const f32 t21 = t13 - 1.2582912e+07f;
    const f32 t22 = t14 - 1.2582912e+07f;
    const f32 t23 = t15 - 1.2582912e+07f;
    const f32 t24 = t16 - 1.2582912e+07f;
    const f32 t25 = t17 - 1.2582912e+07f;
    const f32 t26 = iron_fma_f32(t18, -1.4286068e-06f, iron_fma_f32(t18, -0.69314575f, t2));
    const f32 t27 = iron_fma_f32(t19, -1.4286068e-06f, iron_fma_f32(t19, -0.69314575f, t3));
    const f32 t28 = iron_fma_f32(t20, -1.4286068e-06f, iron_fma_f32(t20, -0.69314575f, t4));
    const f32 t29 = iron_fma_f32(t21, -1.4286068e-06f, iron_fma_f32(t21, -0.69314575f, t5));
    const f32 t30 = iron_fma_f32(t22, -1.4286068e-06f, iron_fma_f32(t22, -0.69314575f, t6));
    const f32 t31 = iron_fma_f32(t23, -1.4286068e-06f, iron_fma_f32(t23, -0.69314575f, t7));
    const f32 t32 = iron_fma_f32(t24, -1.4286068e-06f, iron_fma_f32(t24, -0.69314575f, t8));
    const f32 t33 = iron_fma_f32(t25, -1.4286068e-06f, iron_fma_f32(t25, -0.69314575f, t9));
    const f32 t34 = iron_fma_f32(iron_fma_f32(0.0013953325f, t26, 0.008368613f), t26, 0.04166628f);
    const f32 t35 = iron_fma_f32(iron_fma_f32(0.0013953325f, t27, 0.008368613f), t27, 0.04166628f);
    const f32 t36 = iron_fma_f32(iron_fma_f32(0.0013953325f, t28, 0.008368613f), t28, 0.04166628f);
    const f32 t37 = iron_fma_f32(iron_fma_f32(0.0013953325f, t29, 0.008368613f), t29, 0.04166628f);
    const f32 t38 = iron_fma_f32(iron_fma_f32(0.0013953325f, t30, 0.008368613f), t30, 0.04166628f);
    const f32 t39 = iron_fma_f32(iron_fma_f32(0.0013953325f, t31, 0.008368613f), t31, 0.04166628f);
    const f32 t40 = iron_fma_f32(iron_fma_f32(0.0013953325f, t32, 0.008368613f), t32, 0.04166628f);
    const f32 t41 = iron_fma_f32(iron_fma_f32(0.0013953325f, t33, 0.008368613f), t33, 0.04166628f);
    const f32 t42 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t34, t26, 0.16666523f), t26, 0.5f), t26 * t26, t26);
    const f32 t43 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t35, t27, 0.16666523f), t27, 0.5f), t27 * t27, t27);
    const f32 t44 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t36, t28, 0.16666523f), t28, 0.5f), t28 * t28, t28);
    const f32 t45 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t37, t29, 0.16666523f), t29, 0.5f), t29 * t29, t29);
    const f32 t46 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t38, t30, 0.16666523f), t30, 0.5f), t30 * t30, t30);
    const f32 t47 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t39, t31, 0.16666523f), t31, 0.5f), t31 * t31, t31);
    const f32 t48 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t40, t32, 0.16666523f), t32, 0.5f), t32 * t32, t32);
    const f32 t49 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t41, t33, 0.16666523f), t33, 0.5f), t33 * t33, t33);
    const f32 t50 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t10), 23), 1266679808));
    const f32 t51 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t11), 23), 1266679808));
    const f32 t52 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t12), 23), 1266679808));
    const f32 t53 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t13), 23), 1266679808));
    const f32 t54 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t14), 23), 1266679808));
    const f32 t55 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t15), 23), 1266679808));
    const f32 t56 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t16), 23), 1266679808));
    const f32 t57 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32((i32)iron_f32_to_bits(t17), 23), 1266679808));
    const f32 t58 = (t42 + 1.0f) * t50 * 5.9604645e-08f;
    const f32 t59 = (t43 + 1.0f) * t51 * 5.9604645e-08f;
    const f32 t60 = (t44 + 1.0f) * t52 * 5.9604645e-08f;
    const f32 t61 = (t45 + 1.0f) * t53 * 5.9604645e-08f;
    const f32 t62 = (t46 + 1.0f) * t54 * 5.9604645e-08f;
    const f32 t63 = (t47 + 1.0f) * t55 * 5.9604645e-08f;
    const f32 t64 = (t48 + 1.0f) * t56 * 5.9604645e-08f;
    const f32 t65 = (t49 + 1.0f) * t57 * 5.9604645e-08f;
    const f32 t66 = iron_max_bound_f32(value, -104.0f) * ((value < 0.0f ? t58 : 1.0f) * (1.0f / (t58 + 1.0f)));
    const f32 t67 = iron_max_bound_f32(value2, -104.0f) * ((value2 < 0.0f ? t59 : 1.0f) * (1.0f / (t59 + 1.0f)));
    const f32 t68 = iron_max_bound_f32(value3, -104.0f) * ((value3 < 0.0f ? t60 : 1.0f) * (1.0f / (t60 + 1.0f)));
    const f32 t69 = iron_max_bound_f32(value4, -104.0f) * ((value4 < 0.0f ? t61 : 1.0f) * (1.0f / (t61 + 1.0f)));
    const f32 t70 = iron_max_bound_f32(value5, -104.0f) * ((value5 < 0.0f ? t62 : 1.0f) * (1.0f / (t62 + 1.0f)));
    const f32 t71 = iron_max_bound_f32(value6, -104.0f) * ((value6 < 0.0f ? t63 : 1.0f) * (1.0f / (t63 + 1.0f)));
    const f32 t72 = iron_max_bound_f32(value7, -104.0f) * ((value7 < 0.0f ? t64 : 1.0f) * (1.0f / (t64 + 1.0f)));
    const f32 t73 = iron_max_bound_f32(value8, -104.0f) * ((value8 < 0.0f ? t65 : 1.0f) * (1.0f / (t65 + 1.0f)));
    *(iron_bf16x8*)(y + t) = iron_bf16x8{{iron_f32_to_bf16(t66), iron_f32_to_bf16(t67), iron_f32_to_bf16(t68), iron_f32_to_bf16(t69), iron_f32_to_bf16(t70), iron_f32_to_bf16(t71), iron_f32_to_bf16(t72), iron_f32_to_bf16(t73)}};
  }
}
