"""Iron: a kernel language in Python, its compiler, and a library of inference kernels.

Importing it loads the standard library only; what runs kernels is loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from iron import dtypes
from iron.errors import KernelError
from iron.lang.declare import kernel

__version__ = "0.1.0"

__all__ = ["KernelError", "__version__", "dtypes", "kernel"]

_ON_USE = {"device": "iron.runtime.current", "use": "iron.runtime.current"}


def __getattr__(name: str) -> Any:
    if name not in _ON_USE:
        raise AttributeError(f"module 'iron' has no attribute {name!r}")
    return getattr(import_module(_ON_USE[name]), name)
