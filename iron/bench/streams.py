"""The kernels that set the scale: copy, read, arithmetic alone, and nothing at all.

Each is as plain as a kernel can be, so that its rate is the machine's.
"""

# pyright: reportInvalidTypeForm=none, reportGeneralTypeIssues=none, reportArgumentType=none
# pyright: reportConstantRedefinition=none, reportMissingParameterType=none
# pyright: reportOperatorIssue=none, reportIndexIssue=none, reportAttributeAccessIssue=none

from iron import lang
from iron.lang import Const, In, Out, each, f32, groups, kernel, thread

N, R = lang.dims("N R")


@kernel
def stream_copy(x: In[f32, N], y: Out[f32, N]):
    """y = x."""
    (i,) = each(N)
    y[i] = x[i]


@kernel
def stream_read(x: In[f32, R, N], y: Out[f32, R], *, THREADS: Const = 256):
    """y[r] = the sum of row r: reads everything, writes next to nothing."""
    (row,) = groups(R, threads=THREADS)
    total = f32(0)
    for i in lang.strided(N):
        total += x[row, i]
    y[row] = lang.group_sum(total)


@kernel
def arithmetic(y: Out[f32, R, N], *, TURNS: Const = 4096, CHAINS: Const = 8, THREADS: Const = 256):
    """CHAINS independent chains of TURNS fused multiply-adds in each of N threads."""
    (row,) = groups(R, threads=THREADS)
    first = f32(thread) * 1e-3
    chains = [first + f32(c) for c in lang.unrolled(CHAINS)]
    for _ in range(TURNS):
        chains = [lang.fma(c, 0.999, 1e-3) for c in chains]
    total = f32(0)
    for c in chains:
        total += c
    y[row, thread] = total


@kernel
def nothing(y: Out[f32, N]):
    """The smallest launch: N numbers, N at most a group."""
    (i,) = each(N)
    y[i] = f32(0)
