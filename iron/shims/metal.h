// The words of the Metal Shading Language that generated text uses, on fibres. Address spaces are
// the compiler's own, so a pointer into one is no pointer into another.
#pragma once
#include "fibres.h"

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef _Float16 half;

#define kernel
#define device __attribute__((address_space(1)))
#define constant const __attribute__((address_space(2)))
#define threadgroup __attribute__((address_space(3)))
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

inline uint fibre_group() { return (uint)fibre_self()->group; }
inline uint fibre_simdgroup() { return fibre_self()->thread / fibre_self()->simd; }

// A pointer into an address space, from the word that holds it.
template <class Pointer>
inline Pointer fibre_pointer(unsigned long long word) {
  return reinterpret_cast<Pointer>((unsigned long)word);
}

namespace metal {

// --- where threads meet --------------------------------------------------------------------------

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) {
  return (mem_flags)((int)a | (int)b);
}
inline void threadgroup_barrier(mem_flags) { fibre_barrier(); }

class simd_vote {
 public:
  typedef ulong vote_t;
  explicit constexpr simd_vote(vote_t votes) : votes(votes) {}
  explicit constexpr operator vote_t() const { return votes; }

 private:
  vote_t votes;
};
inline simd_vote simd_ballot(bool mine) { return simd_vote(fibre_votes(mine)); }
template <class T>
inline T simd_shuffle_xor(T mine, ushort mask) {
  static_assert(sizeof(T) <= 4, "no lane hands on 64 bits");
  return fibre_from(mine, fibre_lane() ^ mask);
}
template <class T>
inline T simd_shuffle_up(T mine, ushort step) {
  static_assert(sizeof(T) <= 4, "no lane hands on 64 bits");
  const unsigned lane = fibre_lane();
  return fibre_from(mine, lane < step ? lane : lane - step);
}

// --- arithmetic ----------------------------------------------------------------------------------

template <class To, class From>
inline To as_type(From x) {
  static_assert(sizeof(To) == sizeof(From), "as_type keeps the size");
  return __builtin_bit_cast(To, x);
}
inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float rint(float x) { return __builtin_rintf(x); }
inline float floor(float x) { return __builtin_floorf(x); }
inline float ceil(float x) { return __builtin_ceilf(x); }
inline float trunc(float x) { return __builtin_truncf(x); }
inline uint popcount(uint x) { return (uint)__builtin_popcount(x); }
inline uint clz(uint x) { return x == 0 ? 32 : (uint)__builtin_clz(x); }
inline uint reverse_bits(uint x) { return __builtin_bitreverse32(x); }
inline uint mulhi(uint a, uint b) { return (uint)(((ulong)a * b) >> 32); }
inline int mulhi(int a, int b) { return (int)(((long)a * b) >> 32); }
namespace precise {
inline float sqrt(float x) { return __builtin_sqrtf(x); }
}

// --- matrices of a simdgroup ---------------------------------------------------------------------
// A matrix is spread over the lanes, two elements each, in an order of this model's own: no program
// sees it, so elements go in and out through memory alone.

typedef __bf16 bfloat;

template <class T, int columns, int rows>
class simdgroup_matrix {
  static_assert(columns == 8 && rows == 8, "every matrix is 8 x 8");

 public:
  simdgroup_matrix() { __builtin_memset(held, 0xff, sizeof(held)); }  // NaN until it is filled
  T held[2];
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;
typedef ulong ulong2 __attribute__((ext_vector_type(2)));

// The row and the column of an element of a lane.
inline unsigned fibre_row(unsigned) { return fibre_lane() / 4; }
inline unsigned fibre_column(unsigned at) { return fibre_lane() % 4 + 4 * at; }

template <class T, int columns, int rows>
inline simdgroup_matrix<T, columns, rows> make_filled_simdgroup_matrix(T value) {
  fibre_lanes(0);
  simdgroup_matrix<T, columns, rows> made;
  for (T& x : made.held) x = value;
  return made;
}
template <class T, class Place>
inline void simdgroup_load(simdgroup_matrix<T, 8, 8>& to, Place from, ulong row = 8,
                           ulong2 origin = 0, bool turned = false) {
  fibre_lanes(0);
  for (unsigned at = 0; at < 2; ++at) {
    const ulong y = fibre_row(at), x = fibre_column(at);
    const ulong down = origin.y + (turned ? x : y), across = origin.x + (turned ? y : x);
    to.held[at] = T(from[down * row + across]);
  }
}
template <class T, class Place>
inline void simdgroup_store(simdgroup_matrix<T, 8, 8> from, Place to, ulong row = 8,
                            ulong2 origin = 0, bool turned = false) {
  fibre_lanes(0);
  for (unsigned at = 0; at < 2; ++at) {
    const ulong y = fibre_row(at), x = fibre_column(at);
    const ulong down = origin.y + (turned ? x : y), across = origin.x + (turned ? y : x);
    to[down * row + across] = from.held[at];
  }
}
template <class A, class B, class C>
inline void simdgroup_multiply_accumulate(simdgroup_matrix<C, 8, 8>& to,
                                          simdgroup_matrix<A, 8, 8>& a,
                                          simdgroup_matrix<B, 8, 8>& b,
                                          simdgroup_matrix<C, 8, 8>& c) {
  unsigned long long given[2][32];
  const auto both = [](float low, float high) { return fibre_word(high) << 32 | fibre_word(low); };
  __builtin_memcpy(given[0], fibre_lanes(both(a.held[0], a.held[1])), sizeof(given[0]));
  __builtin_memcpy(given[1], fibre_lanes(both(b.held[0], b.held[1])), sizeof(given[1]));
  const auto element = [&](int which, unsigned y, unsigned x) {
    return fibre_bits<float>(given[which][4 * y + x % 4] >> (x < 4 ? 0 : 32));
  };
  for (unsigned at = 0; at < 2; ++at) {
    C sum = c.held[at];
    for (unsigned k = 0; k < 8; ++k)
      sum += (C)element(0, fibre_row(at), k) * (C)element(1, k, fibre_column(at));
    to.held[at] = sum;
  }
}

// --- atomics -------------------------------------------------------------------------------------

struct atomic_uint {
  uint value;
};
struct atomic_int {
  int value;
};
enum memory_order { memory_order_relaxed };

#define FIBRE_ATOMIC(kind, new_value)                                             \
  template <class Place, class T>                                                 \
  inline T atomic_fetch_##kind##_explicit(Place* at, T value, memory_order) {     \
    const T old = at->value;                                                      \
    at->value = new_value;                                                        \
    return old;                                                                   \
  }
FIBRE_ATOMIC(add, fibre_bits<T>(fibre_word(old) + fibre_word(value)))
FIBRE_ATOMIC(min, value < old ? value : old)
FIBRE_ATOMIC(max, value > old ? value : old)
FIBRE_ATOMIC(and, old & value)
FIBRE_ATOMIC(or, old | value)
FIBRE_ATOMIC(xor, old ^ value)
#undef FIBRE_ATOMIC

}  // namespace metal
