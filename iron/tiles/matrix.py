"""`mma` by the products of a simdgroup, where the target has them and the shapes fit.

The rows and columns of one product need not be neighbours in the tile: a lane's row of a chunk is a
row of the product, and the columns of a product are a chunk of each lane beside each other. So the
grid's walk over chunks, made for any tile, is the layout of the accumulators.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from iron.ir.core import Kernel, Op, Value
from iron.ir.types import Tile, element
from iron.targets.atoms.form import ROWS, WORDS, Form, form_of
from iron.targets.target import Target
from iron.tiles import compute, operands
from iron.tiles.emitter import Emitter, named
from iron.tiles.grid import Grid, products
from iron.tiles.storage import Registers, Shared

SUMS = 64
"""Sums of the largest accumulator that a thread aims to hold where simdgroups are few."""
ENOUGH = 4
"""Simdgroups that keep a processor busy; beyond, each holds as many sums as its registers do."""
MOST_THREADS = 256


def format_of(op: Op) -> str:
    """The number format of a product's operands; empty where no instruction serves it."""
    a, b = (element(v.type) for v in op.args[:2])
    if a is not b:
        return ""
    if a.name == "f32":
        return "tf32" if op.attr("math") == "tf32" else ""
    return a.name


def matrix_grid(kernel: Kernel, target: Target | None) -> Grid | None:
    """The simdgroups for products of `kernel`, or None when one of them does not fit.

    Rows of the grid are the lanes of a simdgroup with rows of their own, then the simdgroups below
    each other. Where rows are reduced every simdgroup holds whole rows.
    """
    form, found = form_of(target, kernel.simd), list(products(kernel))
    if form is None or not found or not all(_fits(op, form) for op in found):
        return None
    shapes = [_shape(op.results[0]) for op in found]
    down = min((m & -m) // ROWS for m, _ in shapes)
    across = min((n & -n) // form.columns for _, n in shapes)
    largest = max(m * n for m, n in shapes)
    most = MOST_THREADS // kernel.simd
    full = max(ENOUGH, largest // (form.sums * kernel.simd))
    wanted = max(1, min(most, full, largest // (SUMS * kernel.simd)))
    if any(op.name == "tile_reduce" for op in kernel.body.walk()):
        across = 1
    return _dealt(form, wanted, down, across)


def _dealt(form: Form, wanted: int, down: int, across: int) -> Grid:
    """So many simdgroups as a rectangle as square as it can be."""
    rows = columns = 1
    while rows * columns < wanted and (rows < down or columns < across):
        if (columns <= rows and columns < across) or rows >= down:
            columns *= 2
        else:
            rows *= 2
    bits = form.order
    bits += ("across",) * (columns.bit_length() - 1) + ("down",) * (rows.bit_length() - 1)
    return Grid(form.down * rows, form.across * columns, form.width, order=bits, matrix=form)


def _fits(op: Op, form: Form) -> bool:
    (m, n), (_, k) = _shape(op.results[0]), _shape(op.args[0])
    depth = WORDS * 4 // element(op.args[0].type).bytes
    return (
        format_of(op) in form.formats and m % ROWS == 0 and n % form.columns == 0 and k % depth == 0
    )


def _shape(value: Value) -> tuple[int, int]:
    held = value.type
    assert isinstance(held, Tile)
    rows, columns = held.shape
    return rows, columns


def multiply(e: Emitter, op: Op, a: Shared | None, b: Shared) -> None:
    """acc + a @ b; every simdgroup computes the chunks that it holds, from its own part of a where
    that is not in group memory."""
    (value,) = op.results
    form = e.grid.matrix
    assert form is not None
    init = compute.spread(e, op.args[2])
    kinds, shape = e.plan.kinds[value], _shape(value)
    rows, columns = (
        [e.spot(k, s, i) for i in range(e.grid.along(k, s).count)]
        for k, s in zip(kinds, shape, strict=True)
    )
    per_word = 4 // element(op.args[0].type).bytes
    e.follow(op)

    def step(k: Value, sums: Sequence[Value], left: list[list[Value]]) -> Sequence[Value]:
        right = operands.right(e, form, b.transpose(), k, columns, per_word)
        out = list(sums)
        for i, j in product(range(0, len(rows), form.halves), range(len(columns))):
            at = [(i + h) * len(columns) + j for h in range(form.halves)]
            args = (*left[i // form.halves], *right[j], *(sums[x] for x in at))
            new = e.b.emit_all("simd_mma", args, (format_of(op), form.columns))
            for x, one in zip(at, new, strict=True):
                out[x] = one
        return out

    depth = _shape(op.args[0])[1] // (WORDS * per_word)
    total: Sequence[Value] = init
    if a is None:
        for i in range(depth):
            left = operands.held(e, op.args[0], i, rows)
            e.follow(op)
            total = step(e.number(i), total, left)
    else:
        total = e.carry(
            depth, init, lambda k, s: step(k, s, operands.left(e, form, a, k, rows, per_word))
        )
    places = product(range(len(rows)), range(len(columns)))
    e.kept[value] = Registers(kinds, dict(zip(places, total, strict=True)))
    for held in total:
        named(held, value.name)
