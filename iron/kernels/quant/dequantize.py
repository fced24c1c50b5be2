"""A packed weight as plain numbers:  y[n, k] = decode(W[n, k]).

Source: the definition; the formats and their decoding are those of `iron.quant.format`.
"""

import numpy as np

from iron.lang import CODEC, Const, Out, Packed, bf16, cdiv, dims, dtypes, f16, f32, formats
from iron.lang import groups, kernel, minimum, require, simd_width, thread
from iron.quant.codec import combine
from iron.quant.format import FORMATS, by_name

N, K = dims("N K")
T = dtypes("T", f32, f16, bf16)
WHOLE_GROUPS = [by_name(name) for name in ("bf16", "gguf_q4_1", "mlx_int3_g32", "mlx_int4_g64")]
SMALL_GROUPS = [by_name(name) for name in ("gguf_q2_k", "gguf_q4_k", "gguf_q6_k", "nvfp4")]
ROWS = [by_name(name) for name in ("f32", "int8_row_f32", "fp8_e4m3_tensor", "fp8_e4m3_b2x32_f32")]
FMT = formats("FMT", *FORMATS.values(), by_name("fp8_e4m3_b2x32_f32"))


@kernel(choose={"WHOLE": [True, False]}, tune={"SPAN": [256, 1024, 4096]})
def dequantize(
    w: Packed[FMT, N, K],
    y: Out[T, N, K],
    *,
    WHOLE: Const = True,
    SPAN: Const = 1024,
):
    """One group of 32 or 64 threads per SPAN weights of a row; each is rounded once to T.

    Neighbours take their factors together where the format's groups and blocks allow. `WHOLE` needs
    no mask.
    """
    width = max(32, simd_width)
    span = cdiv(SPAN, width) * width
    part, n = groups(cdiv(K, span), N, threads=width)
    require(K % width == 0 or not WHOLE, "the row length K must be a multiple of the threads")
    for base in range(part * span, minimum(part * span + span, K), width):
        k = base + thread
        if WHOLE and FMT.group % width == 0 and FMT.block % width == 0:
            s, t = FMT.factors(w, n, base // FMT.group if FMT.group else 0)
            x = FMT.code(w, n, base // FMT.block, base % FMT.block + thread)
            y[n, k] = combine(FMT, x, s, t).to(T)
        elif (k < K) | WHOLE:
            y[n, k] = w.decode(n, k).to(T)


@dequantize.oracle
def _(w):
    return {"y": w.decode().astype(np.float64)}


@dequantize.case(N=[5], K=[320], SPAN=[96], T=[f32], FMT=WHOLE_GROUPS, tol=CODEC)
def _(rng, N, K, FMT):
    return {"w": rng.packed(FMT, N, K)}


@dequantize.case(N=[1], K=[192], T=[f16, bf16], FMT=WHOLE_GROUPS[1:3], tol=CODEC)
def _(rng, N, K, FMT):
    return {"w": rng.packed(FMT, N, K)}


@dequantize.case(N=[3], K=[512], SPAN=[256], T=[f32], FMT=SMALL_GROUPS, tol=CODEC)
def _(rng, N, K, FMT):
    return {"w": rng.packed(FMT, N, K)}


@dequantize.case(N=[5], K=[35, 64], SPAN=[32], T=[f32], FMT=ROWS, tol=CODEC)
def _(rng, N, K, FMT):
    from iron.quant.encode import quantize

    small = 2.0 ** -(np.arange(K) % 16)  # codes of subnormals occur too
    return {"w": quantize(rng.normal(N, K) * small, FMT)}


dequantize.bench(N=4096, K=14336, FMT=by_name("gguf_q4_0"), T=bf16)
dequantize.bench(N=4096, K=14336, FMT=by_name("mlx_int4_g64"), T=bf16)
