"""Files that appear whole or not at all: written beside the target, then renamed."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from iron.errors import KernelError, error


def cannot_write(path: Path, problem: OSError) -> KernelError:
    """E0802 that names the file and the system's reason."""
    return error("E0802", f"{path}: {problem.strerror or problem}")


@contextmanager
def replace(path: Path) -> Generator[IO[bytes]]:
    """A new file that replaces `path` when the block ends well; E0802 when it cannot.

    After a failure the old file is as it was and nothing is left behind.
    """
    part = path.with_name(path.name + f".{os.getpid()}.part")
    try:
        with part.open("wb") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    except OSError as problem:
        raise cannot_write(path, problem) from None
    finally:
        part.unlink(missing_ok=True)
