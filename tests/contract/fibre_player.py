"""Plays a launch of generated text on fibres: what a fake device does with the code it is given."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np

from iron.backends.clike.render import Text
from iron.runtime.cache import Cache
from iron.shims import build
from iron.shims.driver import Unit
from iron.shims.fibres import Fault, Order, fibres
from iron.shims.unit import Vocabulary, unit


class Player:
    """Text of one dialect, compiled once."""

    def __init__(self, words: Vocabulary, simd: int) -> None:
        self.words, self.simd = words, simd
        self._compiled = cache(self._compile)

    def compile(self, text: Text) -> None:
        """Compiles a text before its first launch. E0901 when clang refuses it."""
        self._compiled(text.source, text)

    def play(self, text: Text, arguments: Sequence[int], groups: int, threads: int) -> Fault | None:
        """Runs every group; each argument is the low bytes of a word, a pointer is an address."""
        words = np.array([w & (1 << 64) - 1 for w in arguments], np.uint64)
        kernel = self._compiled(text.source, text).kernel(0)
        address = words.ctypes.data
        return fibres().run(kernel, address, groups, self.simd, threads, Order())

    def _compile(self, source: str, text: Text) -> Unit:
        made = unit([text], self.words)
        code = build.built(made, build.unit_flags(), Cache(), text.symbol)
        return Unit(made, fibres().load(code))
