// The instructions of AMD GPUs that generated HIP text uses, on fibres.
#pragma once
#include "fibres.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__

#define __builtin_amdgcn_workitem_id_x() (fibre_self()->thread)
#define __builtin_amdgcn_workgroup_id_x() ((unsigned)fibre_self()->group)
#define __builtin_amdgcn_fence(...) ((void)0)
#define __builtin_amdgcn_s_barrier() fibre_barrier()
#define __builtin_amdgcn_ds_bpermute(at, value) fibre_permute(at, value)
#define __builtin_amdgcn_mbcnt_lo(mask, more) fibre_lanes_below(mask, 0, more)
#define __builtin_amdgcn_mbcnt_hi(mask, more) fibre_lanes_below(mask, 32, more)
#define __builtin_amdgcn_ballot_w32(mine) ((unsigned)fibre_votes(mine))
#define __builtin_amdgcn_ballot_w64(mine) fibre_votes(mine)

#define __builtin_amdgcn_exp2f(x) fibre_exp2(x)
#define __builtin_amdgcn_rcpf(x) fibre_rcp(x)
#define __builtin_amdgcn_rsqf(x) fibre_rsqrt(x)

// Products of a wave of 64: a lane gives four elements (eight bytes) of row lane % 16 of a and of
// column lane % 16 of b, and holds four rows of that column of the sums, from 4 (lane / 16) on.
#define __builtin_amdgcn_mfma_f32_16x16x16f16(a, b, c, ...) fibre_product<_Float16>(a, b, c)
#define __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(a, b, c, ...) fibre_product<fibre_brain>(a, b, c)
#define __builtin_amdgcn_mfma_i32_16x16x32_i8(a, b, c, ...) fibre_product<signed char>(a, b, c)

struct fibre_brain {
  unsigned short bits;
  operator float() const { return fibre_bits<float>((unsigned long long)bits << 16); }
};
template <class T, class Operand, class Sums>
inline Sums fibre_product(Operand a, Operand b, Sums c) {
  unsigned long long left[64], right[64];
  __builtin_memcpy(left, fibre_lanes(fibre_word(a)), sizeof(left));
  __builtin_memcpy(right, fibre_lanes(fibre_word(b)), sizeof(right));
  const unsigned first = fibre_lane() / 16 * 4, column = fibre_lane() % 16;
  for (unsigned row = 0; row < 4; ++row)
    for (unsigned part = 0; part < 4; ++part)
      for (unsigned at = 0; at < 8 / sizeof(T); ++at) {
        const unsigned long long x = left[16 * part + first + row] >> (8 * sizeof(T) * at);
        const unsigned long long y = right[16 * part + column] >> (8 * sizeof(T) * at);
        c[row] += (decltype(c[0] + 0))fibre_bits<T>(x) * (decltype(c[0] + 0))fibre_bits<T>(y);
      }
  return c;
}

// Lanes are addressed by four times their number; the instruction takes it modulo the wave.
inline int fibre_permute(int at, int value) {
  return fibre_from(value, ((unsigned)at >> 2) % fibre_self()->simd);
}

inline unsigned fibre_lanes_below(unsigned mask, unsigned first, unsigned more) {
  const unsigned lane = fibre_lane();
  const unsigned count = lane < first ? 0 : lane - first < 32 ? lane - first : 32;
  return more + (unsigned)__builtin_popcount(count == 32 ? mask : mask & ((1u << count) - 1));
}

#define FIBRE_ATOMIC(kind, new_value)                                  \
  template <class T>                                                   \
  inline T fibre_fetch_##kind(T* at, T value) {                        \
    const T old = *at;                                                 \
    *at = new_value;                                                   \
    return old;                                                        \
  }
FIBRE_ATOMIC(add, fibre_bits<T>(fibre_word(old) + fibre_word(value)))
FIBRE_ATOMIC(min, value < old ? value : old)
FIBRE_ATOMIC(max, value > old ? value : old)
FIBRE_ATOMIC(and, old & value)
FIBRE_ATOMIC(or, old | value)
FIBRE_ATOMIC(xor, old ^ value)
#undef FIBRE_ATOMIC
#define __hip_atomic_fetch_add(at, value, ...) fibre_fetch_add(at, value)
#define __hip_atomic_fetch_min(at, value, ...) fibre_fetch_min(at, value)
#define __hip_atomic_fetch_max(at, value, ...) fibre_fetch_max(at, value)
#define __hip_atomic_fetch_and(at, value, ...) fibre_fetch_and(at, value)
#define __hip_atomic_fetch_or(at, value, ...) fibre_fetch_or(at, value)
#define __hip_atomic_fetch_xor(at, value, ...) fibre_fetch_xor(at, value)
