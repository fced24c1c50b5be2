// Declarations of the Metal library for clang's front end of C++ for OpenCL 2021, which knows
// address spaces and what a kernel may do. Nothing here is ever run.
#pragma OPENCL EXTENSION cl_khr_fp16 : enable

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef ulong ulong2 __attribute__((ext_vector_type(2)));
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")

#define kernel __kernel
#define device __global
#define threadgroup __local
#define constant __constant

// Attributes become annotations, so that a name that Metal does not have is an error.
#define buffer(index) clang::annotate("buffer", index)
#define max_total_threads_per_threadgroup(count) clang::annotate("threads", count)
#define threadgroup_position_in_grid clang::annotate("group")
#define simdgroup_index_in_threadgroup clang::annotate("simdgroup")
#define thread_index_in_simdgroup clang::annotate("lane")
#define thread_index_in_threadgroup clang::annotate("thread")

namespace metal {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2 };
constexpr mem_flags operator|(mem_flags a, mem_flags b) { return (mem_flags)((int)a | (int)b); }
void threadgroup_barrier(mem_flags) __attribute__((convergent));

struct simd_vote {
  typedef ulong vote_t;
  vote_t votes;
  explicit operator vote_t() const { return votes; }
};
simd_vote simd_ballot(bool) __attribute__((convergent));
#define METAL_SHUFFLES(T)                                             \
  T simd_shuffle_xor(T, ushort) __attribute__((convergent));          \
  T simd_shuffle_up(T, ushort) __attribute__((convergent));
METAL_SHUFFLES(float)
METAL_SHUFFLES(int)
METAL_SHUFFLES(uint)
METAL_SHUFFLES(short)
METAL_SHUFFLES(ushort)
METAL_SHUFFLES(char)
METAL_SHUFFLES(uchar)
METAL_SHUFFLES(half)

template <class To, class From>
To as_type(From);
float fma(float, float, float);
float rint(float);
float floor(float);
float ceil(float);
float trunc(float);
uint popcount(uint);
uint clz(uint);
uint reverse_bits(uint);
uint mulhi(uint, uint);
int mulhi(int, int);
namespace precise {
float sqrt(float);
}

// OpenCL has types of these names of its own.
#define atomic_uint metal_atomic_uint
#define atomic_int metal_atomic_int
struct atomic_uint {
  uint value;
};
struct atomic_int {
  int value;
};
enum memory_order { memory_order_relaxed };
#define METAL_ATOMIC(kind)                                                          \
  uint atomic_fetch_##kind##_explicit(volatile device atomic_uint*, uint, memory_order);       \
  uint atomic_fetch_##kind##_explicit(volatile threadgroup atomic_uint*, uint, memory_order);  \
  int atomic_fetch_##kind##_explicit(volatile device atomic_int*, int, memory_order);          \
  int atomic_fetch_##kind##_explicit(volatile threadgroup atomic_int*, int, memory_order);
METAL_ATOMIC(add)
METAL_ATOMIC(min)
METAL_ATOMIC(max)
METAL_ATOMIC(and)
METAL_ATOMIC(or)
METAL_ATOMIC(xor)

// Matrices have no elements that a program may name.
typedef struct {
  ushort bits;
} bfloat;
template <class T, int columns, int rows>
class simdgroup_matrix {
  T held[2];
};
#define METAL_MATRICES(T)                                                                        \
  typedef simdgroup_matrix<T, 8, 8> simdgroup_##T##8x8;                                          \
  void simdgroup_load(simdgroup_##T##8x8&, const threadgroup T*, ulong = 8, ulong2 = (ulong2)(0, 0), \
                      bool = false) __attribute__((convergent));                                 \
  void simdgroup_store(simdgroup_##T##8x8, threadgroup T*, ulong = 8, ulong2 = (ulong2)(0, 0),   \
                       bool = false) __attribute__((convergent));                                \
  void simdgroup_multiply_accumulate(simdgroup_float8x8&, simdgroup_##T##8x8&,                   \
                                     simdgroup_##T##8x8&, simdgroup_float8x8&)                   \
      __attribute__((convergent));
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
METAL_MATRICES(float)
METAL_MATRICES(half)
METAL_MATRICES(bfloat)
template <class T, int columns, int rows>
simdgroup_matrix<T, columns, rows> make_filled_simdgroup_matrix(T) __attribute__((convergent));

}  // namespace metal
