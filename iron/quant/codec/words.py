"""Decoding a few words of codes at a time, for targets whose threads take neighbours of a row.

A part of a chunk is what a thread takes at once: the codes of two u32 words, or 8 neighbours of a
format whose codes are whole bytes, or 16 bytes of plain floats. Other chunks have one part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from iron.lang import bitcast, f16, f32, inline, unrolled
from iron.quant.codec.blocks import word_at
from iron.quant.format import Algebra, Elem, Format

V = Any
Runs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Where the codes of a layout stand in its words.

    `word(fmt, w, n, c, i, m)` is word i + m of chunk c of row n, `first(fmt, i)` the first element
    of word i.
    `runs(fmt, count)` are pairs of offset and length, from that element on, of the codes in `count`
    words; `place(fmt, r, e)` is the word (of these) and the bit where element e of run r begins. A
    part has `most` words, or fewer where they do not share factors.
    """

    word: Callable[..., Any]
    first: Callable[[Format, Any], Any]
    runs: Callable[[Format, int], Runs]
    place: Callable[[Format, int, int], tuple[int, int]]
    most: int


@inline
def stream_word(fmt: Format, w: V, n: V, c: V, i: V, m: int) -> V:
    """A word of the stream."""
    return w.codes[n, c * (fmt.vec * fmt.bits // 32) + i + m]


@inline
def nibbles(fmt: Format, w: V, n: V, c: V, i: V, m: int) -> V:
    """Four of the 16 bytes that end a block; low nibbles stand 16 elements before high ones."""
    return word_at(w, n, c * fmt.block_bytes + (fmt.block_bytes - 16) + 4 * i + 4 * m)


STREAM: Final = Words(
    stream_word,
    lambda fmt, i: i * (32 // fmt.bits),
    lambda fmt, count: ((0, count * 32 // fmt.bits),),
    lambda fmt, r, e: divmod(e * fmt.bits, 32),
    2,
)
HALVES: Final = Words(
    nibbles,
    lambda fmt, i: 4 * i,
    lambda fmt, count: ((0, 4 * count), (16, 4 * count)),
    lambda fmt, r, e: (e // 4, 8 * (e % 4) + 4 * r),
    1,
)
LAYOUTS: Final = MappingProxyType({"stream": STREAM, "gguf_q4_0": HALVES, "gguf_q4_1": HALVES})
BYTES: Final = ("stream", "gguf_q8_0")
OFFSETS: Final = MappingProxyType({"gguf_q4_0": 8, "gguf_q4_1": 0})


def words_of(fmt: Format) -> Words | None:
    """The words of a format, where each holds whole codes that share factors and are integers."""
    found = LAYOUTS.get(fmt.body)
    if found is None or fmt.bits not in (1, 2, 4) or fmt.share % (32 // fmt.bits):
        return None
    return found if fmt.body != "stream" or fmt.elem in (Elem.UINT, Elem.OFFSET, Elem.INT) else None


def held_words(fmt: Format) -> int:
    """Words of a part; 0 for formats that are not read by words."""
    words = words_of(fmt)
    if words is None:
        return 0
    return next(n for n in range(words.most, 0, -1) if fmt.share % (n * 32 // fmt.bits) == 0)


def parts(fmt: Format) -> int:
    """Parts of a chunk."""
    if fmt.body == "dense":
        return fmt.vec * fmt.bits // 128
    if held_words(fmt):
        return fmt.vec * fmt.bits // (32 * held_words(fmt))
    return fmt.vec // 8 if fmt.body in BYTES and fmt.bits == 8 and fmt.share % 8 == 0 else 1


def part_runs(fmt: Format) -> Runs:
    """(offset, length) of the runs of neighbours in one part, counted from `part_at`."""
    words = words_of(fmt)
    if words is None:
        return ((0, fmt.vec // parts(fmt)),)
    return words.runs(fmt, held_words(fmt))


@inline
def part_at(fmt: Format, p: V) -> V:
    """The first column of part p of a row."""
    words = words_of(fmt)
    if words is None:
        return p * (fmt.vec // parts(fmt))
    return p // parts(fmt) * fmt.vec + words.first(fmt, p % parts(fmt) * held_words(fmt))


@inline
def lifted(word: V, bits: int) -> V:
    """The codes of a word in order of their bits, in f32, each with 2^bits added.

    Codes 16 bits apart become the high mantissa bits of two halves at a time.
    """
    at, each, low, high = 10 - bits, 16 // bits, [], []
    mask, one = (((1 << bits) - 1) << at) * 0x10001, ((15 + bits) << 10) * 0x10001
    for j in unrolled(each):
        moved = word << (at - j * bits) if j * bits < at else word >> (j * bits - at)
        pair = bitcast((moved & mask) | one, f16)
        low, high = [*low, f32(pair[0])], [*high, f32(pair[1])]
    return [*low, *high]


def lift(fmt: Format) -> int:
    """What `part_codes` gives beyond each element: taken out of the sum with the second factor."""
    if words_of(fmt) is None or fmt.algebra not in (Algebra.AFFINE, Algebra.ZERO):
        return 0
    return (1 << fmt.bits) + offset(fmt)


def offset(fmt: Format) -> int:
    """What a code, as an unsigned number, has beyond its element."""
    signed = fmt.elem in (Elem.OFFSET, Elem.INT)
    return 1 << (fmt.bits - 1) if signed else OFFSETS.get(fmt.body, 0)


@inline
def part_codes(fmt: Format, w: V, n: V, p: V) -> V:
    """The elements of part p of row n in f32, in the order of its runs, each with `lift` added."""
    c, i = p // parts(fmt), p % parts(fmt)
    words = words_of(fmt)
    size = fmt.vec // parts(fmt)
    if words is None:
        b, first = (0, p * size) if fmt.flat else (c, i * size)
        return [fmt.code(w, n, b, first + e) for e in unrolled(size)]
    count = held_words(fmt)
    held = [words.word(fmt, w, n, c, i * count, m) for m in unrolled(count)]
    if fmt.elem is Elem.INT:
        flip = 0xFFFFFFFF // ((1 << fmt.bits) - 1) << (fmt.bits - 1)
        held = [x ^ flip for x in held]
    numbers = [lifted(x, fmt.bits) for x in held]
    places = [words.place(fmt, r, e) for r, e in spots(part_runs(fmt))]
    codes = [numbers[m][bit // fmt.bits] for m, bit in places]
    less = (1 << fmt.bits) + offset(fmt) - lift(fmt)
    return [x - less for x in codes] if less else codes


def spots(runs: Runs) -> list[tuple[int, int]]:
    """(run, element) of all elements of some runs, in order."""
    return [(r, e) for r, (_, size) in enumerate(runs) for e in range(size)]
