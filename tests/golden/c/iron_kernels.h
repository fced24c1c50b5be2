/* Launches of the kernels in ../manifest.json, written by `iron emit`.

   Every function checks its arguments first: it returns a status other than IRON_OK, with the
   reason in iron_message(), and does nothing then. Outputs must not overlap inputs. */

#ifndef IRON_KERNELS_H
#define IRON_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum iron_status {
  IRON_OK = 0,
  IRON_REQUIREMENT = 1, /* a requirement of the kernel does not hold for these sizes */
  IRON_ARGUMENT = 2,    /* an argument is missing, negative or laid out wrongly */
  IRON_DEVICE = 3       /* the driver refused the launch */
};

/* Why the last call of this thread that did not return IRON_OK refused. */
const char *iron_message(void);

/* The first element, and the elements between neighbours along each axis; NULL for a tensor that
   is contiguous in the order of its axes. */
typedef struct iron_tensor {
  void *data;
  const int64_t *strides;
} iron_tensor;

/* A launch on the CPU. run(arguments, first, end) runs the groups first .. end - 1;
   ranges may run in any order and on any threads. */
typedef struct iron_block {
  void (*run)(const uint64_t *arguments, int64_t first, int64_t end);
  int64_t groups;
  uint64_t arguments[12];
} iron_block;

/* Runs all groups on this thread. */
void iron_run(const iron_block *block);

/* One thread per element of y. x may be reversed, transposed, sliced with a step or broadcast.
   x: f32[shape_0, shape_1, shape_2], read
   y: f32[shape_0, shape_1, shape_2], written */
int iron_copy_f32_rank3_cpu(iron_block *block, iron_tensor x, iron_tensor y, int32_t shape_0,
                            int32_t shape_1, int32_t shape_2);

/* One group per row. A residual is added to the weighted result (y = residual + norm(x) * w).
   x: f16[R, N], read
   w: f16[N], read
   y: f16[R, N], written */
int iron_rms_norm_f16_vec4_with_w_cpu(iron_block *block, iron_tensor x, iron_tensor w,
                                      iron_tensor y, float eps, int32_t R, int32_t N);

/* One group per row; sums are f32. `LOG` gives log(y).
   x: f32[R, N], read
   y: f32[R, N], written */
int iron_softmax_f32_no_log_vec1_cpu(iron_block *block, iron_tensor x, iron_tensor y, float scale,
                                     int32_t R, int32_t N);

#ifdef IRON_CUDA
#include <cuda.h>

/* A kernel in its module: the code that takes any arguments, then the forms for launches of which
   more is known. A launch takes the best whose conditions hold. */
typedef struct iron_cuda_kernel {
  CUfunction forms[3];
} iron_cuda_kernel;

/* One thread per element of y. x may be reversed, transposed, sliced with a step or broadcast.
   x: f32[shape_0, shape_1, shape_2], read
   y: f32[shape_0, shape_1, shape_2], written */
int iron_copy_f32_rank3_cuda_load(iron_cuda_kernel *kernel, CUmodule module);
int iron_copy_f32_rank3_cuda(const iron_cuda_kernel *kernel, CUstream stream, iron_tensor x,
                             iron_tensor y, int32_t shape_0, int32_t shape_1, int32_t shape_2);

/* One group per row. A residual is added to the weighted result (y = residual + norm(x) * w).
   x: f16[R, N], read
   w: f16[N], read
   y: f16[R, N], written */
int iron_rms_norm_f16_vec4_with_w_cuda_load(iron_cuda_kernel *kernel, CUmodule module);
int iron_rms_norm_f16_vec4_with_w_cuda(const iron_cuda_kernel *kernel, CUstream stream,
                                       iron_tensor x, iron_tensor w, iron_tensor y, float eps,
                                       int32_t R, int32_t N);

/* One group per row; sums are f32. `LOG` gives log(y).
   x: f32[R, N], read
   y: f32[R, N], written */
int iron_softmax_f32_no_log_vec1_cuda_load(iron_cuda_kernel *kernel, CUmodule module);
int iron_softmax_f32_no_log_vec1_cuda(const iron_cuda_kernel *kernel, CUstream stream,
                                      iron_tensor x, iron_tensor y, float scale, int32_t R,
                                      int32_t N);

#endif

#ifdef __cplusplus
}
#endif

#endif
