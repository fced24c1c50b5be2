"""The forms of a kernel as CUDA text."""

from __future__ import annotations

from collections.abc import Iterator

from iron.backends import forms as general
from iron.backends.cuda_code import Code, code_of
from iron.ir.core import Kernel

Form = general.Form[Code]


def forms(kernel: Kernel, symbol: str = "") -> Iterator[Form]:
    """The forms of a lowered kernel, best first; all have the entry `symbol`."""
    return general.forms(kernel, lambda body, wide: code_of(body, symbol, frozenset(wide)))
