"""The backend `cuda-text`: CUDA C++ on fibres, for the oldest GPU that Iron writes for."""

from __future__ import annotations

from iron.backends import mma, sm80
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
        *sm80.LOADS,
    }
)
_PRODUCTS = {
    mma.instruction(e): f"ptx_mma_{e}(c0, c1, c2, c3, a0, a1, a2, a3, b0, b1);" for e in mma.FORMATS
}
_LOADS = {
    sm80.instruction(*of): f"ptx_ldmatrix<{int(of[1])}>"
    f"({', '.join(['at', *(f'w{i}' for i in range(of[0]))])});"
    for of in sm80.LOADS.values()
}
_COPIES = {
    sm80.COPY: "ptx_cp_async(to, from);",
    sm80.COMMIT: "ptx_cp_async_commit();",
    sm80.WAIT: "ptx_cp_async_wait(pending);",
}
_REPLACED = {**_PRODUCTS, **_LOADS, **_COPIES}
WORDS = Vocabulary(CUDA, "cuda.h", MEETS, _REPLACED, forms=forms)


def open_driver() -> TextDriver:
    """The driver, with the user's cache of compiled code."""
    return TextDriver("cuda-text", WORDS, SM_80, Cache())
