"""Runs pyright on the sources whose types can have changed since they were last right.

What pyright says of a file follows from the file, from what it imports and from the packages that
are installed. A file for which a digest of all that is known to be right is left out, whichever
checkout it was seen in. `--all` leaves none out.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "iron"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
KNOWN = CACHE / "iron-types.txt"
MOST = 20_000  # digests that are kept, the latest


def sources(root: Path) -> dict[str, Path]:
    """The modules of the package by dotted name."""
    found: dict[str, Path] = {}
    for path in sorted((root / PACKAGE).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(tree: ast.Module, modules: Mapping[str, Path]) -> Iterator[str]:
    """The modules of the package that a source names, and the packages on the way to them."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        # Imports are statements, so expressions hold none.
        waiting += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)]
        names: list[str] = []
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                names += [".".join(parts[: n + 1]) for n in range(len(parts))]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        yield from (name for name in names if name in modules)


def digests(root: Path, surroundings: str) -> dict[str, str]:
    """For each file, a digest of everything that its types follow from."""
    modules = sources(root)
    texts = {name: path.read_bytes() for name, path in modules.items()}
    direct = {name: set(imported(ast.parse(text), modules)) for name, text in texts.items()}
    own = {name: hashlib.sha256(text).hexdigest() for name, text in texts.items()}
    found: dict[str, str] = {}
    for name, path in modules.items():
        reached, waiting = {name}, [name]
        while waiting:
            new = direct[waiting.pop()] - reached
            reached |= new
            waiting += new
        whole = json.dumps([surroundings, name, [(n, own[n]) for n in sorted(reached)]])
        found[str(path.relative_to(root))] = hashlib.sha256(whole.encode()).hexdigest()
    return found


def surroundings(root: Path) -> str:
    """The installed packages, pyright among them, the interpreter, and pyright's settings."""
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pyright"]
    packages = sorted((d.name, d.version) for d in distributions() if d.name != "iron-kernels")
    return json.dumps([sys.version, settings, packages])


def run(
    now: Mapping[str, str], known: Path, check: Callable[[Sequence[str]], int]
) -> tuple[int, int]:
    """The status of `check` for the files not known to be right, and how many they are."""
    right = _read(known)
    doubtful = [file for file, digest in now.items() if digest not in right]
    status = check(doubtful) if doubtful else 0
    if status == 0 and doubtful:
        kept = dict.fromkeys([*_read(known), *now.values()])
        known.parent.mkdir(parents=True, exist_ok=True)
        fresh = known.with_name(f"{known.name}.{os.getpid()}")
        fresh.write_text("\n".join([*kept][-MOST:]))
        fresh.replace(known)
    return status, len(doubtful)


def _read(known: Path) -> dict[str, None]:
    try:
        return dict.fromkeys(known.read_text().split())
    except OSError:
        return {}


def main() -> int:
    """Pyright's exit status."""

    def pyright(files: Sequence[str]) -> int:
        command = (sys.executable, "-m", "pyright", "--pythonpath", sys.executable, *files)
        return subprocess.run(command, cwd=ROOT).returncode

    now = digests(ROOT, surroundings(ROOT))
    if "--all" in sys.argv:
        return pyright(list(now))
    status, count = run(now, KNOWN, pyright)
    print(f"types of {count} files checked, {len(now) - count} as they were")
    return status


if __name__ == "__main__":
    sys.exit(main())
