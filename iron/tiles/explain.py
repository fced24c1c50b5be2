"""What `place` decided, for a person: where each tile value is kept, why, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.types import Tile
from iron.targets.target import Target
from iron.tiles.grid import Grid, grid
from iron.tiles.matrix import matrix_grid
from iron.tiles.opaque import opaque_grid
from iron.tiles.place import FRAGMENT, Plan, place
from iron.tiles.table import table


@dataclass(frozen=True, slots=True)
class Row:
    """One tile value: `cost` is one of `ir.layout.COSTS`, paid once for each time it is made."""

    line: int
    name: str
    type: str
    where: str
    reason: str
    cost: str
    looped: bool


def explain(kernel: Kernel, target: Target | None = None) -> str:
    """The group of threads, a line for each tile value, and each round through group memory that
    a loop repeats for a value that is not read from a tensor."""
    simdgroups = matrix_grid(kernel, target) or opaque_grid(kernel, target)
    shape = simdgroups or grid(kernel, target)
    rows = list(_rows(kernel.body, place(kernel, shape), looped=False))
    heads = ("line", "value", "type", "where", "cost", "why")
    cells = [(str(r.line or ""), r.name, r.type, r.where, r.cost, r.reason) for r in rows]
    lines = [_group(shape), "", table(heads, cells).rstrip("\n")]
    lines += [
        f"warning: line {r.line}: {r.name} goes through group memory in each turn of a loop"
        for r in rows
        if r.cost == "shared" and r.looped and not r.name.startswith("tile_read")
    ]
    return "\n".join(lines) + "\n"


def _group(shape: Grid) -> str:
    how = "products of simdgroups" if shape.multiplies else "fused multiply-adds"
    kept = "in memory, walked by loops" if shape.looped else "in registers"
    return f"{shape.threads} threads: {shape.down} rows of {shape.across}; {how}; fragments {kept}"


def _rows(block: Block, plan: Plan, *, looped: bool) -> Iterator[Row]:
    for op in block.ops:
        for region in op.regions:
            for param in region.params:
                if isinstance(param.type, Tile):
                    yield _row(param, op, plan, looped=looped)
            yield from _rows(region, plan, looped=looped or op.name == "for")
        for value in op.results:
            if isinstance(value.type, Tile):
                yield _row(value, op, plan, looped=looped)


def _row(value: Value, op: Op, plan: Plan, *, looped: bool) -> Row:
    placed = plan.placed[value]
    named = f" {value.name}" if value.name else ""
    where = placed.where
    if where == FRAGMENT:
        where += f" {' x '.join(plan.kinds[value])}"
    line = op.loc.line if op.loc is not None else 0
    title = f"{op.name}{named}"
    return Row(line, title, repr(value.type), where, placed.reason, placed.cost, looped)
