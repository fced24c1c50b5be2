"""Gated activations of a transformer's feed-forward layer:  y = ACT(g) * u.

swiglu silu(g) u · geglu_erf, geglu_tanh gelu(g) u · reglu relu(g) u ·
swiglu_limit silu(min(g, L)) clamp(u, -L, L) · swiglu_clip_after min(silu(g), L) clamp(u, -L, L) ·
swiglu_oai h sigmoid(alpha h) (clamp(u, -L, L) + 1) with h = min(g, L).

Source: Shazeer, "GLU Variants Improve Transformer", 2020 (arXiv:2002.05202); the limited forms are
those of the DeepSeek-V4 and GPT-OSS model definitions.
"""

import math

import numpy as np

from iron.kernels.activation import fast_gelu_tanh, fast_silu, fast_swish, gelu_erf, gelu_tanh
from iron.kernels.activation import math_of, relu, silu, swish
from iron.lang import ELT, Const, In, Out, Scalar, bf16, dims, dtypes, each, f16, f32, inf, inline
from iron.lang import kernel, maximum, minimum, require, where

R, N, N2 = dims("R N N2")
T = dtypes("T", f32, f16, bf16)
VARIANTS = [
    "swiglu", "geglu_erf", "geglu_tanh", "reglu", "swiglu_limit", "swiglu_clip_after", "swiglu_oai",
]  # fmt: skip


PRECISE = (silu, gelu_tanh, swish)
FAST = (fast_silu, fast_gelu_tanh, fast_swish)


def curves(MATH):
    """(silu, gelu_tanh, swish) in one of two forms."""
    return FAST if MATH == "fast" else PRECISE


@inline
def gated(g, u, limit, alpha, VARIANT, MATH):
    """The pair (g, u) through VARIANT, in f32."""
    silu, gelu_tanh, _ = curves(MATH)
    if VARIANT == "swiglu":
        return silu(g) * u
    if VARIANT == "geglu_erf":
        return gelu_erf(g) * u
    if VARIANT == "geglu_tanh":
        return gelu_tanh(g) * u
    if VARIANT == "reglu":
        return relu(g) * u
    return limited(g, u, where(limit > 0.0, limit, inf), alpha, VARIANT, MATH)


@inline
def limited(g, u, cap, alpha, VARIANT, MATH):
    """The variants that clamp at `cap`."""
    silu, _, swish = curves(MATH)
    bounded = maximum(minimum(u, cap), -cap)
    if VARIANT == "swiglu_limit":
        return silu(minimum(g, cap)) * bounded
    if VARIANT == "swiglu_clip_after":
        return minimum(silu(g), cap) * bounded
    return swish(minimum(g, cap), alpha) * (bounded + 1.0)


@kernel(variants={"VARIANT": VARIANTS})
def gated_activation(
    g: In[T, R, N],
    u: In[T, R, N],
    gate_bias: In[T, N] | None,
    up_bias: In[T, N] | None,
    row_scale: In[f32, R] | None,
    y: Out[T, R, N],
    limit: Scalar[f32],
    alpha: Scalar[f32],
    *,
    VARIANT: Const = "swiglu",
    MATH: Const = lambda T: math_of(T),
):
    """One thread per element. A limit L that is not positive, or infinite, clamps nothing.

    `limit` and `alpha` matter to the limited variants only; biases are added before the clamps.
    MATH is `precise` or `fast`, as of `unary`.
    """
    i, r = each(N, R)
    gate, up = g[r, i].to(f32), u[r, i].to(f32)
    if gate_bias is not None:
        gate = gate + gate_bias[i].to(f32)
    if up_bias is not None:
        up = up + up_bias[i].to(f32)
    out = gated(gate, up, limit, alpha, VARIANT, MATH)
    if row_scale is not None:
        out = out * row_scale[r]
    y[r, i] = out.to(T)


@kernel(variants={"LAYOUT": ["halves", "interleaved"], "VARIANT": VARIANTS})
def gated_activation_packed(
    x: In[T, R, N2],
    bias: In[T, N2] | None,
    row_scale: In[f32, R] | None,
    y: Out[T, R, N2 // 2],
    limit: Scalar[f32],
    alpha: Scalar[f32],
    *,
    LAYOUT: Const = "halves",
    VARIANT: Const = "swiglu",
    MATH: Const = lambda T: math_of(T),
):
    """`gated_activation` of one buffer: gates in the first half of a row, or at even places.

    `bias` is laid out as a row of x.
    """
    i, r = each(N2 // 2, R)
    require(N2 % 2 == 0, "a row holds as many gates as values")
    at, to = (i, i + N2 // 2) if LAYOUT == "halves" else (2 * i, 2 * i + 1)
    gate, up = x[r, at].to(f32), x[r, to].to(f32)
    if bias is not None:
        gate, up = gate + bias[at].to(f32), up + bias[to].to(f32)
    out = gated(gate, up, limit, alpha, VARIANT, MATH)
    if row_scale is not None:
        out = out * row_scale[r]
    y[r, i] = out.to(T)


ERF = np.vectorize(math.erf, otypes=[np.float64])


def silu64(g, steepness=1.0):
    """g sigmoid(steepness g) in f64; its limit at -inf."""
    return np.where(np.isneginf(g), -0.0, g / (1 + np.exp(-steepness * g)))


def gelu64(g, inner):
    """The share `(1 + inner) / 2` of g; its limit at -inf."""
    return np.where(np.isneginf(g), -0.0, 0.5 * g * (1 + inner))


def formula(g, u, L, alpha, VARIANT):
    """The activation in f64."""
    L = L if L > 0 else np.inf
    cut = np.clip(u, -L, L)
    low = np.minimum(g, L)
    inner = np.sqrt(2 / np.pi) * (g + 0.044715 * g**3)
    return {
        "swiglu": lambda: silu64(g) * u,
        "geglu_erf": lambda: gelu64(g, ERF(g / np.sqrt(2))) * u,
        "geglu_tanh": lambda: gelu64(g, np.tanh(inner)) * u,
        "reglu": lambda: np.maximum(g, 0) * u,
        "swiglu_limit": lambda: silu64(low) * cut,
        "swiglu_clip_after": lambda: np.minimum(silu64(g), L) * cut,
        "swiglu_oai": lambda: silu64(low, alpha) * (cut + 1),
    }[VARIANT]()


def scaled(g, u, row_scale, limit, alpha, VARIANT):
    """The activation of each row times its weight, and the scale on which it is computed."""
    by = 1.0 if row_scale is None else row_scale[:, None]
    size = np.abs(g) * (np.abs(u) + 1) * np.abs(by)
    y = formula(g, u, float(limit), float(alpha), VARIANT) * by
    return {"y": y}, {"y": np.where(np.isfinite(g), size, 0)}


@gated_activation.oracle
def _(g, u, gate_bias, up_bias, row_scale, limit, alpha, VARIANT):
    g = g + (0 if gate_bias is None else gate_bias)
    u = u + (0 if up_bias is None else up_bias)
    return scaled(g, u, row_scale, limit, alpha, VARIANT)


@gated_activation.case(R=[1, 3], N=[129], LIMIT=[0.0, 0.75], EXTRA=[False, True], tol=ELT)
def _(rng, R, N, LIMIT, EXTRA):
    g = rng.normal(R, N) * 1.5
    g[:, 7] = -np.inf  # a gate that is shut: 0, not -inf * 0
    given = {"g": g, "u": rng.normal(R, N) * 2, "limit": LIMIT, "alpha": 1.702}
    more = {"gate_bias": rng.normal(N), "up_bias": rng.normal(N), "row_scale": rng.normal(R)}
    return given | more if EXTRA else given


@gated_activation_packed.oracle
def _(x, bias, row_scale, limit, alpha, LAYOUT, VARIANT):
    x = x + (0 if bias is None else bias)
    half = x.shape[1] // 2
    g, u = (x[:, :half], x[:, half:]) if LAYOUT == "halves" else (x[:, ::2], x[:, 1::2])
    return scaled(g, u, row_scale, limit, alpha, VARIANT)


@gated_activation_packed.case(R=[1, 3], N2=[22, 182], tol=ELT)
def _(rng, R, N2):
    x = rng.normal(R, N2) * 2
    x[:, 6] = -np.inf  # a gate in both layouts
    return {"x": x, "bias": None, "row_scale": None, "limit": 0.75, "alpha": 1.702}


@gated_activation_packed.case(R=[3], N2=[26], VARIANT=["swiglu_oai"], tol=ELT)
def _(rng, R, N2):
    more = {"bias": rng.normal(N2), "row_scale": rng.normal(R)}
    return {"x": rng.normal(R, N2) * 2, "limit": 0.75, "alpha": 1.702} | more


gated_activation.bench(
    R=[16, 1024, 8192],
    N=14336,
    flops=lambda R, N: 8 * R * N,
    make=lambda rng, R, N: {"g": rng.normal(R, N), "u": rng.normal(R, N), "limit": 0, "alpha": 1},
)
gated_activation.bench(
    R=16384,
    N=4096,
    flops=lambda R, N: 8 * R * N,
    make=lambda rng, R, N: {"g": rng.normal(R, N), "u": rng.normal(R, N), "limit": 0, "alpha": 1},
)
gated_activation_packed.bench(
    R=[1024, 8192], N2=28672, flops=lambda R, N2: 4 * R * N2,
    make=lambda rng, R, N2: {"x": rng.normal(R, N2), "limit": 0, "alpha": 1},
)  # fmt: skip
