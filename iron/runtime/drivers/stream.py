"""Which stream a launch goes to: the one that is current in the library of the arguments."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


def default() -> int:
    """The legacy default stream, which waits for and is waited for by all blocking streams."""
    return 0


def of(arrays: Mapping[str, Any], ordinal: int) -> Callable[[], int]:
    """A function that names the current stream at each launch.

    CuPy's for arrays of CuPy; PyTorch's wherever PyTorch is in use; else the default stream.
    """
    libraries = {type(a.source).__module__.partition(".")[0] for a in arrays.values()}
    if "cupy" in libraries and "torch" not in libraries:
        return _cupy()
    torch = sys.modules.get("torch")
    if torch is None or not ("torch" in libraries or torch.cuda.is_initialized()):
        return default
    current = getattr(torch._C, "_cuda_getCurrentRawStream", None)
    if current is None:  # a build of PyTorch without CUDA
        return default
    return lambda: current(ordinal)


def _cupy() -> Callable[[], int]:
    stream = sys.modules["cupy"].cuda.get_current_stream
    return lambda: stream().ptr
