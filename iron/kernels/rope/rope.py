"""Rotary position embedding: turns pair p of each head by the angle position * frequency[p].

(a, b) -> scale * (a cos t - b sin t, a sin t + b cos t),  t = position * frequency[p].

Source: Su et al., "RoFormer", 2021 (arXiv:2104.09864), eq. 34.

The angle is formed in integers: a frequency is held as the part of a turn that one position adds,
in 64 bits of fixed point (`turns`), so position * frequency modulo a full turn is exact to 2^-32
of a turn plus position * 2^-65, at every u32 position. f32 frequencies would be off by
6e-8 * angle, which is 0.06 rad at angle 10^6.
"""

import math

import numpy as np

from iron.lang import ELT, Const, In, Out, Scalar, bf16, bitcast, cos, dims, dtypes, f16, f32
from iron.lang import groups, i32, inline, kernel, mulhi, require, sin, strided, u32, unrolled

R, H, D, P = dims("R H D P")
T = dtypes("T", f32, f16, bf16)
TURN = 2 * math.pi / 2**32


def turns(frequency):
    """Frequencies in radians per position as `rope` takes them: u32 [P, 2], high word first.

    Computed in f64: the error at position p is about p * frequency * 1e-16 rad.
    """
    parts = [round(math.fmod(float(f) / (2 * math.pi), 1.0) * 2**64) % 2**64 for f in frequency]
    return np.array([[part >> 32, part & 0xFFFFFFFF] for part in parts], np.uint32).reshape(-1, 2)


@inline
def angle_of(position, high, low):
    """position * (high, low) as an angle in -pi .. pi, from its fraction of a turn."""
    phase = position * high + mulhi(position, low)
    return bitcast(phase, i32).to(f32) * TURN


@kernel(
    variants={
        "PAIRING": ["half", "adjacent"],
        "REGION": ["head", "tail"],
        "INVERSE": [False, True],
    },
    choose={"HEADS": {"gpu": [8, 1], "cpu": [1, 8]}},
    tune={"THREADS": [64, 128]},
)
def rope(
    x: In[T, R, H, D],
    position: In[u32, R],
    frequency: In[u32, P, 2],
    y: Out[T, R, H, D],
    scale: Scalar[f32],
    *,
    PAIRING: Const = "half",
    REGION: Const = "head",
    INVERSE: Const = False,
    HEADS: Const = 1,
    PAIRS: Const = lambda HEADS: 2 if HEADS > 1 else 1,
    THREADS: Const = lambda HEADS, simd_width: max(32, simd_width) if HEADS > 1 else 64,
):
    """One group per HEADS heads of one position; the other D - 2 P elements are copied.

    A thread has PAIRS neighbouring pairs at a time, and their angles serve all its heads.
    `half` pairs element p with p + P, `adjacent` 2 p with 2 p + 1. The rotated elements are the
    first 2 P of the head, or the last. y may be x itself.
    """
    first, r = groups(H // HEADS, R, threads=THREADS)
    require(P <= D // 2, "a head of D elements holds at most D / 2 pairs")
    require(H % HEADS == 0, "the heads H must be a multiple of HEADS")
    require(P % PAIRS == 0, "the pairs P must be a multiple of PAIRS")
    start = D - 2 * P if REGION == "tail" else 0
    rest = 0 if REGION == "tail" else 2 * P
    heads, pairs = unrolled(HEADS), unrolled(PAIRS)

    for p in strided(P, PAIRS):
        angles = [angle_of(position[r], frequency[p + e, 0], frequency[p + e, 1]) for e in pairs]
        c, s = [cos(t) * scale for t in angles], [sin(t) * scale for t in angles]
        if INVERSE:
            s = [-t for t in s]
        far = P if PAIRING == "half" else 1
        i = start + p if PAIRING == "half" else start + 2 * p
        step = 1 if PAIRING == "half" else 2
        a = [[x[r, first * HEADS + h, i + step * e].to(f32) for e in pairs] for h in heads]
        b = [[x[r, first * HEADS + h, i + far + step * e].to(f32) for e in pairs] for h in heads]
        for h in heads:
            for e in pairs:
                y[r, first * HEADS + h, i + step * e] = (a[h][e] * c[e] - b[h][e] * s[e]).to(T)
            for e in pairs:
                out = a[h][e] * s[e] + b[h][e] * c[e]
                y[r, first * HEADS + h, i + far + step * e] = out.to(T)
    for e in strided(D - 2 * P):
        for h in heads:
            y[r, first * HEADS + h, rest + e] = x[r, first * HEADS + h, rest + e]


@rope.oracle
def _(x, position, frequency, scale, PAIRING, REGION, INVERSE):
    y = x
    part = frequency.astype(object)  # Python integers
    step = [(high << 32) + low for high, low in part]
    turn = [[int(t) * s % 2**64 / 2**64 for s in step] for t in position]
    angle = 2 * np.pi * np.array(turn, np.float64).reshape(len(position), 1, -1)
    angle = -angle if INVERSE else angle
    pairs = angle.shape[-1]
    p = np.arange(pairs) + (y.shape[-1] - 2 * pairs if REGION == "tail" else 0)
    i, j = (p, p + pairs) if PAIRING == "half" else (p + np.arange(pairs), p + np.arange(pairs) + 1)
    a, b = y[..., i].copy(), y[..., j].copy()
    y[..., i] = scale * (a * np.cos(angle) - b * np.sin(angle))
    y[..., j] = scale * (a * np.sin(angle) + b * np.cos(angle))
    # 2e-6 for an angle good to f32, in units of ELT's 4 * 2^-24
    size = np.abs(x)
    size[..., i] = size[..., j] = np.maximum(np.abs(a), np.abs(b)) * max(1.0, abs(scale)) * 8.4
    return {"y": y}, {"y": size}


@rope.case(R=[3], H=[5], D=[137], P=[1, 33], FAR=[0, 1 << 20], tol=ELT)
def _(rng, R, H, D, P, FAR):
    frequency = turns(10000.0 ** (-np.arange(P) / P))
    position = FAR + rng.integers(R, high=1000)
    x = (0.5 + rng.uniform(R, H, D)) * (-1.0) ** np.arange(D)  # neighbours differ
    return {"x": x, "position": position, "frequency": frequency, "scale": 1.25}


rope.bench(
    R=[512, 4096, 16384],
    H=40,
    D=128,
    P=64,
    PAIRING="half",
    flops=lambda R, H, P: 6 * R * H * P,
    make=lambda rng, R, H, D, P: {
        "x": rng.normal(R, H, D), "position": np.arange(R),
        "frequency": turns(10000.0 ** (-np.arange(P) / P)), "scale": 1.0,
    },
)  # fmt: skip
