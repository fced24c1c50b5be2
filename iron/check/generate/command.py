"""The command line of the generator: `fuzz FIRST COUNT` and `replay FILE`."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from iron.check.generate import generate
from iron.check.generate.agree import (
    BATCH,
    DEVICE_ROADS,
    ROADS,
    Difference,
    Road,
    agree,
    every_road,
    prepare,
)
from iron.check.generate.program import Program, load, save
from iron.check.generate.shrink import shrink
from iron.errors import KernelError

BLOCK = 250  # programs a process compares
ALL = ROADS | DEVICE_ROADS


def main(argv: list[str] | None = None) -> int:
    """Runs the command; 1 when a road disagrees, 2 when a file cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m iron.check.generate", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    fuzz = commands.add_parser("fuzz", help="compare roads on the programs of COUNT seeds")
    fuzz.add_argument("first", type=int)
    fuzz.add_argument("count", type=int)
    fuzz.add_argument("--folder", type=Path, default=Path("build/fuzz"))
    fuzz.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes at a time")
    replay = commands.add_parser("replay", help="compare roads on one saved program")
    replay.add_argument("file", type=Path)
    fuzz.add_argument("--simd", type=int, help="only programs of this simd width")
    for command in (fuzz, replay):
        command.add_argument("--roads", help="names, comma separated; all that are ready here")
    options = parser.parse_args(argv)
    names = options.roads.split(",") if options.roads else list(every_road())
    if options.command == "replay":
        return _replay(options.file, {name: ALL[name] for name in names})
    return _fuzz(options, names)


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


def _fuzz(options: argparse.Namespace, roads: list[str]) -> int:
    """Compares in blocks; with several, each has a process of its own, whose memory it returns."""
    first, count = options.first, options.count
    ops: Counter[str] = Counter()
    failures, start = 0, time.perf_counter()
    seeds = range(first, first + count)
    blocks = [seeds[at : at + BLOCK] for at in range(0, count, BLOCK)]
    for said, seen in _run(blocks, roads, options):
        failures += len(said)
        ops.update(seen)
        for line in said:
            print(line, flush=True)
    seconds = time.perf_counter() - start
    print(f"{count} programs, {ops.total()} ops, {failures} disagreements, {seconds:.0f} s")
    print(", ".join(f"{name} {n}" for name, n in ops.most_common()))
    return int(failures > 0)


def _run(
    blocks: list[range], roads: list[str], options: argparse.Namespace
) -> Iterator[tuple[list[str], Counter[str]]]:
    if len(blocks) == 1:
        yield compare(blocks[0], roads, options.folder, options.simd)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.jobs, spawn, max_tasks_per_child=1) as pool:
        tasks = [pool.submit(compare, b, roads, options.folder, options.simd) for b in blocks]
        for done in tasks:
            yield done.result()


def compare(
    seeds: range, names: list[str], folder: Path, simd: int | None = None
) -> tuple[list[str], Counter[str]]:
    """What to say about each disagreement of the programs of `seeds`, and the ops they had."""
    roads = {name: ALL[name] for name in names}
    ops: Counter[str] = Counter()
    said: list[str] = []
    for program in batches(seeds, names, simd):
        seed = program.setting.seed
        ops.update(op.name for op in program.kernel.body.walk())
        try:
            found = agree(program, roads)
        except KernelError as problem:
            found = [Difference("reference", problem.id, str(problem))]
        for d in found:
            file = report(program, d, roads, folder)
            again = f"python -m iron.check.generate replay {file}"
            said.append(f"seed {seed}: {d.road}: {d.kind}: {d.detail}\n  {again}")
    return said, ops


def batches(seeds: range, names: list[str], simd: int | None) -> Iterator[Program]:
    """The programs of `seeds`, compiled ahead for text backends a batch at a time."""
    for first in range(0, len(seeds), BATCH):
        programs = [generate(seed, simd=simd) for seed in seeds[first : first + BATCH]]
        prepare(programs, names)
        yield from programs


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
