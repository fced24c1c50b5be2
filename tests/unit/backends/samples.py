"""Texts of the library's kernels, each in its first case, for the tests of every C-style target."""

from collections.abc import Iterator
from functools import cache

from iron.backends.clike.dialect import Dialect
from iron.backends.clike.render import Text, render
from iron.cli.configuration import load
from iron.cli.specimen import choose, library
from iron.compiler import lower
from iron.ir.core import Kernel
from iron.lang.declare import KernelFunction
from iron.passes.scalarise import scalarise
from iron.targets.target import Target


@cache
def kernels(target: Target) -> dict[str, Kernel]:
    """Every kernel of the library, lowered for a target."""
    found, faults = library(load())
    assert faults == []
    return {
        name: lower(choose(declared, target, None, {}).kernel, target)
        for name, declared in sorted(found.items())
        if isinstance(declared, KernelFunction)
    }


def texts(target: Target, dialect: Dialect) -> Iterator[tuple[str, Text]]:
    """The text of each kernel."""
    for name, kernel in kernels(target).items():
        yield name, render(scalarise(kernel), dialect, f"iron_{name}")
