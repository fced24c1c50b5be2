"""Random tile programs: every road leaves the same bits, and a changed program is seen."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from iron.check.generate.agree import agree, reference, unlike
from iron.check.generate.program import arguments
from iron.check.generate.tile_programs import rows, tile_program
from iron.check.generate.tile_roads import TILE_ROADS, on_threads
from iron.check.mutate import mutants
from iron.dtypes import f32
from iron.errors import KernelError
from iron.ir.ops import tile as tile_rows
from iron.ir.rebuild import rebuild
from iron.ir.table import OpDef
from iron.ir.text import print_kernel

QUICK = {n: r for n, r in TILE_ROADS.items() if n != "threads of 32"}


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", [0, 2_000_004])
def test_roads_agree(seed: int):
    assert agree(tile_program(seed), QUICK) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 200, 10))
def test_more_roads_agree(first: int):
    for seed in range(first, first + 10):
        assert agree(tile_program(seed), TILE_ROADS) == [], seed


def test_generation_is_deterministic():
    assert print_kernel(tile_program(3).kernel) == print_kernel(tile_program(3).kernel)
    assert print_kernel(tile_program(3).kernel) != print_kernel(tile_program(4).kernel)


def test_the_generator_reaches_every_row():
    names: set[str] = set()
    for seed in range(90):
        names |= {op.name for op in tile_program(seed).kernel.body.walk()}
    wanted = {r.name for r in vars(tile_rows).values() if isinstance(r, OpDef)}
    assert wanted <= names
    assert {r.name for r in rows() if set(r.kinds) & set("fiu")} <= names


def left(seed: int, kernel=None):
    """What a program leaves; the program itself may be another kernel of its parameters."""
    program = tile_program(seed)
    given = arguments(program)
    reference(program if kernel is None else replace(program, kernel=kernel), given)
    return given.arrays


def test_outputs_are_varied():
    """Outputs that are all alike would hide a difference."""
    values = [a for s in range(8) for n, a in left(s).items() if n.startswith("y")]
    assert np.mean([len(np.unique(a)) > 2 for a in values if a.size > 3]) > 0.6


def test_changed_programs_are_seen():
    """Of programs with one operation changed, many leave other bits; some changes mean nothing."""
    program, want = tile_program(4), left(4)
    changed = list(islice(mutants(program.kernel), 0, None, 60))
    seen = 0
    for _, kernel in changed:
        try:
            seen += bool(unlike(want, left(4, kernel)))
        except KernelError:
            seen += 1
    assert len(changed) >= 6
    assert seen >= 0.5 * len(changed)


@pytest.mark.parametrize(("name", "seed"), [("tile_reduce", 20), ("tile_transpose", 0), ("mma", 2)])
def test_a_wrong_lowering_is_seen(name: str, seed: int):
    """Threads that leave out an operation, as if its rule were wrong."""

    def broken(program, given):
        wrong = {
            "tile_reduce": lambda b, op, args: (
                (b.emit("tile_reduce", *args, attrs=("max", 0)),)
                if op.attrs[0] == "add" and len(op.args[0].type.shape) == 1
                else None
            ),
            "tile_transpose": lambda b, op, args: (
                (args[0],)
                if len(set(op.args[0].type.shape)) == 1 and op.args[0].type.shape[0] > 1
                else None
            ),
            "mma": lambda b, op, args: (args[2],) if op.args[0].type.elem is f32 else None,
        }[name]
        on_threads(8)(replace(program, kernel=rebuild(program.kernel, {name: wrong})), given)

    assert agree(tile_program(seed), {"broken": broken})
