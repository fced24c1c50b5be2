"""The fastest Consts of a kernel's `tune` space at one bench: verified, then timed in turns.

A configuration that fails one of its cases, or computes something else at the bench's own size, is
told and never timed. One whose requirements do not hold there, for which there is no room, or whose
code is that of an earlier one, is passed over. Rounds of growing length keep the faster ones; what
the launch does by itself takes part in every round, and is given up only for a difference that the
timings hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from iron.bench.alike import like
from iron.bench.ceilings import Scale
from iron.bench.contest import Call, Row
from iron.bench.measure import Contender, Timings, measure
from iron.bench.metrics import AHEAD
from iron.bench.points import BenchInputs, Point
from iron.bench.spread import Spread
from iron.bench.verify import Verified, allowance, difference, verify
from iron.check.cases import run_case
from iron.check.expand import ConcreteCase, Declared
from iron.check.prepare import given, output_dtype
from iron.check.tolerance import Array
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.text import digest
from iron.lang.declare import KernelFunction
from iron.runtime import launch, tune
from iron.runtime.current import use
from iron.runtime.driver import Driver

Config = dict[str, Any]

ROUNDS = ((3, 16), (8, 4), (30, 1))
"""Turns of a round, and how many configurations are kept after it."""


NO_ROOM = ("E0501", "E0502")
"""A configuration that asks for more memory than there is, is passed over too."""

UNWRITTEN = 0x7B
"""The bytes of an output before a configuration writes it: a large number in every dtype."""


@dataclass(slots=True)
class Tried:
    """What came of the configurations: bound to be timed, passed over, and told as wrong; `codes`
    names the first configuration of each code, or what the kernel does as it is."""

    bound: dict[str, Any] = field(default_factory=dict[str, Any])
    passed: list[str] = field(default_factory=list[str])
    wrong: list[str] = field(default_factory=list[str])
    codes: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])


def space(kernel: Declared, case: ConcreteCase) -> list[Config]:
    """Every configuration of the `tune` space that a bench leaves open; none of a plan."""
    if not isinstance(kernel, KernelFunction) or not kernel.tune:
        return []
    names = [n for n in kernel.tune if n not in case.consts]
    return [dict(zip(names, v, strict=True)) for v in product(*(kernel.tune[n] for n in names))]


def named(config: Mapping[str, Any]) -> str:
    """A configuration as text: `THREADS=64,VEC=4`."""
    return ",".join(f"{n}={v}" for n, v in config.items())


def search(
    point: Point,
    driver: Driver,
    scale: Scale,
    cold: bool,
    seed: int,
    limits: Mapping[str, Any],
    again: bool = False,
) -> Iterator[str | Row]:
    """Says what it does, and last the result; what an earlier search found, unless `again`.

    Raises `verify.Wrong`, as a bench does.
    """
    kernel = point.case.kernel
    assert isinstance(kernel, KernelFunction)
    yield "inputs"
    found = given(point.case, BenchInputs(seed, point.case.label))
    name = tune.full_name(kernel)
    where = launch.place(kernel, {**found.inputs, **point.case.consts})
    before = tune.found_before(driver, name, where)
    if before is not None and not again:
        yield {"name": name, "place": where, "kept": True, "passed": [], "wrong": [], **before}
        return
    with tune.ignored():
        for said in verify(point, driver, found, seed):
            if not isinstance(said, Verified):
                yield said
        yield from _searched(point, Call(point, driver, found), scale, cold, seed, limits, where)


def _searched(
    point: Point,
    call: Call,
    scale: Scale,
    cold: bool,
    seed: int,
    limits: Mapping[str, Any],
    where: str,
) -> Iterator[str | Row]:
    kernel = point.case.kernel
    assert isinstance(kernel, KernelFunction)
    with use(call.driver):
        call.handle()
        code = _code(launch.lowered(kernel, call.arguments))
    want, tried = call.results(), Tried(codes={code: "the kernel as it is"})
    every = space(kernel, point.case)
    for number, config in enumerate(every, 1):
        yield f"{number} of {len(every)}: {named(config)}"
        _try(config, point, call, want, seed, tried)
    spreads: dict[str, Spread] = {}
    kept = list(tried.bound)
    for turns, most in ROUNDS:
        yield f"{len(kept)} configurations, {turns} turns"
        protocol = scale.protocol(cold, **{"least": turns, "most": turns, **limits})
        contenders = [Contender("", call.handle), *(Contender(n, tried.bound[n]) for n in kept)]
        timings = Timings()
        for _ in measure(call.driver, contenders, protocol, timings):
            pass
        spreads = timings.spreads()
        kept = sorted(kept, key=lambda n: spreads[n].median)[:most]
    yield _result(point, where, {named(c): c for c in every}, kept, spreads, tried)


def _try(
    config: Config,
    point: Point,
    call: Call,
    want: Mapping[str, Array],
    seed: int,
    tried: Tried,
) -> None:
    """Files the configuration under what came of it."""
    kernel = point.case.kernel
    assert isinstance(kernel, KernelFunction)
    arguments = {**call.arguments, **config}
    try:
        with use(call.driver):
            code = _code(launch.lowered(kernel, arguments))
            bound = kernel.bind(**arguments)
    except KernelError as refused:
        tried.passed.append(f"{named(config)}: {refused.diagnostic.message}")
        return
    twin = tried.codes.setdefault(code, named(config))
    if twin != named(config):
        tried.passed.append(f"{named(config)}: the code of {twin}")
        return
    for case in like(point):
        verdict = run_case(replace(case, choice=config), call.driver.name, seed)
        if verdict.refused in NO_ROOM:
            (why, *_) = verdict.message.splitlines()
            tried.passed.append(f"{named(config)}: {why}")
            return
        if not verdict.ok:
            tried.wrong.append(f"{verdict.label}: {verdict.message}")
            return
    off = _distance(config, point, call, want)
    if off > allowance(want, None):
        tried.wrong.append(f"{named(config)}: {off:.2g} off at {point.shape}")
        return
    tried.bound[named(config)] = bound


def _code(kernel: Kernel) -> tuple[str, ...]:
    """What tells the code of one lowered kernel from that of another."""
    forms = (kernel, kernel.preferred)
    return tuple(digest(form) for form in forms if form is not None)


def _distance(config: Config, point: Point, call: Call, want: Mapping[str, Array]) -> float:
    """How far outputs of the configuration's own are from those of the kernel as it is."""
    case, driver = point.case, call.driver
    fresh: dict[str, Any] = {}
    for name, shape in call.found.outputs.items():
        start = call.found.inputs.get(name)  # what is changed in place starts from its input
        if start is None:
            dtype = output_dtype(case, name).np
            start = np.full(math.prod(shape) * dtype.itemsize, UNWRITTEN, np.uint8)
            start = start.view(dtype).reshape(shape)
        fresh[name] = driver.upload(start)
    with use(driver):
        case.kernel.bind(**{**call.arguments, **fresh, **config})()
    return difference({n: driver.download(a) for n, a in fresh.items()}, want)


def _result(
    point: Point,
    where: str,
    every: Mapping[str, Config],
    kept: list[str],
    spreads: Mapping[str, Spread],
    tried: Tried,
) -> Row:
    plain = spreads[""]
    best = spreads[kept[0]] if kept else plain
    wins = plain.median / best.median > AHEAD and not plain.overlaps(best)
    kernel = point.case.kernel
    assert isinstance(kernel, KernelFunction)
    return {
        "name": tune.full_name(kernel),
        "place": where,
        "kept": False,
        "consts": every[kept[0]] if wins else {},
        "seconds": best.median if wins else plain.median,
        "default": plain.median,
        "tried": len(tried.bound),
        "passed": tried.passed,
        "wrong": tried.wrong,
    }
