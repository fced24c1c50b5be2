"""Source files as generated code names them: the same in every checkout and installation."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def package_path(file: str) -> str:
    """The path from the outermost package that holds `file`, or its bare name outside packages."""
    path = Path(file)
    top = path.parent
    while (top / "__init__.py").exists():
        top = top.parent
    return path.relative_to(top).as_posix() if top != path.parent else path.name
