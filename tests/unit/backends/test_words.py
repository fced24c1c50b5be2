"""Neighbours inside the words of a wide access: their texts, and that a sign stays where it is."""

import re
from typing import Any

import numpy as np
import pytest

from iron.backends.clike.words import in_words, part, whole
from iron.dtypes import DType, bf16, f32, i8, u8


def test_texts():
    assert part("run", bf16, 8, 3) == "(bf16)(run.w[1] >> 16)"
    assert part("run", bf16, 8, 0) == "(bf16)(run.w[0])"
    assert part("run", f32, 4, 2) == "run.e[2]"
    assert part("run", u8, 2, 1) == "run.e[1]"
    assert whole(u8, ["a", "b"]) == ["a", "b"]
    assert whole(bf16, ["a", "b"]) == ["(u32)(a) | (u32)(b) << 16"]


@pytest.mark.parametrize("t", [i8, u8], ids=str)
def test_parts_of_a_whole(t: DType):
    held = np.array([-3, 5, -128, 127, 1, -1, 0, 77]).astype(t.np)
    names = {f"x{n}": int(v) for n, v in enumerate(held)}
    assert in_words(t, len(held))
    words = [evaluated(text, names) for text in whole(t, list(names))]
    raw = b"".join(int(w).to_bytes(4, "little") for w in words)
    assert raw == held.tobytes()
    for n, v in enumerate(held):
        text = part("run", t, len(held), n).replace("run.w", "run_w")
        assert evaluated(text, {"run_w": words}) == v


def evaluated(text: str, names: dict[str, Any]) -> int:
    """A C expression of u32 words and casts of u8 and i8."""
    known: dict[str, Any] = {
        "u32": lambda x: int(x) & 0xFFFFFFFF,
        "u8": lambda x: int(x) & 0xFF,
        "i8": lambda x: ((int(x) & 0xFF) ^ 0x80) - 0x80,
    }
    spelled = re.sub(r"\(u32\)\(u8\)(\(\w+\))", r"u32(u8\1)", text)
    return eval(re.sub(r"\((u32|u8|i8)\)", r"\1", spelled), {}, {**known, **names})
