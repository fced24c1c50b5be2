// Stands for AMD's library libamdhip64 under the real hip-python: host memory, and a launch that
// computes y = x * by for every thread from its three arguments. It notes what it is given.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace {
const void* image;
double now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}
}  // namespace

extern "C" {

int architecture_at;  // where hipDeviceProp_t has gcnArchName, which the test finds out

int hipInit(unsigned) { return 0; }
int hipRuntimeGetVersion(int* version) { return *version = 70200000, 0; }
int hipGetDeviceCount(int* count) { return *count = 1, 0; }
int hipSetDevice(int device) { return device == 0 ? 0 : 101; }
int hipDeviceSynchronize() { return 0; }
int hipGetDevicePropertiesR0600(char* to, int) {
  strcpy(to, "A stub");
  strcpy(to + architecture_at, "gfx942:sramecc+:xnack-");
  return 0;
}

int hipModuleLoadData(void** module, const void* code) {
  image = code;
  *module = const_cast<void*>(code);
  return memcmp(code, "\177ELF", 4) == 0 ? 0 : 209;
}
int hipModuleGetFunction(void** function, void* module, const char* name) {
  *function = strdup(name);
  return module == image ? 0 : 400;
}
int hipModuleLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                          unsigned by, unsigned bz, unsigned shared, void* stream, void** given,
                          void** extra) {
  printf("%s %u,%u,%u %u,%u,%u %u %p %d\n", static_cast<char*>(function), gx, gy, gz, bx, by, bz,
         shared, stream, extra != nullptr);
  fflush(stdout);
  const float *x = *static_cast<float**>(given[0]), factor = *static_cast<float*>(given[2]);
  float* y = *static_cast<float**>(given[1]);
  for (unsigned i = 0; i < gx * bx; ++i) y[i] = x[i] * factor;
  return 0;
}

int hipMalloc(void** at, size_t size) {
  *at = aligned_alloc(256, (size + 255) / 256 * 256);
  return 0;
}
int hipFree(void* at) { return free(at), 0; }
int hipMemcpyHtoD(void* to, const void* from, size_t size) { return memcpy(to, from, size), 0; }
int hipMemcpyDtoH(void* to, const void* from, size_t size) { return memcpy(to, from, size), 0; }

int hipEventCreate(void** event) { return *event = calloc(1, sizeof(double)), 0; }
int hipEventRecord(void* event, void*) { return *static_cast<double*>(event) = now(), 0; }
int hipEventElapsedTime(float* ms, void* from, void* to) {
  *ms = static_cast<float>(*static_cast<double*>(to) - *static_cast<double*>(from));
  return 0;
}
int hipEventDestroy(void* event) { return free(event), 0; }
}
