"""Apple: simdgroup_matrix 8 x 8, two elements a lane.

The order of `thread_elements()` is not in Apple's specification; source: MLX,
mlx/backend/metal/kernels/steel/gemm/mma.h, `BaseMMAFrag<T, 8, 8>::get_coord`.
"""

from __future__ import annotations

from iron.dtypes import f32
from iron.targets.atoms.atom import MatrixAtom, places

LANES = 32
_AS_ACC = "c1", "c2 r1 r2 c4 r4"
SIMDGROUP_8 = MatrixAtom(
    *("simdgroup_matrix_8x8", 8, 8, 8),
    ("f16", "bf16", "f32"),
    f32,
    places("rc", *_AS_ACC),
    places("rc", *_AS_ACC),
    places("rc", *_AS_ACC),
    LANES,
)
MATRIX_ATOMS = (SIMDGROUP_8,)
