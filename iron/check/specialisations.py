"""The code that a kernel's cases need on a target: what is built, emitted and kept as snapshots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from iron.check.expand import ConcreteCase
from iron.check.interpret import read_call
from iron.check.prepare import Prepared, prepare
from iron.emit.manifest import Specialised
from iron.errors import KernelError
from iron.ir.host import evaluate
from iron.lang.declare import KernelFunction
from iron.runtime.specialisation import candidates
from iron.targets.target import Target


def specialisations(
    cases: Iterable[ConcreteCase], targets: Iterable[Target]
) -> Iterator[tuple[ConcreteCase, Target, Specialised | KernelError]]:
    """Each different kernel that the cases of one kernel give, for each target, or the error.

    It is the one that a call with the case's arguments would run on the target, so a case whose
    sizes the target's choices refuse gives none, and equal kernels come once.
    """
    seen: set[tuple[Target, str]] = set()
    held = list(targets)
    for case in cases:
        prepared = prepare(case)
        for target in held:
            try:
                found = specialise(case, prepared, target)
            except KernelError as wrong:
                yield case, target, wrong
                continue
            if found is not None and (target, found.symbol) not in seen:
                seen.add((target, found.symbol))
                yield case, target, found


def specialise(case: ConcreteCase, prepared: Prepared, target: Target) -> Specialised | None:
    """What a call at `case` runs on `target`; None where its requirements refuse the sizes or it
    names threads that are no whole simdgroups there."""
    declared = case.kernel
    assert isinstance(declared, KernelFunction)
    if not case.fits(target.simd):
        return None
    offered = declared.choices(target.family)
    if case.choice and not any(case.choice.items() <= c.items() for c in offered):
        return None
    for consts in candidates(declared, target, case.consts):
        try:
            read = read_call(
                declared,
                {**prepared.arguments, **consts},
                target.simd,
                shared_bytes=target.shared_bytes,
            )
        except KernelError as refused:
            if refused.id != "E0702":
                raise
            continue
        _, failed = evaluate(read.kernel, read.scalars, read.binding.dims)
        if not failed:
            fixed = {name: read.binding.dims[name] for name in sorted(read.fixed)}
            return Specialised(declared, read.kernel, read.binding, fixed, frozenset(case.consts))
    return None
