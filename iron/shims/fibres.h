// What a kernel's text, compiled as C++, asks of the fibre runtime. Needs no header of the system.
#pragma once

#define FIBRE_MEETS __attribute__((convergent, nomerge, noinline))

extern "C" {

// Where a thread is: the number of a call site, and the line it was written on.
struct fibre_place {
  unsigned site;
  int line;
  const char* file;
};

struct fibre_thread {
  unsigned thread, simd, threads;  // its number, the width of a simdgroup, the size of its group
  unsigned long long group, groups;
  struct fibre_place place;
};

// One kernel of a translation unit, and the memory that its group shares.
struct fibre_kernel {
  void (*call)(const unsigned long long* arguments);
  char *shared, *shared_end;
};

// The thread that runs; always the same object for one thread.
__attribute__((const)) struct fibre_thread* fibre_self();

// Every thread of the group arrives at one site before any goes on.
FIBRE_MEETS void fibre_barrier();

// Every lane of the simdgroup arrives at one site with a value. Returns the values of all lanes,
// readable until this simdgroup meets once more.
FIBRE_MEETS const unsigned long long* fibre_lanes(unsigned long long mine);
}

// Before the declaration of an array of the group; a unit names the section of each kernel.
#define FIBRE_ARRAY static __attribute__((used, section(FIBRE_SHARED)))

// A call at which threads meet, numbered and with its line.
#define FIBRE_SITE(call) (fibre_at(__COUNTER__ + 1, __FILE__, __LINE__), call)

inline void fibre_at(unsigned site, const char* file, int line) {
  fibre_self()->place = {site, line, file};
}

template <class To>
inline To fibre_bits(unsigned long long word) {
  To value;
  __builtin_memcpy(&value, &word, sizeof(To));
  return value;
}

template <class From>
inline unsigned long long fibre_word(From value) {
  unsigned long long word = 0;
  __builtin_memcpy(&word, &value, sizeof(From));
  return word;
}

inline unsigned fibre_lane() { return fibre_self()->thread % fibre_self()->simd; }

// The value of another lane; that of a lane beyond the simdgroup is all ones.
template <class T>
inline T fibre_from(T mine, unsigned lane) {
  const unsigned long long* words = fibre_lanes(fibre_word(mine));
  return fibre_bits<T>(lane < fibre_self()->simd ? words[lane] : ~0ull);
}

// Bit l is what lane l says.
inline unsigned long long fibre_votes(bool mine) {
  const unsigned long long* words = fibre_lanes(mine);
  unsigned long long votes = 0;
  for (unsigned lane = 0; lane < fibre_self()->simd; ++lane) votes |= (words[lane] & 1) << lane;
  return votes;
}

// --- approximations of GPUs ----------------------------------------------------------------------
// Within half an ulp here; subnormal operands and results are 0, as on the device.

inline float fibre_flushed(float x) {
  return __builtin_fabsf(x) < 0x1p-126f ? __builtin_copysignf(0.0f, x) : x;
}

inline float fibre_exp2(float x) {
  if (x != x) return x;
  if (x >= 128.0f) return __builtin_inff();
  if (x < -126.0f) return 0.0f;
  const double whole = __builtin_rint((double)x), y = (x - whole) * 0.69314718055994530942;
  double sum = 1.0;
  for (int i = 12; i > 0; --i) sum = 1.0 + sum * y / i;
  return (float)(sum * fibre_bits<double>((unsigned long long)(1023 + (int)whole) << 52));
}

inline float fibre_rcp(float x) { return fibre_flushed(1.0f / fibre_flushed(x)); }

inline float fibre_rsqrt(float x) { return 1.0f / __builtin_sqrtf(fibre_flushed(x)); }
