"""The bodies of checkpoint layouts that are no bit stream along K; see `format.foreign`."""

from __future__ import annotations

from typing import Any

from iron.lang import f32, inline, u32, where
from iron.quant.codec.element import unsigned
from iron.quant.codec.stream import bits_at, raw_code
from iron.quant.format import Format

V = Any


@inline
def bits_down(words: V, column: V, e: V, bits: int) -> V:
    """Code e of the bit stream that runs down a column of u32 words, as u32."""
    bit = e * bits
    i = bit // 32
    low = words[i, column] >> u32(bit % 32)
    if 32 % bits == 0:
        return low & ((1 << bits) - 1)
    spills = bit % 32 + bits > 32
    high = words[where(spills, i + 1, i), column] << u32((32 - bit % 32) % 32)
    return where(spills, low | high, low) & ((1 << bits) - 1)


@inline
def gptq(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """`qweight[K * bits / 32, N]`: a stream down K."""
    return unsigned(bits_down(w.qweight, n, b * fmt.block + e, fmt.bits))


@inline
def gptq_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """`scales[K / G, N]` and `qzeros[K / G, N * bits / 32]`, plus one in version 1."""
    z = unsigned(bits_at(w.qzeros, g, 0, n, fmt.bits)) + fmt.zero_step
    return f32(w.scales[g, n]), z


@inline
def gptq_act_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The factors of column g of K, whose group stands in `g_idx`."""
    return gptq_factors(fmt, w, n, w.g_idx[0, g])


@inline
def awq_nibble(words: V, row: V, n: V) -> V:
    """Column n of N: even columns of eight are the low four nibbles, odd ones the high four."""
    return (words[row, n // 8] >> u32(n % 8 // 2 * 4 + n % 2 * 16)) & 15


@inline
def awq(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """`qweight[K, N / 8]`."""
    return unsigned(awq_nibble(w.qweight, b * fmt.block + e, n))


@inline
def awq_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """`scales[K / G, N]` and `qzeros[K / G, N / 8]`."""
    return f32(w.scales[g, n]), unsigned(awq_nibble(w.qzeros, g, n))


@inline
def ct_asym(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """`codes[N, K * bits / 32]`, a stream along K."""
    return unsigned(raw_code(fmt, w, n, b, e))


@inline
def ct_asym_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """`scales[N, K / G]` and `zeros[N * bits / 32, K / G]`, a stream down N."""
    return f32(w.scales[n, g]), unsigned(bits_down(w.zeros, g, n, fmt.bits))


@inline
def ct_sym_act_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """`scales[N, K / G]` of column g of K, whose group stands in `g_idx`."""
    return f32(w.scales[n, w.g_idx[0, g]]), None


@inline
def ct_asym_act_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The factors of column g of K, whose group stands in `g_idx`."""
    return ct_asym_factors(fmt, w, n, w.g_idx[0, g])


@inline
def bnb(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """The high nibble of a byte is the earlier element; an entry of the stored table."""
    raw = (u32(w.codes[n, b * (fmt.block // 2) + e // 2]) >> u32(4 - e % 2 * 4)) & 15
    return f32(w.codebook[0, raw])


@inline
def bnb_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The greatest magnitude of the block."""
    return w.absmax[n, g], None


@inline(exact=True)
def bnb_dq_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The same from 8 bits: 256 blocks, counted through the whole tensor, share a scale."""
    flat = n * w.absmax.shape[1] + g
    level = w.nested_codebook[0, u32(w.absmax[n, g])]
    return level * w.nested_absmax[0, flat // 256] + w.nested_offset[0, 0], None


@inline
def hqq(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Group r of the tensor is row r mod R of R packed rows, in the cells' part r // R."""
    k = b * fmt.block + e
    r = n * w.scales.shape[1] + k // fmt.group
    packed = w.codes.shape[0]
    cells = 10 if fmt.bits == 3 else 8 // fmt.bits
    raw = u32(w.codes[r % packed, k % fmt.group]) >> u32((cells - 1 - r // packed) * fmt.bits)
    return unsigned(raw & ((1 << fmt.bits) - 1))


@inline
def hqq_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """Scale and float zero point of the group."""
    return f32(w.scales[n, g]), f32(w.zeros[n, g])


@inline
def bitnet(fmt: Format, w: V, n: V, b: V, e: V) -> V:
    """Row n is part n // R of R packed rows, in bits 2 * part; the code less one."""
    packed = w.codes.shape[0]
    raw = u32(w.codes[n % packed, b * fmt.block + e]) >> u32(n // packed * 2)
    return unsigned(raw & 3) - 1


@inline
def bitnet_factors(fmt: Format, w: V, n: V, g: V) -> V:
    """The reciprocal of the stored factor."""
    return 1 / f32(w.scales[0, 0]), None
