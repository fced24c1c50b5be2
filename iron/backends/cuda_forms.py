"""The forms of a kernel as CUDA text."""

from __future__ import annotations

from collections.abc import Iterator

from iron.backends import forms as general
from iron.backends.cuda_code import Code, code_of
from iron.backends.tensor_maps import ALIGNMENT, distinct, lengths
from iron.ir.core import Kernel

Form = general.Form[Code]


def forms(kernel: Kernel, symbol: str = "") -> Iterator[Form]:
    """The forms of a lowered kernel, best first; all have the entry `symbol`.

    A kernel of bulk copies needs the alignment of tensor maps, and room before some; see there.
    """
    if (better := kernel.preferred) is not None:
        yield ringed(better, symbol)
    yield from general.forms(kernel, lambda body, wide: code_of(body, symbol, frozenset(wide)))


def ringed(better: Kernel, symbol: str = "") -> Form:
    """The form of a kernel of bulk copies."""
    aligned = {m.name: ALIGNMENT for m in distinct(better)}
    code, before = code_of(better, symbol), lengths(better)
    return general.Form(better, code, aligned, regrouped=True, preceded=before)
