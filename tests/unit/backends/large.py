"""A kernel whose groups hold more memory than a CUDA kernel may declare."""

from iron.dtypes import f32
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.ir.core import Kernel
from iron.lang import In, Out, barrier, dims, groups, kernel, shared, strided

(R,) = dims("R")
LENGTH = 15000
BYTES = 4 * LENGTH


@kernel
def backwards(x: In[f32, R, LENGTH], y: Out[f32, R, LENGTH]):
    """y is x, each row backwards."""
    (row,) = groups(R, threads=256)
    held = shared((LENGTH,), f32)
    for i in strided(LENGTH):
        held[i] = x[row, i]
    barrier()
    for i in strided(LENGTH):
        y[row, i] = held[LENGTH - 1 - i]


def large(simd: int = 32) -> Kernel:
    """The kernel for two rows, not lowered."""
    array = TensorArg(f32, (2, LENGTH), (LENGTH, 1))
    return traced(backwards, bind(backwards, {"x": array, "y": array}, {}), simd).kernel
