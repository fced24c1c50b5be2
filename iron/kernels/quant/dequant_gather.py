"""Decoded rows of a packed table:  y[r, i] = scale * decode(W[idx[r], i]).

Source: the definition; the formats and their decoding are those of `iron.quant.format`.
"""

import numpy as np

from iron.lang import CODEC, Const, In, Out, Packed, Scalar, bf16, dims, dtypes, f16, f32, formats
from iron.lang import groups, kernel, minimum, strided, u32
from iron.quant.format import FORMATS, by_name

R, V, D = dims("R V D")
T = dtypes("T", f32, f16, bf16)
NAMES = [
    "f32",
    "f16",
    "bf16",
    "gguf_q4_0",
    "gguf_q4_1",
    "gguf_q8_0",
    "mlx_int4_g64",
    "mlx_int8_g64",
]
COMMON = [by_name(name) for name in NAMES]
OTHERS = [by_name(name) for name in ("gguf_q5_1", "gguf_q4_k", "gguf_q6_k")]
FMT = formats("FMT", *FORMATS.values())


@kernel(tune={"THREADS": [64, 128, 256]})
def dequant_gather(
    w: Packed[FMT, V, D],
    idx: In[u32, R],
    y: Out[T, R, D],
    scale: Scalar[f32] = 1.0,
    *,
    THREADS: Const = 128,
):
    """One group per row. An index beyond the table takes its last row; 0xFFFFFFFF gives zeros."""
    (r,) = groups(R, threads=THREADS)
    wanted = idx[r]
    row = minimum(wanted, u32(V - 1))
    for i in strided(D):
        y[r, i] = T(0) if wanted == 0xFFFFFFFF else (scale * w.decode(row, i)).to(T)


@dequant_gather.oracle
def _(w, idx, scale):
    table = scale * w.decode().astype(np.float64)
    rows = table[np.minimum(idx, len(table) - 1)]
    return {"y": np.where((idx == 0xFFFFFFFF)[:, None], 0.0, rows)}


@dequant_gather.case(R=[1, 5], V=[7], D=[64, 320], FMT=COMMON, tol=CODEC)
def _(rng, R, V, D, FMT):
    idx = np.array([3, 0xFFFFFFFF, 6, 0, 7], np.uint32)[:R]
    return {"w": rng.packed(FMT, V, D), "idx": idx, "scale": 0.5}


@dequant_gather.case(R=[5], V=[7], D=[512], T=[f32], FMT=OTHERS, tol=CODEC)
def _(rng, R, V, D, FMT):
    return {"w": rng.packed(FMT, V, D), "idx": np.array([3, 2**32 - 1, 6, 0, 7]), "scale": 0.5}


dequant_gather.bench(
    R=[512, 8192],
    V=32768,
    D=4096,
    FMT=by_name("gguf_q4_0"),
    T=bf16,
    bytes=lambda R, D: R * (4 + D * 4.5 / 8 + 2 * D),
    make=lambda rng, R, V, D, FMT: {"w": rng.packed(FMT, V, D), "idx": rng.integers(R, high=V)},
)
