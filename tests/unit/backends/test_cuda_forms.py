"""Every form of a kernel computes the same bits, in the interpreter and as text on fibres."""

import re
from typing import Any

import numpy as np
import pytest

from iron.backends.cuda_forms import forms
from iron.backends.nvrtc import compile_text
from iron.compiler import lower
from iron.dtypes import bf16, f16, f32, u8
from iron.errors import KernelError
from iron.front.bind import TensorArg
from iron.front.bind import bind as bind_arguments
from iron.front.specialise import traced
from iron.ir import interp
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.ir.verify import verify
from iron.lang import Const, In, InOut, Out, dims, dtypes, each, exp, kernel, strided, unrolled
from iron.passes import vectorise as vectorise_module
from iron.passes.combine import combine
from iron.passes.dead import dead
from iron.passes.scalarise import scalarise
from iron.passes.vectorise import vectorise
from iron.shims import cuda_text

R, N, H = dims("R N H")
T = dtypes("T", f32, f16, bf16)


@kernel
def flat(x: In[T, N], y: Out[T, N]):
    (i,) = each(N)
    y[i] = exp(x[i].to(f32)).to(T)


@kernel
def rows(x: In[T, R, N], w: In[T, N], s: In[f32, R], y: Out[T, R, N], z: Out[f32, R, N]):
    i, r = each(N, R)
    v = x[r, i].to(f32) * s[r]
    z[r, i] = v
    y[r, i] = (v + w[i].to(f32)).to(T)


@kernel
def halves(x: In[T, R, 2 * H], y: Out[T, R, H]):
    i, r = each(H, R)
    y[r, i] = (x[r, i].to(f32) - x[r, i + H].to(f32)).to(T)


@kernel
def moved(x: In[T, ..., strided], y: Out[T, ...]):
    (i,) = each(y.size)
    at, rest = [], i
    for d in unrolled(x.rank - 1, -1, -1):
        at = [rest % y.shape[d], *at]
        rest = rest // y.shape[d]
    y[tuple(at)] = x[tuple(at)]


@kernel
def summed(x: In[T, R, N], y: Out[f32, N]):
    (i,) = each(N)
    total = f32(0)
    for r in range(R):
        total += x[r, i].to(f32)
    y[i] = total


@kernel
def pieces(x: In[T, N], y: Out[T, N], *, VEC: Const = 2):
    (c,) = each(N // VEC)
    i = c * VEC
    y[i : i + VEC] = (x[i : i + VEC].to(f32) * 2.0).to(T)


@kernel
def bumped(x: InOut[T, N], flag: In[u8, N]):
    (i,) = each(N)
    x[i] = (x[i].to(f32) + flag[i].to(f32)).to(T)


@kernel
def reversed_(x: In[T, N], y: Out[T, N]):
    (i,) = each(N)
    y[i] = x[N - 1 - i]


SHAPES: dict[str, tuple[Any, dict[str, tuple[int, ...]]]] = {
    "flat": (flat, {"x": (640,), "y": (640,)}),
    "rows": (rows, {"x": (5, 48), "w": (48,), "s": (5,), "y": (5, 48), "z": (5, 48)}),
    "halves": (halves, {"x": (3, 96), "y": (3, 48)}),
    "moved": (moved, {"x": (3, 5, 32), "y": (3, 5, 32)}),
    "summed": (summed, {"x": (3, 80), "y": (80,)}),
    "pieces": (pieces, {"x": (320,), "y": (320,)}),
    "bumped": (bumped, {"x": (640,), "flag": (640,)}),
}
FIXED = {"s": f32, "z": f32, "flag": u8}


def lowered(name: str, dtype: Any, *, odd: bool = False) -> tuple[Kernel, dict[str, Any], dict]:
    """A kernel, its arguments (outputs NaN) and its dims."""
    declared, shapes = SHAPES[name]
    rng = np.random.default_rng(3)
    arrays: dict[str, Any] = {}
    for n, shape in shapes.items():
        t = FIXED.get(n, f32 if (name, n) == ("summed", "y") else dtype)
        shape = (*shape[:-1], shape[-1] + 2 * odd) if shape[-1] > 8 else shape
        values = rng.normal(size=shape) if t.is_float else rng.integers(0, 5, shape)
        arrays[n] = np.asarray(values).astype(np.float32).astype(t.np)
    for n in ("y", "z"):
        if n in arrays:
            arrays[n][...] = np.float32(np.nan)
    args = {
        n: TensorArg(
            next(t for t in (f32, f16, bf16, u8) if t.np == a.dtype),
            a.shape,
            tuple(s // a.itemsize for s in a.strides),
        )
        for n, a in arrays.items()
    }
    binding = bind_arguments(declared, args, {})
    return lower(traced(declared, binding, simd=32).kernel), arrays, binding.dims


def run(kernel: Kernel, arrays: dict[str, Any], dims: dict[str, int]) -> dict[str, Any]:
    """The arrays after the interpreter ran the kernel on copies."""
    held = {n: a.copy() for n, a in arrays.items()}
    extents, failed = evaluate(kernel, {}, dims)
    assert not failed
    interp.run(kernel, held, {}, dims, extents)
    return held


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(a[n].tobytes() == b[n].tobytes() for n in a)


@pytest.mark.parametrize("dtype", [f32, f16, bf16], ids=str)
@pytest.mark.parametrize("name", SHAPES)
def test_neighbours_compute_the_same(name: str, dtype: Any):
    plain, arrays, dims = lowered(name, dtype)
    straight = next(forms(plain)).kernel if name == "moved" else vectorise(plain)
    want = run(plain, arrays, dims)
    joined = dead(combine(scalarise(straight)))
    verify(straight)
    verify(joined)
    if (name, dtype) != ("pieces", f32) or straight is not plain:
        assert straight is not plain
    assert same(run(straight, arrays, dims), want)
    assert same(run(joined, arrays, dims), want)


def test_what_divides_is_required():
    plain, _, dims = lowered("rows", f16, odd=True)
    _, failed = evaluate(vectorise(plain), {}, dims)
    assert failed


def test_other_orders_stay_as_they_are():
    args = {n: TensorArg(f32, (64,), (1,)) for n in ("x", "y")}
    binding = bind_arguments(reversed_, args, {})
    made = lower(traced(reversed_, binding, simd=32).kernel)
    assert vectorise(made) is made


def test_a_wrong_step_is_seen(monkeypatch: pytest.MonkeyPatch):
    """Rows whose ends are not required to lie between neighbours give other bits."""
    monkeypatch.setattr(vectorise_module._Spread, "needs", lambda self, value, step: True)
    plain, arrays, dims = lowered("rows", f32, odd=True)
    made = vectorise(plain)
    held = {n: a.copy() for n, a in arrays.items()}
    try:
        interp.run(made, held, {}, dims, evaluate(made, {}, dims)[0])
    except KernelError:  # an index outside is as good a sign as other bits
        return
    assert not same(held, run(plain, arrays, dims))


def test_the_text_of_neighbours_computes_the_same():
    """All kernels in one unit for fibres, in two dtypes; the driver takes the best form."""
    found = [lowered(name, dtype) for name in SHAPES for dtype in (f32, f16)]
    driver = cuda_text.open_driver()
    driver.prepare(plain for plain, *_ in found)
    for plain, arrays, sizes in found:
        held = {n: a.copy() for n, a in arrays.items()}
        driver.load(plain).bind(held, {}, sizes, evaluate(plain, {}, sizes)[0])()
        assert same(held, run(plain, arrays, sizes)), plain.name


def test_a_vector_of_one_is_no_word():
    args = {n: TensorArg(f16, (64,), (1,)) for n in ("x", "y")}
    binding = bind_arguments(pieces, args, {"VEC": 1})
    made = lower(traced(pieces, binding, simd=32).kernel)
    for form in forms(made):
        compile_text(form.code.text.source, "sm_80")


@pytest.mark.parametrize("name", SHAPES)
def test_machine_code_has_wide_words(name: str):
    plain, _, _ = lowered(name, f16)
    best = next(forms(plain))
    made = compile_text(best.code.text.source, "sm_90a", "probe", best.code.text.lines)
    assert re.search(r"ld\.global\.v[24]\.[uf]32", made.ptx)
    assert best.aligned


@kernel
def many_of_one_name(x: In[f32, N], y: Out[f32, N]):
    """More values of one name than its letter has types: i8, i16, i32, i64."""
    (k,) = each(N)
    total = x[k]
    for n in unrolled(70):
        i = total * f32(n + 2)
        total = i * i + i
    y[k] = total


def test_no_value_is_called_like_a_type():
    args = {n: TensorArg(f32, (64,), (1,)) for n in ("x", "y")}
    made = lower(traced(many_of_one_name, bind_arguments(many_of_one_name, args, {}), 32).kernel)
    source = next(forms(made)).code.text.source
    assert "f32 i33 = " in source
    assert not re.search(r"f32 i(8|16|32|64) = ", source)
