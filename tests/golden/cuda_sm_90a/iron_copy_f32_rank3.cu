typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
struct alignas(16) iron_f32x4 { f32 e[4]; };
IRON_DEVICE void iron_take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= 50688u) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
#endif
}
IRON_DEVICE u32 iron_floordiv_u32(u32 a, u32 b) {
  return b == 0 ? (u32)0 : (u32)(a / b);
}
IRON_DEVICE u32 iron_mod_u32(u32 a, u32 b) {
  return b == 0 ? (u32)0 : (u32)(a % b);
}
IRON_DEVICE i32 iron_mul_i32(i32 a, i32 b) {
  return (i32)((u32)a * (u32)b);
}

// takes any arguments
extern "C" __global__ void __launch_bounds__(256) iron_copy_f32_rank3(
    const f32* x,
    f32* y,
    const i32 shape_0,
    const i32 shape_1,
    const i32 shape_2,
    const i64 x_stride0,
    const i64 x_stride1,
    const i64 x_stride2,
    const i64 y_stride0,
    const i64 y_stride1) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 256 + thread_index;
  if (i < iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2)) {
    const u32 t = (u32)i;
    const u32 t2 = (u32)shape_2;
    const i32 t3 = (i32)(t % t2);
    const u32 t4 = (u32)(i32)(t / t2);
    const u32 t5 = (u32)shape_1;
    const i32 t6 = (i32)iron_mod_u32(t4, t5);
    const i32 i2 = (i32)iron_floordiv_u32(t4, t5);
    const i32 t7 = (i32)iron_mod_u32((u32)i2, (u32)shape_0);
    const f32 x_at = x[(i64)t7 * x_stride0 + (i64)t6 * x_stride1 + (i64)t3 * x_stride2];
    y[(i64)t7 * y_stride0 + (i64)t6 * y_stride1 + t3] = x_at;
  }
}

// needs rows of x at multiples of 16 bytes, rows of y at multiples of 16 bytes, neighbours in the last axis of x, neighbours move 4 at a time
extern "C" __global__ void __launch_bounds__(128) iron_copy_f32_rank3_neighbours(
    const f32* x,
    f32* y,
    const i32 shape_0,
    const i32 shape_1,
    const i32 shape_2,
    const i64 x_stride0,
    const i64 x_stride1,
    const i64 y_stride0,
    const i64 y_stride1) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 128 + thread_index;
  const i32 t = i * 4;
  if (t < iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2)) {
    const i32 t2 = (i32)((u32)t % (u32)shape_2);
    const i32 i2 = (i32)((u32)t / (u32)shape_2);
    const i32 t3 = (i32)iron_mod_u32((u32)i2, (u32)shape_1);
    const i32 i3 = (i32)iron_floordiv_u32((u32)i2, (u32)shape_1);
    const i32 t4 = (i32)iron_mod_u32((u32)i3, (u32)shape_0);
    const iron_f32x4 x_run = *(const iron_f32x4*)(x + (i64)t4 * x_stride0 + (i64)t3 * x_stride1 + t2);
    const f32 part = x_run.e[0];
    const f32 part2 = x_run.e[1];
    const f32 part3 = x_run.e[2];
    const f32 part4 = x_run.e[3];
    *(iron_f32x4*)(y + (i64)t4 * y_stride0 + (i64)t3 * y_stride1 + t2) = iron_f32x4{{part, part2, part3, part4}};
  }
}

// needs neighbours in the last axis of x
extern "C" __global__ void __launch_bounds__(256) iron_copy_f32_rank3_unit(
    const f32* x,
    f32* y,
    const i32 shape_0,
    const i32 shape_1,
    const i32 shape_2,
    const i64 x_stride0,
    const i64 x_stride1,
    const i64 y_stride0,
    const i64 y_stride1) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 group0 = (i32)group_index;
  const i32 i = group0 * 256 + thread_index;
  if (i < iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2)) {
    const u32 t = (u32)i;
    const u32 t2 = (u32)shape_2;
    const i32 t3 = (i32)(t % t2);
    const u32 t4 = (u32)(i32)(t / t2);
    const u32 t5 = (u32)shape_1;
    const i32 t6 = (i32)iron_mod_u32(t4, t5);
    const i32 i2 = (i32)iron_floordiv_u32(t4, t5);
    const i32 t7 = (i32)iron_mod_u32((u32)i2, (u32)shape_0);
    const f32 x_at = x[(i64)t7 * x_stride0 + (i64)t6 * x_stride1 + t3];
    y[(i64)t7 * y_stride0 + (i64)t6 * y_stride1 + t3] = x_at;
  }
}
