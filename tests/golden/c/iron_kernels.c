/* Written by `iron emit`; see iron_kernels.h. */

#include "iron_kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef uint16_t f16;
typedef uint16_t bf16;
typedef float f32;

/* What a launch comes to: groups in all and along each axis, strides and elements of tensors. */
typedef struct iron_plan {
  i64 groups;
  i64 extents[3];
  i64 strides[3][3];
  i64 elements[3];
} iron_plan;

static _Thread_local char message[512];

const char *iron_message(void) { return message; }

static int refuse(int status, const char *kernel, const char *text) {
  snprintf(message, sizeof message, "%s: %s", kernel, text);
  return status;
}

static inline i64 positive(i64 extent) { return extent > 0 ? extent : 0; }

static int lay_out(iron_plan *plan, int number, const char *kernel, const char *name,
                   iron_tensor tensor, int rank, const i64 *shape, bool contiguous) {
  i64 elements = 1;
  i64 *strides = plan->strides[number];
  for (int axis = rank - 1; axis >= 0; --axis) {
    strides[axis] = tensor.strides != NULL ? tensor.strides[axis] : elements;
    elements *= shape[axis];
  }
  plan->elements[number] = elements;
  if (elements > 0 && tensor.data == NULL) {
    snprintf(message, sizeof message, "%s: `%s` has no data", kernel, name);
    return IRON_ARGUMENT;
  }
  if (contiguous && elements > 0 && rank > 0 && shape[rank - 1] > 1 && strides[rank - 1] != 1) {
    snprintf(message, sizeof message, "%s: `%s` is not contiguous along its last axis", kernel,
             name);
    return IRON_ARGUMENT;
  }
  return IRON_OK;
}

static inline u32 iron_f32_to_bits(f32 x) { u32 y; memcpy(&y, &x, 4); return y; }
static inline u64 iron_mod_u64(u64 a, u64 b) {
  return b == 0 ? (u64)0 : (u64)(a % b);
}
static inline i32 iron_add_i32(i32 a, i32 b) {
  return (i32)((u32)a + (u32)b);
}
static inline i32 iron_mul_i32(i32 a, i32 b) {
  return (i32)((u32)a * (u32)b);
}
static inline i32 iron_neg_i32(i32 x) {
  return (i32)((u32)0 - (u32)x);
}
static inline i32 iron_floordiv_i32(i32 a, i32 b) {
  if (b == 0) return 0;
  if (b == -1) return iron_neg_i32(a);
  const i32 q = (i32)(a / b);
  return (a % b != 0 && (a < 0) != (b < 0)) ? (i32)(q - 1) : q;
}
static inline i32 iron_mod_i32(i32 a, i32 b) {
  if (b == 0 || b == -1) return 0;
  const i32 r = (i32)(a % b);
  return (r != 0 && (r < 0) != (b < 0)) ? (i32)(r + b) : r;
}
static inline i64 iron_mul_i64(i64 a, i64 b) {
  return (i64)((u64)a * (u64)b);
}
static inline i64 iron_mod_i64(i64 a, i64 b) {
  if (b == 0 || b == -1) return 0;
  const i64 r = (i64)(a % b);
  return (r != 0 && (r < 0) != (b < 0)) ? (i64)(r + b) : r;
}

static int plan_iron_copy_f32_rank3_f802192a(iron_plan *plan, iron_tensor x, iron_tensor y,
                                             i32 shape_0, i32 shape_1, i32 shape_2) {
  if (shape_0 < 0) return refuse(IRON_ARGUMENT, "copy", "dim shape_0 is negative");
  if (shape_1 < 0) return refuse(IRON_ARGUMENT, "copy", "dim shape_1 is negative");
  if (shape_2 < 0) return refuse(IRON_ARGUMENT, "copy", "dim shape_2 is negative");
  if (!(iron_mul_i64((i64)shape_0, (i64)shape_1) < 2147483648ll && iron_mul_i64(iron_mul_i64((i64)shape_0, (i64)shape_1), (i64)shape_2) < 2147483648ll))
    return refuse(IRON_REQUIREMENT, "copy", "`x` must have fewer than 2^31 elements ((i64(shape_0) * i64(shape_1) < 2147483648) & (i64(shape_0) * i64(shape_1) * i64(shape_2) < 2147483648))");
  const i64 iron_shape0[] = {(i64)shape_0, (i64)shape_1, (i64)shape_2};
  if (lay_out(plan, 0, "copy", "x", x, 3, iron_shape0, false) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape1[] = {(i64)shape_0, (i64)shape_1, (i64)shape_2};
  if (lay_out(plan, 1, "copy", "y", y, 3, iron_shape1, true) != IRON_OK)
    return IRON_ARGUMENT;
  plan->extents[0] = positive(iron_add_i32(iron_floordiv_i32(iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2), 256), (i32)(iron_mod_i32(iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2), 256) != 0)));
  plan->groups = plan->extents[0];
  return IRON_OK;
}

static int plan_iron_rms_norm_f16_vec4_with_w_59ca6384(iron_plan *plan, iron_tensor x,
                                                       iron_tensor w, iron_tensor y, i32 R, i32 N) {
  if (R < 0) return refuse(IRON_ARGUMENT, "rms_norm", "dim R is negative");
  if (N < 0) return refuse(IRON_ARGUMENT, "rms_norm", "dim N is negative");
  if (!(iron_mod_i32(N, 4) == 0))
    return refuse(IRON_REQUIREMENT, "rms_norm", "the row length N must be a multiple of VEC (N % 4 == 0)");
  const i64 iron_shape0[] = {(i64)R, (i64)N};
  if (lay_out(plan, 0, "rms_norm", "x", x, 2, iron_shape0, true) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape1[] = {(i64)N};
  if (lay_out(plan, 1, "rms_norm", "w", w, 1, iron_shape1, true) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape2[] = {(i64)R, (i64)N};
  if (lay_out(plan, 2, "rms_norm", "y", y, 2, iron_shape2, true) != IRON_OK)
    return IRON_ARGUMENT;
  plan->extents[0] = positive(R);
  plan->groups = plan->extents[0];
  return IRON_OK;
}

static int plan_iron_softmax_f32_no_log_vec1_99e29c9e(iron_plan *plan, iron_tensor x,
                                                      iron_tensor y, i32 R, i32 N) {
  if (R < 0) return refuse(IRON_ARGUMENT, "softmax", "dim R is negative");
  if (N < 0) return refuse(IRON_ARGUMENT, "softmax", "dim N is negative");
  if (!(iron_mod_i32(N, 1) == 0))
    return refuse(IRON_REQUIREMENT, "softmax", "the row length N must be a multiple of VEC (N % 1 == 0)");
  const i64 iron_shape0[] = {(i64)R, (i64)N};
  if (lay_out(plan, 0, "softmax", "x", x, 2, iron_shape0, true) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape1[] = {(i64)R, (i64)N};
  if (lay_out(plan, 1, "softmax", "y", y, 2, iron_shape1, true) != IRON_OK)
    return IRON_ARGUMENT;
  plan->extents[0] = positive(R);
  plan->groups = plan->extents[0];
  return IRON_OK;
}

void iron_run(const iron_block *block) {
  if (block->groups > 0) block->run(block->arguments, 0, block->groups);
}

void iron_copy_f32_rank3_f802192a(const uint64_t *arguments, int64_t first, int64_t end);

int iron_copy_f32_rank3_cpu(iron_block *block, iron_tensor x, iron_tensor y, int32_t shape_0,
                            int32_t shape_1, int32_t shape_2) {
  iron_plan plan;
  const int status = plan_iron_copy_f32_rank3_f802192a(&plan, x, y, shape_0, shape_1, shape_2);
  if (status != IRON_OK) return status;
  block->run = iron_copy_f32_rank3_f802192a;
  block->groups = plan.groups;
  block->arguments[0] = (u64)(uintptr_t)x.data;
  block->arguments[1] = (u64)plan.strides[0][0];
  block->arguments[2] = (u64)plan.strides[0][1];
  block->arguments[3] = (u64)plan.strides[0][2];
  block->arguments[4] = (u64)(uintptr_t)y.data;
  block->arguments[5] = (u64)plan.strides[1][0];
  block->arguments[6] = (u64)plan.strides[1][1];
  block->arguments[7] = (u64)shape_0;
  block->arguments[8] = (u64)shape_1;
  block->arguments[9] = (u64)shape_2;
  block->arguments[10] = (u64)plan.extents[0];
  block->arguments[11] = plan.elements[1] * 4 >= 16777216;
  return IRON_OK;
}

void iron_rms_norm_f16_vec4_with_w_59ca6384(const uint64_t *arguments, int64_t first, int64_t end);

int iron_rms_norm_f16_vec4_with_w_cpu(iron_block *block, iron_tensor x, iron_tensor w,
                                      iron_tensor y, float eps, int32_t R, int32_t N) {
  iron_plan plan;
  const int status = plan_iron_rms_norm_f16_vec4_with_w_59ca6384(&plan, x, w, y, R, N);
  if (status != IRON_OK) return status;
  block->run = iron_rms_norm_f16_vec4_with_w_59ca6384;
  block->groups = plan.groups;
  block->arguments[0] = (u64)(uintptr_t)x.data;
  block->arguments[1] = (u64)plan.strides[0][0];
  block->arguments[2] = (u64)(uintptr_t)w.data;
  block->arguments[3] = (u64)(uintptr_t)y.data;
  block->arguments[4] = (u64)plan.strides[2][0];
  block->arguments[5] = iron_f32_to_bits(eps);
  block->arguments[6] = (u64)R;
  block->arguments[7] = (u64)N;
  block->arguments[8] = (u64)plan.extents[0];
  block->arguments[9] = plan.elements[2] * 2 >= 16777216;
  return IRON_OK;
}

void iron_softmax_f32_no_log_vec1_99e29c9e(const uint64_t *arguments, int64_t first, int64_t end);

int iron_softmax_f32_no_log_vec1_cpu(iron_block *block, iron_tensor x, iron_tensor y, float scale,
                                     int32_t R, int32_t N) {
  iron_plan plan;
  const int status = plan_iron_softmax_f32_no_log_vec1_99e29c9e(&plan, x, y, R, N);
  if (status != IRON_OK) return status;
  block->run = iron_softmax_f32_no_log_vec1_99e29c9e;
  block->groups = plan.groups;
  block->arguments[0] = (u64)(uintptr_t)x.data;
  block->arguments[1] = (u64)plan.strides[0][0];
  block->arguments[2] = (u64)(uintptr_t)y.data;
  block->arguments[3] = (u64)plan.strides[1][0];
  block->arguments[4] = iron_f32_to_bits(scale);
  block->arguments[5] = (u64)R;
  block->arguments[6] = (u64)N;
  block->arguments[7] = (u64)plan.extents[0];
  block->arguments[8] = plan.elements[1] * 4 >= 16777216;
  return IRON_OK;
}

#if defined(IRON_CUDA)

/* An entry of a module, and the group memory that its launches ask for. */
typedef struct iron_entry {
  const char *name;
  int dynamic_bytes;
} iron_entry;

static int plan_iron_rms_norm_f16_vec4_with_w_688a653a(iron_plan *plan, iron_tensor x,
                                                       iron_tensor w, iron_tensor y, i32 R, i32 N) {
  if (R < 0) return refuse(IRON_ARGUMENT, "rms_norm", "dim R is negative");
  if (N < 0) return refuse(IRON_ARGUMENT, "rms_norm", "dim N is negative");
  if (!(iron_mod_i32(N, 4) == 0))
    return refuse(IRON_REQUIREMENT, "rms_norm", "the row length N must be a multiple of VEC (N % 4 == 0)");
  const i64 iron_shape0[] = {(i64)R, (i64)N};
  if (lay_out(plan, 0, "rms_norm", "x", x, 2, iron_shape0, true) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape1[] = {(i64)N};
  if (lay_out(plan, 1, "rms_norm", "w", w, 1, iron_shape1, true) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape2[] = {(i64)R, (i64)N};
  if (lay_out(plan, 2, "rms_norm", "y", y, 2, iron_shape2, true) != IRON_OK)
    return IRON_ARGUMENT;
  plan->extents[0] = positive(R);
  plan->groups = plan->extents[0];
  return IRON_OK;
}

static int plan_iron_softmax_f32_no_log_vec1_1a470573(iron_plan *plan, iron_tensor x,
                                                      iron_tensor y, i32 R, i32 N) {
  if (R < 0) return refuse(IRON_ARGUMENT, "softmax", "dim R is negative");
  if (N < 0) return refuse(IRON_ARGUMENT, "softmax", "dim N is negative");
  if (!(iron_mod_i32(N, 1) == 0))
    return refuse(IRON_REQUIREMENT, "softmax", "the row length N must be a multiple of VEC (N % 1 == 0)");
  const i64 iron_shape0[] = {(i64)R, (i64)N};
  if (lay_out(plan, 0, "softmax", "x", x, 2, iron_shape0, true) != IRON_OK)
    return IRON_ARGUMENT;
  const i64 iron_shape1[] = {(i64)R, (i64)N};
  if (lay_out(plan, 1, "softmax", "y", y, 2, iron_shape1, true) != IRON_OK)
    return IRON_ARGUMENT;
  plan->extents[0] = positive(R);
  plan->groups = plan->extents[0];
  return IRON_OK;
}

#endif

#ifdef IRON_CUDA

static int cuda_status(const char *kernel, CUresult result) {
  const char *text = "unknown error";
  if (result == CUDA_SUCCESS) return IRON_OK;
  cuGetErrorString(result, &text);
  return refuse(IRON_DEVICE, kernel, text);
}

static int cuda_load(const char *kernel, CUfunction *forms, CUmodule module,
                     const iron_entry *entries, int count) {
  for (int n = 0; n < count; ++n) {
    CUresult result = cuModuleGetFunction(&forms[n], module, entries[n].name);
    if (result == CUDA_SUCCESS && entries[n].dynamic_bytes > 0)
      result = cuFuncSetAttribute(forms[n], CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                  entries[n].dynamic_bytes);
    if (result != CUDA_SUCCESS) return cuda_status(kernel, result);
  }
  return IRON_OK;
}

static int cuda_launch(const char *kernel, CUfunction function, CUstream stream, i64 groups,
                       unsigned threads, unsigned dynamic_bytes, void **arguments) {
  if (groups == 0) return IRON_OK;
  if (groups > INT32_MAX) return refuse(IRON_ARGUMENT, kernel, "too many groups");
  return cuda_status(kernel, cuLaunchKernel(function, (unsigned)groups, 1, 1, threads, 1, 1,
                                            dynamic_bytes, stream, arguments, NULL));
}

int iron_copy_f32_rank3_cuda_load(iron_cuda_kernel *kernel, CUmodule module) {
  static const iron_entry entries[] = {{"iron_copy_f32_rank3_f802192a", 0},
                                       {"iron_copy_f32_rank3_f802192a_neighbours", 0},
                                       {"iron_copy_f32_rank3_f802192a_unit", 0}};
  return cuda_load("copy", kernel->forms, module, entries, 3);
}

int iron_copy_f32_rank3_cuda(const iron_cuda_kernel *kernel, CUstream stream, iron_tensor x,
                             iron_tensor y, int32_t shape_0, int32_t shape_1, int32_t shape_2) {
  iron_plan plan;
  const int status = plan_iron_copy_f32_rank3_f802192a(&plan, x, y, shape_0, shape_1, shape_2);
  if (status != IRON_OK) return status;
  if (iron_mod_u64((u64)(uintptr_t)x.data, 16ull) == 0ull &&
      (shape_0 == 1 || iron_mod_i64(iron_mul_i64(plan.strides[0][0], 4ll), 16ll) == 0ll) &&
      (shape_1 == 1 || iron_mod_i64(iron_mul_i64(plan.strides[0][1], 4ll), 16ll) == 0ll) &&
      iron_mod_u64((u64)(uintptr_t)y.data, 16ull) == 0ull &&
      (shape_0 == 1 || iron_mod_i64(iron_mul_i64(plan.strides[1][0], 4ll), 16ll) == 0ll) &&
      (shape_1 == 1 || iron_mod_i64(iron_mul_i64(plan.strides[1][1], 4ll), 16ll) == 0ll) &&
      (shape_2 == 1 || plan.strides[0][2] == 1ll) &&
      iron_mod_i32(iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2), 4) == 0 &&
      iron_mod_i32(shape_2, 4) == 0) {
    plan.extents[0] = positive(iron_floordiv_i32(iron_add_i32(iron_mul_i32(iron_add_i32(iron_floordiv_i32(iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2), 256), (i32)(iron_mod_i32(iron_mul_i32(iron_mul_i32(shape_0, shape_1), shape_2), 256) != 0)), 2), 3), 4));
    plan.groups = plan.extents[0];
    void *arguments[] = {&x.data, &y.data, &shape_0, &shape_1, &shape_2, &plan.strides[0][0],
                         &plan.strides[0][1], &plan.strides[1][0], &plan.strides[1][1]};
    return cuda_launch("copy", kernel->forms[1], stream, plan.groups, 128, 0, arguments);
  }
  if (shape_2 == 1 || plan.strides[0][2] == 1ll) {
    void *arguments[] = {&x.data, &y.data, &shape_0, &shape_1, &shape_2, &plan.strides[0][0],
                         &plan.strides[0][1], &plan.strides[1][0], &plan.strides[1][1]};
    return cuda_launch("copy", kernel->forms[2], stream, plan.groups, 256, 0, arguments);
  }
  void *arguments[] = {&x.data, &y.data, &shape_0, &shape_1, &shape_2, &plan.strides[0][0],
                       &plan.strides[0][1], &plan.strides[0][2], &plan.strides[1][0],
                       &plan.strides[1][1]};
  return cuda_launch("copy", kernel->forms[0], stream, plan.groups, 256, 0, arguments);
}

int iron_rms_norm_f16_vec4_with_w_cuda_load(iron_cuda_kernel *kernel, CUmodule module) {
  static const iron_entry entries[] = {{"iron_rms_norm_f16_vec4_with_w_688a653a", 0},
                                       {"iron_rms_norm_f16_vec4_with_w_688a653a_words", 0}};
  return cuda_load("rms_norm", kernel->forms, module, entries, 2);
}

int iron_rms_norm_f16_vec4_with_w_cuda(const iron_cuda_kernel *kernel, CUstream stream,
                                       iron_tensor x, iron_tensor w, iron_tensor y, float eps,
                                       int32_t R, int32_t N) {
  iron_plan plan;
  const int status = plan_iron_rms_norm_f16_vec4_with_w_688a653a(&plan, x, w, y, R, N);
  if (status != IRON_OK) return status;
  if (iron_mod_u64((u64)(uintptr_t)x.data, 8ull) == 0ull &&
      (R == 1 || iron_mod_i64(iron_mul_i64(plan.strides[0][0], 2ll), 8ll) == 0ll) &&
      iron_mod_u64((u64)(uintptr_t)w.data, 8ull) == 0ull &&
      iron_mod_u64((u64)(uintptr_t)y.data, 8ull) == 0ull &&
      (R == 1 || iron_mod_i64(iron_mul_i64(plan.strides[2][0], 2ll), 8ll) == 0ll)) {
    void *arguments[] = {&x.data, &w.data, &y.data, &eps, &R, &N, &plan.strides[0][0],
                         &plan.strides[2][0]};
    return cuda_launch("rms_norm", kernel->forms[1], stream, plan.groups, 256, 0, arguments);
  }
  void *arguments[] = {&x.data, &w.data, &y.data, &eps, &R, &N, &plan.strides[0][0],
                       &plan.strides[2][0]};
  return cuda_launch("rms_norm", kernel->forms[0], stream, plan.groups, 256, 0, arguments);
}

int iron_softmax_f32_no_log_vec1_cuda_load(iron_cuda_kernel *kernel, CUmodule module) {
  static const iron_entry entries[] = {{"iron_softmax_f32_no_log_vec1_1a470573", 0}};
  return cuda_load("softmax", kernel->forms, module, entries, 1);
}

int iron_softmax_f32_no_log_vec1_cuda(const iron_cuda_kernel *kernel, CUstream stream,
                                      iron_tensor x, iron_tensor y, float scale, int32_t R,
                                      int32_t N) {
  iron_plan plan;
  const int status = plan_iron_softmax_f32_no_log_vec1_1a470573(&plan, x, y, R, N);
  if (status != IRON_OK) return status;
  void *arguments[] = {&x.data, &y.data, &scale, &R, &N, &plan.strides[0][0], &plan.strides[1][0]};
  return cuda_launch("softmax", kernel->forms[0], stream, plan.groups, 256, 0, arguments);
}

#endif
