typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
IRON_DEVICE u32 iron_f32_to_bits(f32 x) { return __float_as_uint(x); }
IRON_DEVICE f32 iron_bits_to_f32(u32 x) { return __uint_as_float(x); }
IRON_DEVICE f32 iron_min_bound_f32(f32 a, f32 b) {
  f32 y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
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
IRON_DEVICE void iron_take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= 50688u) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
#endif
}
IRON_DEVICE f32 iron_shuffle_xor_f32(f32 x, i32 step) { return (f32)__shfl_xor_sync(0xffffffffu, (f32)x, step); }
IRON_DEVICE i32 iron_add_i32(i32 a, i32 b) {
  return (i32)((u32)a + (u32)b);
}
IRON_DEVICE i32 iron_sub_i32(i32 a, i32 b) {
  return (i32)((u32)a - (u32)b);
}
IRON_DEVICE i32 iron_shl_i32(i32 a, i32 b) {
  return (i32)((u32)a << ((u32)b & 31u));
}

extern "C" __global__ void __launch_bounds__(256) iron_softmax_f32_no_log_vec1(
    const f32* x,
    f32* y,
    const f32 scale,
    const i32 R,
    const i32 N,
    const i64 x_stride0,
    const i64 y_stride0) {
  iron_take_turn();
  __shared__ f32 pile[8];
  __shared__ f32 pile2[8];
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 row = (i32)group_index;
  f32 top = iron_bits_to_f32(0xff800000u);
  for (i32 i = thread_index; i < N; i += 256) {
    const f32* x_run = x + (i64)row * x_stride0 + i;
    const f32 part = x_run[0];
    top = iron_max_bound_f32(top, part * scale);
  }
  f32 top2 = top;
  for (i32 step = 1; step < 32; step *= 2) {
    const f32 other = iron_shuffle_xor_f32(top2, step);
    top2 = iron_max_bound_f32(top2, other);
  }
  if (thread_index % 32 == 0) {
    pile[thread_index / 32] = top2;
  }
  __syncthreads();
  top2 = pile[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next = pile[run];
    top2 = iron_max_bound_f32(top2, next);
  }
  const f32 t = -top2;
  f32 total = 0.0f;
  for (i32 i2 = thread_index; i2 < N; i2 += 256) {
    const f32* x_run2 = x + (i64)row * x_stride0 + i2;
    const f32 part2 = x_run2[0];
    const f32 t2 = iron_min_bound_f32(iron_max_bound_f32(iron_fma_f32(part2, scale, t), -104.0f), 89.0f);
    const f32 t3 = iron_fma_f32(t2, 1.442695f, 1.2582912e+07f);
    const f32 t4 = t3 - 1.2582912e+07f;
    const f32 t5 = iron_fma_f32(t4, -1.4286068e-06f, iron_fma_f32(t4, -0.69314575f, t2));
    const i32 t6 = (i32)iron_f32_to_bits(t3);
    const f32 t7 = iron_fma_f32(iron_fma_f32(0.0013953325f, t5, 0.008368613f), t5, 0.04166628f);
    const f32 t8 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t7, t5, 0.16666523f), t5, 0.5f), t5 * t5, t5);
    const i32 t9 = t6 >> 1;
    const f32 t10 = (t8 + 1.0f) * iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32(t9, 23), 1065353216));
    const f32 t11 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32(iron_sub_i32(t6, t9), 23), 1065353216));
    total = total + t10 * t11;
  }
  f32 total2 = total;
  for (i32 step = 1; step < 32; step *= 2) {
    const f32 other2 = iron_shuffle_xor_f32(total2, step);
    total2 = total2 + other2;
  }
  if (thread_index % 32 == 0) {
    pile2[thread_index / 32] = total2;
  }
  __syncthreads();
  total2 = pile2[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next2 = pile2[run];
    total2 = total2 + next2;
  }
  const f32 inverse = 1.0f / total2;
  for (i32 i3 = thread_index; i3 < N; i3 += 256) {
    const f32* x_run3 = x + (i64)row * x_stride0 + i3;
    const f32 part3 = x_run3[0];
    const f32 s = iron_fma_f32(part3, scale, t);
    const f32 t12 = iron_min_bound_f32(iron_max_bound_f32(s, -104.0f), 89.0f);
    const f32 t13 = iron_fma_f32(t12, 1.442695f, 1.2582912e+07f);
    const f32 t14 = t13 - 1.2582912e+07f;
    const f32 t15 = iron_fma_f32(t14, -1.4286068e-06f, iron_fma_f32(t14, -0.69314575f, t12));
    const i32 t16 = (i32)iron_f32_to_bits(t13);
    const f32 t17 = iron_fma_f32(iron_fma_f32(0.0013953325f, t15, 0.008368613f), t15, 0.04166628f);
    const f32 t18 = iron_fma_f32(iron_fma_f32(iron_fma_f32(t17, t15, 0.16666523f), t15, 0.5f), t15 * t15, t15);
    const i32 t19 = t16 >> 1;
    const f32 t20 = (t18 + 1.0f) * iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32(t19, 23), 1065353216));
    const f32 t21 = iron_bits_to_f32((u32)iron_add_i32(iron_shl_i32(iron_sub_i32(t16, t19), 23), 1065353216));
    f32* y_run = y + (i64)row * y_stride0 + i3;
    y_run[0] = t20 * t21 * inverse;
  }
}
