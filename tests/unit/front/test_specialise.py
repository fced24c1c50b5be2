"""Bindings and specialisations: what unifies, what is a number, what is read again and when."""

import importlib.util
import linecache
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iron.dtypes import i32, i64
from iron.errors import KernelError
from iron.front import Binding, PackedArg, TensorArg, bind, specialise, traced
from iron.front.expressions import read_constant
from iron.front.grammar import EXPRESSIONS
from iron.front.state import Rule
from iron.ir.types import tensor
from iron.lang import (
    Const,
    In,
    KernelFunction,
    Out,
    Packed,
    Scalar,
    bf16,
    cdiv,
    dims,
    dtypes,
    each,
    f16,
    f32,
    formats,
    groups,
    i8,
    kernel,
    partial,
    shared,
    strided,
    thread,
    u8,
    unrolled,
)
from iron.quant.format import FORMATS
from tests.unit.front.trial import read, refusal, run

R, N, K, M = dims("R N K M")
T = dtypes("T", f32, f16, bf16)
FMT = formats("FMT", "gguf_q4_0", "gguf_q8_0")
LEVEL = 2


@kernel
def sized(x: In[T, R, N], y: Out[T, R, N], *, THREADS: Const = 64):
    (r,) = groups(R, threads=THREADS)
    pile = shared((N,), f32)
    for i in strided(N):
        pile[i] = x[r, i].to(f32)
    for i in strided(N):
        y[r, i] = pile[i].to(T)


@kernel
def free(x: In[T, R, N], y: Out[T, R, N]):
    r, i = each(R, N)
    y[r, i] = x[r, i]


@kernel
def halves(x: In[T, R, N], y: Out[T, R, cdiv(N, 2) + 1], s: Scalar[T], *, M: Const = 3):
    (r,) = groups(R)
    for i in range(cdiv(N, 2) + 1):
        y[r, i] = s


@kernel
def packed_rows(w: Packed[FMT, N, K], y: Out[f32, N, K]):
    n, k = each(N, K)
    y[n, k] = w.decode(n, k) + f32(w.blocks.shape[1] * 0)


@kernel
def leveled(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i] * LEVEL


@kernel
def whole_row(x: In[f32, N], y: Out[f32, N, partial]):
    groups(1, threads=32)
    y[thread] = x[thread]


def arg(*shape: int, dtype: Any = f32, strides: tuple[int, ...] | None = None) -> TensorArg:
    """A tensor argument."""
    return TensorArg(dtype, shape, strides)


def refused(id: str, fn: KernelFunction, described: dict[str, Any], **more: Any) -> KernelError:
    """The error of a binding."""
    with pytest.raises(KernelError) as wrong:
        bind(fn, described, more.pop("consts", {}), **more)
    assert wrong.value.id == id, str(wrong.value)
    return wrong.value


# --- binding --------------------------------------------------------------------------------------


def test_dims_unify():
    made = bind(free, {"x": arg(2, 5, dtype=f16)}, {})
    assert made.dims == {"R": 2, "N": 5}
    assert made.dtypes == {"T": f16}
    assert made.tensors["y"] == arg(2, 5, dtype=f16)
    wrong = refused("E0701", free, {"x": arg(2, 5), "y": arg(2, 6)})
    assert "dim N is 5 in `x` but 6 in `y`" in str(wrong)


def test_dtypes_unify():
    assert "dtype T" in str(refused("E0701", free, {"x": arg(2, 5), "y": arg(2, 5, dtype=f16)}))
    assert "`x` is i8" in str(refused("E0701", free, {"x": arg(2, 5, dtype=i8)}))


def test_rank_presence_and_strides():
    assert "2 axes (R, N)" in str(refused("E0701", free, {"x": arg(2, 5, 1)}))
    refused("E0703", free, {})
    refused("E0703", free, {"x": None})
    wrong = refused("E0701", free, {"x": arg(2, 5, strides=(10, 2))})
    assert "2 apart" in str(wrong)
    bind(free, {"x": arg(2, 1, strides=(10, 2))}, {})
    bind(free, {"x": arg(2, 5, strides=(-9, 1))}, {})


def test_sizes_are_checked_and_given():
    made = bind(halves, {"x": arg(2, 5)}, {}, scalars=("s",))
    assert made.tensors["y"] == arg(2, 4)
    assert made.scalars == {"s": f32}
    assert made.consts == {"M": 3}
    wrong = refused("E0701", halves, {"x": arg(2, 5), "y": arg(2, 5)}, scalars=("s",))
    assert "takes (2, 4)" in str(wrong)


def test_consts():
    refused("E0703", halves, {"x": arg(2, 5)}, consts={"Q": 1})

    @kernel
    def defaults(
        x: In[T, N],
        y: Out[T, N],
        *,
        A: Const,
        B: Const = lambda N, simd_width, A: N + simd_width + A,
        C: Const = lambda Q: Q,
    ):
        groups(1)

    refused("E0703", defaults, {"x": arg(5)})
    assert "needs Q" in str(refused("E0707", defaults, {"x": arg(5)}, consts={"A": 1}))
    made = bind(defaults, {"x": arg(5)}, {"A": 1, "C": 0}, simd=8)
    assert made.consts == {"A": 1, "B": 14, "C": 0}


def test_a_default_that_asks_for_the_group_memory_of_the_target():
    @kernel
    def staged(x: In[f32, N], *, ROOM: Const = lambda N, shared_bytes: min(N, shared_bytes // 4)):
        groups(1)

    for most, held in ((1 << 10, 256), (64 << 10, 9000)):
        made = bind(staged, {"x": arg(9000)}, {}, shared_bytes=most)
        assert made.consts == {"ROOM": held}
    assert bind(staged, {"x": arg(9000)}, {}).consts == {"ROOM": 8192}  # what every GPU has


def test_a_dtype_that_nothing_gives():
    @kernel
    def filled(y: Out[T, N], *, N: Const):
        (i,) = each(N)
        y[i] = 1.0

    refused("E0707", filled, {}, consts={"N": 3})
    made = bind(filled, {}, {"N": 3}, {"T": bf16})
    assert made.tensors["y"] == arg(3, dtype=bf16)
    assert refused("E0701", filled, {}, consts={"N": 3}, dtypes={"T": u8}) is not None


def test_packed():
    planes = {"blocks": TensorArg(u8, (4, 36))}
    weight = PackedArg(FORMATS["gguf_q4_0"], planes, (4, 64))
    refused("E0703", packed_rows, {})
    other = PackedArg(FORMATS["mlx_int4_g64"], planes, (4, 64))
    assert "takes gguf_q4_0" in str(refused("E0601", packed_rows, {"w": other}))
    made = bind(packed_rows, {"w": weight}, {})
    assert made.dims == {"N": 4, "K": 64}
    assert made.tensors["y"] == arg(4, 64)


# --- specialisation -------------------------------------------------------------------------------


def made_for(fn: KernelFunction, binding: Binding) -> Any:
    """The traced kernel."""
    return traced(fn, binding, 32)


def test_dims_are_numbers_on_demand_only():
    one = made_for(sized, bind(sized, {"x": arg(2, 50)}, {}))
    assert one.fixed == {"N": 50}
    assert [p.name for p in one.kernel.params if p.role == "dim"] == ["R"]
    assert made_for(free, bind(free, {"x": arg(2, 50)}, {})).fixed == {}


def test_the_same_kernel_serves_other_sizes():
    def sizes(fn: KernelFunction, *shape: int, dtype: Any = f32) -> Any:
        return specialise(fn, bind(fn, {"x": arg(*shape, dtype=dtype)}, {}), 32)

    assert sizes(free, 2, 50) is sizes(free, 7, 9)
    assert sizes(free, 2, 50) is not sizes(free, 2, 50, dtype=f16)
    assert sizes(sized, 2, 50) is sizes(sized, 3, 50)
    assert sizes(sized, 2, 50) is not sizes(sized, 2, 51)


def test_scalars_are_never_baked_in():
    @kernel
    def shifted(x: In[f32, N], y: Out[f32, N], s: Scalar[i32]):
        (i,) = each(N)
        y[i] = x[i] + f32(s.to(i64))

    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    made = []
    for s in (1, 5, 1, 0):
        made.append(run(shifted, x=x, y=y, s=s))
        assert (y == 1 + s).all()
    assert len({id(k) for k in made}) == 1


def test_consts_are_keyed_by_type_and_value():
    @kernel
    def scaled(x: In[f32, N], y: Out[f32, N], *, BY: Const):
        (i,) = each(N)
        y[i] = x[i] * (2.0 if BY else 1.0) + f32(BY)

    def kernel_of(by: Any) -> Any:
        return specialise(scaled, bind(scaled, {"x": arg(4)}, {"BY": by}), 32)

    values = [1, 1.0, 0.0, -0.0, True, np.float32(0.0), np.float32(-0.0)]
    made = [kernel_of(v) for v in values]
    assert len({id(k) for k in made}) == len(values)
    assert kernel_of(1) is made[0]


def test_a_changed_global_is_read_again(monkeypatch: pytest.MonkeyPatch):
    x, y = np.ones(5, np.float32), np.zeros(5, np.float32)
    first = run(leveled, x=x, y=y)
    assert y[0] == 2
    assert run(leveled, x=x, y=y) is first
    monkeypatch.setattr(sys.modules[__name__], "LEVEL", 5)
    assert run(leveled, x=x, y=y) is not first
    assert y[0] == 5


def test_indices_grow_to_64_bits_when_an_axis_needs_them():
    def index(fn: KernelFunction, *shape: int) -> Any:
        return specialise(fn, bind(fn, {"x": arg(*shape)}, {}), 32).index

    assert index(sized, 2**20, 2**15) is i32
    assert index(free, 2**10, 2**10) is i32
    assert index(free, 2**16, 2**15) is i64
    assert index(whole_row, 2**31) is i64
    assert index(whole_row, 2**31 - 1) is i32


def test_64_bit_indices_mix_with_i32():
    @kernel
    def mixed(x: In[f32, N], used: In[i32, 1], y: Out[f32, N]):
        groups(1, threads=32)
        n = min(used[0], N)
        at = i32(0)
        for i in range(n):
            if x[i] > 0.0:
                at += thread
        y[at] = x[n - 1]

    binding = bind(mixed, {"x": arg(2**31), "used": arg(1, dtype=i32)}, {})
    made = specialise(mixed, binding, 32)
    assert made.index is i64
    (loop,) = [op for op in made.body.walk() if op.name == "for"]
    assert [v.type for v in loop.results] == [i64]


def test_partial_and_strided_reach_the_parameters():
    made = specialise(whole_row, bind(whole_row, {"x": arg(40)}, {}), 32)
    assert [p.partial for p in made.params if p.role == "tensor"] == [False, True]
    assert made.params[0].type is tensor(f32, 1, "in")


# --- source ---------------------------------------------------------------------------------------


def load(path: Path, text: str) -> Any:
    """A module from a file written now."""
    path.write_text(text)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


HEAD = "from iron.lang import *\n(N,) = dims('N')\n"


def test_a_kernel_without_source():
    space: dict[str, Any] = {}
    text = "@kernel\ndef k(x: In[f32, N], y: Out[f32, N]):\n    groups(1)\n"
    exec(HEAD + text, space)
    assert refusal(space["k"], x=np.ones(4, np.float32), y=np.ones(4, np.float32)).id == "E0108"


def test_a_file_that_changed_since_import(tmp_path: Path):
    body = "@kernel\ndef k(x: In[f32, N], y: Out[f32, N]):\n    groups(1, threads=32)\n"
    path = tmp_path / "changing.py"
    module = load(path, HEAD + body + "    y[thread] = x[thread]\n")
    path.write_text("# one line more\n" + HEAD + body)
    linecache.checkcache(str(path))
    wrong = refusal(module.k, x=np.ones(32, np.float32), y=np.ones(32, np.float32))
    assert wrong.id == "E0108"
    assert "changed" in str(wrong)


def test_indented_kernels_and_lambdas(tmp_path: Path):
    text = (
        HEAD
        + "def make(k):\n"
        + "\tadd_k = lambda v: v + k\n"
        + "\t@kernel\n"
        + "\tdef inner(x: In[f32, N], y: Out[f32, N]):\n"
        + "\t\t(i,) = each(N)\n"
        + "\t\ty[i] = add_k(x[i]) + absent\n"
        + "\treturn inner\n"
    )
    module = load(tmp_path / "indented.py", text)
    x, y = np.ones(4, np.float32), np.ones(4, np.float32)
    wrong = refusal(module.make(3), x=x, y=y)
    assert wrong.id == "E0105"
    assert wrong.diagnostic.loc is not None
    assert wrong.diagnostic.loc.col == text.split("\n")[7].index("absent")
    module = load(tmp_path / "indented2.py", text.replace(" + absent", ""))
    run(module.make(3), x=x, y=y)
    assert (y == 4).all()


# --- nothing ends in an internal traceback --------------------------------------------------------


def test_a_failure_of_the_compiler_names_the_statement(monkeypatch: pytest.MonkeyPatch):
    def broken(trace: Any, node: Any) -> Any:
        raise IndexError("planted")

    monkeypatch.setitem(EXPRESSIONS, type(read_tree()), Rule(broken, frozenset({"value", "kind"})))
    wrong = refusal(free_of_memo(), x=np.ones(4, np.float32), y=np.ones(4, np.float32))
    assert wrong.id == "E0901"
    assert "planted" in str(wrong)
    assert "x[i] * 2" in str(wrong)


def read_tree() -> Any:
    """A constant's node."""
    import ast

    assert read_constant is not None
    return ast.Constant(1)


def free_of_memo() -> KernelFunction:
    """A kernel declared anew, so that it is read anew."""

    @kernel
    def twice(x: In[f32, N], y: Out[f32, N]):
        (i,) = each(N)
        y[i] = x[i] * 2

    return twice


def test_a_deep_expression_is_refused_politely(tmp_path: Path):
    deep = "+".join(["x[i]"] * 900)
    text = HEAD + "@kernel\ndef k(x: In[f32, N], y: Out[f32, N]):\n    (i,) = each(N)\n"
    module = load(tmp_path / "deep.py", text + f"    y[i] = {deep}\n")
    wrong = refusal(module.k, x=np.ones(4, np.float32), y=np.ones(4, np.float32))
    assert wrong.id == "E0101"
    assert "nested too deeply" in str(wrong)


def test_large_unrolled_counts_are_refused():
    @kernel
    def endless(x: In[f32, N], y: Out[f32, N]):
        (i,) = each(N)
        for _ in unrolled(10**9):
            y[i] = x[i]

    assert refusal(endless, x=np.ones(4, np.float32), y=np.ones(4, np.float32)).id == "E0106"


def test_read_is_verified():
    assert read(free, x=np.ones((2, 3), np.float32), y=np.ones((2, 3), np.float32)).each
