"""NVIDIA: mma.sync, wgmma, ldmatrix and stmatrix, and how wgmma finds operands in group memory.

Source: PTX ISA 9.0, "Matrix Fragments for mma.m16n8k16" and its neighbours, "Register Fragments
and Shared Memory Matrix Layouts" of wgmma, "Matrix Descriptor", "Swizzling Modes". Words of 32 bits
are listed element by element: the lowest bits of a register number count inside a word.
"""

from __future__ import annotations

from dataclasses import dataclass

from iron.dtypes import DType, f32, i32
from iron.ir.linear import Linear
from iron.targets.atoms.atom import CopyAtom, MatrixAtom, places

LANES = 32
ACCUMULATOR = places("mn", "n1 m8", "n2 n4 m1 m2 m4")
"""16 x 8, the same for every mma.sync."""


def _mma(name: str, k: int, operands: tuple[str, ...], acc: DType, *, word: int) -> MatrixAtom:
    """An mma.sync of 16 x 8 x k whose words hold `word` neighbours along k."""
    inside = [f"k{1 << i}" for i in range(word.bit_length() - 1)]
    lanes = f"k{word} k{2 * word}"
    a = places("mk", " ".join([*inside, "m8", f"k{4 * word}"]), f"{lanes} m1 m2 m4")
    b = places("kn", " ".join([*inside, f"k{4 * word}"]), f"{lanes} n1 n2 n4")
    return MatrixAtom(name, 16, 8, k, operands, acc, a, b, ACCUMULATOR, LANES)


MMA_16 = _mma("mma.sync.m16n8k16", 16, ("f16", "bf16"), f32, word=2)
MMA_TF32 = _mma("mma.sync.m16n8k8", 8, ("tf32",), f32, word=1)
"""Operands are f32 in memory, of which the unit reads the bits of tf32."""
MMA_S8 = _mma("mma.sync.m16n8k32", 32, ("i8",), i32, word=4)
MMA_F8 = _mma("mma.sync.m16n8k32", 32, ("e4m3", "e5m2"), f32, word=4)

WARPGROUP = 4


def wgmma(n: int, operand: str, *, a_in_registers: bool = False) -> MatrixAtom:
    """wgmma of 64 x n x 32 bytes: four simdgroups, one below the other; b in group memory.

    `n` is a multiple of 8 up to 256. A 16-bit `a` may come from registers, and so may tf32 and 8
    bits in the layout of their mma.sync.
    """
    per_sync = next(x for x in (MMA_16, MMA_TF32, MMA_S8, MMA_F8) if operand in x.operands)
    below = per_sync.a
    assert below is not None
    a = below.across(0, WARPGROUP) if a_in_registers else None
    acc = ACCUMULATOR.across(0, WARPGROUP).repeat(1, n // 8)
    name = f"wgmma.m64n{n}k{per_sync.k}"
    total = per_sync.accumulator
    return MatrixAtom(name, 64, n, per_sync.k, (operand,), total, a, None, acc, LANES, WARPGROUP)


_FOUR = places("mn", "n1 m8 n8", "n2 n4 m1 m2 m4")
_FOUR_ROWS = places("mn", "n1 n2 n4", "m1 m2 m4 m8 n8")
LDMATRIX_4 = CopyAtom("ldmatrix.x4.b16", ("f16", "bf16"), _FOUR, _FOUR_ROWS)
STMATRIX_4 = CopyAtom("stmatrix.x4.b16", ("f16", "bf16"), _FOUR, _FOUR_ROWS)
"""Four 8 x 8 matrices: the second lies below the first, the other two beside them."""

MATRIX_ATOMS = (
    *(MMA_16, MMA_TF32, MMA_S8, MMA_F8),
    *(wgmma(n, "bf16", a_in_registers=True) for n in (64, 96, 128, 256)),
    *(wgmma(n, name) for n in (128, 256) for name in ("f16", "tf32", "e4m3", "i8")),
)
COPY_ATOMS = (LDMATRIX_4, STMATRIX_4)

SWIZZLE_BYTES = (128, 64, 32)
CHUNK = 16
"""Bytes that a swizzle moves as one, and the unit of a descriptor's fields."""


def swizzle(span: int) -> Linear:
    """Where a byte of a tile with rows of `span` bytes lies: chunks xor the number of their row.

    The map repeats every 1024 bytes. `span` is one of `SWIZZLE_BYTES`.
    """
    bits = (span // CHUNK).bit_length() - 1
    images = [1 << i for i in range(10)]
    for i in range(bits):
        images[7 + i] ^= 1 << (4 + i)
    return Linear(tuple(images), 10)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a descriptor: its lowest bit, its width, and the bytes that a unit stands for."""

    name: str
    low: int
    width: int
    unit: int = CHUNK


DESCRIPTOR = (
    Field("address", 0, 14),
    Field("leading", 16, 14),
    Field("stride", 32, 14),
    Field("offset", 49, 3, 1),
    Field("mode", 62, 2, 1),
)
MODES = {0: 0, 128: 1, 64: 2, 32: 3}
"""The swizzle's span in bytes to the descriptor's mode."""


@dataclass(frozen=True, slots=True)
class Operand:
    """How wgmma walks an operand: byte distances, and the address step of one k instruction."""

    leading: int
    stride: int
    step: int
    transposed: bool


def operand(k_major: bool, span: int, rows: int, depth: int) -> Operand:
    """The walk through a tile of `rows` (along m or n) by `depth` (along k, elements).

    `span` is the swizzle's or 0 for none; an operand that is not k-major has 16-bit elements.
    """
    if k_major:
        return (
            Operand(16, 8 * span, 32, False) if span else Operand(rows * 16, 128, rows * 32, False)
        )
    if span:
        return Operand(depth * span, 8 * span, 16 * span, True)
    return Operand(128, depth * 16, 256, True)
