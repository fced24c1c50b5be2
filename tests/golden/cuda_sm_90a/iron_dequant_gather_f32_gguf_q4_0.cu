typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
struct alignas(2) iron_u8x2 { u8 e[2]; };
IRON_DEVICE f32 iron_f16_to_f32(f16 x) {
  f32 y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
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
IRON_DEVICE u16 iron_shl_u16(u16 a, u16 b) {
  return (u16)((u16)a << ((u16)b & 15u));
}
IRON_DEVICE u32 iron_min_u32(u32 a, u32 b) {
  return a < b ? a : b;
}

// takes any arguments
extern "C" __global__ void __launch_bounds__(128) iron_dequant_gather_f32_gguf_q4_0(
    const u8* w_blocks,
    const u32* idx,
    f32* y,
    const f32 scale,
    const i32 V,
    const i32 D,
    const i32 R,
    const i64 w_blocks_stride0,
    const i64 y_stride0) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
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

// needs rows of w.blocks at multiples of 2 bytes
extern "C" __global__ void __launch_bounds__(128) iron_dequant_gather_f32_gguf_q4_0_words(
    const u8* w_blocks,
    const u32* idx,
    f32* y,
    const f32 scale,
    const i32 V,
    const i32 D,
    const i32 R,
    const i64 w_blocks_stride0,
    const i64 y_stride0) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
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
      const iron_u8x2 w_blocks_run = *(const iron_u8x2*)(w_blocks + (i64)row * w_blocks_stride0 + t2);
      const u8 part = w_blocks_run.e[0];
      const u8 part2 = w_blocks_run.e[1];
      const f32 s = iron_f16_to_f32((f16)(u16)((u16)part | iron_shl_u16((u16)part2, (u16)8)));
      _choice = scale * (s * x);
    }
    y[(i64)r * y_stride0 + i] = _choice;
  }
}
