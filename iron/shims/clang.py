"""The compiler of the shims and the offline checks: clang 19, what it is called with, its errors.

Compiled files are kept in the cache, by a digest of all they depend on.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from iron.errors import error
from iron.runtime.cache import Cache

CLANG = "clang-19"
INSTALL = "apt-get install clang-19 lld-19"
FOLDER = Path(__file__).parent


def compiler() -> str:
    """The path of clang. Raises E0603 with the command that installs it."""
    found = shutil.which(CLANG)
    if found is None:
        raise error("E0603", f"{CLANG} is not installed", help=INSTALL)
    return found


@cache
def _identity(path: str) -> str:
    """What changes when another build of the compiler is installed; no process is started."""
    real = Path(path).resolve()
    info = real.stat()
    return f"{real} {info.st_size} {info.st_mtime_ns}"


def compiled(text: str, suffix: str, flags: Sequence[str], cache: Cache | None, name: str) -> bytes:
    """What clang makes of `text`, in a file that ends with `suffix`.

    The text may include the headers beside this module. Raises E0901 with what clang says.
    """
    path = compiler()
    key = digest(path, text, suffix, flags)
    held = cache.get(key) if cache is not None else None
    if held is None:
        held = run(path, text, suffix, flags, name)
        if cache is not None:
            cache.put(key, held, {"kernel": name, "kind": "clang-object"})
    return held


def digest(path: str, text: str, suffix: str, flags: Sequence[str]) -> str:
    """A digest of everything a compiled file depends on."""
    parts = ["clang", _identity(path), _headers(), list(flags), suffix, text, platform.machine()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def _headers() -> str:
    total = hashlib.sha256()
    for file in sorted(FOLDER.glob("*.h")):
        total.update(f"{file.name}\0".encode() + file.read_bytes())
    return total.hexdigest()


def run(path: str, text: str, suffix: str, flags: Sequence[str], name: str) -> bytes:
    """Compiles without the cache."""
    with tempfile.TemporaryDirectory(prefix="iron-") as folder:
        source, made = Path(folder) / f"text{suffix}", Path(folder) / "made"
        source.write_text(text)
        command = [path, *flags, f"-I{FOLDER}", str(source), "-o", str(made)]
        done = subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False
        )
        if done.returncode != 0:
            raise refused(name, done.stderr)
        return made.read_bytes() if made.exists() else b""


def refused(name: str, said: str) -> Exception:
    """The error for text that clang does not take."""
    lines = [line for line in said.splitlines() if ": error:" in line or "fatal" in line]
    return error(
        "E0901",
        f"clang refuses the text of {name}",
        kernel=name,
        notes=tuple((lines or said.splitlines())[:5]),
    )
