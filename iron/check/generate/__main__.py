"""Runs the command line of `command`."""

from iron.check.generate.command import main

if __name__ == "__main__":
    raise SystemExit(main())
