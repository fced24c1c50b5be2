"""Products by the tile registers of AMX: the process's permission, and blocks of sums in them.

Linux keeps the tile registers of a process only after it has asked for that.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache

from iron.backends.cpu.state import Emitter

ARCH_PRCTL, ASK, TILE_DATA = 158, 0x1023, 18
"""The system call on x86-64, its request for a permission, and what is asked for."""

SIDE, STEP = 16, 64
"""Rows of a tile register, and bytes of a row."""
LINE = "<16 x float>"


@cache
def allowed() -> bool:
    """Asks the system for the tile registers, for all threads of this process."""
    if not sys.platform.startswith("linux"):
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return call(ctypes.c_long(ARCH_PRCTL), ctypes.c_long(ASK), ctypes.c_long(TILE_DATA)) == 0


def _configuration() -> str:
    """Eight tiles of 16 rows of 64 bytes, as `ldtilecfg` reads it."""
    held = bytearray(64)
    held[0] = 1
    for tile in range(8):
        held[16 + 2 * tile], held[48 + tile] = STEP, SIDE
    text = "".join(f"\\{byte:02X}" for byte in held)
    return f'@tile_shapes = private unnamed_addr constant [64 x i8] c"{text}", align 64'


def block(
    e: Emitter, acc: tuple[str, int], a: tuple[str, int], b: tuple[str, int], size: tuple[int, int]
) -> None:
    """acc += a @ b for 32 columns: pointers with the bytes of a row, and the size (rows, k).

    The products are summed from 0, and then added.
    """
    rows, depth = size
    down = list(range(rows // SIDE))
    sums = [(i, j, 2 * i + j) for i in down for j in range(2)]
    _enter(e)
    for _, _, number in sums:
        e.w.call("void", "llvm.x86.tilezero", ("i8", str(number)))
    at, close = counted(e, depth * 2 // STEP)
    left = e.w.let(f"getelementptr i8, ptr {a[0]}, i64 {e.w.let(f'mul i64 {at}, {STEP}')}")
    right = e.w.let(f"getelementptr i8, ptr {b[0]}, i64 {e.w.let(f'mul i64 {at}, {SIDE * b[1]}')}")
    for j in range(2):
        _tile(e, "tileloadd64", 6 + j, _moved(e, (right, b[1]), 0, j * STEP), b[1])
    for i in down:
        _tile(e, "tileloadd64", 4 + i, _moved(e, (left, a[1]), i * SIDE, 0), a[1])
        for j in range(2):
            numbers = (2 * i + j, 4 + i, 6 + j)
            e.w.call("void", "llvm.x86.tdpbf16ps", *(("i8", str(n)) for n in numbers))
    close()
    held = e.w.scratch, 2 * STEP
    for i, j, number in sums:
        _tile(e, "tilestored64", number, _moved(e, held, i * SIDE, j * STEP), held[1])
    at, close = counted(e, rows)
    for j in range(2):
        place, more = (
            _moved(
                e,
                (e.w.let(f"getelementptr i8, ptr {p}, i64 {e.w.let(f'mul i64 {at}, {by}')}"), by),
                0,
                j * STEP,
            )
            for p, by in (acc, held)
        )
        old, new = (e.w.let(f"load {LINE}, ptr {p}") for p in (place, more))
        e.w.do(f"store {LINE} {e.w.let(f'fadd {LINE} {old}, {new}')}, ptr {place}")
    close()


def counted(e: Emitter, count: int) -> tuple[str, Callable[[], None]]:
    """Begins a loop of `count` turns: its counter, and what ends it."""
    cell = e.w.cell("i64")
    e.w.do(f"store i64 0, ptr {cell}")
    turn, end = e.w.fresh("turn"), e.w.fresh("end")
    e.w.jump(turn)
    e.w.label(turn)
    at = e.w.let(f"load i64, ptr {cell}")

    def close() -> None:
        following = e.w.let(f"add nuw i64 {at}, 1")
        e.w.do(f"store i64 {following}, ptr {cell}")
        e.w.branch(e.w.let(f"icmp ult i64 {following}, {count}"), turn, end)
        e.w.label(end)

    return at, close


def _enter(e: Emitter) -> None:
    """The kernel sets up its tiles at its entry, and gives them up at its end."""
    if not e.w.first:
        e.w.globals.append(_configuration())
        e.w.declared["tilecfg"] = "declare void @llvm.x86.ldtilecfg(ptr)"
        e.w.declared["tilerelease"] = "declare void @llvm.x86.tilerelease()"
        e.w.first.append("  call void @llvm.x86.ldtilecfg(ptr @tile_shapes)")
        e.w.scratch = e.w.cell(LINE, 4 * SIDE)
        e.w.last.append("  call void @llvm.x86.tilerelease()")


def _moved(e: Emitter, place: tuple[str, int], rows: int, by: int) -> str:
    pointer, stride = place
    offset = rows * stride + by
    return e.w.let(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer


def _tile(e: Emitter, name: str, number: int, pointer: str, stride: int) -> None:
    e.w.call(
        "void", f"llvm.x86.{name}", ("i8", str(number)), ("ptr", pointer), ("i64", str(stride))
    )
