"""The backends `hip-text-32` and `hip-text-64`: HIP on fibres, at both widths of a wave."""

from __future__ import annotations

from iron.backends.hip import HIP
from iron.backends.mma import BUILTINS
from iron.runtime.cache import Cache
from iron.shims.driver import TextDriver
from iron.shims.unit import Vocabulary
from iron.targets.amd import GFX942, GFX1100

MEETS = frozenset(
    {
        *("__builtin_amdgcn_s_barrier", "__builtin_amdgcn_ds_bpermute"),
        *("__builtin_amdgcn_ballot_w32", "__builtin_amdgcn_ballot_w64"),
        *BUILTINS,
    }
)
WORDS = {wave: Vocabulary(dialect, "hip.h", MEETS) for wave, dialect in HIP.items()}
TARGETS = {32: GFX1100, 64: GFX942}


def open_wave32() -> TextDriver:
    """The driver for RDNA's width, with the user's cache of compiled code."""
    return TextDriver("hip-text-32", WORDS[32], TARGETS[32], Cache())


def open_wave64() -> TextDriver:
    """The driver for CDNA's width, with the user's cache of compiled code."""
    return TextDriver("hip-text-64", WORDS[64], TARGETS[64], Cache())
