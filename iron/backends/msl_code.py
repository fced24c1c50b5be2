"""A lowered kernel as Metal text, with its buffers and the structure of its other arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from iron.backends.clike.render import Text, render
from iron.backends.cuda_code import Field, entry_name, fields
from iron.backends.msl import MOST_BUFFERS, MSL
from iron.errors import error
from iron.ir.core import Kernel
from iron.passes.scalarise import scalarise


@dataclass(frozen=True, slots=True)
class Code:
    """Text, the tensors in the order of their buffers, the fields of the structure after them."""

    name: str
    symbol: str
    text: Text
    buffers: tuple[str, ...]
    values: tuple[Field, ...]
    threads: int

    @property
    def source(self) -> str:
        """The whole text with `#line`, so that the compiler's messages name the user's lines."""
        return f"{self.text.prelude}\n\n{self.text.numbered(f'{self.symbol}.metal')}\n"

    def structure(self, value: Callable[[Field], int]) -> bytes:
        """The structure in natural alignment, each field the low bytes of `value(field)`."""
        if not self.values:
            return b""
        names = [f"at{n}" for n in range(len(self.values))]
        kinds = [f"u{field.dtype.bytes}" for field in self.values]
        made = np.zeros((), np.dtype(list(zip(names, kinds, strict=True)), align=True))
        for name, field in zip(names, self.values, strict=True):
            made[name] = value(field) & (1 << 8 * field.dtype.bytes) - 1
        return made.tobytes()


def code_of(kernel: Kernel) -> Code:
    """The text of `kernel`. E0602 when it has more tensors than Metal has buffers."""
    symbol = entry_name(kernel)
    found = fields(kernel)
    buffers = tuple(f.name for f in found if f.kind == "pointer")
    values = tuple(f for f in found if f.kind != "pointer")
    if len(buffers) + bool(values) > MOST_BUFFERS:
        raise error(
            "E0602",
            f"{len(buffers)} tensors and a buffer of values are more than Metal's {MOST_BUFFERS}",
            kernel=kernel.name,
        )
    text = render(scalarise(kernel), MSL, symbol)
    return Code(kernel.name, symbol, text, buffers, values, kernel.threads)
