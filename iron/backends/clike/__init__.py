"""C-style text of lowered kernels: one renderer, and a dialect record for each language."""

from iron.backends.clike.dialect import Dialect
from iron.backends.clike.render import Text, render

__all__ = ["Dialect", "Text", "render"]
