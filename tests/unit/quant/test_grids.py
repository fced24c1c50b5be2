"""The codebooks of the IQ types come from the gguf package, and only the known ones are used."""

import sys

import numpy as np
import pytest
from gguf import quants

from iron.errors import KernelError
from iron.quant.codec import grids

NAMES = list(grids.GRIDS)


@pytest.fixture(autouse=True)
def forgotten():
    grids.grid.cache_clear()
    yield
    grids.grid.cache_clear()


@pytest.mark.parametrize("name", NAMES)
def test_the_package_holds_the_known_codebook(name: str):
    _, shape, _ = grids.GRIDS[name]
    assert grids.grid(name).shape == (shape[0] * shape[1],)


@pytest.mark.parametrize("name", NAMES)
def test_one_other_entry_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch):
    owner = getattr(quants, grids.GRIDS[name][0])
    owner.init_grid()
    other = np.array(owner.grid)
    other.flat[-1] += 1
    monkeypatch.setattr(owner, "grid", other)
    with pytest.raises(KernelError, match=f"the codebook of {name} in the installed") as caught:
        grids.grid(name)
    assert caught.value.id == "E0803"


def test_without_the_package(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(KernelError, match="package gguf, which is not installed") as caught:
        grids.grid("iq1")
    assert caught.value.id == "E0803"
    assert "iron-kernels[gguf]" in str(caught.value)
