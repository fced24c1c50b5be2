"""The commit that figures belong to."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from iron.errors import error

RECEIPTS: Final = "baselines"
"""The folder of a project's receipts."""


@dataclass(frozen=True, slots=True)
class Tree:
    """A work tree's commit, or `none` outside one; `dirty` when files differ from it."""

    commit: str
    dirty: bool = False


def tree(folder: Path, receipts: Path | None = None) -> Tree:
    """The state of the work tree around `folder`; ignored files and receipts do not count.

    What a run writes does not change what the next one measures: neither the project's receipts nor
    those in the folder `receipts`. `IRON_COMMIT` names the commit of a copy whose history did not
    travel with it.
    """
    told = os.environ.get("IRON_COMMIT")
    if told:
        return Tree(told)
    commit = git(folder, "rev-parse", "HEAD")
    left_out = [f":(exclude){RECEIPTS}", *_elsewhere(folder, receipts)]
    status = git(folder, "status", "--porcelain", "--", ":/", *left_out)
    if status is None:  # no work tree, or no git
        return Tree("none")
    return Tree(commit.strip() if commit else "none", bool(status.strip()))


def _elsewhere(folder: Path, receipts: Path | None) -> list[str]:
    """What leaves out receipts of another folder; git refuses to hear of one outside its tree."""
    top = git(folder, "rev-parse", "--show-toplevel") if receipts is not None else None
    if receipts is None or top is None or not receipts.resolve().is_relative_to(top.strip()):
        return []
    return [f":(exclude,glob){receipts.resolve()}/*/*.json"]


def clean(folder: Path, allow_dirty: bool = False, receipts: Path | None = None) -> Tree:
    """As `tree`; E0805 when figures would belong to no commit, unless that is allowed."""
    found = tree(folder, receipts)
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
