"""The command line of the generator: `fuzz FIRST COUNT` and `replay FILE`."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from iron.check.generate import generate
from iron.check.generate.agree import ROADS, Difference, Road, agree
from iron.check.generate.program import Program, load, save
from iron.check.generate.shrink import shrink
from iron.errors import KernelError


def main(argv: list[str] | None = None) -> int:
    """Runs the command; 1 when a road disagrees, 2 when a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m iron.check.generate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="compare roads on the programs of COUNT seeds")
    fuzz.add_argument("first", type=int)
    fuzz.add_argument("count", type=int)
    fuzz.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    replay = commands.add_parser("replay", help="compare roads on one saved program")
    replay.add_argument("file", type=Path)
    for command in (fuzz, replay):
        command.add_argument("--roads", default=",".join(ROADS), help="names, comma separated")
    options = parser.parse_args(argv)
    roads = {name: ROADS[name] for name in options.roads.split(",")}
    if options.command == "replay":
        return _replay(options.file, roads)
    return _fuzz(options.first, options.count, roads, options.folder)


def _replay(file: Path, roads: dict[str, Road]) -> int:
    try:
        found = agree(load(file), roads)
    except (KernelError, OSError) as problem:
        print(problem, file=sys.stderr)
        return 2
    for d in found:
        print(f"{d.road}: {d.kind}: {d.detail}")
    if not found:
        print(f"{', '.join(roads)} agree with the reference")
    return int(bool(found))


def _fuzz(first: int, count: int, roads: dict[str, Road], folder: Path) -> int:
    ops: Counter[str] = Counter()
    failures, start = 0, time.perf_counter()
    for seed in range(first, first + count):
        program = generate(seed)
        ops.update(op.name for op in program.kernel.body.walk())
        try:
            found = agree(program, roads)
        except KernelError as problem:
            found = [Difference("reference", problem.id, str(problem))]
        for d in found:
            failures += 1
            file = report(program, d, roads, folder)
            print(f"seed {seed}: {d.road}: {d.kind}: {d.detail}", flush=True)
            print(f"  python -m iron.check.generate replay {file}", flush=True)
    seconds = time.perf_counter() - start
    print(f"{count} programs, {ops.total()} ops, {failures} disagreements, {seconds:.0f} s")
    print(", ".join(f"{name} {n}" for name, n in ops.most_common()))
    return int(failures > 0)


def report(program: Program, d: Difference, roads: dict[str, Road], folder: Path) -> Path:
    """Shrinks a program that fails like `d` and saves it; returns the file."""
    road = {d.road: roads[d.road]} if d.road in roads else {}

    def fails(smaller: Program) -> bool:
        try:
            return any(x.kind == d.kind for x in agree(smaller, road))
        except KernelError as problem:
            return d.road == "reference" and problem.id == d.kind

    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{program.kernel.name}-{d.road}.ir"
    save(shrink(program, fails), file)
    return file


if __name__ == "__main__":
    raise SystemExit(main())
