// The words of CUDA C++ that generated text uses, on fibres.
#pragma once
#include "fibres.h"

#define __global__
#define __device__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __restrict__ __restrict
#define __shared__
#define __align__(bytes) __attribute__((aligned(bytes)))

struct fibre_three {
  unsigned x, y, z;
};
#define threadIdx (fibre_three{fibre_self()->thread, 0, 0})
#define blockIdx (fibre_three{(unsigned)fibre_self()->group, 0, 0})
#define blockDim (fibre_three{fibre_self()->threads, 1, 1})
#define gridDim (fibre_three{(unsigned)fibre_self()->groups, 1, 1})
#define warpSize ((int)fibre_self()->simd)

// --- where threads meet --------------------------------------------------------------------------

inline void __syncthreads() { fibre_barrier(); }
inline void __syncwarp(unsigned = ~0u) { fibre_lanes(0); }
inline unsigned __ballot_sync(unsigned, bool mine) { return (unsigned)fibre_votes(mine); }
template <class T>
inline T __shfl_xor_sync(unsigned, T mine, int mask) {
  return fibre_from(mine, fibre_lane() ^ (unsigned)mask);
}
template <class T>
inline T __shfl_up_sync(unsigned, T mine, unsigned step) {
  const unsigned lane = fibre_lane();
  return fibre_from(mine, lane < step ? lane : lane - step);
}
template <class T>
inline T __shfl_down_sync(unsigned, T mine, unsigned step) {
  const unsigned lane = fibre_lane(), from = lane + step;
  return fibre_from(mine, from < fibre_self()->simd ? from : lane);
}
template <class T>
inline T __shfl_sync(unsigned, T mine, int lane) {
  return fibre_from(mine, (unsigned)lane % fibre_self()->simd);
}

// --- arithmetic ----------------------------------------------------------------------------------

inline unsigned __float_as_uint(float x) { return fibre_bits<unsigned>(fibre_word(x)); }
inline int __float_as_int(float x) { return fibre_bits<int>(fibre_word(x)); }
inline float __uint_as_float(unsigned x) { return fibre_bits<float>(x); }
inline float __int_as_float(int x) { return fibre_bits<float>(fibre_word(x)); }
inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
inline float rintf(float x) { return __builtin_rintf(x); }
inline float floorf(float x) { return __builtin_floorf(x); }
inline float ceilf(float x) { return __builtin_ceilf(x); }
inline float truncf(float x) { return __builtin_truncf(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x == 0 ? 32 : __builtin_clz((unsigned)x); }
inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll((unsigned long long)x); }
inline unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
inline unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return (unsigned)(((unsigned long long)a * b) >> 32);
}
inline int __mulhi(int a, int b) { return (int)(((long long)a * b) >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline long long __mul64hi(long long a, long long b) {
  return (long long)(((__int128)a * b) >> 64);
}
template <class T>
inline T __ldg(const T* at) {
  return *at;
}

// The instructions that text names in PTX: `unit.py` writes a call for each `asm`.
inline void ptx_cvt_f32_f16(float& to, unsigned short from) {
  to = (float)fibre_bits<_Float16>(from);
}
inline void ptx_mov_b32(float& to, unsigned short low, unsigned short high) {
  to = __uint_as_float((unsigned)high << 16 | low);
}
inline void ptx_cvt_rn_f16_f32(unsigned short& to, float from) {
  to = (unsigned short)fibre_word((_Float16)from);
}
inline void ptx_cvt_rn_bf16_f32(unsigned short& to, float from) {
  const unsigned bits = __float_as_uint(from);
  to = (unsigned short)(from != from ? 0x7fff : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
inline void ptx_cvt_rn_f16x2_f32(unsigned& to, float high, float low) {
  unsigned short a, b;
  ptx_cvt_rn_f16_f32(a, low);
  ptx_cvt_rn_f16_f32(b, high);
  to = (unsigned)b << 16 | a;
}
inline void ptx_cvt_rn_bf16x2_f32(unsigned& to, float high, float low) {
  unsigned short a, b;
  ptx_cvt_rn_bf16_f32(a, low);
  ptx_cvt_rn_bf16_f32(b, high);
  to = (unsigned)b << 16 | a;
}
inline void ptx_min_NaN_f32(float& to, float a, float b) {
  to = a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? a : b) : a < b ? a : b;
}
inline void ptx_max_NaN_f32(float& to, float a, float b) {
  to = a != a ? a : b != b ? b : a == b ? (__builtin_signbit(a) ? b : a) : a > b ? a : b;
}
template <class A, class B>
inline int fibre_dot4(unsigned a, unsigned b, int c) {
  unsigned sum = (unsigned)c;
  for (int n = 0; n < 32; n += 8) sum += (unsigned)((int)(A)(a >> n) * (int)(B)(b >> n));
  return (int)sum;
}
inline void ptx_dp4a_s32_s32(int& to, int a, int b, int c) {
  to = fibre_dot4<signed char, signed char>((unsigned)a, (unsigned)b, c);
}
inline void ptx_dp4a_s32_u32(int& to, int a, unsigned b, int c) {
  to = fibre_dot4<signed char, unsigned char>((unsigned)a, b, c);
}
inline void ptx_dp4a_u32_s32(int& to, unsigned a, int b, int c) {
  to = fibre_dot4<unsigned char, signed char>(a, (unsigned)b, c);
}
inline void ptx_dp4a_u32_u32(int& to, unsigned a, unsigned b, int c) {
  to = fibre_dot4<unsigned char, unsigned char>(a, b, c);
}
inline void ptx_ex2_approx_ftz_f32(float& to, float x) { to = fibre_exp2(x); }
inline void ptx_rcp_approx_ftz_f32(float& to, float x) { to = fibre_rcp(x); }
inline void ptx_rsqrt_approx_ftz_f32(float& to, float x) { to = fibre_rsqrt(x); }

// A product of a simdgroup: lane 4 g + t gives words t and t + 4 of rows g and g + 8 of a and of
// column g of b, and holds columns 2 t and 2 t + 1 of both rows of the sums.
template <class T>
inline T fibre_element(unsigned word, int at) {
  return fibre_bits<T>(word >> (8 * sizeof(T) * at));
}
struct fibre_brain {
  unsigned short bits;
  operator float() const { return __uint_as_float((unsigned)bits << 16); }
};
struct fibre_tensor {
  unsigned bits;
  operator float() const { return __uint_as_float(bits & 0xffffe000u); }
};
template <class T, class Sum>
inline void fibre_product(Sum& c0, Sum& c1, Sum& c2, Sum& c3, unsigned a0, unsigned a1,
                          unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
  unsigned long long given[3][32];
  const unsigned long long mine[3] = {(unsigned long long)a2 << 32 | a0,
                                      (unsigned long long)a3 << 32 | a1,
                                      (unsigned long long)b1 << 32 | b0};
  for (int i = 0; i < 3; ++i)
    __builtin_memcpy(given[i], fibre_lanes(mine[i]), sizeof(given[i]));
  const unsigned g = fibre_lane() / 4, t = fibre_lane() % 4;
  Sum* sums[2][2] = {{&c0, &c1}, {&c2, &c3}};
  for (int half = 0; half < 2; ++half)
    for (unsigned column = 0; column < 2; ++column)
      for (unsigned word = 0; word < 8; ++word)
        for (int at = 0; at < (int)(4 / sizeof(T)); ++at) {
          const int high = word < 4 ? 0 : 32;
          const unsigned a = (unsigned)(given[half][4 * g + word % 4] >> high);
          const unsigned b = (unsigned)(given[2][4 * (2 * t + column) + word % 4] >> high);
          *sums[half][column] += (Sum)fibre_element<T>(a, at) * (Sum)fibre_element<T>(b, at);
        }
}
#define FIBRE_PRODUCT(name, T, Sum)                                                              \
  inline void ptx_mma_##name(Sum& c0, Sum& c1, Sum& c2, Sum& c3, unsigned a0, unsigned a1,      \
                             unsigned a2, unsigned a3, unsigned b0, unsigned b1) {              \
    fibre_product<T>(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1);                                   \
  }
FIBRE_PRODUCT(f16, _Float16, float)
FIBRE_PRODUCT(bf16, fibre_brain, float)
FIBRE_PRODUCT(tf32, fibre_tensor, float)
FIBRE_PRODUCT(i8, signed char, int)
FIBRE_PRODUCT(u8, unsigned char, int)

// Matrices of 8 rows of 16 bytes: lane 8 i + r gives the place of row r of matrix i, lane 4 g + t
// gets word t of row g, or turned the halves of rows 2 t and 2 t + 1 in column g.
template <bool turned, class... Words>
inline void ptx_ldmatrix(const void* at, Words&... words) {
  unsigned long long rows[32];
  __builtin_memcpy(rows, fibre_lanes((unsigned long long)at), sizeof(rows));
  const unsigned g = fibre_lane() / 4, t = fibre_lane() % 4;
  unsigned first = 0;
  const auto load = [&](unsigned& word) {
    if (turned) {
      unsigned short half[2];
      for (int i = 0; i < 2; ++i) half[i] = ((unsigned short*)rows[first + 2 * t + i])[g];
      __builtin_memcpy(&word, half, 4);
    } else {
      __builtin_memcpy(&word, (char*)rows[first + g] + 4 * t, 4);
    }
    first += 8;
  };
  (load(words), ...);
}

// Copies under way, done as late as a wait allows.
struct fibre_copy {
  void* to;
  const void* from;
  unsigned group;
};
struct fibre_copies {
  fibre_copy held[256];
  unsigned count, closed;
};
static fibre_copies fibre_flying[1024];
inline void ptx_cp_async(void* to, const void* from) {
  fibre_copies& mine = fibre_flying[fibre_self()->thread];
  if (mine.count == 256 || (unsigned long)to % 16 || (unsigned long)from % 16) __builtin_trap();
  mine.held[mine.count++] = {to, from, mine.closed};
}
inline void ptx_cp_async_commit() { ++fibre_flying[fibre_self()->thread].closed; }
inline void ptx_cp_async_wait(unsigned pending) {
  fibre_copies& mine = fibre_flying[fibre_self()->thread];
  unsigned left = 0;
  for (unsigned i = 0; i < mine.count; ++i) {
    if (mine.closed - mine.held[i].group > pending)
      __builtin_memcpy(mine.held[i].to, mine.held[i].from, 16);
    else
      mine.held[left++] = mine.held[i];
  }
  mine.count = left;
}
inline unsigned long __cvta_generic_to_shared(const void* at) { return (unsigned long)at; }

// --- memory --------------------------------------------------------------------------------------

#define FIBRE_VECTORS(T, name)                                            \
  struct alignas(2 * sizeof(T)) name##2 {                                 \
    T x, y;                                                               \
  };                                                                      \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 {       \
    T x, y, z, w;                                                         \
  };                                                                      \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }              \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
FIBRE_VECTORS(signed char, char)
FIBRE_VECTORS(unsigned char, uchar)
FIBRE_VECTORS(short, short)
FIBRE_VECTORS(unsigned short, ushort)
FIBRE_VECTORS(int, int)
FIBRE_VECTORS(unsigned, uint)
FIBRE_VECTORS(float, float)
FIBRE_VECTORS(long long, longlong)
FIBRE_VECTORS(unsigned long long, ulonglong)
#undef FIBRE_VECTORS

#define FIBRE_ATOMIC(name, new_value)  \
  template <class T>                   \
  inline T name(T* at, T value) {      \
    const T old = *at;                 \
    *at = new_value;                   \
    return old;                        \
  }
FIBRE_ATOMIC(atomicMin, value < old ? value : old)
FIBRE_ATOMIC(atomicMax, value > old ? value : old)
FIBRE_ATOMIC(atomicAnd, old & value)
FIBRE_ATOMIC(atomicOr, old | value)
FIBRE_ATOMIC(atomicXor, old ^ value)
FIBRE_ATOMIC(atomicExch, value)
#undef FIBRE_ATOMIC
template <class T>
inline T atomicAdd(T* at, T value) {
  const T old = *at;
  *at = fibre_bits<T>(fibre_word(old) + fibre_word(value));  // wraps
  return old;
}
