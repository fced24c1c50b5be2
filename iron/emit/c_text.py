"""The parts of the C host that are the same for every manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Grid:
    """A driver's interface in C: its switch, header and types.

    `functions` defines `<family>_load`, which finds a kernel's entries in a module, and
    `<family>_launch`.
    """

    family: str
    switch: str
    include: str
    module: str
    function: str
    stream: str
    functions: str


GRIDS: Final = (
    Grid(
        "cuda",
        "IRON_CUDA",
        "cuda.h",
        "CUmodule",
        "CUfunction",
        "CUstream",
        """static int cuda_status(const char *kernel, CUresult result) {
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
""",
    ),
    Grid(
        "hip",
        "IRON_HIP",
        "hip/hip_runtime_api.h",
        "hipModule_t",
        "hipFunction_t",
        "hipStream_t",
        """static int hip_status(const char *kernel, hipError_t result) {
  return result == hipSuccess ? IRON_OK
                              : refuse(IRON_DEVICE, kernel, hipGetErrorString(result));
}

static int hip_load(const char *kernel, hipFunction_t *forms, hipModule_t module,
                    const iron_entry *entries, int count) {
  for (int n = 0; n < count; ++n) {
    const hipError_t result = hipModuleGetFunction(&forms[n], module, entries[n].name);
    if (result != hipSuccess) return hip_status(kernel, result);
  }
  return IRON_OK;
}

static int hip_launch(const char *kernel, hipFunction_t function, hipStream_t stream, i64 groups,
                      unsigned threads, unsigned dynamic_bytes, void **arguments) {
  if (groups == 0) return IRON_OK;
  if (groups > UINT32_MAX / threads) return refuse(IRON_ARGUMENT, kernel, "too many groups");
  return hip_status(kernel, hipModuleLaunchKernel(function, (unsigned)groups, 1, 1, threads, 1, 1,
                                                  dynamic_bytes, stream, arguments, NULL));
}
""",
    ),
)
"""The drivers whose kernels take a grid."""

HEAD: Final = """/* Launches of the kernels in ../manifest.json, written by `iron emit`.

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
"""

RUN: Final = """\
/* A launch on the CPU. run(arguments, first, end) runs the groups first .. end - 1;
   ranges may run in any order and on any threads. */
typedef struct iron_block {
  void (*run)(const uint64_t *arguments, int64_t first, int64_t end);
  int64_t groups;
  uint64_t arguments[WORDS];
} iron_block;

/* Runs all groups on this thread. */
void iron_run(const iron_block *block);
"""

KERNEL: Final = """\
/* A kernel in its module: the code that takes any arguments, then the forms for launches of which
   more is known. A launch takes the best whose conditions hold. */
typedef struct iron_FAMILY_kernel {
  FUNCTION forms[COUNT];
} iron_FAMILY_kernel;
"""

ENTRY: Final = """\
/* An entry of a module, and the group memory that its launches ask for. */
typedef struct iron_entry {
  const char *name;
  int dynamic_bytes;
} iron_entry;
"""

FOOT: Final = """#ifdef __cplusplus
}
#endif

#endif
"""

SOURCE: Final = """/* Written by `iron emit`; see iron_kernels.h. */

#include "iron_kernels.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* typedefs */

/* What a launch comes to: groups in all and along each axis, strides and elements of tensors. */
typedef struct iron_plan {
  i64 groups;
  i64 extents[3];
  i64 strides[TENSORS][AXES];
  i64 elements[TENSORS];
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
"""
