"""New keys or values into a cache of codes:  cache[h, position[t], :] = encode(new[t, h, :]).

Source: the rules of the cache formats of `iron.quant.format`, by groups along a row.
"""

import numpy as np

from iron.lang import EXACT, Const, In, InOut, bf16, dims, dtypes, f16, f32, groups, kernel
from iron.lang import require, simd_width, thread, u8, u32
from iron.quant.codec.nearest import affine_code, extremes, group_bias, group_scale, put_codes
from iron.quant.codec.nearest import scaled_code
from iron.quant.format import by_name

R, H, S, D, BITS, UNIT, GROUP = dims("R H S D BITS UNIT GROUP")
T = dtypes("T", f32, f16, bf16)
C = dtypes("C", u8, u32)
F = dtypes("F", f32, f16, bf16)
BYTES = [by_name("kv_fp8_e4m3_g64"), by_name("kv_fp8_e5m2_g64")]


@kernel(exact=True, variants={"RING": [False, True]})
def kv_quantize_append(
    new: In[T, R, H, D],
    position: In[u32, R],
    codes: InOut[C, H, S, D * BITS // UNIT],
    scales: InOut[F, H, S, D // GROUP],
    biases: InOut[F, H, S, D // GROUP] | None,
    *,
    FORMAT: Const,
    RING: Const = False,
    BITS: Const = lambda FORMAT: FORMAT.bits,
    UNIT: Const = lambda BITS: 8 if BITS == 8 else 32,
    GROUP: Const = lambda FORMAT: FORMAT.group,
):
    """One group of threads per group of one new row of one head.

    Codes are made against the stored factors; a format with `biases` needs them. A position beyond
    the capacity S writes nothing; with `RING` it wraps round. Two rows at one slot are the
    caller's error.
    """
    g, h, r = groups(D // GROUP, H, R, threads=max(32, simd_width))
    require(D % GROUP == 0, "the row length D must be a multiple of the format's group")
    wanted = position[r]
    slot = wanted % u32(S) if RING else wanted
    row, at = new[r, h], g * GROUP
    low, high = extremes(row, at, GROUP)
    if slot < u32(S):
        out = codes[h, slot]
        if biases is not None:
            kept, bias, s, b = group_bias(FORMAT, low, high, F)
            put_codes(FORMAT, out, g, lambda i: affine_code(FORMAT, row[at + i].to(f32), s, b))
            if thread == 0:
                biases[h, slot, g] = bias
        else:
            kept, s = group_scale(FORMAT, low, high, F)
            put_codes(FORMAT, out, g, lambda i: scaled_code(FORMAT, row[at + i].to(f32), s))
        if thread == 0:
            scales[h, slot, g] = kept


@kv_quantize_append.oracle
def _(new, position, codes, scales, biases, FORMAT, F, RING):
    from iron.quant.encode import Options, encode

    told = {"codes": codes.copy(), "scales": scales.copy()}
    told |= {} if biases is None else {"biases": biases.copy()}
    tokens, heads, _ = new.shape
    made = encode(FORMAT, new.reshape(tokens * heads, -1), Options(F))
    slots = codes.shape[1]
    for r, at in enumerate(position.astype(np.int64) % slots if RING else position):
        for name, plane in told.items():
            if at < slots:
                plane[:, at] = made[name].reshape(tokens, heads, -1)[r]
    return told


def cache(rng, R, H, S, D, FORMAT, words):
    """New rows with ties, subnormal codes and a group of zeros; a cache full of other things."""
    groups_of = D // FORMAT.group
    new = rng.integers(R, H, D, low=-28, high=29) / 4 * 2.0 ** -(np.arange(D) // 2 % 30)
    new[..., 32::64] = 7  # 448 and 57344 are 7 times a power of two
    new *= 2.0 ** (np.arange(D) // 64 + 3 * np.arange(H)[:, None] - np.arange(R)[:, None, None])
    new[0, 1, :64] = 0
    return {
        "new": new,
        "position": np.array([4, 2**32 - 1, 8], np.uint32)[:R],
        "codes": rng.integers(H, S, words, high=256),
        "scales": rng.normal(H, S, groups_of),
        "biases": None,
    }


@kv_quantize_append.case(
    R=[3], H=[3], S=[5], D=[192], C=[u8], T=[f32, bf16], F=[f32], FORMAT=BYTES, tol=EXACT
)
def _(rng, R, H, S, D, FORMAT):
    return cache(rng, R, H, S, D, FORMAT, D)


@kv_quantize_append.case(
    R=[3], H=[3], S=[5], D=[64], C=[u32], T=[f32], F=[f16], FORMAT=[by_name("kv_int4_g32")],
    tol=EXACT,
)  # fmt: skip
def _(rng, R, H, S, D, FORMAT):
    biases = rng.normal(H, S, D // FORMAT.group)
    return cache(rng, R, H, S, D, FORMAT, D // 8) | {"biases": biases}


kv_quantize_append.bench(
    R=[1, 2048],
    H=8,
    S=4096,
    D=128,
    FORMAT=by_name("kv_fp8_e4m3_g64"),
    T=bf16,
    C=u8,
    F=bf16,
    bytes=lambda R, H, D: R * (4 + H * (2 * D + D + 2 * D // 64)),
    make=lambda rng, R, H, S, D, FORMAT: {
        **cache(rng, R, H, S, D, FORMAT, D),
        "position": rng.permutation(S)[:R],
    },
)
