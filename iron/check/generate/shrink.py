"""Shrinking: a program that fails, cut down op by op while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from iron.check.generate.program import Program
from iron.errors import KernelError
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.table import Trait
from iron.ir.types import Tensor, element
from iron.ir.verify import verify


def shrink(program: Program, fails: Callable[[Program], bool]) -> Program:
    """The smallest program found by deleting ops, many at a time and then one by one.

    `fails` is asked only about kernels that verify; it says whether one still fails as the first
    did. Ends when no single deletion keeps the failure.
    """
    size = len(_ops(program)) // 2
    while size:
        program = _without_runs(program, size, fails)
        size //= 2
    while True:
        smaller = next((p for p in _smaller(program) if fails(p)), None)
        if smaller is None:
            return program
        program = smaller


def _ops(program: Program) -> list[Op]:
    """The ops that can be taken away, last first."""
    return [op for op in program.kernel.body.walk() if _ways(op)][::-1]


def _without_runs(program: Program, size: int, fails: Callable[[Program], bool]) -> Program:
    """The program without those runs of `size` ops that it can do without."""
    at = 0
    while at < len(ops := _ops(program)):
        kernel = without_unused(_cut(program.kernel, set(ops[at : at + size]), 0))
        smaller = Program(kernel, program.setting)
        if _legal(kernel) and fails(smaller):
            program = smaller
        else:
            at += size
    return program


def _smaller(program: Program) -> Iterator[Program]:
    """Programs with one thing less, largest cuts first."""
    for op in sorted(_ops(program), key=_weight, reverse=True):
        for how in range(_ways(op)):
            kernel = without_unused(_cut(program.kernel, {op}, how))
            if _legal(kernel):
                yield Program(kernel, program.setting)


def _weight(op: Op) -> int:
    return 1 + sum(1 for region in op.regions for _ in region.walk())


def _ways(op: Op) -> int:
    """The number of ways to take an op away."""
    if op.name in ("yield", "const", "shared", "table", "splat", "tile_stage"):
        return 0
    if op.name == "if":
        return 3
    return 1 + sum(a.type is r.type for r in op.results[:1] for a in op.args)


def _legal(kernel: Kernel) -> bool:
    try:
        verify(kernel)
    except KernelError:
        return False
    return True


def _cut(kernel: Kernel, targets: set[Op], how: int) -> Kernel:
    """The kernel without `targets`: their results become zeros, an operand, or those of a side."""
    sweep = Sweep({}, fold=False)

    def rule(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op not in targets:
            return None
        if op.name == "if" and how:
            side = op.regions[how - 1]
            sweep.ops(side.ops[:-1])
            return tuple(sweep.values[v] for v in side.yielded)
        if how:
            fitting = [a for a in args if a.type is op.results[0].type]
            return (fitting[how - 1], *(_zero(b, r) for r in op.results[1:]))
        return tuple(_zero(b, r) for r in op.results)

    sweep.rules = dict.fromkeys({op.name for op in targets}, rule)
    return replace_blocks(kernel, body=sweep.block(kernel.body))


def _zero(b: Builder, result: Value) -> Value:
    assert not isinstance(result.type, Tensor)
    return b.const(element(result.type).np.type(0), result.type)


def without_unused(kernel: Kernel) -> Kernel:
    """The kernel without ops whose results nothing uses."""
    while True:
        used = {a for op in kernel.body.walk() for a in op.args}
        kept = Trait.WRITES | Trait.COLLECTIVE | Trait.TERMINATOR
        useless = {
            op
            for op in kernel.body.walk()
            if not (op.row.traits & kept or op.regions) and not used.intersection(op.results)
        }
        if not useless:
            return kernel
        sweep = _Dropper(useless)
        kernel = replace_blocks(kernel, body=sweep.sweep.block(kernel.body))


class _Dropper:
    """A sweep that leaves out ops nobody uses."""

    def __init__(self, useless: set[Op]) -> None:
        self.useless = useless
        rules = dict.fromkeys({op.name for op in useless}, self.rule)
        self.sweep = Sweep(rules, fold=False)

    def rule(self, b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op not in self.useless:
            return None
        return tuple(Value(r.type) for r in op.results)
