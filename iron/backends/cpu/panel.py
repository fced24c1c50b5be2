"""Blocks of a product from panels in group memory, by the micro-kernel that the target has."""

from __future__ import annotations

from itertools import product

from iron.backends.cpu import tiles
from iron.backends.cpu.state import Emitter, Names
from iron.backends.cpu.types import is_literal, scalar
from iron.dtypes import bf16, f32
from iron.errors import error
from iron.ir.core import Op, Value
from iron.ir.types import Tensor, element
from iron.targets.atoms import cpu

WIDE = 16
"""Sums of a vector of `vdpbf16ps`."""
SUM, PAIRS = f"<{WIDE} x float>", f"<{2 * WIDE} x bfloat>"


def _panel(e: Emitter, op: Op) -> list[Names]:
    acc, a, _, row, column = op.args
    assert isinstance(acc.type, Tensor)
    assert isinstance(a.type, Tensor)
    _, columns, lanes = acc.type.shape
    depth = a.type.shape[1]
    line, block = columns * lanes * f32.bytes, lanes * f32.bytes
    sums = _place(e, op.args[0], (row, line), (column, block)), line
    left = _place(e, op.args[1], (row, depth * bf16.bytes)), depth * bf16.bytes
    right = _place(e, op.args[2], (column, depth * lanes * bf16.bytes)), 2 * lanes * bf16.bytes
    size = op.attr("rows"), depth
    atom = cpu.dot(e.target, bf16.name)
    if atom is cpu.TILE_BF16:
        tiles.block(e, sums, left, right, size)
    elif atom is cpu.DOT_BF16:
        _by_pairs(e, sums, left, right, size)
    else:
        raise error("E0901", f"{e.target.name} has no products of bf16 from memory", op.loc)
    return []


def _place(e: Emitter, array: Value, *moves: tuple[Value, int]) -> str:
    """A pointer into `array`, moved by so many bytes for each step of an index."""
    (pointer,) = e.names(array)
    for index, by in moves:
        name, dtype = e.first(index), element(index.type)
        if not is_literal(name) and dtype.bits < 64:
            grow = "sext" if dtype.kind == "i" else "zext"
            name = e.w.let(f"{grow} {scalar(dtype)} {name} to i64")
        offset = e.w.let(f"mul i64 {name}, {by}")
        pointer = e.w.let(f"getelementptr i8, ptr {pointer}, i64 {offset}")
    return pointer


def _by_pairs(
    e: Emitter, acc: tuple[str, int], a: tuple[str, int], b: tuple[str, int], size: tuple[int, int]
) -> None:
    """`vdpbf16ps`: a word of a against the words of b, for two vectors of columns."""
    rows, depth = size
    step = WIDE * f32.bytes
    spots = list(product(range(rows), range(b[1] // step)))
    cells = {spot: e.w.cell(SUM) for spot in spots}
    homes = {(i, j): _moved(e, acc[0], i * acc[1] + j * step) for i, j in spots}
    for cell in cells.values():
        e.w.do(f"store {SUM} zeroinitializer, ptr {cell}")
    at, close = tiles.counted(e, depth // 2)
    across = e.w.let(f"getelementptr i8, ptr {b[0]}, i64 {e.w.let(f'mul i64 {at}, {b[1]}')}")
    down = e.w.let(f"getelementptr i32, ptr {a[0]}, i64 {at}")
    columns = [
        e.w.let(f"load {PAIRS}, ptr {_moved(e, across, j * step)}, align 2")
        for j in range(b[1] // step)
    ]
    for i in range(rows):
        word = e.w.let(f"load i32, ptr {_moved(e, down, i * a[1])}, align 2")
        row = e.w.let(f"bitcast <{WIDE} x i32> {e.w.splat(word, 'i32', WIDE)} to {PAIRS}")
        for j, column in enumerate(columns):
            old = e.w.let(f"load {SUM}, ptr {cells[i, j]}")
            args = ((SUM, old), (PAIRS, row), (PAIRS, column))
            new = e.w.call(SUM, "llvm.x86.avx512bf16.dpbf16ps.512", *args)
            e.w.do(f"store {SUM} {new}, ptr {cells[i, j]}")
    close()
    for spot, cell in cells.items():
        old, new = (e.w.let(f"load {SUM}, ptr {p}") for p in (homes[spot], cell))
        e.w.do(f"store {SUM} {e.w.let(f'fadd {SUM} {old}, {new}')}, ptr {homes[spot]}")


def _moved(e: Emitter, pointer: str, by: int) -> str:
    return e.w.let(f"getelementptr i8, ptr {pointer}, i64 {by}") if by else pointer


RULES = {"panel_mma": _panel}
