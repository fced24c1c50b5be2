"""The tensors that make up one weight of a checkpoint, by suffix, and faults that name them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iron.errors import KernelError
from iron.quant.format import Format, by_name
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """The tensors of one stem (`layers.0.proj`), found by suffix (`.weight_scale`)."""

    stem: str
    suffixes: tuple[str, ...]
    entries: Mapping[str, Any]
    config: Mapping[str, Any]

    def has(self, suffix: str) -> bool:
        """Whether the checkpoint holds this part."""
        return self.stem + suffix in self.entries

    def names(self) -> list[str]:
        """The names of the parts that are there."""
        return [self.stem + s for s in self.suffixes if self.has(s)]

    def dtype(self, suffix: str) -> str:
        """The dtype of a part as the file spells it; empty when the part is missing."""
        return self.entries[self.stem + suffix].dtype if self.has(suffix) else ""

    def shape(self, suffix: str) -> tuple[int, ...]:
        """The shape of a part."""
        return self.entries[self.stem + suffix].shape

    def array(self, suffix: str) -> Array:
        """A part as the file holds it."""
        return self.entries[self.stem + suffix].array()

    def rows(self, suffix: str) -> Array:
        """A part with its leading axes folded: rank 2."""
        held = self.array(suffix)
        return held.reshape(-1, held.shape[-1]) if held.ndim else held.reshape(1, 1)

    def stream(self, suffix: str, bits: int) -> Array:
        """Rows of bytes, or of wider integers, as a plane of codes: u32 words, at 8 bits bytes."""
        held = np.ascontiguousarray(self.rows(suffix)).view(np.uint8)
        if bits == 8:
            return held
        size = held.shape[1]
        if size % 4:
            held = np.pad(held, ((0, 0), (0, -size % 4)))
        return held.view("<u4")

    def setting(self, key: str, default: Any = None) -> Any:
        """A value of the quantisation config."""
        return self.config.get(key, default)

    @property
    def method(self) -> str:
        """`quant_method` of the config in lower case; empty without one."""
        return str(self.config.get("quant_method", "")).lower()

    def fault(self, suffix: str, message: str) -> KernelError:
        """E0801 that names the file, the tensor of this part and its first byte."""
        return self.entries[self.stem + suffix].fault(message)

    def format(self, name: str) -> Format:
        """The format called `name`; E0801 about the first part when there is none."""
        try:
            return by_name(name)
        except KernelError:
            raise self.fault(self.first, f"needs the format {name}, which Iron lacks") from None

    @property
    def first(self) -> str:
        """The suffix of the first part that is there."""
        return next(s for s in self.suffixes if self.has(s))

    def checked(self, build: Callable[[Parts], QTensor]) -> QTensor:
        """The built weight; a mismatch of planes becomes E0801 about the first part."""
        try:
            return build(self)
        except KernelError as problem:
            if problem.id == "E0801":
                raise
            raise self.fault(self.first, problem.diagnostic.message) from None
        except (ValueError, ZeroDivisionError, OverflowError) as problem:
            raise self.fault(self.first, f"its parts do not fit together: {problem}") from None


@dataclass(frozen=True, slots=True)
class Dialect:
    """One way to store a weight: the parts it needs and may have, when it applies, how to read it.

    `logical` is what stands behind the stem in the weight's own name.
    """

    name: str
    needs: tuple[str, ...]
    may: tuple[str, ...]
    matches: Callable[[Parts], bool]
    build: Callable[[Parts], QTensor]
    logical: str = ".weight"
