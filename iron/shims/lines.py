"""The user's line of an instruction, from debug information made only when there was a fault."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from iron.errors import Loc
from iron.shims import build

_TOOLS = ("llvm-symbolizer-19", "addr2line")


def line_of(source: str, offset: int) -> Loc | None:
    """Where the user wrote what the instruction at `offset` of a compiled unit does, if known.

    The unit is compiled once more with line numbers, which changes no instruction.
    """
    tool = next((t for t in _TOOLS if shutil.which(t)), None)
    if tool is None:
        return None
    with tempfile.TemporaryDirectory(prefix="iron-") as folder:
        known = build.built(source, (*build.unit_flags(), build.LINES), None, "a faulty kernel")
        file = Path(folder) / "unit.so"
        file.write_bytes(known)
        command = [tool, "-e", str(file), "-i", f"0x{offset:x}"]
        said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return _user_line(said)


def _user_line(said: str) -> Loc | None:
    for found in re.finditer(r"^(.+\.py):(\d+)", said, re.MULTILINE):
        return Loc(found[1], int(found[2]))
    return None
