"""Plain numbers as a packed weight:  codes and factors of each group of neighbours in a row.

Source: the rules are those of `iron.quant.format` (OCP MX 1.0, section 6.3; MLX's affine
quantisation), with the arithmetic of its host encoder.
"""

import numpy as np

from iron.lang import EXACT, Const, In, Out, bf16, dims, dtypes, f16, f32, groups, kernel
from iron.lang import require, simd_width, thread, u8, u32
from iron.quant.codec.nearest import affine_code, extremes, group_bias, group_scale, put_codes
from iron.quant.codec.nearest import scaled_code
from iron.quant.format import by_name

R, K, BITS, UNIT, GROUP = dims("R K BITS UNIT GROUP")
T = dtypes("T", f32, f16, bf16)
C = dtypes("C", u8, u32)
S = dtypes("S", f32, f16, bf16, u8)
WORDS = [by_name(f"int{b}_g64_f32") for b in (2, 3, 5, 6)] + [by_name("fp4_g32_f32")]
BYTES = [by_name(name) for name in ("int8_g64_f32", "fp8_e4m3_g32_f32", "fp8_e5m2_g32_f32")]
POWERS = [by_name(name) for name in ("mxfp4", "mxfp6_e2m3", "mxfp6_e3m2", "mxint3")]
AFFINE = [by_name(name) for name in ("mlx_int3_g32", "mlx_int4_g64", "kv_int4_g32")]


@kernel(exact=True)
def quantize(
    x: In[T, R, K],
    codes: Out[C, R, K * BITS // UNIT],
    scales: Out[S, R, K // GROUP],
    *,
    FORMAT: Const,
    BITS: Const = lambda FORMAT: FORMAT.bits,
    UNIT: Const = lambda BITS: 8 if BITS == 8 else 32,
    GROUP: Const = lambda FORMAT: FORMAT.group,
):
    """One group of threads per group of FORMAT, which has scales and no biases.

    Codes are made against the stored scale. NaN or infinity among the elements makes the scale
    NaN, infinite or E8M0 255, since a kernel cannot refuse.
    """
    g, r = groups(K // GROUP, R, threads=max(32, simd_width))
    require(K % GROUP == 0, "the row length K must be a multiple of the format's group")
    low, high = extremes(x[r], g * GROUP, GROUP)
    held, scale = group_scale(FORMAT, low, high, S)
    row, at = x[r], g * GROUP
    put_codes(FORMAT, codes[r], g, lambda i: scaled_code(FORMAT, row[at + i].to(f32), scale))
    if thread == 0:
        scales[r, g] = held


@kernel(exact=True)
def quantize_affine(
    x: In[T, R, K],
    codes: Out[C, R, K * BITS // UNIT],
    scales: Out[S, R, K // GROUP],
    biases: Out[S, R, K // GROUP],
    *,
    FORMAT: Const,
    BITS: Const = lambda FORMAT: FORMAT.bits,
    UNIT: Const = lambda BITS: 8 if BITS == 8 else 32,
    GROUP: Const = lambda FORMAT: FORMAT.group,
):
    """One group of threads per group of FORMAT, which has scales and biases.

    NaN or infinity among the elements makes scale or bias not finite.
    """
    g, r = groups(K // GROUP, R, threads=max(32, simd_width))
    require(K % GROUP == 0, "the row length K must be a multiple of the format's group")
    low, high = extremes(x[r], g * GROUP, GROUP)
    kept, bias, s, b = group_bias(FORMAT, low, high, S)
    row, at = x[r], g * GROUP
    put_codes(FORMAT, codes[r], g, lambda i: affine_code(FORMAT, row[at + i].to(f32), s, b))
    if thread == 0:
        scales[r, g] = kept
        biases[r, g] = bias


@quantize.oracle
def _(x, FORMAT):
    from iron.quant.encode import encode

    return encode(FORMAT, x)


@quantize.case(R=[3], K=[192], C=[u32], S=[f32], T=[f32], FORMAT=WORDS, tol=EXACT)
def _(rng, R, K):
    x = rng.normal(R, K)
    x[:, 32::64] = rng.uniform(R, 3, low=4, high=8)  # no other thread's first element
    return {"x": x}


@quantize.case(R=[1], K=[64], C=[u8], S=[f32], FORMAT=BYTES, tol=EXACT)
def _(rng, R, K):
    return {"x": rng.normal(R, K)}


@quantize.case(R=[3], K=[96], C=[u32], S=[u8], T=[f32], FORMAT=POWERS, tol=EXACT)
def _(rng, R, K):
    return {"x": rng.normal(R, K) * 2.0 ** (7 * (np.arange(K) // 32) - 3 * np.arange(R)[:, None])}


def ties(rng, R, K):
    """Quarters up to 7, so that many lie between two codes; a row up to 3, a group of zeros."""
    x = rng.integers(R, K, low=-28, high=29) / 4
    x[:, ::32] = 7
    x[1] = np.clip(x[1], -3, 3)
    x[0, :64] = 0
    return {"x": x * 4.0 ** (np.arange(K) // 32)}


@quantize.case(R=[3], K=[192], C=[u32], S=[f32], T=[f32], FORMAT=WORDS[1:], tol=EXACT)
def _(rng, R, K):
    return ties(rng, R, K)


@quantize.case(R=[3], K=[192], C=[u32], S=[u8], T=[f32], FORMAT=POWERS, tol=EXACT)
def _(rng, R, K):
    return ties(rng, R, K)


@quantize_affine.oracle
def _(x, FORMAT, S):
    from iron.quant.encode import Options, encode

    return encode(FORMAT, x, Options(S))


@quantize_affine.case(R=[3], K=[64, 192], C=[u32], S=[f32, f16], T=[f32], FORMAT=AFFINE, tol=EXACT)
def _(rng, R, K):
    x = rng.normal(R, K)
    x[0, :32] = 0.25
    x[1, :64] = 0
    x[2, 32:33] = 5
    return {"x": x}


quantize.bench(
    R=4096, K=14336, FORMAT=by_name("mxfp4"), T=bf16, C=u32, S=u8,
    make=lambda rng, R, K: {"x": rng.normal(R, K)},
)  # fmt: skip
quantize_affine.bench(R=4096, K=14336, FORMAT=by_name("mlx_int4_g64"), T=bf16, C=u32, S=bf16)
