"""A module with one piece of its source replaced: known-bad kernels for tests of tests."""

import importlib.util
import inspect
from pathlib import Path
from types import ModuleType


def changed(module: ModuleType, change: tuple[str, str], folder: Path) -> ModuleType:
    """`module` with the first `change[0]` in its source replaced by `change[1]`, imported anew."""
    source = inspect.getsource(module)
    if change[0] not in source:
        raise AssertionError(f"{change[0]!r} is not in {module.__name__}")
    path = folder / f"changed_{module.__name__.rpartition('.')[2]}.py"
    path.write_text(source.replace(change[0], change[1], 1))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made
