"""CPUs: micro-kernels as atoms of one simdgroup, a lane for each column.

`rows` accumulators stand in registers at once: on AVX-512 eight rows of 32 columns are 16
registers, which leaves room for b's row and a broadcast; AVX2 and NEON have half the lanes in
flight. An operand a is uniform: every lane holds it.
"""

from __future__ import annotations

from iron.dtypes import DType, f32, i32
from iron.ir.layout import Layout
from iron.targets.atoms.atom import MatrixAtom, places
from iron.targets.target import Target

LANES = 32
_LANE_BITS = "n1 n2 n4 n8 n16"


def _micro(name: str, rows: int, depth: int, operand: str, acc: DType) -> MatrixAtom:
    """`rows` x 32 x `depth`: `depth` neighbours along k are multiplied and added at once."""
    down = [f"m{1 << i}" for i in range(rows.bit_length() - 1)]
    along = [f"k{1 << i}" for i in range(depth.bit_length() - 1)]
    zero = (0, 0)
    a = Layout(
        (rows, depth),
        tuple((0, 1 << i) for i in range(len(along)))
        + tuple((1 << i, 0) for i in range(len(down))),
        (zero,) * 5,
    )
    b = places("kn", " ".join(along), _LANE_BITS)
    c = places("mn", " ".join(down), _LANE_BITS)
    return MatrixAtom(name, rows, LANES, depth, (operand,), acc, a, b, c, LANES)


OUTER_8 = _micro("outer product f32 8x32", 8, 1, "f32", f32)
OUTER_4 = _micro("outer product f32 4x32", 4, 1, "f32", f32)
DOT_BF16 = _micro("dot of bf16 pairs 8x32", 8, 2, "bf16", f32)
DOT_I8 = _micro("dot of i8 quads 8x32", 8, 4, "i8", i32)

TILE_BF16 = MatrixAtom(
    "tile of bf16 16x16x32", 16, 16, 32, ("bf16",), f32, None, None,
    places("mn", "m1 m2 m4 m8", "n1 n2 n4 n8"), 16,
)  # fmt: skip
"""AMX: operands are rows of 64 bytes in memory, of b pairs along k."""

MATRIX_ATOMS = (OUTER_8, OUTER_4, DOT_BF16, DOT_I8, TILE_BF16)


def outer(target: Target) -> MatrixAtom:
    """The f32 micro-kernel whose accumulators fit the registers of `target`."""
    return OUTER_8 if target.has("avx512") else OUTER_4


def dot(target: Target | None, operand: str) -> MatrixAtom | None:
    """The micro-kernel that sums products of `operand` from memory, where `target` has one."""
    if target is None or operand != "bf16":
        return None
    if target.has("amx-bf16"):
        return TILE_BF16
    return DOT_BF16 if target.has("avx512bf16") else None
