"""`mma` by the products of a simdgroup, where the target has them and the shapes fit.

The rows and columns of one product need not be neighbours in the tile: slot g of the first eight
rows is this lane's row of an even chunk, of the second eight its row of the next chunk, and the
eight columns are a chunk of each of the four lanes beside each other. So the grid's walk over
chunks, made for any tile, is the layout of the accumulators.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from iron.ir.core import Kernel, Op, Value
from iron.ir.types import Tile, element
from iron.targets.target import Target
from iron.tiles import compute
from iron.tiles.emitter import Emitter, named
from iron.tiles.grid import Grid, products
from iron.tiles.storage import Registers, Shared, Spot

ROWS, COLUMNS, WORDS = 16, 8, 8
"""Sides of one product, and words of 32 bits along k."""
LANES_DOWN, LANES_ACROSS, WIDTH = 8, 4, 2
SUMS = 64
"""Sums of the largest accumulator that a thread aims to hold."""
MOST_SIMDS = 8


def format_of(op: Op) -> str:
    """The number format of a product's operands; empty where no instruction serves it."""
    a, b = (element(v.type) for v in op.args[:2])
    if a is not b:
        return ""
    if a.name == "f32":
        return "tf32" if op.attr("math") == "tf32" else ""
    return a.name if a.name in ("f16", "bf16", "i8", "u8") else ""


def matrix_grid(kernel: Kernel, target: Target | None) -> Grid | None:
    """The simdgroups for products of `kernel`, or None when one of them does not fit.

    Rows of the grid are eight lanes of a simdgroup, then the simdgroups below each other. Where
    rows are reduced every simdgroup holds whole rows.
    """
    if target is None or not target.has("cuda") or kernel.simd != LANES_DOWN * LANES_ACROSS:
        return None
    found = list(products(kernel))
    if not found or not all(_fits(op) for op in found):
        return None
    shapes = [_shape(op.results[0]) for op in found]
    down = min((m & -m) // ROWS for m, _ in shapes)
    across = min((n & -n) // COLUMNS for _, n in shapes)
    largest = max(m * n for m, n in shapes)
    wanted = max(1, min(MOST_SIMDS, largest // (SUMS * kernel.simd)))
    if any(op.name == "tile_reduce" for op in kernel.body.walk()):
        across = 1
    return _dealt(wanted, down, across)


def _dealt(wanted: int, down: int, across: int) -> Grid:
    """So many simdgroups as a rectangle as square as it can be."""
    rows = columns = 1
    while rows * columns < wanted and (rows < down or columns < across):
        if (columns <= rows and columns < across) or rows >= down:
            columns *= 2
        else:
            rows *= 2
    bits = ("across",) * 2 + ("down",) * 3
    bits += ("across",) * (columns.bit_length() - 1) + ("down",) * (rows.bit_length() - 1)
    return Grid(LANES_DOWN * rows, LANES_ACROSS * columns, WIDTH, order=bits, matrix=True)


def _fits(op: Op) -> bool:
    (m, n), (_, k) = _shape(op.results[0]), _shape(op.args[0])
    depth = WORDS * 4 // element(op.args[0].type).bytes
    return bool(format_of(op)) and m % ROWS == 0 and n % COLUMNS == 0 and k % depth == 0


def _shape(value: Value) -> tuple[int, int]:
    held = value.type
    assert isinstance(held, Tile)
    rows, columns = held.shape
    return rows, columns


def multiply(e: Emitter, op: Op, a: Shared, b: Shared) -> None:
    """acc + a @ b; every simdgroup computes the chunks that it holds."""
    (value,) = op.results
    init = compute.spread(e, op.args[2])
    kinds, shape = e.plan.kinds[value], _shape(value)
    rows, columns = (
        [e.spot(k, s, i) for i in range(e.grid.along(k, s).count)]
        for k, s in zip(kinds, shape, strict=True)
    )
    elem = element(op.args[0].type)
    per_word = 4 // elem.bytes
    t = e.early("mod", e.early("thread", attrs=(e.index,)), LANES_ACROSS)
    firsts = [_first_column(e, c) for c in columns]
    e.follow(op)

    def step(k: Value, sums: Sequence[Value]) -> list[Value]:
        word = e.b.emit("add", e.b.emit("mul", k, e.number(WORDS)), t)
        words = [word, e.b.emit("add", word, e.number(LANES_ACROSS))]
        left = [[_word(e, a, r.at, w, per_word) for w in words] for r in rows]
        right = [[_word(e, b.transpose(), n, w, per_word) for w in words] for n in firsts]
        out = list(sums)
        for i, j in product(range(0, len(rows), 2), range(len(columns))):
            at = i * len(columns) + j, (i + 1) * len(columns) + j
            held = (left[i][0], left[i + 1][0], left[i][1], left[i + 1][1], *right[j])
            args = (*held, *(sums[x] for x in at))
            out[at[0]], out[at[1]] = e.b.emit_all("simd_mma", args, (format_of(op),))
        return out

    depth = _shape(op.args[0])[1] // (WORDS * per_word)
    total = e.carry(depth, init, step)
    places = product(range(len(rows)), range(len(columns)))
    e.kept[value] = Registers(kinds, dict(zip(places, total, strict=True)))
    for held in total:
        named(held, value.name)


def _first_column(e: Emitter, spot: Spot) -> Value:
    """The column of b that this lane gives for a chunk of columns: g beyond the chunk's first."""
    thread = e.early("thread", attrs=(e.index,))
    t2 = e.early("mul", e.early("mod", thread, LANES_ACROSS), WIDTH)
    g = e.early("mod", e.early("floordiv", thread, LANES_ACROSS), LANES_DOWN)
    return e.b.emit("add", spot.at, e.early("sub", g, t2))


def _word(e: Emitter, kept: Shared, row: Value, word: Value, per_word: int) -> Value:
    """Word `word` along the second axis of a staged operand, of `per_word` elements."""
    b = e.b
    if kept.words:
        return b.emit("load", kept.array, row, word, attrs=(0,))
    first = b.emit("mul", word, e.number(per_word))
    if not kept.turned:
        held = b.emit("load", kept.array, row, first, attrs=(per_word if per_word > 1 else 0,))
        return e.bits(held)
    at = [b.emit("add", first, e.number(i)) for i in range(per_word)]
    return e.bits(e.packed([e.shared(kept, (row, k), 1) for k in at]))
