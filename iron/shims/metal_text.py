"""The backend `msl-text`: Metal on fibres."""

from __future__ import annotations

from iron.backends import msl_matrix
from iron.backends.clike.render import Text
from iron.backends.msl import MSL
from iron.runtime.cache import Cache
from iron.shims.driver import TextDriver
from iron.shims.unit import Vocabulary
from iron.targets.apple import APPLE7

MEETS = frozenset(
    {
        *("threadgroup_barrier", "simd_ballot", "simd_shuffle_xor", "simd_shuffle_up"),
        *msl_matrix.MEETS,
    }
)


def _call(text: Text) -> list[str]:
    """Buffers as pointers into `device`, the rest as the structure in `constant`."""
    numbered = list(enumerate(text.arguments))
    given = [
        f"fibre_pointer<device {'' if a.written else 'const '}{a.dtype}*>(given[{n}])"
        for n, a in numbered
        if a.pointer
    ]
    values = [f"fibre_bits<{a.dtype}>(given[{n}])" for n, a in numbered if not a.pointer]
    lines: list[str] = []
    if values:
        name = f"{text.symbol}_arguments"
        lines = [f"  const {name} values = {{{', '.join(values)}}};"]
        given.append(f"*fibre_pointer<constant {name}*>((unsigned long long)&values)")
    given += ["fibre_group()", "fibre_simdgroup()", "fibre_lane()"]
    return [*lines, f"  {text.symbol}({', '.join(given)});"]


WORDS = Vocabulary(MSL, "metal.h", MEETS, {"#include <metal_stdlib>\n": ""}, _call)


def open_driver() -> TextDriver:
    """The driver, with the user's cache of compiled code."""
    return TextDriver("msl-text", WORDS, APPLE7, Cache())
