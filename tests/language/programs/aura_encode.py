"""Rotation, search and packing of vectors: exchanges at any distance, words assembled by owners."""

import numpy as np

from iron.lang import (
    Const,
    In,
    Out,
    barrier,
    cdiv,
    dims,
    dtypes,
    f16,
    f32,
    group_sum,
    group_xor,
    groups,
    inline,
    kernel,
    require,
    shared,
    sqrt,
    strided,
    thread,
    u32,
    unrolled,
    where,
)

R, D, WORDS = dims("R D WORDS")
T = dtypes("T", f32, f16)


@inline
def word_of(codes, vector, word, D, BITS):
    """Word `word` of the stream of BITS-bit codes of one vector; codes may straddle words."""
    bits = u32(0)
    low = 32 * word // BITS
    for e in unrolled(cdiv(32, BITS) + 1):
        at = (low + e) * BITS - 32 * word
        if (low + e < D) & (at < 32):
            q = codes[vector, low + e]
            bits = bits | (q << at if at >= 0 else q >> -at)
    return bits


@kernel(variants={"BITS": [2, 3, 4, 6, 8]})
def aura_encode(
    x: In[T, R, D],
    sign: In[f32, D],
    bound: In[f32, 255],
    codebook: In[f32, 256],
    packed: Out[u32, R, WORDS],
    norm: Out[T, R],
    *,
    BITS: Const = 3,
    VECTORS: Const = 2,
):
    """One thread per element: Hadamard rotation with signs, nearest centroid, codes packed.

    `norm` is the length of the vector over that of its decoded direction.
    """
    (b,) = groups(cdiv(R, VECTORS), threads=VECTORS * D)
    require(D & (D - 1) == 0, "the rotation needs a power of two")
    row, i = b * VECTORS + thread // D, thread % D
    live = row < R
    v = x[row, i].to(f32) if live else f32(0)
    length = sqrt(group_sum(v * v, width=D))
    r = where(length > 1e-8, v / length, 0.0) * sign[i]
    for s in unrolled(D.bit_length() - 1):
        other = group_xor(r, 1 << s)
        r = other - r if (i >> s) & 1 else r + other
    r = r * D**-0.5
    code = u32(0)
    for step in unrolled(BITS):
        half = 1 << (BITS - 1 - step)
        code = where(r > bound[code + (half - 1)], code + half, code)
    c = codebook[code]
    decoded = sqrt(group_sum(c * c, width=D))
    if live & (i == 0):
        norm[row] = where(decoded > 1e-8, length / decoded, length).to(T)
    codes = shared((VECTORS, D), u32)
    codes[thread // D, i] = code
    barrier()
    words = cdiv(D * BITS, 32)
    for w in strided(VECTORS * words):
        vector, word = w // words, w % words
        bits = word_of(codes, vector, word, D, BITS)
        if b * VECTORS + vector < R:
            packed[b * VECTORS + vector, word] = bits


WRONG = ("low = 32 * word // BITS", "low = 32 * word // BITS + 1")


def check():
    """Against an explicit Hadamard matrix, a count of boundaries and numpy's packbits."""
    rng = np.random.default_rng(10)
    rows, d = 3, 32
    hadamard = np.array([[1.0]])
    while len(hadamard) < d:
        hadamard = np.block([[hadamard, hadamard], [hadamard, -hadamard]])
    for bits in (2, 3, 6):
        x = rng.normal(size=(rows, d)).astype(np.float32)
        x[1] = 0
        sign = rng.choice([-1.0, 1.0], d).astype(np.float32)
        book, bound = np.zeros(256, np.float32), np.zeros(255, np.float32)
        book[: 2**bits] = np.sort(rng.normal(size=2**bits)) / np.sqrt(d)
        bound[: 2**bits - 1] = (book[1 : 2**bits] + book[: 2**bits - 1]) / 2
        packed, norm = aura_encode(
            x=x, sign=sign, bound=bound, codebook=book, BITS=bits,
            packed=np.zeros((rows, cdiv(d * bits, 32)), np.uint32),
        )  # fmt: skip
        length = np.linalg.norm(x.astype(float), axis=1)
        unit = x / np.maximum(length, 1e-9)[:, None]
        rotated = (unit * sign) @ hadamard.T / np.sqrt(d)
        code = (rotated[..., None] > bound[: 2**bits - 1]).sum(-1)
        stream = ((code[..., None] >> np.arange(bits)) & 1).reshape(rows, -1).astype(np.uint8)
        assert np.array_equal(packed, np.packbits(stream, 1, "little").view(np.uint32))
        want = length / np.linalg.norm(book[code].astype(float), axis=1)
        assert np.allclose(norm, want, rtol=1e-6)
