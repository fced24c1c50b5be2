"""The codec's bodies inside kernels give the bits they give on numpy, on every road at hand."""

import numpy as np
import pytest

from iron.check.interpret import interpret
from iron.lang import In, Out, Packed, dims, each, f32, formats, kernel, unrolled
from iron.quant.codec.words import lift
from iron.quant.format import FORMATS, Format
from iron.quant.tensor import Planes
from tests.unit.quant.sample import random_tensor, sides

N, K = dims("N K")
FMT = formats("FMT", *FORMATS.values())


@kernel
def decoded(w: Packed[FMT, N, K], y: Out[f32, N, K]):
    """y = decode(w)."""
    n, k = each(N, K)
    y[n, k] = w.decode(n, k)


@kernel
def dotted(w: Packed[FMT, N, K], x: In[f32, K], y: Out[f32, N]):
    """y = decode(w) @ x, chunk by chunk."""
    (n,) = each(N)
    total = f32(0)
    for c in range(K // FMT.vec):
        xs = [x[FMT.at(c) + s + e] for s, size in FMT.runs for e in unrolled(size)]
        total += w.dot(n, c, xs)
    y[n] = total


@kernel
def elements(w: Packed[FMT, N, K], x: In[f32, K], part: Out[f32, N, K], y: Out[f32, N]):
    """Every element with its `lift`, as the parts give it, and y = decode(w) @ x, part by part."""
    (n,) = each(N)
    total = f32(0)
    for p in range(K // FMT.vec * FMT.parts):
        places = [FMT.part_at(p) + s + e for s, size in FMT.part_runs for e in unrolled(size)]
        codes = FMT.part_codes(w, n, p)
        for i in unrolled(len(codes)):
            part[n, places[i]] = codes[i]
        total += FMT.part_dot(w, n, p, [x[k] for k in places])
    y[n] = total


def kinds() -> list[Format]:
    """One format for each code path of the codec."""
    found: dict[tuple[object, ...], Format] = {}
    for f in FORMATS.values():
        width = f.bits if f.body in ("stream", "gptq", "hqq") else 0
        path = (f.body, f.elem, f.algebra, f.scale, f.outer, f.scale_rows, width)
        found.setdefault((*path, f.share < f.vec), f)
    return list(found.values())


def bodies() -> list[Format]:
    """One format for each body."""
    return list({f.body: f for f in kinds()}.values())


def check(fmt: Format, run) -> None:
    n, k = sides(fmt)
    weight = random_tensor(fmt, n, k, seed=3)
    want = weight.decode()
    y = np.full((n, k), np.nan, np.float32)
    run(decoded, {"w": weight, "y": y})
    assert np.array_equal(y.view(np.uint32), want.view(np.uint32))
    x = np.random.default_rng(4).normal(size=k).astype(np.float32)
    z = np.full(n, np.nan, np.float32)
    run(dotted, {"w": weight, "x": x, "y": z})
    wide = want.astype(np.float64)
    size = np.abs(wide) @ np.abs(x)
    assert (np.abs(z - wide @ x) <= 1e-6 * size).all()
    assert (np.abs(np.roll(z, 1) - wide @ x) > 1e-6 * size).any()


@pytest.mark.parametrize("fmt", bodies(), ids=repr)
def test_on_the_interpreter(fmt: Format):
    check(fmt, interpret)


@pytest.mark.parametrize("fmt", kinds(), ids=repr)
def test_on_the_cpu(fmt: Format):
    check(fmt, lambda fn, arguments: fn(**arguments))


def in_parts() -> list[Format]:
    """One format for each way in which a part is decoded."""
    found: dict[tuple[object, ...], Format] = {}
    for f in FORMATS.values():
        if f.parts > 1:
            found.setdefault((f.body, f.elem, f.algebra, f.bits), f)
    return list(found.values())


@pytest.mark.parametrize("fmt", in_parts(), ids=repr)
def test_parts_hold_the_elements(fmt: Format):
    n, k = sides(fmt)
    weight = random_tensor(fmt, n, k, seed=5)
    part, y = np.full((n, k), np.nan, np.float32), np.full(n, np.nan, np.float32)
    x = np.random.default_rng(6).normal(size=k).astype(np.float32)
    interpret(elements, {"w": weight, "x": x, "part": part, "y": y})
    rows, number = np.arange(n)[:, None], np.arange(k)
    want = fmt.code(Planes(weight.planes), rows, number // fmt.block, number % fmt.block)
    assert np.array_equal(part, want + np.float32(lift(fmt)))
    wide = weight.decode().astype(np.float64)
    spread = np.repeat(np.abs(wide).reshape(n, -1, fmt.share).max(-1), fmt.share, -1)
    size = spread @ np.abs(x)
    assert (np.abs(y - wide @ x) <= 2e-6 * size).all()
    assert (np.abs(np.roll(y, 1) - wide @ x) > 2e-6 * size).any()
