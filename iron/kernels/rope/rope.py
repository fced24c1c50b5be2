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
from iron.lang import groups, i32, inline, kernel, mulhi, require, sin, strided, u32

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
    THREADS: Const = 64,
):
    """One group per head of one position; the other D - 2 P elements are copied.

    `half` pairs element p with p + P, `adjacent` 2 p with 2 p + 1. The rotated elements are the
    first 2 P of the head, or the last. y may be x itself.
    """
    h, r = groups(H, R, threads=THREADS)
    require(2 * P <= D, "a head of D elements holds at most D / 2 pairs")
    start = D - 2 * P if REGION == "tail" else 0
    rest = 0 if REGION == "tail" else 2 * P

    for p in strided(P):
        angle = angle_of(position[r], frequency[p, 0], frequency[p, 1])
        c, s = cos(angle) * scale, sin(angle) * scale
        if INVERSE:
            s = -s
        i = start + p if PAIRING == "half" else start + 2 * p
        j = start + p + P if PAIRING == "half" else start + 2 * p + 1
        a, b = x[r, h, i].to(f32), x[r, h, j].to(f32)
        y[r, h, i] = (a * c - b * s).to(T)
        y[r, h, j] = (a * s + b * c).to(T)
    for e in strided(D - 2 * P):
        y[r, h, rest + e] = x[r, h, rest + e]


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
