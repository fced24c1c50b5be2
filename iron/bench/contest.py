"""One row: a kernel verified, then timed in turns with its peers and the machine's ceilings.

Everything is said as it happens, so that a silent worker is a hanging one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from iron.bench import launching
from iron.bench.ceilings import Scale
from iron.bench.measure import Beside, Contender, Timings, measure
from iron.bench.peers.record import Attempt, Peer, Subject, peers_of
from iron.bench.points import BenchInputs, Point
from iron.bench.spread import Spread
from iron.bench.verify import Verified, allowance, difference, verify
from iron.check.prepare import Given, arguments, given, output_dtype
from iron.check.tolerance import Array
from iron.dtypes import DType
from iron.errors import KernelError
from iron.quant.tensor import QTensor
from iron.runtime.current import use
from iron.runtime.driver import Driver
from iron.runtime.drivers.cpu_pool import thread_count

OURS = "iron"

MANY = 8.0
"""Operations a byte from which a row is held against a product of matrices."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Options:
    """What to time and how: `peers` names libraries or peers, nothing means all, `none` none.

    `without` names peers that took a worker down before.
    """

    cold: bool = True
    peers: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    seed: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True, slots=True)
class Entry:
    """A peer that takes part: its record, version and call."""

    peer: Peer
    version: str
    attempt: Attempt
    beside: Beside | None = None


def contest(
    point: Point, driver: Driver, scale: Scale, options: Options, beside: Beside | None = None
) -> Iterator[str | Row]:
    """Says what it does, and last the row. Raises `verify.Wrong` and whatever compiling raises.

    The same kernel on the driver of `beside` is a peer.
    """
    yield "inputs"
    found = given(point.case, BenchInputs(options.seed, point.case.label))
    verified: Verified | None = None
    for said in verify(point, driver, found, options.seed):
        if isinstance(said, Verified):
            verified = said
        else:
            yield said
    assert verified is not None
    yield "compile"
    call = Call(point, driver, found)
    with use(driver):
        call.handle()
        driver.synchronise()
    want = call.results()
    entries: list[Entry] = []
    reports: list[Row] = []
    every = chain(_entries(point, call, want, options), _elsewhere(call, want, beside, options))
    for said in every:
        if isinstance(said, Entry):
            entries.append(said)
        elif isinstance(said, str):
            yield said
        else:
            reports.append(said)
    contenders = [Contender(OURS, call.handle)]
    contenders += [Contender(e.peer.name, e.attempt.call, beside=e.beside) for e in entries]
    product = None if options.peers == ("none",) else call.product()
    contenders += scale.contenders(product)
    timings, protocol = Timings(), scale.protocol(options.cold, **options.limits)
    for turn, turns in measure(driver, contenders, protocol, timings):
        if turn % 4 == 0:
            yield f"turn {turn} of {turns}"
    spreads = timings.spreads()
    yield _row(point, call, verified, spreads, entries, reports, scale, options)


class Call:
    """The kernel's own call, bound on the driver, with what binding and calling cost."""

    def __init__(self, point: Point, driver: Driver, found: Given) -> None:
        self.point, self.driver, self.found = point, driver, found
        names = found.outputs
        blank = {n: self._blank(n, shape) for n, shape in names.items()}
        self.outputs = {n: driver.upload(a) for n, a in blank.items()}
        self.inputs = {n: _uploaded(v, driver) for n, v in found.inputs.items() if n not in names}
        merged = replace(found, inputs={**found.inputs, **self.inputs})
        self.arguments = arguments(point.case, merged, self.outputs)
        with use(driver):
            kernel = point.case.kernel
            self.handle, self.first = launching.first_bind(kernel, self.arguments)
            self.later = launching.later_bind(kernel, self.arguments)

    def _blank(self, name: str, shape: tuple[int, ...]) -> Array:
        """An output before the call; what is changed in place starts from its input."""
        if name in self.found.inputs:
            return self.found.inputs[name]
        return np.zeros(shape, output_dtype(self.point.case, name).np)

    def results(self) -> dict[str, Array]:
        """The outputs on the host."""
        return {n: self.driver.download(a) for n, a in self.outputs.items()}

    def subject(self, threads: int) -> Subject:
        """The same call for a peer, on the host's arrays and with outputs of its own."""
        host = self.driver.device == "cpu"
        inputs = self.inputs if host else self.found.inputs
        given = {n: inputs.get(n, self.found.inputs.get(n)) for n in self.arguments}
        fresh = {n: np.array(self._blank(n, s)) for n, s in self.found.outputs.items()}
        case = self.point.case
        return Subject(given, fresh, case.dtypes, case.consts, self.driver.device, threads)

    def moved(self) -> tuple[float, float]:
        """Bytes that must be read and written; a bench that counts for itself says the sum."""
        read = sum(
            v.nbytes for v in self.found.inputs.values() if isinstance(v, np.ndarray | QTensor)
        )
        case = self.point.case
        written = sum(
            math.prod(s) * output_dtype(case, n).bytes for n, s in self.found.outputs.items()
        )
        counted = self._counted(self.point.bench.bytes)
        if counted is not None:
            written = min(written, counted)
            read = counted - written
        return float(read), float(written)

    def flops(self) -> float | None:
        """Declared operations."""
        return self._counted(self.point.bench.flops)

    def product(self) -> DType | None:
        """The dtype of the call, where its operations a byte ask for units of matrices."""
        flops, moved = self.flops() or 0.0, sum(self.moved())
        floats = [t for t in self.point.case.dtypes.values() if t.is_float]
        return floats[0] if floats and flops > MANY * moved else None

    def _counted(self, count: Callable[..., float] | None) -> float | None:
        if count is None:
            return None
        case = self.point.case
        known = {**self.found.env, **case.axes, **case.dtypes, **case.formats}
        names = count.__code__.co_varnames[: count.__code__.co_argcount]
        return float(count(**{n: known[n] for n in names}))


def _uploaded(value: Any, driver: Driver) -> Any:
    if isinstance(value, QTensor):
        planes = {n: driver.upload(p) for n, p in value.planes.items()}
        return QTensor(value.fmt, planes, value.shape)
    return driver.upload(value) if isinstance(value, np.ndarray) else value


def _entries(
    point: Point, call: Call, want: Mapping[str, Array], options: Options
) -> Iterator[str | Entry | Row]:
    """The peers that computed the same, each named before it runs; rows for the others."""
    kernel, device = point.case.kernel.name, call.driver.device
    found = [] if options.peers == ("none",) else peers_of(kernel, device, options.peers)
    for peer, version in found:
        row: Row = {"name": peer.name, "version": version}
        if peer.name in options.without:
            yield {**row, "fault": "took the process down"}
            continue
        yield f"peer {peer.name}"
        try:
            attempt = peer.make(call.subject(thread_count()))
            if attempt is None:
                continue
            attempt.call()
            got = attempt.results()
        except Exception as fault:  # whatever another library raises is its own blank
            text = str(fault).strip()
            yield {
                **row,
                "fault": f"{type(fault).__name__}: {text.splitlines()[0] if text else ''}",
            }
            continue
        error, limit = difference(got, want), allowance(want, attempt.rounds)
        if error > limit:
            yield {**row, "error": error, "fault": f"computes something else ({error:.2g} off)"}
        else:
            yield {**row, "error": error}
            yield Entry(peer, version, attempt)


def _elsewhere(
    call: Call, want: Mapping[str, Array], beside: Beside | None, options: Options
) -> Iterator[str | Entry | Row]:
    """The same kernel on another driver, as a peer."""
    if beside is None:
        return
    other = beside.driver
    name = f"iron on {other.name}"
    row: Row = {"name": name, "version": other.target().name}
    if name in options.without:
        yield {**row, "fault": "took the process down"}
        return
    yield f"peer {name}"
    try:
        there = Call(call.point, other, call.found)
        with use(other):
            there.handle()
        error = difference(there.results(), want)
    except KernelError as fault:
        yield {**row, "fault": str(fault).splitlines()[0]}
        return
    limit = allowance(want, None)
    if error > limit:
        yield {**row, "error": error, "fault": f"computes something else ({error:.2g} off)"}
        return
    yield {**row, "error": error}
    kernel = call.point.case.kernel.name
    attempt = Attempt(there.handle, there.results)
    yield Entry(Peer(name, kernel, lambda subject: attempt), row["version"], attempt, beside)


def _row(
    point: Point,
    call: Call,
    verified: Verified,
    spreads: Mapping[str, Spread],
    entries: list[Entry],
    reports: list[Row],
    scale: Scale,
    options: Options,
) -> Row:
    read, written = call.moved()
    ceilings = scale.rates(spreads)
    entered = {e.peer.name for e in entries}
    host = call.driver.device == "cpu"
    launch = launching.handle_call(call.driver, scale.nothing if host else call.handle)
    return {
        "kernel": point.case.kernel.name,
        "tags": point.tags,
        "shape": point.shape,
        "cache": "cold" if options.cold else "warm",
        "verified": {"cases": verified.cases, "own": verified.own, "worst": verified.worst},
        "read": read,
        "written": written,
        "flops": call.flops(),
        "time": spreads[OURS].document(),
        "ceilings": ceilings.document(),
        "peers": [
            {**r, "time": spreads[r["name"]].document()} if r["name"] in entered else r
            for r in reports
        ],
        "host": {"cold bind": call.first, "warm bind": call.later, "launch": launch},
        "resources": call.handle.resources(),
    }
