"""What verification cannot know of a tile kernel: values that differ between threads, tiles with
two writers, and reads that a pipelined loop may not make early.
"""

from __future__ import annotations

from iron.analysis.uniform import GROUP, Uniformity, spoken, uniformity
from iron.errors import KernelError, error
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const
from iron.ir.table import Trait
from iron.ir.types import Tile


def check_tiles(kernel: Kernel) -> None:
    """Raises E0307 for a tile op, or a store for the whole group, of what differs between threads.

    Raises E0407 for a write to one tile by every group along a launch axis that is known to have
    several, and E0406 for an early read of what its pipelined loop writes.
    """
    _uniform(kernel, uniformity(kernel), kernel.body)
    _one_writer(kernel)
    for op in kernel.body.walk():
        if op.name == "for" and op.attr("stages"):
            _early(kernel, op)


# --- what differs between threads -----------------------------------------------------------------


def _uniform(kernel: Kernel, u: Uniformity, block: Block) -> None:
    for op in block.ops:
        if _for_the_group(op):
            for value in op.args:
                if u.of(value) != GROUP:
                    raise _varying(kernel, op, value)
        control = op.args[:1] if op.name == "if" else op.args[:3]
        if op.regions and all(u.of(v) == GROUP for v in control):
            for region in op.regions:
                _uniform(kernel, u, region)


def _for_the_group(op: Op) -> bool:
    """True for what the group does as one: tile ops, and stores outside a shared loop."""
    if op.name in ("store", "atomic"):
        return True
    return op.row.has(Trait.COLLECTIVE | Trait.TILE) or any(
        isinstance(a.type, Tile) for a in op.args
    )


def _varying(kernel: Kernel, op: Op, value: Value) -> KernelError:
    once = op.name in ("store", "atomic")
    what = f"`{op.surface}`" + (", done once for the group," if once else "")
    return error(
        "E0307",
        f"{what} takes {spoken(value)}, which differs between threads",
        op.loc,
        kernel.name,
        help="combine it first: `group_sum(s)`, `group_max(s)`, ..",
    )


# --- writers --------------------------------------------------------------------------------------


def _one_writer(kernel: Kernel) -> None:
    extents = kernel.host.yielded[: kernel.rank]
    several = {i for i, e in enumerate(extents) if is_const(e) and const_of(e) > 1}
    parameters = set(kernel.body.params)
    if several:
        _written(kernel, kernel.body, several, parameters, {})


def _written(
    kernel: Kernel,
    block: Block,
    several: set[int],
    parameters: set[Value],
    counters: dict[Value, Op],
) -> None:
    """Refuses writes in a block that every group reaches."""
    for op in block.ops:
        if op.name in ("tile_write", "tile_scatter") and op.args[0] in parameters:
            places = op.args[1:-1]
            free = several.difference(*(_axes(v, parameters, counters, several) for v in places))
            if free:
                raise _two_writers(kernel, op, min(free))
        if op.name == "for" and not any(
            _axes(v, parameters, counters, several) for v in op.args[:3]
        ):
            (body,) = op.regions
            _written(kernel, body, several, parameters, {**counters, body.params[0]: op})


def _axes(
    value: Value, parameters: set[Value], counters: dict[Value, Op], several: set[int]
) -> set[int]:
    """The launch axes that `value` may depend on; all where it is not known."""
    if value in parameters:
        return set()
    if value in counters:
        return set[int]().union(
            *(_axes(v, parameters, counters, several) for v in counters[value].args[:3])
        )
    op = value.op
    if op is None or op.regions:
        return several
    if op.name == "group":
        return {op.attr("axis")}
    return set[int]().union(*(_axes(v, parameters, counters, several) for v in op.args))


def _two_writers(kernel: Kernel, op: Op, axis: int) -> KernelError:
    return error(
        "E0407",
        f"every group along axis {axis} of the launch writes the same tile of `{op.args[0].name}`",
        op.loc,
        kernel.name,
        help=f"the indices of the tile do not depend on index {axis} of `groups`: use it",
    )


# --- early reads ----------------------------------------------------------------------------------


def _early(kernel: Kernel, loop: Op) -> None:
    (body,) = loop.regions
    inside = list(body.walk())
    made = {r for op in inside for r in op.results}
    written = {op.args[0] for op in inside if op.row.has(Trait.WRITES) and op.args} - made
    later = set(body.params[1:])  # what a turn knows only after the one before
    for op in inside:
        held = op.row.has(Trait.TILE | Trait.READS) and op.name != "tile_stage"
        if held and op.args[0] in written and not any(_depends(v, later) for v in op.args[1:]):
            raise error(
                "E0406",
                f"`{op.args[0].name or 'the array'}` is read early and written in one loop",
                op.loc,
                kernel.name,
                help="use `range`, whose turns follow each other",
            )


def _depends(value: Value, later: set[Value]) -> bool:
    op = value.op
    if op is None:
        return value in later
    return bool(op.regions) or any(_depends(v, later) for v in op.args)
