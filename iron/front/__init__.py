"""The front end: a kernel function's source and a binding become IR; nothing below is known here.

A kernel is read by abstract interpretation of its syntax tree: a name is a run-time value, a view
of memory, or an ordinary Python object, and an expression of Python objects alone is computed by
Python.
"""

from iron.front.bind import Binding, PackedArg, TensorArg, bind
from iron.front.kernel import read_kernel as trace
from iron.front.scope import Specialise
from iron.front.specialise import Traced, specialise, traced

__all__ = [
    "Binding",
    "PackedArg",
    "Specialise",
    "TensorArg",
    "Traced",
    "bind",
    "specialise",
    "trace",
    "traced",
]
