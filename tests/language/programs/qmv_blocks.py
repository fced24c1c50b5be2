"""Products with weights in layouts of their own: straddling 3-bit codes, and q4_K super-blocks."""

import numpy as np

from iron.lang import (
    Const,
    In,
    Out,
    bitcast,
    cdiv,
    dims,
    dtypes,
    f16,
    f32,
    group_sum,
    groups,
    inline,
    kernel,
    minimum,
    thread,
    u8,
    u32,
    unrolled,
)

M, N, K, W, S, B = dims("M N K W S B")
T = dtypes("T", f32, f16)


@inline
def dot_int3(codes, scales, biases, n, c, x):
    """Chunk c of row n in MLX's 3-bit form: 32 neighbours are exactly 3 words, groups are 64."""
    words = [codes[n, 3 * c + i] for i in unrolled(3)]
    acc, total = f32(0), f32(0)
    for j in unrolled(32):
        word, bit = 3 * j // 32, 3 * j % 32
        q = words[word] >> bit
        if bit > 29:
            q = q | (words[word + 1] << (32 - bit))
        acc += (q & 7).to(f32) * x[j]
        total += x[j]
    return scales[n, c // 2].to(f32) * acc + biases[n, c // 2].to(f32) * total


@inline
def six_bits(b, n, at, j):
    """Scale and minimum j of a q4_K block whose twelve bytes of them start at `at`."""
    if j < 4:
        scale, least = b[n, at + j] & 63, b[n, at + 4 + j] & 63
    else:
        scale = (b[n, at + 4 + j] & 15) | ((b[n, at + j - 4] >> 6) << 4)
        least = (b[n, at + 4 + j] >> 4) | ((b[n, at + j] >> 6) << 4)
    return scale.to(f32), least.to(f32)


@inline
def dot_q4_k(b, n, c, x):
    """Chunk c of row n of ggml's q4_K: 8 bytes that hold two runs of 8 elements, 32 apart."""
    block, pair = c // 16 * 144, c % 16 // 4
    d = bitcast(b[n, block : block + 2], f16)[0].to(f32)
    dmin = bitcast(b[n, block + 2 : block + 4], f16)[0].to(f32)
    acc = f32(0)
    for half in unrolled(2):
        scale, least = six_bits(b, n, block + 4, pair * 2 + half)
        s, t = f32(0), f32(0)
        for e in unrolled(8):
            byte = b[n, block + 16 + 32 * pair + c % 4 * 8 + e]
            s += ((byte >> (4 * half)) & 15).to(f32) * x[8 * half + e]
            t += x[8 * half + e]
        acc += d * scale * s - dmin * least * t
    return acc


@kernel
def qmv_int3(
    x: In[T, M, K],
    codes: In[u32, N, W],
    scales: In[f32, N, S],
    biases: In[f32, N, S],
    y: Out[T, M, N],
    *,
    TEAM: Const = 8,
    THREADS: Const = 128,
):
    """A team of TEAM threads per row; M is compiled in."""
    (group,) = groups(cdiv(N, THREADS // TEAM), threads=THREADS)
    n, t = group * (THREADS // TEAM) + thread // TEAM, thread % TEAM
    row = minimum(n, N - 1)
    acc = [f32(0)] * M
    for c in range(t, K // 32, TEAM):
        for m in unrolled(M):
            xs = [x[m, 32 * c + e].to(f32) for e in unrolled(32)]
            acc[m] = acc[m] + dot_int3(codes, scales, biases, row, c, xs)
    for m in unrolled(M):
        total = group_sum(acc[m], width=TEAM)
        if (t == 0) & (n < N):
            y[m, n] = total.to(T)


@kernel
def qmv_q4_k(
    x: In[T, M, K],
    blocks: In[u8, N, B],
    y: Out[T, M, N],
    *,
    TEAM: Const = 8,
    THREADS: Const = 128,
):
    """As `qmv_int3`; a chunk's elements stand in two runs."""
    (group,) = groups(cdiv(N, THREADS // TEAM), threads=THREADS)
    n, t = group * (THREADS // TEAM) + thread // TEAM, thread % TEAM
    row = minimum(n, N - 1)
    acc = [f32(0)] * M
    for c in range(t, K // 16, TEAM):
        at = c // 16 * 256 + c % 16 // 4 * 64 + c % 4 * 8
        for m in unrolled(M):
            xs = [x[m, at + run + e].to(f32) for run in (0, 32) for e in unrolled(8)]
            acc[m] = acc[m] + dot_q4_k(blocks, row, c, xs)
    for m in unrolled(M):
        total = group_sum(acc[m], width=TEAM)
        if (t == 0) & (n < N):
            y[m, n] = total.to(T)


WRONG = ("32 - bit", "31 - bit")


def close(y, x, dense):
    """Both sums of 512 products agree to the bound of a dot product in f32."""
    parts = x[:, None].astype(np.float64) * dense[None]
    bound = 2.0**-21 * np.sqrt((parts**2).sum(-1)) + 2.0**-22 * np.abs(parts).sum(-1)
    assert np.all(np.abs(y - parts.sum(-1)) <= bound)


def check():
    """Both against dense weights decoded element by element in f64."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2, 512)).astype(np.float32)
    q = rng.integers(0, 8, (10, 512))
    bits = ((q[..., None] >> np.arange(3)) & 1).reshape(10, -1).astype(np.uint8)
    codes = np.packbits(bits, axis=1, bitorder="little").view(np.uint32)
    scales, biases = rng.normal(size=(2, 10, 8)).astype(np.float32)
    dense = np.repeat(scales, 64, 1).astype(float) * q + np.repeat(biases, 64, 1)
    blank = np.full((2, 10), np.nan, np.float32)
    close(qmv_int3(x=x, codes=codes, scales=scales, biases=biases, y=blank.copy()), x, dense)

    raw = rng.integers(0, 256, (20, 144)).astype(np.uint8)
    raw[:, :4] = np.array([0.1, 0.2], np.float16).view(np.uint8)
    dense = np.array([decoded(block) for block in raw]).reshape(10, 512)
    close(qmv_q4_k(x=x, blocks=raw.reshape(10, -1), y=blank.copy()), x, dense)


def decoded(block):
    """One q4_K block of 256 weights."""
    d, dmin = block[:4].view(np.float16).astype(float)
    s = block[4:16].astype(int)
    out = []
    for e in range(256):
        j, r = e // 32, e % 64
        q = (block[16 + 32 * (e // 64) + r % 32] >> (4 * (r // 32))) & 15
        if j < 4:
            scale, least = s[j] & 63, s[j + 4] & 63
        else:
            scale = (s[j + 4] & 15) | ((s[j - 4] >> 6) << 4)
            least = (s[j + 4] >> 4) | ((s[j] >> 6) << 4)
        out.append(d * scale * q - dmin * least)
    return out
