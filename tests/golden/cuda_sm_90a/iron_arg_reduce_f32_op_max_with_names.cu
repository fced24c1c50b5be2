typedef signed char i8; typedef short i16; typedef int i32; typedef long long i64;
typedef unsigned char u8; typedef unsigned short u16; typedef unsigned int u32;
typedef unsigned long long u64; typedef unsigned short f16; typedef unsigned short bf16;
typedef float f32;
#define IRON_DEVICE static __device__ __forceinline__
#define IRON_CONSTANT_F32(bits) __builtin_bit_cast(f32, bits)
IRON_DEVICE f32 iron_bits_to_f32(u32 x) { return __uint_as_float(x); }
IRON_DEVICE void iron_take_turn() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (gridDim.x * gridDim.y * blockDim.x <= 50688u) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;");
  }
#endif
}
IRON_DEVICE i32 iron_shuffle_xor_i32(i32 x, i32 step) { return (i32)__shfl_xor_sync(0xffffffffu, (i32)x, step); }
IRON_DEVICE f32 iron_shuffle_xor_f32(f32 x, i32 step) { return (f32)__shfl_xor_sync(0xffffffffu, (f32)x, step); }

extern "C" __global__ void __launch_bounds__(256) iron_arg_reduce_f32_op_max_with_names(
    const f32* x,
    const u32* names,
    u32* y,
    const i32 R,
    const i32 N,
    const i64 x_stride0,
    const i64 names_stride0) {
  iron_take_turn();
  __shared__ f32 pile[8];
  __shared__ i32 pile2[8];
  const i32 thread_index = (i32)threadIdx.x;
  const u32 group_index = blockIdx.x;
  const i32 row = (i32)group_index;
  i32 at = 0;
  f32 best = iron_bits_to_f32(0xff800000u);
  for (i32 i = thread_index; i < N; i += 256) {
    const f32 value = x[(i64)row * x_stride0 + i];
    const bool a_nan = best != best;
    const bool b_nan = value != value;
    const bool level = best == value || (a_nan && b_nan);
    const bool better = value > best || (b_nan && !a_nan) || (level && i < at);
    at = better ? i : at;
    best = better ? value : best;
  }
  f32 reduce = best;
  i32 at2 = at;
  for (i32 step = 1; step < 32; step *= 2) {
    const f32 other = iron_shuffle_xor_f32(reduce, step);
    const i32 other2 = iron_shuffle_xor_i32(at2, step);
    const bool upper = (thread_index & step) != 0;
    const f32 low = upper ? other : reduce;
    const i32 low2 = upper ? other2 : at2;
    const f32 high = upper ? reduce : other;
    const i32 high2 = upper ? at2 : other2;
    const bool a_nan2 = low != low;
    const bool b_nan2 = high != high;
    const bool level2 = low == high || (a_nan2 && b_nan2);
    const bool better2 = high > low || (b_nan2 && !a_nan2) || (level2 && high2 < low2);
    reduce = better2 ? high : low;
    at2 = better2 ? high2 : low2;
  }
  if (thread_index % 32 == 0) {
    pile[thread_index / 32] = reduce;
    pile2[thread_index / 32] = at2;
  }
  __syncthreads();
  reduce = pile[0];
  at2 = pile2[0];
  for (i32 run = 1; run < 8; ++run) {
    const f32 next = pile[run];
    const i32 next2 = pile2[run];
    const bool a_nan3 = reduce != reduce;
    const bool b_nan3 = next != next;
    const bool level3 = reduce == next || (a_nan3 && b_nan3);
    const bool better3 = next > reduce || (b_nan3 && !a_nan3) || (level3 && next2 < at2);
    reduce = better3 ? next : reduce;
    at2 = better3 ? next2 : at2;
  }
  if (thread_index == 0) {
    const u32 names_at = names[(i64)row * names_stride0 + at2];
    y[row] = names_at;
  }
}
