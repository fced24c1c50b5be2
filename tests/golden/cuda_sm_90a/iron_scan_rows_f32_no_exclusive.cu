typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
IRON_DEVICE void iron_take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= 50688u) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
#endif
}
IRON_DEVICE f32 iron_shuffle_xor_f32(f32 x, i32 step) { return (f32)__shfl_xor_sync(0xffffffffu, (f32)x, step); }
IRON_DEVICE f32 iron_shuffle_up_f32(f32 x, i32 step) { return (f32)__shfl_up_sync(0xffffffffu, (f32)x, step); }
IRON_DEVICE f32 iron_shifted_f32(f32 x, f32 unit, i32 place) {
  const f32 left = iron_shuffle_up_f32(x, 1);
  return place > 0 ? left : unit;
}
IRON_DEVICE i32 iron_add_i32(i32 a, i32 b) {
  return (i32)((u32)a + (u32)b);
}
IRON_DEVICE i32 iron_mul_i32(i32 a, i32 b) {
  return (i32)((u32)a * (u32)b);
}
IRON_DEVICE i32 iron_min_i32(i32 a, i32 b) {
  return a < b ? a : b;
}

extern "C" __global__ void __launch_bounds__(256) iron_scan_rows_f32_no_exclusive(
    const f32* x,
    f32* y,
    const i32 R,
    const i32 N,
    const i64 x_stride0,
    const i64 y_stride0,
    const i64 extent0) {
  iron_take_turn();
  __shared__ f32 pile[8];
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 block = (i32)(group_index % (u32)extent0);
  const i32 row = (i32)(group_index / (u32)extent0);
  const i32 low = iron_mul_i32(block, N);
  const i32 high = iron_min_i32(iron_add_i32(low, N), N);
  f32 total = 0.0f;
  for (i32 base = low; base < high; base += 256) {
    const i32 first = iron_add_i32(base, thread_index);
    const bool t = first < high;
    f32 _choice;
    if (t) {
      const f32 x_at = x[(i64)row * x_stride0 + first];
      _choice = x_at;
    } else {
      _choice = 0.0f;
    }
    const f32 mine = 0.0f + _choice;
    f32 scan = mine;
    const i32 place = thread_index % 32;
    for (i32 step = 1; step < 32; step *= 2) {
      const f32 before = iron_shuffle_up_f32(scan, step);
      if (place >= step) {
        scan = before + scan;
      }
    }
    f32 shifted = iron_shifted_f32(scan, 0.0f, place);
    if (thread_index % 32 == 31) {
      pile[thread_index / 32] = scan;
    }
    __syncthreads();
    f32 base2 = 0.0f;
    const i32 number = thread_index % 256 / 32;
    for (i32 run = 0; run < number; ++run) {
      const f32 total2 = pile[run];
      base2 = base2 + total2;
    }
    shifted = base2 + shifted;
    __syncthreads();
    const f32 run2 = total + shifted + _choice;
    if (t) {
      y[(i64)row * y_stride0 + first] = run2;
    }
    f32 sum = mine;
    for (i32 step = 1; step < 32; step *= 2) {
      const f32 other = iron_shuffle_xor_f32(sum, step);
      sum = sum + other;
    }
    if (thread_index % 32 == 0) {
      pile[thread_index / 32] = sum;
    }
    __syncthreads();
    sum = pile[0];
    for (i32 run = 1; run < 8; ++run) {
      const f32 next = pile[run];
      sum = sum + next;
    }
    __syncthreads();
    total = total + sum;
  }
}
