"""The model, fetched once, and the record of what its steps bind."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from examples.smollm2.fetch import model_file
from examples.smollm2.generate import chooser
from examples.smollm2.model import Model
from iron.lang import KernelFunction

GOLDENS = json.loads((Path(__file__).parent / "goldens.json").read_text())


@dataclass
class Bound:
    """A model with every kernel launch bound while it was made: (kernel, arguments, handle)."""

    model: Model
    launches: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)

    def of_step(self, count: int) -> list[tuple[str, dict[str, Any], Any]]:
        """The launches of the step for `count` tokens, in order."""
        known = {id(handle): entry for entry in self.launches for handle in entry[2:]}
        return [known[id(handle)] for handle in self.model.step(count).launches]


def bound_model() -> Bound:
    """A fresh model whose steps of 1 and 8 tokens and greedy choice are bound and recorded."""
    out = Bound(Model(model_file()))
    original = KernelFunction.bind

    def bind(kernel: KernelFunction, *args: Any, **kwargs: Any) -> Any:
        handle = original(kernel, *args, **kwargs)
        out.launches.append((kernel.name, kwargs, handle))
        return handle

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelFunction, "bind", bind)
        out.model.step(1)
        out.model.step(8)
        chooser(out.model, 0.0, 0)
    return out


@pytest.fixture(scope="session")
def bound() -> Iterator[Bound]:
    """One model for every test that does not break it."""
    return bound_model()
