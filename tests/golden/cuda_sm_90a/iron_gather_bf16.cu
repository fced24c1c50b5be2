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
IRON_DEVICE u32 iron_min_u32(u32 a, u32 b) {
  return a < b ? a : b;
}

extern "C" __global__ void __launch_bounds__(128) iron_gather_bf16(
    const bf16* table,
    const u32* idx,
    bf16* y,
    const f32 scale,
    const i32 V,
    const i32 D,
    const i32 R,
    const i64 table_stride0,
    const i64 y_stride0) {
  iron_take_turn();
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 r = (i32)group_index;
  const u32 wanted = idx[r];
  const u32 row = iron_min_u32(wanted, (u32)(V - 1));
  const bool t = wanted == 4294967295u;
  for (i32 i = thread_index; i < D; i += 128) {
    bf16 _choice;
    if (t) {
      _choice = (bf16)0x0000;
    } else {
      const bf16 table_at = table[(i64)row * table_stride0 + i];
      _choice = table_at;
    }
    y[(i64)r * y_stride0 + i] = _choice;
  }
}
