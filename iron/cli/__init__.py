"""The `iron` command: one file a command, no device work in this process."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command line; exit status 0, 1 (something failed) or 2 (bad usage)."""
    from iron.cli.app import run

    sys.exit(run(sys.argv[1:]))
