"""Which specialisation a call gets: the Consts to try, and executables kept by kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

from iron.analysis.budget import check_budget
from iron.analysis.effects import in_place
from iron.compiler import lower
from iron.front.specialise import Traced
from iron.ir.core import Kernel
from iron.lang.declare import KernelFunction
from iron.lang.parameter import ConstSpec
from iron.runtime.driver import Driver, Executable
from iron.targets.target import Target


@dataclass(frozen=True, slots=True)
class Specialised:
    """A lowered kernel on a driver.

    `in_place` holds the pairs (output, input) that may be the same memory. `traced` says whether
    the source it was read from still means the same.
    """

    kernel: Kernel
    executable: Executable
    in_place: frozenset[tuple[str, str]]
    traced: Traced


_LOADED: WeakKeyDictionary[Kernel, dict[Driver, Specialised]] = WeakKeyDictionary()


def load(read: Traced, driver: Driver) -> Specialised:
    """What was read, lowered and compiled at most once a driver."""
    by_driver = _LOADED.setdefault(read.kernel, {})
    found = by_driver.get(driver)
    if found is None:
        target = driver.target()
        lowered = lower(read.kernel, target)
        check_budget(lowered, target)
        found = Specialised(lowered, driver.load(lowered), in_place(lowered), read)
        by_driver[driver] = found
    return found


def candidates(
    fn: KernelFunction,
    target: Target,
    given: Mapping[str, Any],
    tuned: Mapping[str, Any] | None = None,
) -> Iterator[dict[str, Any]]:
    """The Consts to try, best first: the kernel's choices for the target under its schedule.

    What was `tuned` goes before either, and is given up where nothing else fits with it. What the
    caller gave is never changed. On a CPU a group is one simdgroup wide unless a choice,
    a schedule or the caller says otherwise, and the declared width is tried after that.
    """
    scheduled = _scheduled(fn, target)
    seen: list[dict[str, Any]] = []
    for found, choice in product([tuned, {}] if tuned else [{}], fn.choices(target.family) or [{}]):
        consts = {**scheduled, **choice, **found, **given}
        for attempt in _widths(fn, target, consts):
            if attempt not in seen:
                seen.append(attempt)
                yield attempt


def _widths(fn: KernelFunction, target: Target, consts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    narrow = target.family == "cpu" and "THREADS" not in consts
    if narrow and isinstance(fn.signature.get("THREADS"), ConstSpec):
        yield {**consts, "THREADS": target.simd}
    yield consts


def _scheduled(fn: KernelFunction, target: Target) -> dict[str, Any]:
    """The schedule's entries for the target, from its family to its name."""
    found: dict[str, Any] = {}
    for key in (target.family, *sorted(target.features), target.name):
        found.update(fn.schedule.get(key, {}))
    return found
