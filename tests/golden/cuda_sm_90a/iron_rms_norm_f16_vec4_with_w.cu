typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
struct alignas(8) iron_f16x4 { u32 w[2]; };
IRON_DEVICE f32 iron_f16_to_f32(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
  return y;
}
IRON_DEVICE f16 iron_f32_to_f16(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
  return y;
}
IRON_DEVICE f32 iron_fma_f32(f32 a, f32 b, f32 c) {
  return __fmaf_rn(a, b, c);
}
IRON_DEVICE f32 iron_sqrt_f32(f32 x) { return __fsqrt_rn(x); }
IRON_DEVICE void iron_take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= 50688u) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
#endif
}
IRON_DEVICE f32 iron_shuffle_xor_f32(f32 x, i32 step) { return (f32)__shfl_xor_sync(0xffffffffu, (f32)x, step); }

// takes any arguments
extern "C" __global__ void __launch_bounds__(256) iron_rms_norm_f16_vec4_with_w(
    const f16* x,
    const f16* w,
    f16* y,
    const f32 eps,
    const i32 R,
    const i32 N,
    const i64 x_stride0,
    const i64 y_stride0) {
  iron_take_turn();
  __shared__ f32 pile[8];
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 row = (i32)group_index;
  const i32 t = thread_index * 4;
  f32 squares = 0.0f;
  for (i32 i = t; i < N; i += 1024) {
    const f16* x_run = x + (i64)row * x_stride0 + i;
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
  __syncthreads();
  total = pile[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next = pile[run];
    total = total + next;
  }
  const f32 scale = 1.0f / iron_sqrt_f32(total / (f32)N + eps);
  for (i32 i2 = t; i2 < N; i2 += 1024) {
    const f16* x_run2 = x + (i64)row * x_stride0 + i2;
    const f16 part5 = x_run2[0];
    const f16 part6 = x_run2[1];
    const f16 part7 = x_run2[2];
    const f16 part8 = x_run2[3];
    const f32 unit = iron_f16_to_f32(part5) * scale;
    const f32 unit2 = iron_f16_to_f32(part6) * scale;
    const f32 unit3 = iron_f16_to_f32(part7) * scale;
    const f32 unit4 = iron_f16_to_f32(part8) * scale;
    const f16* w_run = w + i2;
    const f16 part9 = w_run[0];
    const f16 part10 = w_run[1];
    const f16 part11 = w_run[2];
    const f16 part12 = w_run[3];
    const f32 out = unit * iron_f16_to_f32(part9);
    const f32 out2 = unit2 * iron_f16_to_f32(part10);
    const f32 out3 = unit3 * iron_f16_to_f32(part11);
    const f32 out4 = unit4 * iron_f16_to_f32(part12);
    f16* y_run = y + (i64)row * y_stride0 + i2;
    y_run[0] = iron_f32_to_f16(out);
    y_run[1] = iron_f32_to_f16(out2);
    y_run[2] = iron_f32_to_f16(out3);
    y_run[3] = iron_f32_to_f16(out4);
  }
}

// needs rows of x at multiples of 8 bytes, rows of w at multiples of 8 bytes, rows of y at multiples of 8 bytes
extern "C" __global__ void __launch_bounds__(256) iron_rms_norm_f16_vec4_with_w_words(
    const f16* x,
    const f16* w,
    f16* y,
    const f32 eps,
    const i32 R,
    const i32 N,
    const i64 x_stride0,
    const i64 y_stride0) {
  iron_take_turn();
  __shared__ f32 pile[8];
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 row = (i32)group_index;
  const i32 t = thread_index * 4;
  f32 squares = 0.0f;
  for (i32 i = t; i < N; i += 1024) {
    const iron_f16x4 x_run = *(const iron_f16x4*)(x + (i64)row * x_stride0 + i);
    const f16 part = (f16)(x_run.w[0]);
    const f16 part2 = (f16)(x_run.w[0] >> 16);
    const f16 part3 = (f16)(x_run.w[1]);
    const f16 part4 = (f16)(x_run.w[1] >> 16);
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
  __syncthreads();
  total = pile[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next = pile[run];
    total = total + next;
  }
  const f32 scale = 1.0f / iron_sqrt_f32(total / (f32)N + eps);
  for (i32 i2 = t; i2 < N; i2 += 1024) {
    const iron_f16x4 x_run2 = *(const iron_f16x4*)(x + (i64)row * x_stride0 + i2);
    const f16 part5 = (f16)(x_run2.w[0]);
    const f16 part6 = (f16)(x_run2.w[0] >> 16);
    const f16 part7 = (f16)(x_run2.w[1]);
    const f16 part8 = (f16)(x_run2.w[1] >> 16);
    const f32 unit = iron_f16_to_f32(part5) * scale;
    const f32 unit2 = iron_f16_to_f32(part6) * scale;
    const f32 unit3 = iron_f16_to_f32(part7) * scale;
    const f32 unit4 = iron_f16_to_f32(part8) * scale;
    const iron_f16x4 w_run = *(const iron_f16x4*)(w + i2);
    const f16 part9 = (f16)(w_run.w[0]);
    const f16 part10 = (f16)(w_run.w[0] >> 16);
    const f16 part11 = (f16)(w_run.w[1]);
    const f16 part12 = (f16)(w_run.w[1] >> 16);
    const f32 out = unit * iron_f16_to_f32(part9);
    const f32 out2 = unit2 * iron_f16_to_f32(part10);
    const f32 out3 = unit3 * iron_f16_to_f32(part11);
    const f32 out4 = unit4 * iron_f16_to_f32(part12);
    *(iron_f16x4*)(y + (i64)row * y_stride0 + i2) = iron_f16x4{{(u32)(iron_f32_to_f16(out)) | (u32)(iron_f32_to_f16(out2)) << 16, (u32)(iron_f32_to_f16(out3)) | (u32)(iron_f32_to_f16(out4)) << 16}};
  }
}
