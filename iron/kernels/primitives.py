"""Functions that kernels of several families share; none has a launch of its own.

Every function is inlined into its caller and works on scalars and on vectors alike.
"""

from iron.lang import f32, inline, u32, unrolled, zeros

LOG2E = 1.4426950408889634
ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


@inline
def place_of(i, x):
    """Where element number i of the view `x` stands, counted in row-major order."""
    at = []
    for d in unrolled(x.rank - 1, -1, -1):
        at, i = [i % x.shape[d], *at], i // x.shape[d]
    return tuple(at)


@inline
def threefry(key, counter):
    """Two random u32 from a key and a counter of two u32 each, 20 rounds.

    Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", 2011, Threefry-2x32.
    """
    keys = (key[0], key[1], key[0] ^ key[1] ^ u32(0x1BD11BDA))
    a, b = counter[0] + keys[0], counter[1] + keys[1]
    for i in unrolled(5):
        for j in unrolled(4):
            turn = ROTATIONS[4 * (i % 2) + j]
            a = a + b
            b = ((b << turn) | (b >> (32 - turn))) ^ a
        a, b = a + keys[(i + 1) % 3], b + keys[(i + 2) % 3] + u32(i + 1)
    return a, b


@inline
def unit_interval(bits):
    """A float in [0, 1) from the high 24 bits of a random u32; never 1."""
    return f32(bits >> 8) * 2.0**-24


@inline
def widened(x, at, inside, VEC):
    """VEC neighbours of the 1-D view `x` from `at` as f32; zeros, and no read, unless `inside`."""
    return x[at : at + VEC].to(f32) if inside else zeros((VEC,), f32)
