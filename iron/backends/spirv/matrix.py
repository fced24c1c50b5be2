"""Matrices that the lanes of a subgroup hold together (SPV_KHR_cooperative_matrix).

How the elements lie in the lanes is the device's secret: a matrix is loaded from memory, multiplied
and stored as a whole. A module with one has the Vulkan memory model, in which every access that
other threads take part in says so (`SHARED`), and barriers make it `VISIBLE`.

Source: SPV_KHR_cooperative_matrix, revision 8; SPV_KHR_bfloat16 for matrices of bf16.
"""

from __future__ import annotations

from enum import IntEnum

from iron.backends.spirv.module import Module
from iron.backends.spirv.words import BFLOAT16, Capability, Code, Scope
from iron.dtypes import DType, bf16, f16, f32, i32, u32

EXTENSION = "SPV_KHR_cooperative_matrix"
BFLOAT_EXTENSION = "SPV_KHR_bfloat16"


class Use(IntEnum):
    """What a matrix is in D = A B + C; C and D are accumulators."""

    A = 0
    B = 1
    ACCUMULATOR = 2


class Layout(IntEnum):
    """Whether neighbours in memory are neighbours of a row or of a column."""

    ROWS = 0
    COLUMNS = 1


def component(m: Module, dtype: DType) -> int:
    """The type of an element. ValueError for one that no device multiplies."""
    if dtype is f32:
        return m.f32
    if dtype is f16:
        m.need(Capability.Float16)
        return m.once(Code.TypeFloat, 16)
    if dtype is bf16:
        m.need(Capability.BFloat16Type, Capability.BFloat16CooperativeMatrix)
        m.extend(BFLOAT_EXTENSION)
        return m.once(Code.TypeFloat, 16, BFLOAT16)
    if dtype.kind in "iu" and dtype.bits == 8:
        m.need(Capability.Int8)
        return m.once(Code.TypeInt, 8, int(dtype.kind == "i"))
    if dtype in (i32, u32):
        return m.once(Code.TypeInt, 32, int(dtype is i32))
    raise ValueError(f"no cooperative matrix has elements of {dtype}")


def matrix(m: Module, dtype: DType, rows: int, columns: int, use: Use) -> int:
    """The type of a matrix of the subgroup."""
    m.need(Capability.CooperativeMatrix, Capability.VulkanMemoryModel)
    m.extend(EXTENSION)
    sizes = (m.number(n) for n in (Scope.Subgroup, rows, columns, use))
    return m.once(Code.TypeCooperativeMatrix, component(m, dtype), *sizes)


def filled(m: Module, type: int, value: int) -> int:
    """A matrix of copies of a number."""
    return m.put(Code.CompositeConstruct, type, value)


def load(m: Module, type: int, pointer: int, layout: Layout, stride: int, *seen: int) -> int:
    """A matrix from memory, whose rows (or columns) are `stride` elements of memory apart.

    `pointer` points to the first element, which may be a scalar or a vector of any type. `seen` is
    `SHARED` where other threads wrote it.
    """
    return m.put(Code.CooperativeMatrixLoad, type, pointer, m.number(layout), stride, *seen)


def store(m: Module, pointer: int, value: int, layout: Layout, stride: int, *seen: int) -> None:
    """A matrix to memory, as `load`."""
    m.do(Code.CooperativeMatrixStore, pointer, value, m.number(layout), stride, *seen)


SHARED = 0x20
"""NonPrivatePointer: of accesses that other threads see or made, behind barriers of `VISIBLE`."""
VISIBLE = 0x6000
"""MakeAvailable and MakeVisible, of a barrier's semantics."""


def muladd(m: Module, a: int, b: int, c: int, *, signed: bool = False) -> int:
    """a b + c; products of integers are of signed ones with `signed`."""
    extra = (SIGNED,) if signed else ()
    return m.put(Code.CooperativeMatrixMulAdd, m.types[c], a, b, c, *extra)


SIGNED = 0xF
"""MatrixASignedComponents and those of B, C and the result."""
