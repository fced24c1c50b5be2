"""The forms of a kernel as CUDA text."""

from __future__ import annotations

from collections.abc import Iterator

from iron.backends import forms as general
from iron.backends.cuda_code import Code, code_of
from iron.backends.tensor_maps import ALIGNMENT, distinct
from iron.ir.core import Kernel

Form = general.Form[Code]


def forms(kernel: Kernel, symbol: str = "") -> Iterator[Form]:
    """The forms of a lowered kernel, best first; all have the entry `symbol`.

    A kernel of bulk copies has one form, which needs the alignment of tensor maps.
    """
    maps = distinct(kernel)
    if maps:
        aligned = {m.name: ALIGNMENT for m in maps}
        yield general.Form(kernel, code_of(kernel, symbol), aligned, regrouped=True)
        return
    yield from general.forms(kernel, lambda body, wide: code_of(body, symbol, frozenset(wide)))
