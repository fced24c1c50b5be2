"""The commit that figures belong to."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iron.errors import error

RECEIPTS: Final = "baselines"
"""The folder of receipts: what a run writes does not change what the next one measures."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A work tree's commit, or `none` outside one; `dirty` when files differ from it."""

    commit: str
    dirty: bool = False


def tree(folder: Path) -> Tree:
    """The state of the work tree around `folder`; ignored files and receipts do not count.

    `IRON_COMMIT` names the commit of a copy whose history did not travel with it.
    """
    told = os.environ.get("IRON_COMMIT")
    if told:
        return Tree(told)
    commit = git(folder, "rev-parse", "HEAD")
    status = git(folder, "status", "--porcelain", "--", ":/", f":(exclude){RECEIPTS}")
    if status is None:  # no work tree, or no git
        return Tree("none")
    return Tree(commit.strip() if commit else "none", bool(status.strip()))


def clean(folder: Path, allow_dirty: bool = False) -> Tree:
    """As `tree`; E0805 when figures would belong to no commit, unless that is allowed."""
    found = tree(folder)
    if found.dirty and not allow_dirty:
        raise error(
            "E0805",
            "the work tree has changes that no commit holds",
            notes=("figures are kept with the commit that they were measured at",),
            help="commit the changes, or pass --allow-dirty",
        )
    return found


def git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None when it fails or is not there."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    return done.stdout if done.returncode == 0 else None
