"""The backend `cuda-text`: CUDA C++ on fibres, for the oldest GPU that Iron writes for."""

from __future__ import annotations

from iron.backends import mma
from iron.backends.cuda import CUDA
from iron.backends.cuda_forms import forms
from iron.runtime.cache import Cache
from iron.shims.driver import TextDriver
from iron.shims.unit import Vocabulary
from iron.targets.nvidia import SM_80

MEETS = frozenset(
    {
        *("__syncthreads", "__syncwarp", "__ballot_sync", "__shfl_sync"),
        *("__shfl_xor_sync", "__shfl_up_sync", "__shfl_down_sync"),
        *mma.CUDA,
    }
)
_PRODUCTS = {
    mma.instruction(e): f"ptx_mma_{e}(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1);" for e in mma.FORMATS
}
WORDS = Vocabulary(CUDA, "cuda.h", MEETS, _PRODUCTS, forms=forms)


def open_driver() -> TextDriver:
    """The driver, with the user's cache of compiled code."""
    return TextDriver("cuda-text", WORDS, SM_80, Cache())
