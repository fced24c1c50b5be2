typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
struct alignas(8) iron_f16x4 { u32 w[2]; };
struct alignas(16) iron_f32x4 { f32 e[4]; };
IRON_DEVICE f16 iron_f32_to_f16(f32 x) {
  f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
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

// takes any arguments
extern "C" __global__ void __launch_bounds__(256) iron_cast_f32_f16(
    const f32* x,
    f16* y,
    const i32 N) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 256 + thread_index;
  if (i < N) {
    const f32 x_at = x[i];
    y[i] = iron_f32_to_f16(x_at);
  }
}

// needs rows of x at multiples of 16 bytes, rows of y at multiples of 8 bytes, neighbours move 4 at a time
extern "C" __global__ void __launch_bounds__(128) iron_cast_f32_f16_neighbours(
    const f32* x,
    f16* y,
    const i32 N) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 128 + thread_index;
  const i32 t = i * 4;
  if (t < N) {
    const iron_f32x4 x_run = *(const iron_f32x4*)(x + t);
    const f32 part = x_run.e[0];
    const f32 part2 = x_run.e[1];
    const f32 part3 = x_run.e[2];
    const f32 part4 = x_run.e[3];
    *(iron_f16x4*)(y + t) = iron_f16x4{{(u32)(iron_f32_to_f16(part)) | (u32)(iron_f32_to_f16(part2)) << 16, (u32)(iron_f32_to_f16(part3)) | (u32)(iron_f32_to_f16(part4)) << 16}};
  }
}
