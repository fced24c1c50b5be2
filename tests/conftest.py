"""The test mode of the IR: an `Op` or `Value` that is written twice fails the test.

Passes build new objects and never change old ones; the objects themselves do not check that, for
speed, so every test runs with classes that do.
"""

from collections.abc import Generator
from typing import Any

import pytest

from iron.ir.core import Op, Value

# What may be filled in once after construction, while it is empty.
FILLED_LATER = {Op: frozenset[str](), Value: frozenset({"name"})}


def write_once(cls: type, later: frozenset[str]) -> Any:
    """A `__setattr__` for a class with slots that refuses the second write of an attribute."""
    slots = {name: getattr(cls, name) for name in cls.__slots__}

    def setattr_once(self: object, name: str, value: object) -> None:
        slot = slots[name]
        try:
            old = slot.__get__(self, cls)
        except AttributeError:
            slot.__set__(self, value)
            return
        if old or name not in later:
            raise AttributeError(f"{cls.__name__}.{name} is written twice: {old!r}, then {value!r}")
        slot.__set__(self, value)

    return setattr_once


@pytest.fixture(scope="session", autouse=True)
def sealed_ir() -> Generator[None]:
    """Every op and value of the session is write-once."""
    with pytest.MonkeyPatch.context() as patch:
        for cls, later in FILLED_LATER.items():
            patch.setattr(cls, "__setattr__", write_once(cls, later), raising=False)
        yield
