"""Finds kernel modules by package name and the kernels a module defines; nothing is listed by hand.

Packages are strings from the configuration. A module that cannot be imported is its own error and
hides no other module.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from types import ModuleType

from iron.errors import error
from iron.lang.declare import KernelFunction, PlanFunction


def modules(packages: tuple[str, ...]) -> Iterator[str]:
    """Dotted names of the modules in `packages`, found by walking folders; only packages run."""
    for name in packages:
        try:
            spec = importlib.util.find_spec(name)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            raise error(
                "E0803",
                f"there is no package `{name}`",
                notes=("it is named under `kernels` in the configuration",),
                help="`iron config` shows where each value comes from",
            )
        yield name
        for found in pkgutil.walk_packages(spec.submodule_search_locations, f"{name}."):
            yield found.name


def kernels(module: str) -> dict[str, KernelFunction | PlanFunction]:
    """The kernels and plans that `module` itself defines, in order; imports it.

    They go by their function's name. Where one factory makes several of one name, they go by the
    names that the module gives them.
    """
    loaded: ModuleType = importlib.import_module(module)
    own = {
        variable: value
        for variable, value in vars(loaded).items()
        if isinstance(value, KernelFunction | PlanFunction) and value.fn.__module__ == module
    }
    bearers: dict[str, set[int]] = {}
    for value in own.values():
        bearers.setdefault(value.name, set()).add(id(value))
    return {
        value.name if len(bearers[value.name]) == 1 else variable: value
        for variable, value in own.items()
    }
