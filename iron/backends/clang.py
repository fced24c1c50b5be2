"""Clang 19: where it is, how text is compiled with it, and what its refusals mean.

It makes code objects for AMD GPUs, checks Metal text, and compiles text for this processor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from iron.errors import KernelError, error

CLANG = "clang-19"
INSTALL = "apt-get install clang-19 lld-19"


def compiler() -> str:
    """The path of clang. Raises E0603 with the command that installs it."""
    found = shutil.which(CLANG)
    if found is None:
        raise error("E0603", f"{CLANG} is not installed", help=INSTALL)
    return found


def identity() -> str:
    """What changes when another build of clang is installed; starts no process."""
    return _identity(compiler())


@cache
def _identity(path: str) -> str:
    real = Path(path).resolve()
    info = real.stat()
    return f"{real} {info.st_size} {info.st_mtime_ns}"


def compiled(text: str, suffix: str, flags: Sequence[str], name: str) -> bytes:
    """The file that clang makes of `text`, itself in a file that ends with `suffix`.

    It is empty where the flags ask for none. Raises E0901 with what clang says.
    """
    path = compiler()
    with tempfile.TemporaryDirectory(prefix="iron-") as folder:
        source, made = Path(folder) / f"text{suffix}", Path(folder) / "made"
        source.write_text(text)
        # From inside the folder: its name would be part of what clang makes.
        command = [path, *flags, source.name, "-o", made.name]
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
        if done.returncode != 0:
            raise _refused(name, done.stderr)
        return made.read_bytes() if made.exists() else b""


def _refused(name: str, said: str) -> KernelError:
    lines = [line for line in said.splitlines() if "error:" in line]
    notes = tuple((lines or said.splitlines())[:5])
    return error("E0901", f"clang refuses the text of {name}", kernel=name, notes=notes)
