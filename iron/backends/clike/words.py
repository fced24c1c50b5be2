"""Neighbours of less than 32 bits inside the u32 words of a wide access.

A compiler sees one load of a word and shifts, which it folds with what is done to the parts; of an
array of bytes or halves it makes a load and an instruction for each part.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.dtypes import DType


def in_words(t: DType, size: int) -> bool:
    """Whether `size` neighbours of type `t` are held as words: `w`, else an array `e` of them."""
    return t.kind != "b" and t.bytes < 4 and size * t.bytes >= 4


def part(name: str, t: DType, size: int, number: int) -> str:
    """Neighbour `number` of the wide value `name`."""
    if not in_words(t, size):
        return f"{name}.e[{number}]"
    word, byte = divmod(number * t.bytes, 4)
    return f"({t})({name}.w[{word}]{f' >> {8 * byte}' if byte else ''})"


def whole(t: DType, parts: Sequence[str]) -> list[str]:
    """What a wide value holds, from its neighbours."""
    if not in_words(t, len(parts)):
        return list(parts)
    step = 4 // t.bytes
    return [
        " | ".join(_placed(t, text, n) for n, text in enumerate(parts[at : at + step]))
        for at in range(0, len(parts), step)
    ]


def _placed(t: DType, text: str, number: int) -> str:
    narrow = f"(u{t.bits})" if t.kind == "i" else ""
    held = f"(u32){narrow}({text})"
    return f"{held} << {number * t.bits}" if number else held
