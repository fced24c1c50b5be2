// Runs a kernel's groups on this thread: one fibre for each thread of a group, switched where
// threads meet, in an order that the caller chooses. A fault comes back as a record.

#include "fibres.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

constexpr size_t STACK = 256 * 1024;
constexpr unsigned MOST_THREADS = 1024, MOST_LANES = 64;

// --- the switch ----------------------------------------------------------------------------------

#if defined(__x86_64__) && !defined(FIBRES_BY_UCONTEXT)

using Context = void*;
constexpr char SWITCH[] = "x86-64";

extern "C" void fibre_switch(Context* from, Context to);
asm(R"(
.text
.globl fibre_switch
.hidden fibre_switch
.type fibre_switch,@function
fibre_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size fibre_switch, .-fibre_switch
)");

void start(Context* context, char* stack, void (*body)()) {
  void** top = reinterpret_cast<void**>(stack + STACK - 64);
  *--top = nullptr;  // where `body` would return to
  *--top = reinterpret_cast<void*>(body);
  for (int saved = 0; saved < 6; ++saved) *--top = nullptr;
  *context = top;
}

#else

using Context = ucontext_t;
constexpr char SWITCH[] = "ucontext";

void fibre_switch(Context* from, Context& to) { swapcontext(from, &to); }

void start(Context* context, char* stack, void (*body)()) {
  getcontext(context);
  context->uc_stack.ss_sp = stack;
  context->uc_stack.ss_size = STACK;
  context->uc_link = nullptr;
  makecontext(context, body, 0);
}

#endif

// --- the group that runs -------------------------------------------------------------------------

enum State : uint8_t { READY, AT_LANES, AT_BARRIER, DONE };

struct Fibre {
  fibre_thread self;
  Context context;
  char* stack;
  State state;
};

struct Simdgroup {
  uint64_t words[2][MOST_LANES];
  unsigned turn;
};

enum Kind : int32_t { FINE, PARTED, OUTSIDE, TRAPPED, STACK_OVER };

}  // namespace

extern "C" struct fibre_fault {
  int32_t kind, signal;
  uint64_t group, thread, other, address, code;
  int32_t state, other_state;
  fibre_place place, other_place;
};

namespace {

Fibre fibres[MOST_THREADS];
Simdgroup simdgroups[MOST_THREADS];
Context scheduler;
sigjmp_buf out;
fibre_fault* fault;
const fibre_kernel* kernel;
const uint64_t* arguments;
unsigned threads, simd, current;
uint64_t all_groups;
volatile sig_atomic_t running;

void leave() { fibre_switch(&fibres[current].context, scheduler); }

void body() {
  kernel->call(reinterpret_cast<const unsigned long long*>(arguments));
  fibres[current].state = DONE;
  leave();
  __builtin_trap();
}

void resume(unsigned thread) {
  current = thread;
  fibre_switch(&scheduler, fibres[thread].context);
}

void parted(unsigned thread, unsigned other) {
  fault->kind = PARTED;
  fault->thread = thread;
  fault->other = other;
  fault->state = fibres[thread].state;
  fault->other_state = fibres[other].state;
  fault->place = fibres[thread].self.place;
  fault->other_place = fibres[other].self.place;
}

// True when the threads of `first .. end - 1` are all in `state` at one site; a fault when they
// can never be.
bool met(unsigned first, unsigned end, State state) {
  for (unsigned t = first + 1; t < end; ++t) {
    const bool same = fibres[t].state == fibres[first].state &&
                      fibres[t].self.place.site == fibres[first].self.place.site;
    if (!same) {
      parted(first, t);
      return false;
    }
  }
  return fibres[first].state == state;
}

unsigned any_in(unsigned first, unsigned end, State state) {
  unsigned count = 0;
  for (unsigned t = first; t < end; ++t) count += fibres[t].state == state;
  return count;
}

void release(unsigned first, unsigned end) {
  for (unsigned t = first; t < end; ++t) fibres[t].state = READY;
}

// --- the order -----------------------------------------------------------------------------------

enum Order : uint32_t { FORWARD, BACKWARD, SHUFFLED };

struct Random {
  uint64_t state;
  uint32_t below(uint32_t bound) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>(state >> 33) % bound;
  }
};

void arrange(uint32_t* order, uint32_t count, uint32_t kind, Random& random) {
  for (uint32_t i = 0; i < count; ++i) order[i] = kind == BACKWARD ? count - 1 - i : i;
  if (kind != SHUFFLED) return;
  for (uint32_t i = count; i > 1; --i) {
    const uint32_t j = random.below(i), held = order[i - 1];
    order[i - 1] = order[j];
    order[j] = held;
  }
}

// Runs the ready lanes of a simdgroup; true when it got on.
bool advance(unsigned number, const uint32_t* lanes) {
  const unsigned first = number * simd, end = first + simd < threads ? first + simd : threads;
  bool ran = false;
  for (unsigned l = 0; l < simd; ++l) {
    const unsigned t = first + lanes[l];
    if (t >= end || fibres[t].state != READY) continue;
    resume(t);
    ran = true;
  }
  if (any_in(first, end, AT_LANES) == 0) return ran;
  if (!met(first, end, AT_LANES)) return false;
  simdgroups[number].turn ^= 1;
  release(first, end);
  return true;
}

bool group(uint64_t number, uint32_t order, Random& random) {
  const unsigned count = (threads + simd - 1) / simd;
  for (unsigned t = 0; t < threads; ++t) {
    Fibre& f = fibres[t];
    f.self = {t, simd, threads, number, all_groups, {0, 0, nullptr}};
    f.state = READY;
    start(&f.context, f.stack, body);
  }
  for (unsigned s = 0; s < count; ++s) simdgroups[s].turn = 0;
  memset(kernel->shared, 0xFF, kernel->shared_end - kernel->shared);
  uint32_t lanes[MOST_LANES], places[MOST_THREADS];
  for (;;) {
    bool ran = false;
    arrange(places, count, order, random);
    for (unsigned s = 0; s < count; ++s) {
      // In a shuffled order simdgroups overtake each other; else each goes as far as it can.
      do {
        arrange(lanes, simd, order, random);
        if (!advance(places[s], lanes)) break;
        ran = true;
      } while (order != SHUFFLED || random.below(2) == 0);
      if (fault->kind != FINE) return false;
    }
    if (ran) continue;
    if (any_in(0, threads, DONE) == threads) return true;
    if (!met(0, threads, AT_BARRIER)) return false;
    release(0, threads);
  }
}

// --- faults of the machine -----------------------------------------------------------------------

constexpr int SIGNALS[] = {SIGSEGV, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
constexpr int COUNT = sizeof(SIGNALS) / sizeof(*SIGNALS);
struct sigaction before[COUNT];
char* handler_stack;
pthread_t runner;

uint64_t code_address(void* context) {
#if defined(__x86_64__) && defined(__linux__)
  return static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__) && defined(__linux__)
  return static_cast<ucontext_t*>(context)->uc_mcontext.pc;
#else
  return 0;
#endif
}

void on_signal(int signal, siginfo_t* info, void* context) {
  if (!running || !pthread_equal(runner, pthread_self())) {
    for (int k = 0; k < COUNT; ++k) {
      if (SIGNALS[k] == signal) sigaction(signal, &before[k], nullptr);
    }
    return;  // the instruction is tried again, under the handler that was there before
  }
  const char* at = static_cast<char*>(info->si_addr);
  const Fibre& f = fibres[current];
  const bool memory = signal == SIGSEGV || signal == SIGBUS;
  const bool stack = memory && at >= f.stack - STACK && at < f.stack;
  fault->kind = stack ? STACK_OVER : memory ? OUTSIDE : TRAPPED;
  fault->signal = signal;
  fault->thread = current;
  fault->group = f.self.group;
  fault->address = reinterpret_cast<uint64_t>(at);
  fault->code = code_address(context);
  fault->place = f.self.place;
  siglongjmp(out, 1);
}

void listen(stack_t* old) {
  if (handler_stack == nullptr) handler_stack = static_cast<char*>(malloc(SIGSTKSZ + STACK));
  stack_t own{};
  own.ss_sp = handler_stack;
  own.ss_size = SIGSTKSZ + STACK;
  sigaltstack(&own, old);
  struct sigaction mine {};
  mine.sa_sigaction = on_signal;
  mine.sa_flags = SA_SIGINFO | SA_ONSTACK;
  runner = pthread_self();
  for (int k = 0; k < COUNT; ++k) sigaction(SIGNALS[k], &mine, &before[k]);
}

void listen_no_more(const stack_t* old) {
  for (int k = 0; k < COUNT; ++k) sigaction(SIGNALS[k], &before[k], nullptr);
  sigaltstack(old, nullptr);
}

bool stacks(unsigned count) {
  for (unsigned t = 0; t < count; ++t) {
    if (fibres[t].stack != nullptr) continue;
    void* got = mmap(nullptr, 2 * STACK, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) return false;
    char* stack = static_cast<char*>(got) + STACK;
    if (mprotect(stack, STACK, PROT_READ | PROT_WRITE) != 0) return false;
    fibres[t].stack = stack;
  }
  return true;
}

}  // namespace

// --- what kernels call ---------------------------------------------------------------------------

extern "C" fibre_thread* fibre_self() { return &fibres[current].self; }

extern "C" void fibre_barrier() {
  fibres[current].state = AT_BARRIER;
  leave();
}

extern "C" const unsigned long long* fibre_lanes(unsigned long long mine) {
  const unsigned thread = current;
  Simdgroup& s = simdgroups[thread / simd];
  uint64_t* words = s.words[s.turn];
  words[thread % simd] = mine;
  fibres[thread].state = AT_LANES;
  leave();
  return reinterpret_cast<const unsigned long long*>(words);
}

// --- what the driver calls -----------------------------------------------------------------------

extern "C" const char* fibre_switch_name() { return SWITCH; }

// Runs `groups` groups; 0 when all went well, 1 with a fault, 2 when there is no memory. The caller
// runs one launch at a time. Group g starts as order + g, so that one launch has all three orders,
// unless `fixed`.
extern "C" int fibre_run(const fibre_kernel* k, const uint64_t* a, uint64_t groups, unsigned width,
                         unsigned group_threads, unsigned order, int fixed, uint64_t seed,
                         fibre_fault* report) {
  kernel = k;
  arguments = a;
  threads = group_threads;
  simd = width;
  all_groups = groups;
  fault = report;
  *fault = {};
  if (threads > MOST_THREADS || simd > MOST_LANES || !stacks(threads)) return 2;
  Random random{seed * 0x9E3779B97F4A7C15ull | 1};
  stack_t old;
  listen(&old);
  running = true;
  if (sigsetjmp(out, 1) == 0) {
    for (uint64_t n = 0; n < groups; ++n) {
      const uint64_t g = order == BACKWARD ? groups - 1 - n : n;
      fault->group = g;
      if (!group(g, fixed ? order : (order + g) % 3, random)) break;
    }
  }
  running = false;
  Dl_info file;
  if (fault->code != 0 && dladdr(reinterpret_cast<void*>(fault->code), &file) != 0) {
    fault->code -= reinterpret_cast<uint64_t>(file.dli_fbase);
  }
  listen_no_more(&old);
  return fault->kind != FINE;
}

// Room for `bytes` at an address that is a multiple of 16, with a page that cannot be touched on
// each side and as little as possible between the end and the page; bytes that nobody has written
// are ones. `whole` gets the mapping for `fibre_unmap`.
extern "C" char* fibre_map(size_t bytes, void** whole, size_t* whole_bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t room = (bytes + 15) / 16 * 16, inner = (room + page - 1) / page * page;
  void* got = mmap(nullptr, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  char* begin = static_cast<char*>(got) + page;
  if (inner > 0 && mprotect(begin, inner, PROT_READ | PROT_WRITE) != 0) return nullptr;
  memset(begin, 0xFF, inner);
  *whole = got;
  *whole_bytes = inner + 2 * page;
  return begin + inner - room;
}

extern "C" void fibre_unmap(void* whole, size_t whole_bytes) { munmap(whole, whole_bytes); }
