"""Activations as 8-bit codes, a scale for each block of 32:  x[m, k] ~ scale[m, b] * code[m, k].

Source: the blocks q8_0 and q8_1 of ggml (scale = amax / 127, code = rint(x / scale)), with the
scale kept in f32 and the sum of the codes as an integer.
"""

import numpy as np

from iron.lang import EXACT, In, Out, absolute, bf16, dims, dtypes, f16, f32, group_max, group_sum
from iron.lang import groups, i8, i32, kernel, require, rint, simd_width, thread, where

M, K = dims("M K")
T = dtypes("T", f32, f16, bf16)


@kernel(exact=True)
def quantize_blocks(
    x: In[T, M, K],
    code: Out[i8, M, K],
    scale: Out[f32, M, K // 32],
    total: Out[i32, M, K // 32],
):
    """One group per block of 32; `total` is the sum of a block's codes.

    A block of zeros has the scale 0. NaN or infinity in a block makes its scale NaN or infinite.
    A simdgroup of 64 threads gives half of them no element.
    """
    b, m = groups(K // 32, M, threads=max(32, simd_width))
    require(K % 32 == 0, "the row length K must be a multiple of 32")
    inside = thread < 32 if simd_width > 32 else True
    value = f32(0)
    if inside:
        value = x[m, b * 32 + thread].to(f32)
    step = group_max(absolute(value)) / 127.0
    inverse = where(step > 0.0, 1.0 / step, 0.0)
    held = rint(value * inverse).to(i32)
    if inside:
        code[m, b * 32 + thread] = held.to(i8)
    sum_of = group_sum(held)
    if thread == 0:
        scale[m, b] = step
        total[m, b] = sum_of


def blocks(x):
    """Codes [M, K / 32, 32] and scales [M, K / 32] in the kernel's own f32 arithmetic."""
    parts = x.astype(np.float32).reshape(len(x), -1, 32)
    step = np.abs(parts).max(-1) / np.float32(127)
    inverse = np.divide(np.float32(1), step, out=np.zeros_like(step), where=step > 0)
    return np.rint(parts * inverse[..., None]), step


@quantize_blocks.oracle
def _(x):
    code, step = blocks(x)
    return {"code": code.reshape(x.shape), "scale": step, "total": code.sum(-1)}


@quantize_blocks.case(M=[1, 3], K=[32, 96], tol=EXACT)
def _(rng, M, K):
    x = rng.normal(M, K) * 2.0 ** (np.arange(K) // 32 % 5)
    x[:, 5] = 0
    return {"x": x}


quantize_blocks.bench(M=1, K=4096, T=f32)
