"""The interpreter: the meaning of a kernel, on numpy, with every check a run can make.

Groups run in chunks of about 4096 lanes in lockstep, those of a tile kernel in chunks of about a
quarter of a million tile elements. Always checked: indices (E0404), reads of
elements nobody wrote and outputs left unwritten (E0402), collectives that part of a group reaches
(E0312) and races between two threads, of one group or of two (E0410). Faults name the user's line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from iron.errors import error
from iron.ir import scalar
from iron.ir.core import Kernel, tiled
from iron.ir.host import host_scalar
from iron.ir.interp import collectives, control, copy, fragment, matrix, memory, tile
from iron.ir.interp.machine import Machine
from iron.ir.interp.races import LANE_MASK

__all__ = ["CHUNK", "run"]

CHUNK = 4096  # lanes; larger arrays fall out of the cache

_HANDLERS = {
    **control.HANDLERS,
    **collectives.HANDLERS,
    **memory.HANDLERS,
    **copy.HANDLERS,
    **tile.HANDLERS,
    **matrix.HANDLERS,
    **fragment.HANDLERS,
}


def run(
    kernel: Kernel,
    arrays: Mapping[str, Any],
    scalars: Mapping[str, Any],
    dims: Mapping[str, int],
    grid: tuple[int, ...],
    checks: bool = True,
    partial: frozenset[str] = frozenset(),
) -> None:
    """Runs every group of `grid`, writing the tensors of `arrays` in place.

    `arrays` holds one numpy array for each tensor parameter, of any signed strides. Outputs that
    are declared partial or named in `partial` may keep unwritten elements. `checks=False` leaves
    out races and initialisation.
    Raises KernelError E0312, E0402, E0404 or E0410.
    """
    m = Machine(kernel, _HANDLERS, grid, checks, tiled=tiled(kernel))
    given: dict[str, Any] = {**scalars, **dims}
    for param, value in zip(kernel.params, kernel.body.params, strict=True):
        if param.role == "tensor":
            m.buffers[value] = memory.parameter(m, param.name, value, arrays)
        else:
            m.env[value] = host_scalar(given[param.name], value)
    groups = math.prod(grid)
    if groups * m.parties > LANE_MASK:
        raise error("E0602", "the interpreter runs fewer than 2^32 threads", kernel=kernel.name)
    step = max(1, CHUNK // kernel.threads)
    if m.tiled:
        step = max(1, tile.CHUNK // tile.largest(kernel))
    with scalar.quiet():
        for first in range(0, groups, step):
            m.open_chunk(first, min(step, groups - first))
            m.block(kernel.body, None)
    declared = {p.name for p in kernel.params if p.partial}
    memory.unwritten(m, partial | declared)
