typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
struct alignas(16) iron_bf16x8 { u32 w[4]; };
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
IRON_DEVICE f32 iron_fast_exp2_f32(f32 x) {
  f32 y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
IRON_DEVICE f32 iron_fast_rcp_f32(f32 x) {
  f32 y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
IRON_DEVICE void iron_take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= 50688u) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
#endif
}
IRON_DEVICE f32 iron_bf16_to_f32(bf16 x) {
  return iron_bits_to_f32((u32)x << 16);
}

// takes any arguments
extern "C" __global__ void __launch_bounds__(256) iron_unary_bf16_op_silu_math_fast(
    const bf16* x,
    bf16* y,
    const f32 slope,
    const i32 N) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 256 + thread_index;
  if (i < N) {
    const bf16 x_at = x[i];
    const f32 value = iron_bf16_to_f32(x_at);
    const f32 t = iron_max_bound_f32(value, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value * -1.442695f));
    y[i] = iron_f32_to_bf16(t);
  }
}

// needs rows of x at multiples of 16 bytes, rows of y at multiples of 16 bytes, neighbours move 8 at a time
extern "C" __global__ void __launch_bounds__(128) iron_unary_bf16_op_silu_math_fast_neighbours(
    const bf16* x,
    bf16* y,
    const f32 slope,
    const i32 N) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 128 + thread_index;
  const i32 t = i * 8;
  if (t < N) {
    const iron_bf16x8 x_run = *(const iron_bf16x8*)(x + t);
    const bf16 part = (bf16)(x_run.w[0]);
    const bf16 part2 = (bf16)(x_run.w[0] >> 16);
    const bf16 part3 = (bf16)(x_run.w[1]);
    const bf16 part4 = (bf16)(x_run.w[1] >> 16);
    const bf16 part5 = (bf16)(x_run.w[2]);
    const bf16 part6 = (bf16)(x_run.w[2] >> 16);
    const bf16 part7 = (bf16)(x_run.w[3]);
    const bf16 part8 = (bf16)(x_run.w[3] >> 16);
    const f32 value = iron_bf16_to_f32(part);
    const f32 value2 = iron_bf16_to_f32(part2);
    const f32 value3 = iron_bf16_to_f32(part3);
    const f32 value4 = iron_bf16_to_f32(part4);
    const f32 value5 = iron_bf16_to_f32(part5);
    const f32 value6 = iron_bf16_to_f32(part6);
    const f32 value7 = iron_bf16_to_f32(part7);
    const f32 value8 = iron_bf16_to_f32(part8);
    const f32 t2 = iron_max_bound_f32(value, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value * -1.442695f));
    const f32 t3 = iron_max_bound_f32(value2, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value2 * -1.442695f));
    const f32 t4 = iron_max_bound_f32(value3, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value3 * -1.442695f));
    const f32 t5 = iron_max_bound_f32(value4, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value4 * -1.442695f));
    const f32 t6 = iron_max_bound_f32(value5, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value5 * -1.442695f));
    const f32 t7 = iron_max_bound_f32(value6, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value6 * -1.442695f));
    const f32 t8 = iron_max_bound_f32(value7, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value7 * -1.442695f));
    const f32 t9 = iron_max_bound_f32(value8, -104.0f) * iron_fast_rcp_f32(1.0f + iron_fast_exp2_f32(value8 * -1.442695f));
    *(iron_bf16x8*)(y + t) = iron_bf16x8{{(u32)(iron_f32_to_bf16(t2)) | (u32)(iron_f32_to_bf16(t3)) << 16, (u32)(iron_f32_to_bf16(t4)) | (u32)(iron_f32_to_bf16(t5)) << 16, (u32)(iron_f32_to_bf16(t6)) | (u32)(iron_f32_to_bf16(t7)) << 16, (u32)(iron_f32_to_bf16(t8)) | (u32)(iron_f32_to_bf16(t9)) << 16}};
  }
}
