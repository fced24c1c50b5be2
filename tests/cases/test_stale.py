"""Reported failures of remembered code: other scalars, edited helpers, one name twice."""

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import iron
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.lang import Const, In, Out, Scalar, dims, each, f32, i32, i64, kernel
from iron.runtime.driver import driver
from iron.runtime.drivers.interp import InterpreterDriver
from iron.targets.target import Target
from tests.cases.conftest import blank

(N,) = dims("N")


class Spy:
    """A driver that counts what it is asked to compile."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.name, self.device = inner, inner.name, inner.device
        self.loads = 0

    def target(self) -> Target:
        """The inner driver's."""
        return self.inner.target()

    def load(self, lowered: Kernel) -> Any:
        """Counted."""
        self.loads += 1
        return self.inner.load(lowered)

    def synchronise(self) -> None:
        """The inner driver's."""
        self.inner.synchronise()


@pytest.fixture
def spy(road: str) -> Spy:
    """The test's backend, counting."""
    return Spy(driver("cpu") if road == "cpu" else InterpreterDriver(simd=int(road[6:])))


@kernel
def product_plus(x: In[f32, N, N], y: In[f32, N, N], s: Scalar[i32], out: Out[f32, N, N]):
    j, i = each(N, N)
    total = f32(0)
    for k in range(N):
        total += x[i, k] * y[k, j]
    out[i, j] = total + f32(i64(s))


def test_another_scalar_is_the_same_code(spy: Spy):
    """helion 2793, triton 2939: 1 and 0 are values like any other."""
    one = np.eye(16, dtype=np.float32)
    with iron.use(spy):
        for s in (1, 5, 1, 0, -(2**31)):
            assert (product_plus(one, one, s, out=blank((16, 16))) == one + np.float32(s)).all()
        assert (product_plus(one, one, True) == one + 1).all()
        small = one[:5, :5].copy()
        assert (product_plus(small, small, 7) == small + 7).all()
    assert spy.loads == 1


@kernel
def raised(x: In[f32, N], y: Out[f32, N], *, BY: Const):
    (i,) = each(N)
    y[i] = x[i] + f32(BY)


def test_the_spy_sees_every_compilation(spy: Spy):
    x = np.zeros(3, np.float32)
    with iron.use(spy):
        assert [raised(x, BY=by)[0] for by in (1, 5, 1)] == [1, 5, 1]
    assert spy.loads == 2


PROBE = """from iron.lang import *
(N,) = dims("N")
@kernel
def probe(a: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = a[i] {}
"""


def module(path: Path, text: str) -> Any:
    """The module of a file written now; loading it again into the same name is a reload."""
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


DICT = """from iron.lang import *
(N,) = dims("N")
TABLE = {"twice": lambda v: v * 2.0}
@kernel
def probe(a: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = TABLE["twice"](a[i])
"""


def test_a_helper_is_not_looked_up_in_a_dict_that_may_change(tmp_path: Path):
    chosen = module(tmp_path / "chosen.py", DICT)
    with pytest.raises(KernelError) as wrong:
        chosen.probe(np.arange(3, dtype=np.float32))
    assert wrong.value.id == "E0107"
    assert "`TABLE` is a dict" in str(wrong.value)


def test_kernels_of_one_name_in_two_modules(tmp_path: Path):
    """mlx 3832 and 4275: both are bound before either runs, and each is run twice."""
    a = np.arange(3, dtype=np.float32)
    twice = module(tmp_path / "first.py", PROBE.format("* 2.0"))
    more = module(tmp_path / "second.py", PROBE.format("+ 100.0"))
    bound = [twice.probe.bind(a), more.probe.bind(a)]
    for _ in range(2):
        assert [b().tolist() for b in bound] == [[0, 2, 4], [100, 101, 102]]
    assert more.probe(a).tolist() == [100, 101, 102]
    assert twice.probe(a).tolist() == [0, 2, 4]


def test_kernels_of_one_name_in_one_module(tmp_path: Path):
    body = PROBE.format("+ 100.0").split("\n", 2)[2]
    text = PROBE.format("* 2.0") + "first = probe\n" + body + "second = probe\n"
    both = module(tmp_path / "both.py", text)
    a = np.arange(3, dtype=np.float32)
    bound = [both.first.bind(a), both.second.bind(a)]
    assert [b().tolist() for b in bound] == [[0, 2, 4], [100, 101, 102]]


def test_a_reloaded_module_has_a_new_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    a = np.arange(3, dtype=np.float32)
    path = tmp_path / "reloaded_probe.py"
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    path.write_text(PROBE.format("* 2.0"))
    made = importlib.import_module("reloaded_probe")
    try:
        old = made.probe
        assert old(a).tolist() == [0, 2, 4]
        path.write_text(PROBE.format("+ 100.0"))
        made = importlib.reload(made)
        assert made.probe is not old
        assert made.probe(a).tolist() == [100, 101, 102]
        assert old(a).tolist() == [0, 2, 4]
    finally:
        del sys.modules["reloaded_probe"]
