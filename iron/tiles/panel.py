"""`mma` by micro-kernels that read both operands from group memory and add to sums there.

The left operand lies in rows, the right one in panels of a simdgroup's columns with neighbours
along k side by side.
"""

from __future__ import annotations

from iron.ir.core import Kernel, Op, Value
from iron.ir.types import Tile, element
from iron.targets.atoms import cpu
from iron.targets.atoms.atom import MatrixAtom
from iron.targets.target import Target
from iron.tiles import compute
from iron.tiles.emitter import Emitter
from iron.tiles.grid import Grid, products
from iron.tiles.place import STAGED, Plan
from iron.tiles.storage import Private, Shared

LANES = 32
"""Columns of a panel."""


def micro_kernel(
    kernel: Kernel, target: Target | None, plan: Plan, grid: Grid
) -> MatrixAtom | None:
    """What computes all products of `kernel`, where walks are loops and all lanes of a simdgroup
    lie in a row; None when one does not fit."""
    found = list(products(kernel))
    if not plan.looped or not found or (kernel.simd, grid.across) != (LANES, LANES):
        return None
    atom = cpu.dot(target, element(found[0].args[0].type).name)
    return atom if atom is not None and all(_fits(op, atom, plan) for op in found) else None


def _fits(op: Op, atom: MatrixAtom, plan: Plan) -> bool:
    a, b = (v.type for v in op.args[:2])
    assert isinstance(a, Tile)
    assert isinstance(b, Tile)
    (m, k), n = a.shape, b.shape[1]
    return (
        all(t.elem.name in atom.operands for t in (a, b))
        and _lies(op.args[0], "a", plan, computed=True)
        and _lies(op.args[1], "b", plan, computed=False)
        and m % atom.m == 0
        and n % LANES == 0
        and k % atom.k == 0
    )


def _lies(value: Value, role: str, plan: Plan, *, computed: bool) -> bool:
    """Whether an operand is filled for this role alone, or is `computed` and copied in rows."""
    source, turned = value, False
    while source.op is not None and source.op.name == "tile_transpose":
        source, turned = source.op.args[0], not turned
    placed = plan.placed[source]
    if placed.where == STAGED:
        return placed.role == (f"turned {role}" if turned else role)
    return computed and not turned


def multiply(e: Emitter, op: Op, a: Shared, b: Shared, sums: Private) -> None:
    """acc + a @ b, a panel of b outside: it stays near."""
    (value,) = op.results
    assert isinstance(value.type, Tile)
    assert e.micro is not None
    kinds, (rows, columns) = e.plan.kinds[value], value.type.shape
    if e.kept.get(op.args[2]) is not sums:
        e.walk(
            kinds,
            value.type.shape,
            lambda place: e.store(sums, place, compute.chunk(e, op.args[2], place)),
        )
        e.follow(op)
    block = 2 * e.micro.m if e.micro.n < LANES and rows % (2 * e.micro.m) == 0 else e.micro.m

    def over_rows(column: Value) -> None:
        with e.loop(rows, "rows", block) as row:
            args = (sums.array, a.array, b.array, row, column)
            e.b.emit_all("panel_mma", args, (block,))

    with e.loop(columns // LANES, "columns") as column:
        over_rows(column)
    e.kept[value] = sums
