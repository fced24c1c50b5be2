"""Specialisation on demand: read, restart with the dims that had to be numbers, and remember."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from iron.dtypes import DType, i32, i64
from iron.front.bind import Binding
from iron.front.kernel import read_kernel
from iron.front.scope import Specialise
from iron.front.state import Capture
from iron.ir.core import Kernel
from iron.lang.declare import KernelFunction

LIMIT = 1 << 31


@dataclass(frozen=True, slots=True)
class Traced:
    """A kernel in IR with what it depends on beyond the binding's dtypes and Consts.

    `fixed` are the dims that are numbers in it; `captured` the names outside it that it read.
    """

    kernel: Kernel
    fixed: dict[str, int]
    captured: tuple[Capture, ...]

    @property
    def current(self) -> bool:
        """True while every captured name still means the same."""
        return all(c.holds() for c in self.captured)


@dataclass(slots=True)
class _Known:
    """What earlier readings of one form of a kernel found."""

    dims: frozenset[str] = frozenset()
    each: bool = False
    made: dict[Hashable, Traced] = field(default_factory=dict[Hashable, Traced])


_KNOWN: WeakKeyDictionary[KernelFunction, dict[Hashable, _Known]] = WeakKeyDictionary()


def specialise(fn: KernelFunction, binding: Binding, simd: int) -> Kernel:
    """The kernel for `binding`; the same object for every binding that it serves."""
    return traced(fn, binding, simd).kernel


def traced(fn: KernelFunction, binding: Binding, simd: int) -> Traced:
    """As `specialise`, with the dims it is fixed to and the names it captured."""
    known = _KNOWN.setdefault(fn, {}).setdefault(_form(binding, simd), _Known())
    found = known.made.get(_numbers(known, binding))
    if found is not None and found.current:
        return found
    made = _read(fn, binding, simd, known)
    known.made[_numbers(known, binding)] = made
    return made


def _read(fn: KernelFunction, binding: Binding, simd: int, known: _Known) -> Traced:
    while True:
        index = index_dtype(binding, known.each)
        try:
            kernel, captured = read_kernel(
                fn, binding, simd=simd, specialised=known.dims, index=index
            )
        except Specialise as more:
            known.dims |= more.dims
            continue
        known.each = kernel.each
        if index_dtype(binding, known.each) is index:
            fixed = {d: binding.dims[d] for d in sorted(known.dims) if d in binding.dims}
            return Traced(kernel, fixed, captured)


def index_dtype(binding: Binding, each: bool) -> DType:
    """i32, or i64 when an axis, or the element count of an `each` kernel's tensor, needs it."""
    args = [a for a in binding.tensors.values() if a is not None]
    args += [p for a in binding.packed.values() if a is not None for p in a.planes.values()]
    longest = max((n for a in args for n in (*a.shape, 0)), default=0)
    if each:
        longest = max([longest, *(math.prod(a.shape) for a in args)])
    return i64 if longest >= LIMIT else i32


def _form(binding: Binding, simd: int) -> Hashable:
    """What a reading depends on apart from the values of dims and the index dtype."""
    tensors = tuple(
        (n, None if a is None else (a.dtype, len(a.shape))) for n, a in binding.tensors.items()
    )
    packed = tuple(
        (
            n,
            None
            if a is None
            else (a.format.name, tuple((p, t.dtype) for p, t in a.planes.items())),
        )
        for n, a in binding.packed.items()
    )
    consts = tuple((n, *_const_key(v)) for n, v in binding.consts.items())
    dtypes = tuple(binding.dtypes.items())
    return (simd, tensors, packed, consts, dtypes, tuple(binding.scalars.items()))


def _const_key(value: Any) -> tuple[Any, ...]:
    """A Const by type and value: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, float):
        return ("float", value.hex())
    if isinstance(value, tuple | list):
        return (type(value).__name__, *(_const_key(v) for v in value))
    if isinstance(value, np.generic | np.ndarray):
        return (str(value.dtype), value.shape, value.tobytes())
    try:
        hash(value)
    except TypeError:
        return ("same", _Same(value))
    return (type(value).__name__, value)


@dataclass(frozen=True, slots=True, eq=False)
class _Same:
    """A Const that cannot be compared: only the very same object counts as equal."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def _numbers(known: _Known, binding: Binding) -> Hashable:
    fixed = tuple((d, binding.dims[d]) for d in sorted(known.dims) if d in binding.dims)
    return (fixed, index_dtype(binding, known.each))
