"""Roles: what of a tile program is left for those who only fill rings."""

from __future__ import annotations

from iron.ir.core import Kernel, Op
from iron.ir.rebuild import replace_blocks
from iron.passes.dead import sliced
from iron.tiles.ring import Ring


def producer(kernel: Kernel, found: tuple[Ring, ...]) -> Kernel:
    """`kernel` with only the reads of rings, the loops and branches around them, and the scalars
    that these need: the reads and their places stay the same, in the same order."""
    sites = {site for ring in found for site in ring.sites}

    def fills(op: Op) -> bool:
        return op.name == "tile_read" and op.attr("site") in sites

    return replace_blocks(kernel, body=sliced(kernel.body, fills))
