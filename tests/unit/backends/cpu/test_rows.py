"""Every elementwise row and cast gives the interpreter's bits on special values, at any width."""

import numpy as np
import pytest

from iron.dtypes import DTYPES, DType, bool_, f32, i64
from iron.ir.core import Kernel
from iron.ir.ops import copy, fragment, matrix, ring, tile
from iron.ir.table import TABLE, OpDef, Trait, elementwise
from iron.ir.types import vector
from tests.unit.backends.cpu.agree import both
from tests.unit.backends.cpu.specials import columns, specials
from tests.unit.ir.handmade import Handmade

ROWS = [r for r in elementwise() if not r.has(Trait.EXPANDED) and r.name != "cast"]
WIDTHS = [1, 8, 32]


def dtypes_of(row: OpDef) -> list[DType]:
    return [d for d in DTYPES.values() if d.kind in row.kinds]


def operands(row: OpDef, dtype: DType) -> list[DType]:
    return [bool_ if want == "b" else dtype for want in row.sig.split("->")[0].split()]


def row_kernel(row: OpDef, dtype: DType, width: int) -> Kernel:
    p = Handmade(threads=width, simd=max(width, 8), index=i64)
    wanted = operands(row, dtype)
    inputs = [p.tensor(f"x{i}", d) for i, d in enumerate(wanted)]
    result = bool_ if row.sig.endswith("b") else dtype
    out = p.tensor("y", result, "out")
    at = p.place()
    p.store(out, at, p.emit(row.name, *(p.load(x, at) for x in inputs)))
    return p.done()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_row(row: OpDef, width: int):
    rng = np.random.default_rng(1)
    for dtype in dtypes_of(row):
        wanted = operands(row, dtype)
        inputs = columns(wanted, width, rng)
        result = bool_ if row.sig.endswith("b") else dtype
        arrays = {f"x{i}": x for i, x in enumerate(inputs)}
        arrays["y"] = np.zeros(len(inputs[0]), result.np)
        both(row_kernel(row, dtype, width), arrays, (len(inputs[0]) // width,))


def cast_kernel(source: DType, to: DType, width: int) -> Kernel:
    p = Handmade(threads=width, simd=max(width, 8), index=i64)
    x, y = p.tensor("x", source), p.tensor("y", to, "out")
    at = p.place()
    p.store(y, at, p.emit("cast", p.load(x, at), attrs=(to,)))
    return p.done()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_cast(source: DType, width: int):
    for to in DTYPES.values():
        (x,) = columns([source], width, np.random.default_rng(2))
        arrays = {"x": x, "y": np.zeros(len(x), to.np)}
        both(cast_kernel(source, to, width), arrays, (len(x) // width,))


@pytest.mark.parametrize("storage", ["f16", "bf16"])
def test_storage_casts_are_right_for_all_bits(storage: str):
    dtype = DTYPES[storage]
    every = np.arange(65536, dtype=np.uint16).view(dtype.np)
    arrays = {"x": every, "y": np.zeros(65536, np.float32)}
    both(cast_kernel(dtype, f32, 32), arrays, (2048,))
    rng = np.random.default_rng(3)
    random = rng.integers(0, 2**32, 1 << 16, dtype=np.uint32).view(np.float32)
    middle = every.astype(np.float32)
    ties = (middle.view(np.uint32) | (1 << (15 if storage == "bf16" else 12))).view(np.float32)
    for x in (random, ties):
        both(cast_kernel(f32, dtype, 32), {"x": x, "y": np.zeros(65536, dtype.np)}, (2048,))


CONSTANTS = [1, 2, 3, 5, 7, 8, 10, 64, 127, -1, -2, -3, 0]


@pytest.mark.parametrize("name", ["floordiv", "mod"])
@pytest.mark.parametrize("dtype", ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64"])
def test_division_by_constants(name: str, dtype: str):
    t = DTYPES[dtype]
    usable = [c for c in CONSTANTS if t.min <= c <= t.max]
    for width in (1, 16):
        p = Handmade(threads=width, simd=max(width, 8))
        x = p.tensor("x", t)
        outs = [p.tensor(f"y{i}", t, "out") for i in range(len(usable))]
        at = p.place()
        value = p.load(x, at)
        for out, c in zip(outs, usable, strict=True):
            p.store(out, at, p.emit(name, value, p.const(c, t)))
        (data,) = columns([t], width, np.random.default_rng(4))
        arrays = {"x": data} | {f"y{i}": np.zeros(len(data), t.np) for i in range(len(usable))}
        both(p.done(), arrays, (len(data) // width,))


BITCASTS = [
    *(("f32", "u32"), ("i32", "f32"), ("u32", "u8"), ("u64", "u16"), ("f32", "f16"), ("f16", "u8")),
    *(("u64", "f32"), ("bf16", "i16"), ("i8", "u8"), ("i64", "u64")),
]


@pytest.mark.parametrize(("source", "to"), BITCASTS)
@pytest.mark.parametrize("width", [1, 8])
def test_bitcast_to_the_same_or_narrower(source: str, to: str, width: int):
    a, b = DTYPES[source], DTYPES[to]
    p = Handmade(threads=width, simd=max(width, 8))
    ratio = a.bits // b.bits
    x, y = p.tensor("x", a), p.tensor("y", b, "out")
    at = p.place()
    value = p.emit("bitcast", p.load(x, at), attrs=(b,))
    p.store(y, p.emit("mul", at, p.const(ratio)), value)
    data = np.resize(specials(a).view(a.np), 64)
    if a.is_float:
        data = np.where(data == data, data, np.zeros_like(data))
    both(p.done(), {"x": data, "y": np.zeros(64 * ratio, b.np)}, (64 // width,))


@pytest.mark.parametrize(("source", "to"), [("u8", "u32"), ("u16", "f32"), ("u8", "f16")])
def test_bitcast_to_wider(source: str, to: str):
    a, b = DTYPES[source], DTYPES[to]
    ratio = b.bits // a.bits * 2
    p = Handmade(threads=8, simd=8)
    x, y = p.tensor("x", a), p.tensor("y", b, "out")
    at = p.place()
    value = p.load(x, p.emit("mul", at, p.const(ratio)), count=ratio)
    p.store(y, p.emit("mul", at, p.const(2)), p.emit("bitcast", value, attrs=(b,)))
    data = np.random.default_rng(5).integers(0, 60, 16 * ratio).astype(a.np)
    both(p.done(), {"x": data, "y": np.zeros(32, b.np)}, (2,))


def test_rows_act_on_each_element_of_a_vector():
    p = Handmade(threads=8, simd=8)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.emit("mul", p.place(), p.const(3))
    v = p.load(x, at, count=3)
    w = p.emit(
        "fma", v, p.emit("splat", p.const(2.0, f32), attrs=(3,)), p.const(0.5, vector(f32, 3))
    )
    p.store(y, at, p.emit("pack", *(p.emit("extract", w, attrs=(i,)) for i in (1, 2, 0))))
    data = np.random.default_rng(6).normal(size=48).astype(np.float32)
    both(p.done(), {"x": data, "y": np.zeros(48, np.float32)}, (2,))


def test_the_rows_are_covered():
    from iron.backends.cpu.entry import RULES

    parts = (tile, ring, matrix, fragment, copy)
    lowered = {r.name for part in parts for r in vars(part).values() if is_row(r)}
    backend = {r.name for r in TABLE.values() if not r.has(Trait.EXPANDED)} - {"yield"}
    assert backend - lowered <= set(RULES)


def is_row(thing: object) -> bool:
    """Whether a module's attribute is a row; those of tiles and of other targets are not ours."""
    return isinstance(thing, OpDef)


EXTREMES = ("min", "max", "fmin", "fmax")


def nested_extremes(number: float, width: int, size: int) -> Kernel:
    """Each extreme of a constant and each extreme of it and x, at both places of both."""
    p = Handmade(threads=width, simd=max(width, 8), index=i64)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at, c = p.place(), p.const(number, f32)
    value = p.load(x, at)
    for inner in EXTREMES:
        for last in (False, True):
            within = p.emit(inner, *((value, c) if last else (c, value)))
            for outer in EXTREMES:
                for found in (p.emit(outer, c, within), p.emit(outer, within, c)):
                    p.store(y, at, found)
                    at = p.emit("add", at, p.const(size, i64))
    return p.done()


@pytest.mark.parametrize("width", WIDTHS[:2])
@pytest.mark.parametrize("number", [1.0, -2.5, 0.0, -0.0, 3.4028235e38, np.inf, -np.inf])
def test_extremes_of_one_constant(number: float, width: int):
    """A compiler may think that an extreme of an extreme is the inner one; NaN says it is not."""
    (x,) = columns([f32], width, np.random.default_rng(1))
    arrays = {"x": x, "y": np.zeros(64 * len(x), np.float32)}
    both(nested_extremes(number, width, len(x)), arrays, (len(x) // width,))
