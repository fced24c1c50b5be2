"""Tile rows: types, inference and its refusals, folds, and the text form of a whole product."""

from dataclasses import replace

import pytest

from iron.dtypes import DTYPES, bf16, bool_, f16, f32, i8, i32, i64, u8
from iron.errors import KernelError
from iron.ir.core import Kernel, Value, tiled
from iron.ir.ops.tile import total_of
from iron.ir.rebuild import rebuild
from iron.ir.table import OpTypeError
from iron.ir.text import digest, parse_kernel, print_kernel
from iron.ir.types import MAX_TILE, legal_side, tensor, tile
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade


def product(stages: int = 3, fold: bool = True) -> Kernel:
    """c = a @ b in tiles of 16 x 32 by steps of 8, as the front end emits it."""
    p = Handmade(threads=1, simd=32, rank=2, fold=fold)
    a, b = p.tensor("a", f16, "in", 2), p.tensor("b", f16, "in", 2)
    c = p.tensor("c", f16, "out", 2)
    m, n, k = p.dim("M"), p.dim("N"), p.dim("K")
    zero = p.const(0)
    row = p.emit("mul", p.emit("group", attrs=(0, i32)), p.const(16))
    col = p.emit("mul", p.emit("group", attrs=(1, i32)), p.const(32))
    acc = p.emit("tile_full", p.const(0.0, f32), attrs=((16, 32),))
    turn, held = Value(i32, None, "k"), Value(acc.type, None, "acc")
    with p.b.block((turn, held)) as body:
        at = p.emit("mul", turn, p.const(8))
        axes, steps = (0, 1), (1, 1)
        x = p.emit("tile_read", a, zero, zero, row, at, m, k, attrs=((16, 8), axes, steps, 0))
        y = p.emit("tile_read", b, zero, zero, at, col, k, n, attrs=((8, 32), axes, steps, 1))
        p.do("yield", p.emit("mma", x, y, held, attrs=("strict", 2)))
    turns = p.emit("floordiv", p.emit("add", k, p.const(7)), p.const(8))
    (total,) = p.do("for", zero, turns, p.const(1), acc, attrs=(False, stages), regions=(body,))
    out = p.emit("cast", total, attrs=(f16,))
    p.do("tile_write", c, zero, zero, row, col, m, n, out, attrs=((16, 32), axes, steps))
    return replace(p.done(), schedule=(("STAGES", stages), ("order", (0, 8, False))))


# --- types ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "side"),
    [
        *[(1, 1), (2, 2), (3, 4), (12, 16), (72, 80), (80, 80), (96, 96), (192, 192)],
        *[(100, 112), (240, 240), (257, 288), (272, 288), (1000, 1024)],
    ],
)
def test_sides(size, side):
    assert legal_side(size) == side
    assert tile(f32, (side,)).shape == (side,)


def test_types_are_interned_and_refuse():
    assert tile(f32, (16, 8)) is tile(f32, (16, 8))
    assert tile(f32, (16, 8)) is not tile(f32, (8, 16))
    for shape in [(), (0,), (3,), (24,), (72,), (16 * 17,)]:
        with pytest.raises(ValueError, match="a tile"):
            tile(f32, shape)
    tile(f32, (MAX_TILE // 64, 64))
    with pytest.raises(ValueError, match="at most"):
        tile(f32, (MAX_TILE // 32, 64))


def test_products():
    for x in DTYPES.values():
        for y in DTYPES.values():
            small = x in (i8, u8) and y in (i8, u8)
            wanted = f32 if x is y and x in (f32, f16, bf16) else i32 if small else None
            assert total_of(x, y) is wanted


# --- the text -------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages", [0, 3])
def test_round_trip(stages):
    kernel = product(stages)
    verify(kernel)
    assert tiled(kernel)
    text = print_kernel(kernel)
    again = parse_kernel(text)
    verify(again)
    assert print_kernel(again) == text
    assert again.schedule == kernel.schedule == (("STAGES", stages), ("order", (0, 8, False)))
    assert ("stages=3" in text) == (stages == 3)
    assert " shape=[16, 32] : tile f32[16, 32]" in text
    assert "tile_read %a, %0, %0, " in text
    assert "shape=[16, 8] axes=[0, 1] steps=[1, 1] site=0 : tile f16[16, 8]" in text
    loop = next(op for op in again.body.walk() if op.name == "for")
    assert loop.attr("stages") == stages


def test_schedules_are_part_of_a_kernel():
    assert len({digest(product(s)) for s in (0, 1, 2)}) == 3
    shifted = replace(product(), schedule=(("order", (0, 8, False)), ("STAGES", 3)))
    with pytest.raises(KernelError, match="order of its names"):
        verify(shifted)


def test_rebuilding_keeps_everything():
    kernel = product(fold=False)
    assert print_kernel(rebuild(kernel, fold=False)) == print_kernel(kernel)
    merged = print_kernel(rebuild(kernel))
    for part in ("stages=3", "site=0", "site=1", "site=2", 'schedule "order" [0, 8, false]'):
        assert merged.count(part) == 1


def test_a_tile_kernel_has_one_thread():
    with pytest.raises(KernelError, match="a tile kernel has 32 threads"):
        verify(replace(product(), threads=32))


@pytest.mark.parametrize(
    ("text", "message"),
    [("tile f32[3]", "a tile side"), ("tile f32[]", "at least one"), ("tile f32[?]", "number")],
)
def test_a_wrong_type_is_no_text(text, message):
    whole = print_kernel(product()).replace("tile f16[16, 8]", text)
    with pytest.raises(KernelError, match=message) as caught:
        parse_kernel(whole)
    assert caught.value.id == "E0801"


# --- inference ------------------------------------------------------------------------------------


def made(p: Handmade, elem, *shape: int) -> Value:
    return p.emit("tile_full", p.const(1, elem), attrs=(shape,))


CASES = [
    ("tile_expand", [(f32, 8)], (1,), tile(f32, (8, 1))),
    ("tile_expand", [(f32, 8)], (0,), tile(f32, (1, 8))),
    ("tile_expand", [(f32, 8)], (2,), "no axis 2"),
    ("tile_broadcast", [(f32, 8, 1)], ((8, 4),), tile(f32, (8, 4))),
    ("tile_broadcast", [(f32, 8, 2)], ((8, 4),), "does not repeat"),
    ("tile_broadcast", [(f32, 8)], ((8, 4),), "not as many axes"),
    ("tile_transpose", [(f32, 8, 2)], (), tile(f32, (2, 8))),
    ("tile_transpose", [(f32, 8)], (), "two axes"),
    ("tile_reduce", [(f32, 8, 2)], ("max", 1), tile(f32, (8,))),
    ("tile_reduce", [(f32, 8, 2)], ("max", 0), tile(f32, (2,))),
    ("tile_reduce", [(i32, 8)], ("add", 0), i32),
    ("tile_reduce", [(bool_, 8)], ("or", 0), bool_),
    ("tile_reduce", [(bool_, 8)], ("add", 0), "no `add` of bool"),
    ("tile_reduce", [(f32, 8)], ("or", 0), "no `or` of f32"),
    ("tile_reduce", [(f16, 8)], ("add", 0), "widen"),
    ("tile_reduce", [(f32, 8)], ("sub", 0), "no reduction called sub"),
    ("tile_reduce", [(f32, 8)], ("add", 1), "no axis 1"),
    ("mma", [(f16, 8, 4), (f16, 4, 2), (f32, 8, 2)], ("strict", 0), tile(f32, (8, 2))),
    ("mma", [(f32, 8, 4), (f32, 4, 2), (f32, 8, 2)], ("tf32", 0), tile(f32, (8, 2))),
    ("mma", [(f16, 8, 4), (f16, 4, 2), (f32, 8, 2)], ("tf32", 0), "no math 'tf32' for f16"),
    ("mma", [(f32, 8, 4), (f32, 4, 2), (f32, 8, 2)], ("fast", 0), "no math 'fast'"),
    ("mma", [(i8, 8, 4), (u8, 4, 2), (i32, 8, 2)], ("strict", 0), tile(i32, (8, 2))),
    ("mma", [(u8, 8, 4), (u8, 4, 2), (f32, 8, 2)], ("e4m3", 0), tile(f32, (8, 2))),
    ("mma", [(u8, 8, 4), (u8, 4, 2), (i32, 8, 2)], ("e5m2", 0), "summed in f32"),
    ("mma", [(i8, 8, 4), (i8, 4, 2), (i32, 8, 2)], ("e4m3", 0), "no math 'e4m3' for i8"),
    ("mma", [(f16, 8, 4), (bf16, 4, 2), (f32, 8, 2)], ("strict", 0), "no product"),
    ("mma", [(f16, 8, 4), (f16, 4, 2), (f16, 8, 2)], ("strict", 0), "summed in f32"),
    ("mma", [(f16, 8, 4), (f16, 8, 2), (f32, 8, 2)], ("strict", 0), "do not meet"),
    ("mma", [(f16, 8, 4), (f16, 4, 2), (f32, 2, 8)], ("strict", 0), "do not meet"),
    ("mma", [(f16, 8), (f16, 4, 2), (f32, 8, 2)], ("strict", 0), "multiplies matrices"),
    ("tile_stage", [(f16, 8, 4)], (), tensor(f16, 2, "shared", (8, 4))),
    ("add", [(f32, 8), (f32, 8)], (), tile(f32, (8,))),
    ("add", [(f32, 8), (f32, 4)], (), "shapes of tiles differ"),
    ("add", [(f16, 8), (f16, 8)], (), "widen"),
    ("lt", [(i32, 8, 2), (i32, 8, 2)], (), tile(bool_, (8, 2))),
    ("cast", [(f32, 8, 2)], (f16,), tile(f16, (8, 2))),
    ("bitcast", [(f32, 8)], (i32,), tile(i32, (8,))),
    ("bitcast", [(f32, 8)], (f16,), "keeps its elements' width"),
    ("reduce", [(f32, 8)], (0,), "values of threads"),
    ("exchange", [(f32, 8)], (1,), "values of threads"),
]


@pytest.mark.parametrize(("name", "operands", "attrs", "wanted"), CASES)
def test_inference(name, operands, attrs, wanted):
    p = Handmade(threads=1, simd=32, fold=False)
    args = [made(p, *o) for o in operands]
    regions = ()
    if name == "reduce":
        with p.b.block((Value(args[0].type), Value(args[0].type))) as body:
            p.do("yield", args[0])
        regions = (body,)
    if isinstance(wanted, str):
        with pytest.raises(OpTypeError, match=wanted):
            p.emit(name, *args, attrs=attrs, regions=regions)
    else:
        assert p.emit(name, *args, attrs=attrs).type is wanted


def test_scalars_and_vectors_do_not_meet_tiles():
    p = Handmade(threads=1, simd=32, fold=False)
    whole, one = made(p, f32, 4), p.const(1.0, f32)
    for other in (one, p.emit("splat", one, attrs=(4,))):
        with pytest.raises(OpTypeError, match="differ"):
            p.emit("add", whole, other)
        with pytest.raises(OpTypeError, match="differ"):
            p.emit("add", other, whole)


WINDOW = [
    ({}, None),
    ({"axes": (0, 0)}, "axes"),
    ({"axes": (0, 2)}, "axes"),
    ({"axes": ()}, "axes"),
    ({"steps": (1,)}, "steps"),
    ({"steps": (1, 0)}, "steps"),
    ({"shape": (4,)}, "a tile of shape"),
    ({"shape": ((4, 2), 4)}, "a tile of shape"),
    ({"shape": ((4,), 4)}, "joins no two axes"),
    ({"shape": ((4, 3),)}, "a tile side"),
    ({"shape": (4, 3)}, "a tile side"),
    ({"operands": -1}, "takes 7 operands"),
    ({"place": f32}, "integer scalar"),
]


@pytest.mark.parametrize(("change", "message"), WINDOW)
def test_windows(change, message):
    p = Handmade(threads=1, simd=32)
    x = p.tensor("x", f32, "in", 2)
    at = [p.const(0), p.const(0, i64), p.const(1), p.const(2), p.const(4), p.const(5)]
    at[2] = p.const(1, change.get("place", i32))
    at = at[: change.get("operands", len(at))]
    attrs = (change.get("shape", (4, 4)), change.get("axes", (1, 0)), change.get("steps", (1, -2)))
    if message is None:
        assert p.emit("tile_read", x, *at, attrs=(*attrs, 0)).type is tile(f32, (4, 4))
        return
    with pytest.raises(OpTypeError, match=message):
        p.emit("tile_read", x, *at, attrs=(*attrs, 0))


@pytest.mark.parametrize(
    ("space", "elem", "shape", "message"),
    [
        ("out", f32, (4, 4), None),
        ("inout", f32, (4, 4), None),
        ("in", f32, (4, 4), "read-only"),
        ("out", f16, (4, 4), "write .to"),
        ("out", f32, (4,), "a place of shape"),
    ],
)
def test_writes(space, elem, shape, message):
    p = Handmade(threads=1, simd=32)
    x = p.tensor("x", f32, space, 2)
    at = [p.const(0)] * 4 + [p.const(8)] * 2
    value = made(p, elem, *shape)
    if message is None:
        assert p.do("tile_write", x, *at, value, attrs=((4, 4), (0, 1), (1, 1))) == ()
        return
    with pytest.raises(OpTypeError, match=message):
        p.do("tile_write", x, *at, value, attrs=((4, 4), (0, 1), (1, 1)))


@pytest.mark.parametrize(
    ("index", "keep", "value", "message"),
    [
        ((i32, 4, 4), (bool_, 4, 4), (f32, 4, 4), None),
        ((i64, 4, 4), (bool_, 4, 4), (f32, 4, 4), None),
        (None, (bool_, 4, 4), (f32, 4, 4), None),
        ((f32, 4, 4), (bool_, 4, 4), (f32, 4, 4), "an index"),
        ((i32, 4), (bool_, 4, 4), (f32, 4, 4), "an index"),
        ((i32, 4, 4), (i32, 4, 4), (f32, 4, 4), "`keep`"),
        ((i32, 4, 4), (bool_, 4, 4), (f32, 4), "is scattered"),
        ((i32, 4, 4), (bool_, 4, 4), (f16, 4, 4), "write .to"),
    ],
)
def test_gathers_and_scatters(index, keep, value, message):
    p = Handmade(threads=1, simd=32)
    x = p.tensor("x", f32, "inout", 2)
    i = p.const(3) if index is None else made(p, *index)
    args = [x, p.const(0), p.const(0), i, p.const(1), p.const(8), p.const(8), made(p, *keep)]
    held = made(p, *value)
    if message is None:
        result = p.emit("tile_gather", *args, attrs=((0, 1), (1, 1), 5))
        assert result.type is tile(f32, keep[1:])
        p.do("tile_scatter", *args, held, attrs=((0, 1), (1, 1)))
        return
    with pytest.raises(OpTypeError, match=message):
        p.do("tile_scatter", *args, held, attrs=((0, 1), (1, 1)))


def test_a_tile_is_not_stored_by_a_thread():
    p = Handmade(threads=1, simd=32)
    x = p.tensor("x", f32, "out", 1)
    with pytest.raises(OpTypeError, match="tile_write"):
        p.do("store", x, p.const(0), made(p, f32, 4))


# --- folds ----------------------------------------------------------------------------------------


def test_folds():
    p = Handmade(threads=1, simd=32)
    s = p.scalar("s", f32)
    x = p.emit("tile_full", s, attrs=((8, 4),))
    assert p.emit("tile_broadcast", x, attrs=((8, 4),)) is x
    assert p.emit("tile_transpose", p.emit("tile_transpose", x)) is x
    assert p.emit("mul", x, made(p, f32, 8, 4)) is x
    two = p.emit("add", made(p, i32, 8), made(p, i32, 8))
    assert two is p.emit("tile_full", p.const(2), attrs=((8,),))
    assert p.emit("tile_full", s, attrs=((8, 4),)) is x


def test_products_of_two_sites_stay_two():
    p = Handmade(threads=1, simd=32)
    x, acc = made(p, f32, 4, 4), made(p, f32, 4, 4)
    one, two, again = (p.emit("mma", x, x, acc, attrs=("strict", s)) for s in (0, 1, 0))
    assert one is again
    assert one is not two


def test_reads_are_not_merged():
    p = Handmade(threads=1, simd=32)
    x = p.tensor("x", f32, "inout", 1)
    at = (p.const(0), p.const(0), p.const(8))
    reads = [p.emit("tile_read", x, *at, attrs=((8,), (0,), (1,), 0)) for _ in range(2)]
    assert reads[0] is not reads[1]
