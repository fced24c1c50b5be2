"""Random programs from the op table: every road leaves the same bits, and a wrong one is seen."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from iron.check.generate import command, generate, rows
from iron.check.generate.agree import ROADS, agree, reference, same_bits
from iron.check.generate.program import Program, arguments, load, save
from iron.dtypes import DTYPES, bf16, f16, f32
from iron.errors import KernelError
from iron.ir import build
from iron.ir.fold import fold
from iron.ir.ops import copy, fragment, matrix, ring, tile
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.table import TABLE, OpDef
from iron.ir.text import print_kernel
from iron.ir.types import element
from iron.runtime.drivers import cpu_objects

BLOCK = 10
FUZZ = Path(__file__).parents[2] / "build" / "fuzz"  # where a failing program stays, made small


@pytest.mark.fuzz
@pytest.mark.parametrize("first", [0, pytest.param(50_000, marks=pytest.mark.slow), 8_000_000])
def test_roads_agree(first):
    said, _ = command.compare(range(first, first + BLOCK), list(ROADS), FUZZ)
    assert said == []


def test_generation_is_deterministic():
    for seed in (3, 4):
        a, b = generate(seed), generate(seed)
        assert print_kernel(a.kernel) == print_kernel(b.kernel)
        assert a.setting == b.setting
        x, y = arguments(a), arguments(b)
        assert all(same_bits(x.arrays[n], y.arrays[n]).all() for n in x.arrays)
    assert print_kernel(generate(3).kernel) != print_kernel(generate(4).kernel)


def test_generator_reaches_every_row_and_dtype():
    seen: set[tuple[str, str]] = set()
    names: Counter[str] = Counter()
    for seed in range(400):
        for op in generate(seed).kernel.body.walk():
            names[op.name] += 1
            if op.row.sig:
                seen.add((op.name, element(op.args[-1].type).name))
    lowered = (ring, matrix, fragment, copy)
    apart = set().union({"prefetch"}, *map(rows_of, (tile, *lowered)))
    wanted = {(row.name, t.name) for row in rows() for t in DTYPES.values() if t.kind in row.kinds}
    assert wanted - seen == set()
    assert set(names) == set(TABLE) - apart


def rows_of(topic: object) -> set[str]:
    """The rows that a module of the table defines."""
    return {row.name for row in vars(topic).values() if isinstance(row, OpDef)}


def test_programs_leave_varied_values():
    """Outputs that are all alike would hide a difference."""
    varied = 0
    for seed in range(20):
        program = generate(seed)
        given = arguments(program)
        before = given.arrays["trace"].copy()
        reference(program, given)
        changed = given.arrays["trace"] != before
        varied += changed.all() and len(np.unique(given.arrays["trace"])) > changed.size // 3
    assert varied >= 16


# --- the comparison has teeth ---------------------------------------------------------------------

Wrong = Callable[..., object]


def _constant(value):
    """The scalar of a constant or of a splat of one, else None."""
    op = value.op
    if op is not None and op.name == "splat":
        op = op.args[0].op
    return op.attrs[0] if op is not None and op.name == "const" else None


def _is_zero(value) -> bool:
    held = _constant(value)
    return held is not None and held == 0


def _plus_zero(b, row, args):
    """x + 0 is x: wrong for x = -0.0."""
    hit = row.name == "add" and element(args[0].type) is f32 and _is_zero(args[1])
    return args[0] if hit else None


def _times_zero(b, row, args):
    """x * 0 is 0: wrong for infinities, NaN and negative numbers."""
    hit = row.name == "mul" and element(args[0].type) is f32 and _is_zero(args[1])
    return args[1] if hit else None


def _minus_itself(b, row, args):
    """x - x is 0: wrong for infinities and NaN."""
    if row.name == "sub" and args[0] is args[1]:
        return b.const(0, args[0].type)
    return None


def _equals_itself(b, row, args):
    """x == x is true: wrong for NaN."""
    if row.name == "eq" and args[0] is args[1]:
        return b.const(True, row.infer(args, (), ())[0])
    return None


def _shifted_out(b, row, args):
    """A shift by the width or more is 0: wrong, counts are taken modulo the width."""
    if row.name in ("shl", "shr"):
        count = _constant(args[1])
        if count is not None and count >= element(args[0].type).bits:
            return b.const(0, args[0].type)
    return None


@pytest.mark.parametrize(
    ("wrong", "first"),
    [
        (_plus_zero, 40),
        (_times_zero, 35),
        (_minus_itself, 10),
        (_equals_itself, 0),
        (_shifted_out, 20),
    ],
)
def test_a_planted_wrong_fold_is_caught(wrong: Wrong, first: int, monkeypatch):
    def planted(b, row, args, attrs):
        found = wrong(b, row, args)
        return fold(b, row, args, attrs) if found is None else found

    monkeypatch.setattr(build, "fold", planted)
    road, seeds = {"fold": ROADS["fold"]}, range(first, first + 250)
    assert any(d.kind == "values" for seed in seeds for d in agree(generate(seed), road))


@pytest.mark.parametrize(
    ("pattern", "replacement", "first"),
    [
        (r"fsub (<32 x float>|float) (%\S+), (%\S+)", r"fsub \1 \3, \2", 0),
        (r"zext (<32 x i8>)", r"sext \1", 20),
        (r"call \S.*? @llvm\.sqrt\.\w+\((.*?) (%\S+)\)$", r"fadd \1 \2, \2", 0),
    ],
    ids=["swapped difference", "sign extension", "no square root"],
)
def test_a_planted_wrong_instruction_is_caught(pattern, replacement, first, monkeypatch):
    made = cpu_objects.object_code

    def planted(text, target):
        return made(re.sub(pattern, replacement, text, flags=re.M), target)

    monkeypatch.setattr(cpu_objects, "object_code", planted)
    road = {"cpu": ROADS["cpu"]}
    assert any(
        d.kind == "values" for seed in range(first, 120) for d in agree(generate(seed), road)
    )


def test_nans_are_one_and_zeros_are_two():
    a = np.array([np.nan, 0.0, 1.0], np.float32)
    b = np.array([-np.nan, -0.0, 1.0], np.float32)
    b[:1].view(np.uint32)[:] = 0xFFC00001
    for t in (f32, f16, bf16):
        assert same_bits(a.astype(t.np), b.astype(t.np)).tolist() == [True, False, True]


def test_a_dropped_barrier_is_a_race():
    """The interpreter sees most of the races that a missing barrier makes in legal programs."""
    found: Counter[str] = Counter()
    for seed in range(60):
        program = generate(seed)
        barriers = [op for op in program.kernel.body.ops if op.name == "barrier"]
        for barrier in barriers[1::2] if program.kernel.threads > 1 else []:
            sweep = Sweep({"barrier": lambda b, op, args, gone=barrier: () if op is gone else None})
            kernel = replace_blocks(program.kernel, body=sweep.block(program.kernel.body))
            try:
                reference(Program(kernel, program.setting), arguments(program))
            except KernelError as fault:
                found[fault.id] += 1
            else:
                found["none"] += 1
    assert set(found) <= {"E0410", "none"}
    assert found["E0410"] > 3 * found["none"]


# --- shrinking and replay -------------------------------------------------------------------------


def _plant(monkeypatch) -> None:
    def planted(b, row, args, attrs):
        found = _minus_itself(b, row, args)
        return fold(b, row, args, attrs) if found is None else found

    monkeypatch.setattr(build, "fold", planted)


def test_failure_shrinks_to_a_file_that_one_command_replays(monkeypatch, tmp_path: Path, capsys):
    with monkeypatch.context() as patch:
        _plant(patch)
        road = {"fold": ROADS["fold"]}
        seed = next(s for s in range(175, 425) if s % 3 and agree(generate(s), road))
        options = ["--roads", "fold", "--folder", str(tmp_path)]
        assert command.main(["fuzz", str(seed), "1", *options]) == 1
        (file,) = tmp_path.iterdir()
        said = capsys.readouterr().out
        assert f"python -m iron.check.generate replay {file}" in said
        ops = [op.name for op in load(file).kernel.body.walk()]
        assert "sub" in ops
        assert len(ops) < 45
        assert command.main(["replay", str(file), "--roads", "fold"]) == 1
        assert "fold: values: " in capsys.readouterr().out
    assert command.main(["replay", str(file)]) == 0
    assert "agree with the reference" in capsys.readouterr().out


def test_many_programs_run_in_processes_of_their_own(monkeypatch, tmp_path: Path, capsys):
    monkeypatch.setattr(command, "BLOCK", 2)
    options = ["--roads", "fold", "--folder", str(tmp_path), "--jobs", "2"]
    assert command.main(["fuzz", "31", "3", *options]) == 0
    assert "3 programs, " in capsys.readouterr().out


def test_saved_program_is_the_same_program(tmp_path: Path):
    for seed in (1, 2):
        program, file = generate(seed), tmp_path / "p.ir"
        save(program, file)
        again = load(file)
        assert again.setting == program.setting
        assert print_kernel(again.kernel) == print_kernel(program.kernel)


@pytest.mark.parametrize(
    "text", ["", 'kernel "x"', "// setting {", "// setting {}\n", '// setting {"seed": 1']
)
def test_file_that_is_no_program_is_refused(text, tmp_path: Path, capsys):
    file = tmp_path / "p.ir"
    file.write_text(text)
    assert command.main(["replay", str(file)]) == 2
    assert "E0801" in capsys.readouterr().err
    assert command.main(["replay", str(tmp_path / "none.ir")]) == 2
