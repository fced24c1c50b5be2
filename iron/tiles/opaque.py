"""`mma` by matrices whose layout is the device's secret, where the target lists some that fit.

The grid is dealt so that a chunk of the accumulator is the m x n block that one simdgroup
multiplies: what a loop only adds products to is carried as matrices, and a block becomes a chunk,
or a chunk a block, through a small array of each simdgroup.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod

from iron.ir.core import Kernel, Op, Value, carried
from iron.ir.types import Matrix, Tile, element, matrix
from iron.targets.atoms.opaque import OpaqueAtom, serving
from iron.targets.target import Target
from iron.tiles import compute
from iron.tiles.emitter import Emitter, named
from iron.tiles.grid import Grid, products
from iron.tiles.storage import Opaque, Registers, Shared

SUMS = 64
"""Sums of the largest accumulator that a thread aims to hold."""
MOST_THREADS = 256
WRITTEN_OUT = 4
"""Steps along k that are written behind each other; more are a loop."""
PAD = 4
"""Sums after each row of a block in group memory."""


def opaque_grid(kernel: Kernel, target: Target | None) -> Grid | None:
    """The simdgroups for products of opaque matrices, or None when one of them does not fit.

    Where rows are reduced every simdgroup holds whole rows.
    """
    found = list(products(kernel))
    if target is None or not found or not target.matrices or kernel.simd != target.simd:
        return None
    if any(op.name == "atomic" for op in kernel.body.walk()):
        return None
    atoms = _atoms(found, target)
    if not atoms:
        return None
    m, n = atoms[0].m, atoms[0].n
    shapes = [_shape(op.results[0]) for op in found]
    down = min((rows & -rows) // m for rows, _ in shapes)
    across = min((columns & -columns) // n for _, columns in shapes)
    largest = max(rows * columns for rows, columns in shapes)
    most = MOST_THREADS // kernel.simd
    wanted = max(1, min(most, largest // (SUMS * kernel.simd)))
    if any(op.name == "tile_reduce" for op in kernel.body.walk()):
        across = 1
    return _dealt(atoms, kernel.simd, wanted, down, across)


def _dealt(atoms: tuple[OpaqueAtom, ...], simd: int, wanted: int, down: int, across: int) -> Grid:
    """So many simdgroups as a rectangle as square as it can be; a lane holds a run of a row."""
    m, n = atoms[0].m, atoms[0].n
    rows = columns = 1
    while rows * columns < wanted and (rows < down or columns < across):
        if (rows <= columns and rows < down) or columns >= across:
            rows *= 2
        else:
            columns *= 2
    lanes = simd // m
    counted = (("across", lanes), ("down", m), ("across", columns), ("down", rows))
    order = tuple(kind for kind, many in counted for _ in range(many.bit_length() - 1))
    return Grid(m * rows, lanes * columns, n // lanes, order=order, opaque=atoms)


def _atoms(found: Sequence[Op], target: Target) -> tuple[OpaqueAtom, ...]:
    """Atoms of one m and n that serve all products, the first product's first; else none."""
    fit = [[a for a in _listed(op, target) if _fits(op, a, target.simd)] for op in found]
    for first in fit[0]:
        same = [next((a for a in some if (a.m, a.n) == (first.m, first.n)), None) for some in fit]
        kept = tuple(dict.fromkeys(a for a in same if a is not None))
        if None not in same:
            return kept
    return ()


def _listed(op: Op, target: Target) -> list[OpaqueAtom]:
    a, b, acc = (element(v.type) for v in op.args)
    return serving(target.matrices, a, b, acc)


def _fits(op: Op, atom: OpaqueAtom, simd: int) -> bool:
    (m, n), (_, k) = _shape(op.results[0]), _shape(op.args[0])
    lanes = simd // atom.m
    even = simd % atom.m == 0 and atom.n % max(1, lanes) == 0
    return even and m % atom.m == 0 and n % atom.n == 0 and k % atom.k == 0


def _shape(value: Value) -> tuple[int, int]:
    held = value.type
    assert isinstance(held, Tile)
    rows, columns = held.shape
    return rows, columns


def _atom(e: Emitter, op: Op) -> OpaqueAtom:
    a, acc = element(op.args[0].type), element(op.args[2].type)
    return next(x for x in e.grid.opaque if (x.a, x.accumulator) == (a, acc))


# --- what loops carry -----------------------------------------------------------------------------


def accumulators(e: Emitter, loop: Op) -> frozenset[Value]:
    """The tiles of a loop's body that are only added products to: carried as matrices, and so are
    the sums on the way from a turn to the next."""
    if not e.grid.opaque:
        return frozenset()
    block = loop.regions[0]
    out: set[Value] = set()
    for param, end in zip(block.params[1:], carried(loop), strict=True):
        chain = _chain(e, param, end, block.ops)
        if chain:
            out.add(param)
            e.sums.update(chain)
    return frozenset(out)


def _chain(e: Emitter, param: Value, end: Value, ops: Sequence[Op]) -> list[Value]:
    """The products between a carried tile and what it is in the next turn; none if there is more
    to it."""
    out: list[Value] = []
    value = param
    while e.plan.uses[value] == 1:
        if value is end:
            return out
        reader = next((op for op in ops if value in op.args), None)
        if reader is None or reader.name != "mma" or reader.args[2] is not value:
            break
        (value,) = reader.results
        out.append(value)
    return []


def matrices(e: Emitter, value: Value) -> list[Value]:
    """The blocks of an accumulator that this simdgroup holds, row by row."""
    kept = e.kept.get(value)
    if isinstance(kept, Opaque):
        return list(kept.matrices)
    kind = matrix(element(value.type), *_sides(e), "acc")
    kinds, shape = e.plan.kinds[value], _shape(value)
    count = [a.count for a in e.axes(kinds, shape)]
    if kept is None and value.op is not None and value.op.name == "tile_full":
        one = e.b.emit("matrix_full", e.values[value.op.args[0]], attrs=(kind,))
        return [one] * (count[0] * count[1])
    out: list[Value] = []
    for chunk in compute.spread(e, value):
        array, at = _scratch(e, value)
        e.fence.writes(e.b, array)
        e.b.emit_all("store", (array, *at, chunk))
        e.fence.reads(e.b, array)
        zero = e.number(0)
        out.append(e.b.emit("matrix_load", array, at[0], zero, zero, attrs=(kind, False)))
    return out


def taken(e: Emitter, value: Value, rest: list[Value], *, inside: bool) -> list[Value]:
    """Keeps the first of `rest` as the blocks of `value`, inside of its loop as they are; what is
    left of them."""
    count = prod(a.count for a in e.axes(e.plan.kinds[value], _shape(value)))
    if inside:
        e.kept[value] = Opaque(tuple(rest[:count]))
    else:
        settle(e, value, rest[:count])
    return rest[count:]


def keep(e: Emitter, value: Value, held: Sequence[Value]) -> None:
    """Keeps the blocks of `value`: as they are where only a product reads them, else as chunks."""
    for one in held:
        named(one, value.name)
    if value in e.sums:
        e.kept[value] = Opaque(tuple(held))
    else:
        settle(e, value, held)


def settle(e: Emitter, value: Value, held: Sequence[Value]) -> None:
    """Keeps the blocks of `value` as chunks."""
    kinds, shape = e.plan.kinds[value], _shape(value)
    counts = [range(a.count) for a in e.axes(kinds, shape)]
    chunks: dict[tuple[int, ...], Value] = {}
    for place, one in zip(product(*counts), held, strict=True):
        array, at = _scratch(e, value)
        zero = e.number(0)
        e.fence.writes(e.b, array)
        e.b.emit_all("matrix_store", (array, at[0], zero, zero, one))
        e.fence.reads(e.b, array)
        width = e.grid.widest
        chunk = e.b.emit("load", array, *at, attrs=(width if width > 1 else 0,))
        chunks[place] = named(chunk, value.name)
    e.kept[value] = Registers(kinds, chunks)


def _sides(e: Emitter) -> tuple[int, int]:
    return e.grid.opaque[0].m, e.grid.opaque[0].n


def _scratch(e: Emitter, value: Value) -> tuple[Value, list[Value]]:
    """The array with a block of each simdgroup, and this lane's part of it."""
    elem, (m, n) = element(value.type), _sides(e)
    if elem not in e.scratch:
        simdgroups = e.grid.threads // e.kernel.simd
        e.scratch[elem] = e.array(elem, (simdgroups, m, n + PAD), "block")
    lanes, width = e.kernel.simd // m, e.grid.widest
    thread = e.early("thread", attrs=(e.index,))
    row = e.early("mod", e.thread("down"), m)
    column = e.early("mul", e.early("mod", e.thread("across"), lanes), width)
    return e.scratch[elem], [e.early("floordiv", thread, e.kernel.simd), row, column]


# --- products -------------------------------------------------------------------------------------


def multiply(e: Emitter, op: Op, a: Shared, b: Shared) -> None:
    """acc + a @ b; every simdgroup computes the blocks that it holds."""
    (value,) = op.results
    atom = _atom(e, op)
    init = matrices(e, op.args[2])
    for operand in (a, b):
        e.fence.reads(e.b, operand.array)
    e.follow(op)
    kinds, shape = e.plan.kinds[value], _shape(value)
    down, across = (a.count for a in e.axes(kinds, shape))
    rows = [_block(e, "down", atom.m, i) for i in range(down)]
    columns = [_block(e, "across", atom.n, j) for j in range(across)]
    left = matrix(atom.a, atom.m, atom.k, "a")
    right = matrix(atom.b, atom.k, atom.n, "b")

    def step(k: Value, sums: Sequence[Value]) -> list[Value]:
        at = e.b.emit("mul", k, e.number(atom.k))
        x = [_load(e, a, (row, at), left) for row in rows]
        y = [_load(e, b, (at, column), right) for column in columns]
        pairs = product(x, y)
        return [e.b.emit("matrix_mma", p, q, s) for (p, q), s in zip(pairs, sums, strict=True)]

    depth = _shape(op.args[0])[1] // atom.k
    if depth <= WRITTEN_OUT:
        for k in range(depth):
            init = step(e.number(k), init)
        keep(e, value, init)
    else:
        keep(e, value, e.carry(depth, init, step))


def _block(e: Emitter, kind: str, side: int, number: int) -> Value:
    """Where block `number` of this simdgroup begins along an axis."""
    whole = e.grid.down if kind == "down" else e.grid.across
    lanes = _sides(e)[0] if kind == "down" else e.kernel.simd // _sides(e)[0]
    mine = e.early("mul", e.early("floordiv", e.thread(kind), lanes), side)
    return e.b.emit("add", mine, e.number(number * (whole // lanes) * side))


def _load(e: Emitter, kept: Shared, at: tuple[Value, Value], kind: Matrix) -> Value:
    where = at[::-1] if kept.turned else at
    if kept.words:
        where = where[0], e.b.emit("floordiv", where[1], e.number(4 // kind.elem.bytes))
    return e.b.emit("matrix_load", kept.array, *where, attrs=(kind, kept.turned))
