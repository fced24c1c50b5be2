"""Loads and stores of every address class agree with the interpreter, masked or not."""

from collections.abc import Callable

import numpy as np
import pytest

from iron.analysis.uniform import uniformity
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import host
from iron.backends.cpu.strides import Strides
from iron.dtypes import DTYPES, DType, bf16, bool_, f16, f32, i32, i64, u8, u16, u32, u64
from iron.ir.core import Kernel, Value
from iron.ir.types import tensor, vector
from iron.targets.cpu import X86_64_V4
from tests.unit.backends.cpu.agree import both
from tests.unit.ir.handmade import Handmade

RNG = np.random.default_rng(7)
ELEMENTS = [f32, f16, bf16, u8, u16, bool_, i32, u64]


def data(elem: DType, *shape: int):
    if elem is bool_:
        return RNG.integers(0, 2, shape).astype(bool)
    if elem.is_float:
        return RNG.normal(size=shape).astype(elem.np)
    return RNG.integers(elem.min, elem.max, shape, dtype=elem.np, endpoint=True)


def guarded(p: Handmade, condition: Value, body: Callable[[], None]) -> None:
    with p.b.block() as then:
        body()
        p.do("yield")
    with p.b.block() as other:
        p.do("yield")
    p.do("if", condition, regions=(then, other))


def strided_kernel(elem: DType, stride: int, start: int, width: int, masked: bool) -> Kernel:
    p = Handmade(threads=width, simd=width)
    x, y = p.tensor("x", elem), p.tensor("y", elem, "inout")
    n = p.dim("N")
    t = p.thread()
    at = p.emit("add", p.emit("mul", t, p.const(stride)), p.const(start))
    if masked:
        guarded(p, p.emit("lt", t, n), lambda: p.store(y, t, p.load(x, at)))
    else:
        p.store(y, t, p.load(x, at))
    return p.done()


@pytest.mark.parametrize("elem", ELEMENTS, ids=str)
@pytest.mark.parametrize("stride", [1, 2, 3, 4, 7, -1, -2, -3, -5, 0])
@pytest.mark.parametrize("masked", [False, True])
def test_lane_strides(elem: DType, stride: int, masked: bool):
    for width in (8, 32) if elem in (f32, u8) else (16,):
        active = width - 3 if masked else width
        size = (active - 1) * abs(stride) + 1
        kernel = strided_kernel(elem, stride, 0 if stride >= 0 else size - 1, width, masked)
        arrays = {"x": data(elem, size), "y": data(elem, width)}
        both(kernel, arrays, dims={"N": active})


@pytest.mark.parametrize("elem", ELEMENTS, ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_gathers_and_scatters(elem: DType, masked: bool):
    p = Handmade(threads=32, simd=32)
    x, to = p.tensor("x", elem), p.tensor("to", u8)
    y = p.tensor("y", elem, "inout")
    n, t = p.dim("N"), p.thread()

    def move() -> None:
        at = p.load(to, t)
        p.store(y, at, p.load(x, p.emit("sub", p.const(40, u8), at)))

    if masked:
        guarded(p, p.emit("lt", t, n), move)
    else:
        move()
    places = RNG.permutation(41)[:32].astype(np.uint8)
    arrays = {"x": data(elem, 41), "to": places, "y": data(elem, 41)}
    both(p.done(), arrays, dims={"N": 21})


@pytest.mark.parametrize("elem", [f32, u8, f16, u64, bool_], ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 16])
def test_vectors(elem: DType, count: int):
    """Neighbouring chunks, chunks that overlap, and chunks anywhere; stores of chunks."""
    p = Handmade(threads=16, simd=16)
    x, at = p.tensor("x", elem), p.tensor("at", i32)
    outs = [p.tensor(f"y{k}", elem, "inout") for k in range(3)]
    n, t = p.dim("N"), p.thread()
    mine = p.emit("mul", t, p.const(count))
    p.store(outs[0], mine, p.load(x, mine, count=count))

    def tail() -> None:
        p.store(outs[1], mine, p.load(x, t, count=count))
        p.store(
            outs[2],
            p.emit("mul", p.load(at, t), p.const(count)),
            p.load(x, p.load(at, t), count=count),
        )

    guarded(p, p.emit("lt", t, n), tail)
    size = 16 * count
    arrays = {"x": data(elem, size + count), "at": RNG.permutation(16).astype(np.int32)}
    arrays |= {f"y{k}": data(elem, size) for k in range(3)}
    both(p.done(), arrays, dims={"N": 13})


def test_strides_of_arrays_are_signed_elements():
    p = Handmade(threads=8, simd=8, rank=2)
    x = p.param("x", "tensor", tensor(f32, 3, "in", (), False))
    y = p.param("y", "tensor", tensor(f32, 3, "out", (), False))
    i, j, t = p.group(0), p.group(1), p.thread()
    p.store(y, j, t, i, p.load(x, i, j, t))
    base, target = data(f32, 12, 5, 19), np.full((10, 16, 9), np.nan, np.float32)
    x_view, y_view = base[::-4, 1:, ::-2][:, :, :8], target[::2, ::-2, ::3]
    both(p.done(), {"x": x_view, "y": y_view}, (3, 4), partial=frozenset("y"))


def test_an_unsigned_index_may_pass_zero():
    """Lane 0 wraps below zero and is masked off; its neighbours lie at 0, 1, .."""
    p = Handmade(threads=8, simd=8, index=u32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "inout")
    t = p.thread()
    before = p.emit("sub", t, p.const(3, u32))
    guarded(
        p,
        p.emit("lt", before, p.const(4, u32)),
        lambda: p.store(y, before, p.load(x, before)),
    )
    both(p.done(), {"x": data(f32, 4), "y": data(f32, 4)})


@pytest.mark.parametrize("width", [1, 8, 32])
@pytest.mark.parametrize("elem", ELEMENTS, ids=str)
def test_tables(elem: DType, width: int):
    p = Handmade(threads=width, simd=max(8, width))
    held = data(elem, 5, 3)
    place = tensor(elem, 2, "table", (5, 3))
    table = p.emit("table", attrs=(place, held.tobytes()))
    at, y = p.tensor("at", i32), p.tensor("y", elem, "out")
    t = p.place()
    p.store(y, t, p.load(table, p.load(at, t), p.const(1)))
    arrays = {"at": RNG.integers(0, 5, 64).astype(np.int32), "y": data(elem, 64)}
    both(p.done(), arrays, (64 // width,))
    assert np.array_equal(arrays["y"].view(np.uint8), held[arrays["at"], 1].copy().view(np.uint8))


@pytest.mark.parametrize("kind", ["add", "min", "max", "and", "or", "xor"])
@pytest.mark.parametrize("elem", [i32, u32], ids=str)
@pytest.mark.parametrize("space", ["inout", "shared"])
def test_atomics(kind: str, elem: DType, space: str):
    """Lanes that meet at one element combine one after another, lowest first."""
    p = Handmade(threads=16, simd=8)
    at, x = p.tensor("at", i32), p.tensor("x", elem)
    memory = p.tensor("memory", elem, "inout")
    old = p.tensor("old", elem, "inout")
    n, t = p.dim("N"), p.thread()
    target = memory
    if space == "shared":
        target = p.emit("shared", attrs=(tensor(elem, 1, "shared", (16,)),))
        p.store(target, t, p.load(memory, t))
        p.do("barrier")

    def combine() -> None:
        result = p.emit("atomic", target, p.load(at, t), p.load(x, t), attrs=(kind,))
        p.store(old, t, result)

    guarded(p, p.emit("ne", t, n), combine)
    if space == "shared":
        p.do("barrier")
        p.store(memory, t, p.load(target, t))
    arrays = {
        "at": RNG.integers(0, 5, 16).astype(np.int32),
        "x": data(elem, 16),
        "memory": data(elem, 16),
        "old": data(elem, 16),
    }
    both(p.done(), arrays, dims={"N": 5})


def test_zero_dimensional_tensors():
    p = Handmade(threads=8, simd=8)
    x, y = p.tensor("x", f32, rank=0), p.tensor("y", f32, "out")
    p.store(y, p.thread(), p.load(x))
    both(p.done(), {"x": np.array(3.5, np.float32), "y": data(f32, 8)})


def test_scalars_of_every_dtype_arrive():
    p = Handmade(threads=8, simd=8)
    outs = {n: p.tensor(f"y_{n}", d, "out") for n, d in DTYPES.items()}
    values = {n: p.scalar(f"s_{n}", d) for n, d in DTYPES.items()}
    for n, out in outs.items():
        p.store(out, p.thread(), values[n])
    arrays = {f"y_{n}": data(d, 8) for n, d in DTYPES.items()}
    given = {n: data(d, 1)[0] for n, d in DTYPES.items()}
    both(p.done(), arrays, scalars={f"s_{n}": v for n, v in given.items()})
    for n, v in given.items():
        assert (arrays[f"y_{n}"] == v).all()


# --- which class an address falls into ------------------------------------------------------------


def lane_stride(make: Callable[[Handmade, Value], Value], *, width: int = 32, simd: int = 32):
    p = Handmade(threads=width, simd=simd)
    x, y = p.tensor("x", f32), p.tensor("y", i32, "out")
    v = make(p, p.thread())
    p.store(y, p.thread(), p.emit("cast", v, attrs=(i32,)))
    del x
    kernel = p.done()
    return Strides(uniformity(kernel)).of(v)


@pytest.mark.parametrize(
    ("make", "stride"),
    [
        (lambda p, t: t, 1),
        (lambda p, t: p.emit("add", p.group(), t), 1),
        (lambda p, t: p.emit("sub", p.group(), t), -1),
        (lambda p, t: p.emit("mul", p.const(3), t), 3),
        (lambda p, t: p.emit("mul", t, p.group()), None),
        (lambda p, t: p.emit("shl", t, p.const(2)), 4),
        (lambda p, t: p.emit("cast", t, attrs=(i64,)), 1),
        (lambda p, t: p.emit("cast", t, attrs=(u8,)), None),
        (lambda p, t: p.emit("mul", t, p.const(1 << 30)), None),
        (lambda p, t: p.emit("mul", t, t), None),
        (lambda p, t: p.emit("xor", t, p.const(1)), None),
    ],
)
def test_lane_stride_of_index_arithmetic(make, stride):
    assert lane_stride(make) == stride


REFERENCE = {
    "mod": lambda v, c: np.mod(v, c or 1),
    "floordiv": lambda v, c: np.floor_divide(v, c or 1),
    "shr": lambda v, c: v >> (c % 32),
    "and": lambda v, c: v & c,
    "or": lambda v, c: v | c,
    "xor": lambda v, c: v ^ c,
}


@pytest.mark.parametrize("simd", [8, 32])
@pytest.mark.parametrize("name", REFERENCE)
def test_blocks_of_lanes_keep_their_stride_only_where_they_do(name: str, simd: int):
    """Operations of blocks of lanes and constants, exhaustively, against the numbers themselves.

    The block begins at a multiple of 32, negative ones included, or is moved off it.
    """
    for c in range(-70, 140):
        for start in (0, 32, -64, 5):

            def make(p: Handmade, t: Value) -> Value:
                block = p.emit("add", t, p.const(start))  # noqa: B023
                return p.emit(name, block, p.const(c))  # noqa: B023

            found = lane_stride(make, width=64, simd=simd)
            if found is not None:
                t = start + np.arange(64, dtype=np.int64).reshape(-1, simd)
                assert (np.diff(REFERENCE[name](t, c), axis=1) == found).all(), (c, start)


@pytest.mark.parametrize(
    ("name", "c", "stride"),
    [
        ("mod", 64, 1),
        ("and", 63, 1),
        ("xor", 32, 1),
        ("or", 96, 1),
        ("floordiv", 32, 0),
        ("shr", 5, 0),
    ],
)
def test_blocks_of_lanes_are_recognised(name: str, c: int, stride: int):
    def make(p: Handmade, t: Value) -> Value:
        start = p.emit("mul", p.group(), p.const(64))
        return p.emit(name, p.emit("add", start, t), p.const(c))

    assert lane_stride(make, width=64) == stride


def test_contiguous_code_has_no_gather():
    kernel = strided_kernel(f32, 1, 0, 32, masked=False)
    text = compile_kernel(kernel, host()).text
    assert "gather" not in text
    assert "load <32 x float>" in text
    masked = compile_kernel(strided_kernel(f32, 1, 0, 32, masked=True), host()).text
    assert "llvm.masked.load.v32f32" in masked
    assert "load <32 x float>" in masked  # the case that all lanes are active
    assert "gather" in compile_kernel(strided_kernel(f32, 9, 0, 32, masked=False), host()).text


def test_block_of_vectors_is_a_wide_load():
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.emit("mul", p.thread(), p.const(2))
    v = p.load(x, at, count=2)
    p.store(y, at, p.emit("add", v, p.emit("splat", p.const(1.0, f32), attrs=(2,))))
    assert v.type is vector(f32, 2)
    text = compile_kernel(p.done(), host()).text
    assert "load <64 x float>" in text
    assert "gather" not in text


PATTERNS = [
    ("floordiv", 8, 0), ("floordiv", 2, 3), ("mod", 4, 0), ("mod", 16, 5), ("shr", 2, 1),
    ("and", 7, 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "by", "plus"), PATTERNS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("elem", [u8, f32], ids=str)
def test_lanes_at_known_places(name: str, by: int, plus: int, masked: bool, elem: DType):
    """Quotients and remainders of the thread's number: wide loads and shuffles, no gather."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", elem), p.tensor("y", elem, "out")
    at = p.place()
    inner = p.emit("add", p.emit(name, at, p.const(by)), p.const(plus))
    size = 41 if masked else 64
    if masked:
        inside = p.emit("lt", at, p.const(size))
        guarded(p, inside, lambda: p.store(y, at, p.load(x, inner)))
    else:
        p.store(y, at, p.load(x, inner))
    reach = {"floordiv": (size - 1) // by, "shr": (size - 1) >> by}.get(name, by) + plus + 1
    kernel = p.done()
    both(kernel, {"x": data(elem, reach), "y": np.zeros(size, elem.np)}, (2,))
    text = compile_kernel(kernel, X86_64_V4).text
    assert "gather" not in text


@pytest.mark.parametrize("bits", [2, 4, 8, 16])
def test_words_of_packed_bits(bits: int):
    """The word that holds a lane's code, by the number of the code's first bit: no gather."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", u32), p.tensor("y", u32, "out")
    at = p.place()
    word = p.emit("shr", p.emit("mul", at, p.const(bits)), p.const(5))
    p.store(y, at, p.load(x, word))
    kernel = p.done()
    both(kernel, {"x": data(u32, 64 * bits // 32), "y": np.zeros(64, u32.np)}, (2,))
    assert "gather" not in compile_kernel(kernel, X86_64_V4).text
