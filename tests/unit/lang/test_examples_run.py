"""Kernels in docstrings are kernels: each is read, and runs on the interpreter at two widths."""

import doctest
import importlib.util
import inspect

import numpy as np
import pytest

import iron.lang as lang
from iron.check.interpret import read_call
from iron.dtypes import DType
from iron.errors import KernelError
from iron.lang import KernelFunction, ParamSpec
from iron.lang.dim import evaluate

WIDTH_SHOWS = {"simd_ballot"}  # a lane mask is of one simdgroup
SIZES = {"R": 3, "N": 66}
HEAD = 'from iron.lang import *\n\nR, N = dims("R N")\n\n'


def source(function: object) -> str:
    """The examples of a docstring as the text of a module."""
    examples = doctest.DocTestParser().get_examples(inspect.getdoc(function) or "")
    return HEAD + "\n".join(e.source for e in examples if not e.want)


WITH_KERNEL = {
    name: function
    for name in lang.__all__
    if inspect.isfunction(function := getattr(lang, name)) and "@kernel" in source(function)
}


def kernels(text: str, folder) -> list[KernelFunction]:
    path = folder / "example.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [k for k in vars(module).values() if isinstance(k, KernelFunction)]


def argument(spec: ParamSpec, rng: np.random.Generator):
    """A random input, or an output to be written."""
    assert isinstance(spec.dtype, DType)
    shape = tuple(evaluate(size, SIZES) for size in spec.dims)
    if spec.kind == "out":
        return np.zeros(shape, spec.dtype.np)
    return spec.dtype(rng.integers(0, 50, shape))


def run(kernel: KernelFunction, simd: int) -> dict[str, np.ndarray]:
    """The arguments after a run; the interpreter faults when an output is not written."""
    rng = np.random.default_rng(3)
    given = {n: argument(s, rng) for n, s in kernel.signature.items()}
    read = read_call(kernel, given, simd)
    read.run(read.kernel)
    return given


@pytest.mark.parametrize("name", sorted(WITH_KERNEL))
def test_example_runs(name: str, tmp_path):
    found = kernels(source(WITH_KERNEL[name]), tmp_path)
    assert found
    for kernel in found:
        narrow, wide = run(kernel, 8), run(kernel, 32)
        for parameter, value in wide.items() if name not in WIDTH_SHOWS else ():
            exact = parameter != "y" or value.dtype.kind != "f"
            close = np.array_equal if exact else np.allclose
            assert close(narrow[parameter], value)


def test_most_thread_and_tile_functions_show_a_kernel():
    assert len(WITH_KERNEL) == 25


def test_a_wrong_example_is_seen(tmp_path):
    text = source(lang.shared).replace("barrier()", "pass")
    with pytest.raises(KernelError, match="E0410"):
        run(kernels(text, tmp_path)[0], 8)


@pytest.mark.parametrize(
    ("name", "truth"),
    [
        ("group_sum", lambda x: [x.sum()]),
        ("group_scan", lambda x: np.cumsum(x) - x),
        ("group_xor", lambda x: x.reshape(-1, 2)[:, ::-1].reshape(-1)),
        ("group_min", lambda x: np.repeat(x.reshape(-1, 8).min(1), 8)),
        ("group_reduce", lambda x: np.full(64, x.argmax())),
        ("shared", lambda x: x[::-1]),
    ],
)
def test_examples_mean_what_they_say(name: str, truth, tmp_path):
    given = run(kernels(source(getattr(lang, name)), tmp_path)[0], 8)
    np.testing.assert_array_equal(given["y"], truth(given["x"]))
