"""What holds for every test: ops and values are write-once, garbage is collected seldom.

Passes build new objects and never change old ones; the objects themselves do not check that, for
speed, so every test runs with classes that do: an `Op` or `Value` that is written twice fails it.
"""

from collections.abc import Generator
from typing import Any

import pytest

from iron.ir.core import Op, Value
from iron.worker.garbage import seldom_collected

# What may be filled in once after construction, while it is empty.
FILLED_LATER = {Op: frozenset[str](), Value: frozenset({"name"})}


def pytest_configure() -> None:
    """In every process that collects or runs tests."""
    seldom_collected()


def sealed(cls: Any, later: frozenset[str]) -> type:
    """A class like `cls` that refuses the second write of an attribute.

    An object gets it when it has been made: a check of each write while it is made would cost more
    than the compiler.
    """

    def setattr_once(self: object, name: str, value: object) -> None:
        old = getattr(self, name, None)
        if old or name not in later:
            raise AttributeError(f"{cls.__name__}.{name} is written twice: {old!r}, then {value!r}")
        object.__setattr__(self, name, value)

    return type(cls.__name__, (cls,), {"__slots__": (), "__setattr__": setattr_once})


def sealing(cls: Any, later: frozenset[str]) -> Any:
    """An `__init__` after which the object is sealed."""
    make, after = cls.__init__, sealed(cls, later)

    def init(self: Any, *args: Any, **named: Any) -> None:
        make(self, *args, **named)
        self.__class__ = after

    return init


@pytest.fixture(scope="session", autouse=True)
def sealed_ir() -> Generator[None]:
    """Every op and value of the session is write-once."""
    with pytest.MonkeyPatch.context() as patch:
        for cls, later in FILLED_LATER.items():
            patch.setattr(cls, "__init__", sealing(cls, later))
        yield
