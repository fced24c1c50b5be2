"""During a forward pass nothing but Iron kernels computes: numpy arithmetic on its memory trips."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from examples.smollm2 import model as engine
from examples.smollm2.generate import generate, prefill
from tests.smollm2.conftest import Bound

pytestmark = pytest.mark.xdist_group("smollm2")
MOVES = {np.broadcast_to, np.reshape, np.shape, np.may_share_memory, np.shares_memory}


class Tripped(AssertionError):
    """numpy computed on the model's memory."""


class Wired(np.ndarray):
    """Memory on which numpy may look and move, not compute."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **_: Any) -> Any:
        raise Tripped(f"numpy.{ufunc.__name__} during forward")

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in MOVES:
            raise Tripped(f"{func.__name__} during forward")
        return super().__array_function__(func, types, args, kwargs)


class WiredNumpy:
    """numpy as the example sees it, with every allocation wired."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def zeros(self, shape: Any, dtype: Any) -> Any:
        return np.zeros(shape, dtype).view(Wired)

    def broadcast_to(self, array: Any, shape: Any) -> Any:
        return np.broadcast_to(array, shape, subok=True)


@pytest.fixture
def wired(bound: Bound, monkeypatch: pytest.MonkeyPatch) -> engine.Model:
    """A model whose buffers and caches are wired."""
    monkeypatch.setattr(engine, "np", WiredNumpy())
    return engine.Model(bound.model.path)


def test_forward_computes_with_kernels_alone(wired: engine.Model, bound: Bound):
    tokens = [504, 1573, 33059, 40061, 504, 1573, 33059, 40061]
    for start, some in ((0, tokens), (8, tokens[:1])):
        got = wired.forward(some, start)
        assert isinstance(got, Wired)
        assert isinstance(wired.keys, Wired)
        assert np.array_equal(got.view(np.ndarray), bound.model.forward(some, start))


def test_the_wire_trips(wired: engine.Model):
    with pytest.raises(Tripped, match="add"):
        wired.keys + 1
    with pytest.raises(Tripped, match="sum"):
        np.sum(wired.forward([504], 0))


def test_no_other_tensor_library_is_loaded():
    code = "import examples.smollm2.generate, sys; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_draws_at_a_temperature_follow_the_seed(bound: Bound):
    prompt = [504, 1573, 33059]
    first = list(generate(bound.model, prompt, 4, temperature=1.0, seed=3))
    assert first == list(generate(bound.model, prompt, 4, temperature=1.0, seed=3))
    others = [list(generate(bound.model, prompt, 4, temperature=1.0, seed=s)) for s in (4, 5)]
    assert any(other != first for other in others)
    cold = list(generate(bound.model, prompt, 2, temperature=1e-3, seed=9))
    assert cold == list(generate(bound.model, prompt, 2))


def test_rows_of_a_step_equal_single_tokens(bound: Bound):
    tokens = [504, 1573, 33059, 40061, 12, 7, 900, 33]
    together = [row for row in prefill(bound.model, tokens)]
    for position, token in enumerate(tokens):
        alone = bound.model.forward([token], position)[0]
        assert np.abs(alone - together[position]).max() < 1e-4


def test_a_full_cache_is_refused(bound: Bound):
    with pytest.raises(ValueError, match="holds 1024 positions"):
        bound.model.forward([1, 2], 1023)
    with pytest.raises(ValueError, match="empty"):
        list(generate(bound.model, [], 1))
