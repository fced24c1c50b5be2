"""AMD: MFMA of CDNA on waves of 64, WMMA of RDNA on waves of 32.

Source: AMD's instruction set guides of CDNA 3, "Matrix Arithmetic Instructions", RDNA 3 and RDNA 4,
"Wave Matrix Multiply Accumulate".
"""

from __future__ import annotations

from iron.dtypes import f32, i32
from iron.targets.atoms.atom import MatrixAtom, places

MFMA_16 = MatrixAtom(
    *("v_mfma_f32_16x16x16", 16, 16, 16),
    ("f16", "bf16"),
    f32,
    places("mk", "k1 k2", "m1 m2 m4 m8 k4 k8"),
    places("kn", "k1 k2", "n1 n2 n4 n8 k4 k8"),
    places("mn", "m1 m2", "n1 n2 n4 n8 m4 m8"),
    64,
)
MFMA_32 = MatrixAtom(
    *("v_mfma_f32_32x32x8", 32, 32, 8),
    ("f16", "bf16"),
    f32,
    places("mk", "k1 k2", "m1 m2 m4 m8 m16 k4"),
    places("kn", "k1 k2", "n1 n2 n4 n8 n16 k4"),
    places("mn", "m1 m2 m8 m16", "n1 n2 n4 n8 n16 m4"),
    64,
)
WMMA_16_RDNA3 = MatrixAtom(
    *("v_wmma_f32_16x16x16", 16, 16, 16),
    ("f16", "bf16"),
    f32,
    places("mk", "k1 k2 k4 k8", "m1 m2 m4 m8 ."),
    places("kn", "k1 k2 k4 k8", "n1 n2 n4 n8 ."),
    places("mn", "m2 m4 m8", "n1 n2 n4 n8 m1"),
    32,
)
"""Operands stand twice, once in each half of the wave."""
WMMA_16_RDNA3_I8 = MatrixAtom(
    *("v_wmma_i32_16x16x16", 16, 16, 16),
    ("i8",),
    i32,
    WMMA_16_RDNA3.a,
    WMMA_16_RDNA3.b,
    WMMA_16_RDNA3.acc,
    32,
)
WMMA_16_RDNA4 = MatrixAtom(
    *("v_wmma_f32_16x16x16", 16, 16, 16),
    ("f16", "bf16"),
    f32,
    places("mk", "k1 k2 k4", "m1 m2 m4 m8 k8"),
    places("kn", "k1 k2 k4", "n1 n2 n4 n8 k8"),
    places("mn", "m1 m2 m4", "n1 n2 n4 n8 m8"),
    32,
)
MATRIX_ATOMS = (MFMA_16, MFMA_32, WMMA_16_RDNA3, WMMA_16_RDNA3_I8, WMMA_16_RDNA4)
