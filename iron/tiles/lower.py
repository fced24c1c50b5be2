"""A tile kernel becomes a kernel of threads: every op of the source in order, by its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from iron.analysis.budget import shared_bytes
from iron.dtypes import i32
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.types import Tile
from iron.targets.target import Target
from iron.tiles import access, compute, control, multiply, panel, staging
from iron.tiles.emitter import Emitter, named
from iron.tiles.grid import Grid, grid
from iron.tiles.matrix import matrix_grid
from iron.tiles.opaque import opaque_grid
from iron.tiles.peel import peel
from iron.tiles.place import place
from iron.tiles.reduce import reduce
from iron.tiles.widen import widen

MOST_STAGES = 16
"""Slots of an operand; more turns do not wait for memory."""
REBUILT_OPS = ("tile_full", "tile_iota", "tile_expand", "tile_broadcast", "tile_transpose")


def threads(kernel: Kernel, target: Target | None = None) -> Kernel:
    """`kernel` with its tiles on the threads of a group; the interpreter needs no target.

    The group's size is chosen here. Every shape and dtype has this form. Where its slots are more
    than the target's group memory, loops have fewer.
    """
    kernel = widen(kernel)
    simdgroups = matrix_grid(kernel, target) or opaque_grid(kernel, target)
    shape = simdgroups or grid(kernel, target)
    if shape.matrix is not None and shape.matrix.loads:
        kernel = peel(kernel)  # beside such products a mask in each turn would be seen
    made = _on(kernel, target, shape, MOST_STAGES)
    stages = min(MOST_STAGES, max((op.attr("stages") for op in _loops(kernel)), default=0))
    while target is not None and stages > 1 and shared_bytes(made) > target.shared_bytes:
        stages -= 1
        made = _on(kernel, target, shape, stages)
    if shape.opaque and target is not None and shared_bytes(made) > target.shared_bytes:
        return _on(kernel, target, grid(kernel, target), stages)  # without blocks of sums
    return made


def _loops(kernel: Kernel) -> Iterator[Op]:
    return (op for op in kernel.body.walk() if op.name == "for")


def _on(kernel: Kernel, target: Target | None, shape: Grid, stages: int) -> Kernel:
    """The kernel of threads whose loops copy operands at most `stages` - 1 turns early."""
    e = Emitter(kernel, target, shape, place(kernel, shape), stages)
    e.micro = panel.micro_kernel(kernel, target, e.plan, shape)
    params = [Value(p.type, None, p.name) for p in kernel.body.params]
    e.values.update(zip(kernel.body.params, params, strict=True))
    with e.b.block(params) as body:
        _block(e, kernel.body)
    body.ops[:0] = e.entry.ops
    return replace(kernel, body=body, threads=e.grid.threads)


def _block(e: Emitter, block: Block) -> None:
    """Every op but the closing `yield`."""
    for op in block.ops:
        if op.name != "yield":
            _op(e, op)


def _op(e: Emitter, op: Op) -> None:
    e.follow(op)
    rule = RULES.get(op.name)
    if rule is not None:
        rule(e, op)
    elif op.name == "for":
        control.loop(e, op, _block)
    elif op.name == "if":
        control.branch(e, op, _block)
    elif any(isinstance(r.type, Tile) for r in op.results):
        if op.name not in REBUILT_OPS:
            compute.computed(e, op)
    else:
        _thread_level(e, op)


def _thread_level(e: Emitter, op: Op) -> None:
    """An op of scalars, as it is; a write that the group does once, by its first thread."""
    args = tuple(e.values[a] for a in op.args)
    regions = tuple(_region(e, r) for r in op.regions)
    e.follow(op)
    if op.name in ("store", "atomic") and not e.apart and not any(a in e.varying for a in op.args):
        _once(e, op, args)
        return
    results = e.b.emit_all(op.name, args, op.attrs, regions, op.surface)
    for old, new in zip(op.results, results, strict=True):
        e.values[old] = named(new, old.name)


def _region(e: Emitter, region: Block) -> Block:
    """The function of a collective."""
    params = [Value(p.type, None, p.name) for p in region.params]
    e.values.update(zip(region.params, params, strict=True))
    with e.b.block(params) as new:
        _block(e, region)
        e.b.emit_all("yield", tuple(e.values[v] for v in region.yielded))
    return new


def _once(e: Emitter, op: Op, args: tuple[Value, ...]) -> None:
    first = e.b.emit("eq", e.b.emit("thread", attrs=(i32,)), e.b.const(0, i32))
    if op.name == "store":
        with e.only(first):
            e.b.emit_all("store", args, op.attrs)
        return
    elem = op.results[0].type
    zero = e.b.const(0, elem)
    (old,) = e.branch(first, lambda: e.b.emit_all("atomic", args, op.attrs), lambda: [zero])
    pair = Value(elem, None, "a"), Value(elem, None, "b")
    with e.b.block(pair) as body:
        e.b.emit_all("yield", (e.b.emit("or", *pair),))
    e.values[op.results[0]] = e.b.emit("reduce", old, attrs=(0,), regions=(body,))


def _count(e: Emitter, op: Op) -> None:
    e.values[op.results[0]] = e.b.const(e.grid.threads, op.attr("dtype"))


def _barrier(e: Emitter, op: Op) -> None:
    e.fence.barrier(e.b)


RULES: dict[str, Callable[[Emitter, Op], None]] = {
    "threads": _count,
    "barrier": _barrier,
    "tile_read": staging.read,
    "tile_write": access.write,
    "tile_gather": access.gather,
    "tile_scatter": access.scatter,
    "tile_stage": access.stage,
    "tile_reduce": reduce,
    "mma": multiply.mma,
}
