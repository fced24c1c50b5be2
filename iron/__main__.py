"""`python -m iron` is the `iron` command."""

from iron.cli import main

main()
