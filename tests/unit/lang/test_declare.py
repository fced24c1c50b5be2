"""Declarations become records, and wrong ones are refused at the function's line."""

import subprocess
import sys
import textwrap

import pytest

from iron.errors import KernelError
from iron.lang import (
    RED,
    Const,
    In,
    InOut,
    Out,
    Packed,
    Scalar,
    cdiv,
    dims,
    dtypes,
    f16,
    f32,
    formats,
    inline,
    kernel,
    partial,
    plan,
    strided,
    u8,
    u32,
)

R, N, K, BITS = dims("R N K BITS")
T = dtypes("T", f32, f16)
FMT = formats("FMT", "a", "b")


def test_tensors():
    assert In[T, R, N].dims == (R, N)
    assert In[T, ...].dims is None
    assert In[T, R, N, strided].strided
    assert (In[T, ..., strided].dims, In[T, ..., strided].strided) == (None, True)
    assert Out[u32, 8, 3, partial].partial
    assert (In[T, N] | None).optional
    assert Scalar[f32].dims == ()
    assert InOut[u32, 1].kind == "inout"
    assert Packed[FMT, N, K].format is FMT
    assert Packed["FMT", "N", "K"].dims == (N, K)


@pytest.mark.parametrize(
    ("size", "value"),
    [
        (N // 2, 8),
        (3 * N + 1, 52),
        (cdiv(K * BITS, 8), 13),
        (cdiv(N, 4), 5),
        ((N - 2) % 4, 3),
        (1 - N, -16),
        (100 // N, 5),
        (100 % N, 15),
        (2 + N, 19),
        (cdiv(100, N), 6),
    ],
)
def test_dim_expressions(size, value):
    assert size.evaluate({"N": 17, "K": 33, "BITS": 3}) == value


def test_dim_names_and_text():
    size = cdiv(K * (BITS + 1), 8)
    assert size.names == ("K", "BITS")
    assert repr(size) == "cdiv(K * (BITS + 1), 8)"
    with pytest.raises(KeyError):
        size.evaluate({"K": 1})


def test_kernel_record():
    @kernel(choose={"VEC": {"gpu": [4, 1], "cpu": [1, 4]}}, variants={"FLIP": [False, True]})
    def k(x: In[T, N], w: In[T, N] | None, y: Out[T, N], *, VEC: Const, FLIP: Const = False):
        pass

    assert list(k.signature) == ["x", "w", "y", "VEC", "FLIP"]
    assert k.signature["w"].default is None
    assert k.signature["FLIP"].default is False
    assert k.choices("cpu") == [{"VEC": 1}, {"VEC": 4}]
    assert k.choices("gpu") == [{"VEC": 4}, {"VEC": 1}]
    assert k.variants == {"FLIP": (False, True)}
    assert k.loc.file == __file__


def test_suite_fills():
    @plan
    def k(x: In[T, N], y: Out[T, N]):
        pass

    @k.oracle
    def _(x):
        return {"y": x}

    @k.case(N=[1, 3], tol=RED("N"))
    def _(rng, N):
        return {"x": rng.normal(N)}

    k.bench(N=64, flops=lambda N: N, reference="torch:thing")
    (case,) = k.suite.cases
    assert case.axes == {"N": (1, 3)}
    assert repr(case.tol) == "RED(N)"
    assert case.loc.file == __file__
    assert k.suite.benches[0].sizes == {"N": 64}
    with pytest.raises(ValueError, match="second oracle"):
        k.oracle(lambda x: x)


def test_inline_with_options():
    @inline(exact=True)
    def f(x):
        return x

    assert f.exact
    assert f(3) == 3


def declare(body: str) -> None:
    names = {n: v for n, v in globals().items() if not n.startswith("test_")}
    exec(textwrap.dedent(body), names)


@pytest.mark.parametrize(
    "parameters",
    [
        "x",
        "x: int",
        "x: In[T, N], *y: In[T, N]",
        "x: In[T, N], VEC: Const",
        "x: In[T, N], *, y: In[T, N]",
        "x: In[T, N // 2]",
        "x: In[T, N], y: Out[T, R + 1]",
        "x: In[T, N, partial]",
        "x: Out[T, N, strided]",
        "x: In[N, N]",
        "x: In[T, -1]",
        "x: In[T, 'N']",
        "x: Scalar[f32, N]",
        "x: Packed[FMT]",
        "x: 'In[T, UNKNOWN]'",
    ],
)
def test_wrong_parameters_are_refused(parameters: str):
    with pytest.raises(KernelError) as caught:
        declare(f"@kernel\ndef k({parameters}):\n    pass\n")
    assert caught.value.id == "E0114"


@pytest.mark.parametrize("option", ["variants", "tune", "choose"])
def test_options_name_a_const(option: str):
    with pytest.raises(KernelError, match="`x` is not a Const parameter"):
        declare(f"@kernel({option}={{'x': [1]}})\ndef k(x: In[T, N]):\n    pass\n")


@pytest.mark.parametrize("names", ["", "N N", "1"])
def test_wrong_dims_are_refused(names: str):
    with pytest.raises(KernelError):
        dims(names)


def test_postponed_annotations_see_the_enclosing_function():
    source = """
        from __future__ import annotations
        from iron.lang import *
        def make():
            (M,) = dims("M")
            @kernel
            def k(x: In[f32, M], y: Out[f32, M]):
                _ = M
            return k
        print(make().signature["x"].dims)
    """
    code = textwrap.dedent(source)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(M,)"


def test_a_dtype_may_be_fixed():
    assert In[u8, N].dtype is u8
