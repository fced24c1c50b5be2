"""Decoding, written once: inlined into kernels, and run eagerly on numpy arrays as the oracle.

A format's body gives the element of a code and the factors of a group; the functions here put
them together in the one order `w = s * x (+ b)`, in f32, every product rounded. In a kernel `w` is
the packed parameter; on the host it is `Planes`, and indices are broadcasting integer arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from iron.lang import f32, inline, unrolled
from iron.quant.codec import blocks, dense, foreign, iq, kquant, stream, tiles, words
from iron.quant.format import Algebra, Format

V = Any
word = tiles.word
part_at = words.part_at
part_codes = words.part_codes


@dataclass(frozen=True, slots=True)
class Body:
    """How one layout is read: `code(fmt, w, n, b, e)` and `factors(fmt, w, n, g)`."""

    code: Callable[..., Any]
    factors: Callable[..., Any]


BODIES: Final = MappingProxyType(
    {
        "dense": Body(dense.code, dense.factors),
        "stream": Body(stream.code, stream.factors),
        "tiles": Body(tiles.code, tiles.factors),
        "gguf_q4_0": Body(blocks.q4_0, blocks.scale_first),
        "gguf_q4_1": Body(blocks.q4_1, blocks.scale_and_minimum),
        "gguf_q5_0": Body(blocks.q5_0, blocks.scale_first),
        "gguf_q5_1": Body(blocks.q5_1, blocks.scale_and_minimum),
        "gguf_q8_0": Body(blocks.q8_0, blocks.scale_first),
        "gguf_q8_1": Body(blocks.q8_1, blocks.scale_first),
        "gguf_q8_k": Body(blocks.q8_k, blocks.q8_k_factors),
        "gguf_q2_k": Body(kquant.q2_k, kquant.q2_k_factors),
        "gguf_q3_k": Body(kquant.q3_k, kquant.q3_k_factors),
        "gguf_q4_k": Body(kquant.q4_k, kquant.six_bit_factors),
        "gguf_q5_k": Body(kquant.q5_k, kquant.six_bit_factors),
        "gguf_q6_k": Body(kquant.q6_k, kquant.q6_k_factors),
        "gguf_iq4_nl": Body(blocks.iq4_nl, blocks.scale_first),
        "gguf_iq4_xs": Body(blocks.iq4_xs, blocks.iq4_xs_factors),
        "gguf_tq1_0": Body(blocks.tq1_0, blocks.scale_last),
        "gguf_tq2_0": Body(blocks.tq2_0, blocks.scale_last),
        "gguf_mxfp4": Body(blocks.mxfp4, blocks.mxfp4_factors),
        "gguf_nvfp4": Body(blocks.nvfp4, blocks.nvfp4_factors),
        "gguf_q1_0": Body(blocks.q1_0, blocks.scale_first),
        "gguf_q2_0": Body(blocks.q2_0, blocks.scale_first),
        "gguf_iq2_xxs": Body(iq.iq2_xxs, iq.iq2_xxs_factors),
        "gguf_iq2_xs": Body(iq.iq2_xs, iq.iq2_xs_factors),
        "gguf_iq2_s": Body(iq.iq2_s, iq.iq2_s_factors),
        "gguf_iq3_xxs": Body(iq.iq3_xxs, iq.iq3_xxs_factors),
        "gguf_iq3_s": Body(iq.iq3_s, iq.iq3_s_factors),
        "gguf_iq1_s": Body(iq.iq1_s, iq.iq1_s_factors),
        "gguf_iq1_m": Body(iq.iq1_m, iq.iq1_m_factors),
        "gptq": Body(foreign.gptq, foreign.gptq_factors),
        "gptq_act": Body(foreign.gptq, foreign.gptq_act_factors),
        "awq": Body(foreign.awq, foreign.awq_factors),
        "ct_asym": Body(foreign.ct_asym, foreign.ct_asym_factors),
        "ct_sym_act": Body(stream.code, foreign.ct_sym_act_factors),
        "ct_asym_act": Body(foreign.ct_asym, foreign.ct_asym_act_factors),
        "bnb": Body(foreign.bnb, foreign.bnb_factors),
        "bnb_dq": Body(foreign.bnb, foreign.bnb_dq_factors),
        "hqq": Body(foreign.hqq, foreign.hqq_factors),
        "bitnet": Body(foreign.bitnet, foreign.bitnet_factors),
    }
)


@inline
def at(fmt: Format, c: V) -> V:
    """The first column of chunk c."""
    return c * fmt.vec


@inline(exact=True)
def combine(fmt: Format, x: V, s: V, t: V) -> V:
    """The weight from its element x and the factors (s, t) of its group."""
    if fmt.algebra is Algebra.DENSE:
        return x
    if fmt.algebra is Algebra.SCALED:
        return s * x
    if fmt.algebra is Algebra.AFFINE:
        return s * x + t
    return s * (x - t)


@inline
def decode(fmt: Format, w: V, n: V, k: V) -> V:
    """The weight (n, k) in f32."""
    x = fmt.code(w, n, 0, k) if fmt.flat else fmt.code(w, n, k // fmt.block, k % fmt.block)
    s, t = fmt.factors(w, n, k // fmt.group if fmt.group else 0)
    return combine(fmt, x, s, t)


@inline
def codes(fmt: Format, w: V, n: V, c: V) -> V:
    """The `vec` elements of chunk c of row n before any factor, as a list."""
    if fmt.block == fmt.vec:
        return [fmt.code(w, n, c, e) for e in unrolled(fmt.vec)]
    chunks = fmt.block // fmt.vec
    return [fmt.code(w, n, c // chunks, c % chunks * fmt.vec + e) for e in unrolled(fmt.vec)]


@inline
def group(fmt: Format, c: V, part: int) -> V:
    """The group that holds part `part` (of `fmt.share` elements) of chunk c."""
    if not fmt.group:
        return 0
    if fmt.group < fmt.vec:
        return c * (fmt.vec // fmt.group) + part
    return c // (fmt.group // fmt.vec)


@inline
def dot(fmt: Format, w: V, n: V, c: V, xs: V) -> V:
    """The sum over chunk c of row n of weight times `xs`, factors taken out of the sum."""
    q = fmt.codes(w, n, c)
    size = fmt.share
    total = f32(0)
    for part in unrolled(fmt.vec // size):
        products, plain = f32(0), f32(0)
        for e in unrolled(size):
            products += q[part * size + e] * xs[part * size + e]
            plain += xs[part * size + e]
        s, t = fmt.factors(w, n, group(fmt, c, part))
        total += joined(fmt, products, plain, s, t)
    return total


@inline
def part_dot(fmt: Format, w: V, n: V, p: V, xs: V) -> V:
    """The sum over part p of row n of weight times `xs`, factors taken out of the sum."""
    count = words.parts(fmt)
    if count == 1 and words.words_of(fmt) is None:
        return fmt.dot(w, n, p, xs)
    q = fmt.part_codes(w, n, p)
    products, plain = q[0] * xs[0], xs[0]
    for e in unrolled(1, len(q)):
        products += q[e] * xs[e]
        plain += xs[e]
    size = fmt.share // (fmt.vec // count)
    s, t = fmt.factors(w, n, group(fmt, p // count, p % count // size))
    if words.lift(fmt):
        t = t - s * words.lift(fmt) if fmt.algebra is Algebra.AFFINE else t + words.lift(fmt)
    return joined(fmt, products, plain, s, t)


@inline
def joined(fmt: Format, products: V, plain: V, s: V, t: V) -> V:
    """The share of one group in a dot product: `products` is sum(x q), `plain` is sum(x)."""
    if fmt.algebra is Algebra.DENSE:
        return products
    if fmt.algebra is Algebra.SCALED:
        return s * products
    if fmt.algebra is Algebra.AFFINE:
        return s * products + t * plain
    return s * (products - t * plain)
