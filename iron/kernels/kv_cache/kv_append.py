"""New keys and values into their caches:  cache[h, position[t], :] = new[t, h, :].

Source: the definition.
"""

import numpy as np

from iron.lang import EXACT, Const, In, InOut, bf16, dims, dtypes, f16, f32, groups, kernel
from iron.lang import strided, u32

R, H, S, D, E = dims("R H S D E")
T = dtypes("T", f32, f16, bf16)
C = dtypes("C", f32, f16, bf16)


@kernel(variants={"RING": [False, True]}, tune={"THREADS": [64, 128]})
def kv_append(
    key: In[T, R, H, D],
    value: In[T, R, H, E],
    position: In[u32, R],
    keys: InOut[C, H, S, D],
    values: InOut[C, H, S, E],
    *,
    RING: Const = False,
    THREADS: Const = 64,
):
    """One group per new row of one head; each element is rounded once to the cache's type.

    A position beyond the capacity S writes nothing; with `RING` it wraps round, for sliding
    windows. Two rows at one slot are the caller's error.
    """
    h, r = groups(H, R, threads=THREADS)
    wanted = position[r]
    slot = wanted % u32(S) if RING else wanted
    if slot < u32(S):
        for i in strided(D):
            keys[h, slot, i] = key[r, h, i].to(f32).to(C)
        for i in strided(E):
            values[h, slot, i] = value[r, h, i].to(f32).to(C)


@kv_append.oracle
def _(key, value, position, keys, values, RING):
    keys, values = keys.copy(), values.copy()
    slots = keys.shape[1]
    for r, at in enumerate(position.astype(np.int64) % slots if RING else position):
        if at < slots:
            keys[:, at] = key[r]
            values[:, at] = value[r]
    return {"keys": keys, "values": values}


@kv_append.case(R=[1, 3], H=[3], S=[5], D=[33], E=[35], tol=EXACT)
def _(rng, R, H, S, D, E):
    return {
        "key": rng.normal(R, H, D),
        "value": rng.normal(R, H, E),
        "position": np.array([4, 2**32 - 1, 8], np.uint32)[:R],
        "keys": rng.normal(H, S, D),
        "values": rng.normal(H, S, E),
    }


kv_append.bench(
    R=[1, 8192],
    H=8,
    S=16384,
    D=128,
    E=128,
    T=bf16,
    C=bf16,
    bytes=lambda R, H, D, E: R * (4 + 2 * 2 * H * (D + E)),
    make=lambda rng, R, H, S, D, E: {
        "key": rng.normal(R, H, D), "value": rng.normal(R, H, E),
        "position": rng.permutation(S)[:R],
        "keys": rng.normal(H, S, D), "values": rng.normal(H, S, E),
    },
)  # fmt: skip
