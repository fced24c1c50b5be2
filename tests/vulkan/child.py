"""What a process of its own does on the software device at one lane width.

    python -m tests.vulkan.child WHAT ..
    cases HALF | whole NAME.. | share NAME.. | fuzz FIRST COUNT | controls | again | writes | ways

Mesa reads LP_NATIVE_VECTOR_WIDTH once a process, and a layer is chosen with the instance, so the
tests start one of these for each. It prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import iron
from iron.backends.spirv import guarded
from iron.backends.spirv.encode import Encoder
from iron.check.cases import Runner, Verdict, check, run_case
from iron.check.expand import expand
from iron.check.generate import generate
from iron.check.generate.agree import DEVICE_ROADS, agree
from iron.dtypes import f32, i32
from iron.errors import KernelError
from iron.ir.core import Kernel, Op
from iron.ir.types import tensor
from iron.runtime.driver import driver
from iron.runtime.drivers.vulkan import VulkanDriver, launch, memory
from iron.runtime.drivers.vulkan.hazards import Hazards
from iron.runtime.drivers.vulkan.pipeline import Row
from iron.runtime.drivers.vulkan.validation import Listener
from iron.targets.target import Target
from iron.worker.discover import kernels, modules
from iron.worker.garbage import seldom_collected
from tests.turns import turn
from tests.unit.backends.spirv.test_latency import looked_up
from tests.unit.ir.handmade import Handmade

encoding = sys.modules[Encoder.__module__]


def library() -> dict[str, Any]:
    """Every kernel and plan."""
    found = (kernels(module) for module in modules(("iron.kernels",)))
    return {name: kernel for some in found for name, kernel in some.items()}


def on(backend: Any) -> Runner:
    """Runs kernels on a driver."""

    def run(kernel: Any, arguments: dict[str, Any]) -> None:
        with iron.use(backend):
            kernel(**arguments)

    return run


def cases(half: int) -> dict[str, Any]:
    """The middle case of every second kernel, with the validation layer listening."""
    listener = Listener()
    opened = VulkanDriver(listener)
    faults, passed = [], 0
    for found in list(library().values())[half::2]:
        every = expand(found)
        verdict = run_case(every[len(every) // 2], on(opened))
        passed += verdict.status == "pass"
        if not verdict.ok:
            faults.append(f"{verdict.label}: {verdict.message}")
    return {"faults": faults, "passed": passed, "simd": opened.target().simd, **said(listener)}


def whole(names: list[str]) -> dict[str, Any]:
    """Every case of some kernels, with the validation layer listening."""
    return heard(lambda opened: [v for name in names for v in check(library()[name], on(opened))])


def share(names: list[str]) -> dict[str, Any]:
    """The cases of some kernels that fall to this width; the other gets those between."""

    def mine(opened: VulkanDriver) -> list[Verdict]:
        half = opened.target().simd // 16
        cases = [c for name in names for c in turn(expand(library()[name]), half, 2)]
        return [run_case(case, on(opened)) for case in cases]

    return heard(mine)


def heard(verdicts: Callable[[VulkanDriver], list[Verdict]]) -> dict[str, Any]:
    """What a driver's cases came to, with the validation layer listening."""
    listener = Listener()
    opened = VulkanDriver(listener)
    found = verdicts(opened)
    faults = [f"{v.label}: {v.message}" for v in found if not v.ok]
    passed = sum(v.status == "pass" for v in found)
    return {"faults": faults, "passed": passed, "simd": opened.target().simd, **said(listener)}


def fuzz(first: int, count: int) -> dict[str, Any]:
    """Random programs, bit for bit."""
    faults = []
    for seed in range(first, first + count):
        faults += [f"{seed}: {d.kind}: {d.detail}" for d in agree(generate(seed), DEVICE_ROADS)]
    return {"faults": faults, "simd": driver("vulkan").target().simd}


def said(listener: Listener) -> dict[str, Any]:
    """What the layer said so far, shortened."""
    return {"messages": [m[:400] for m in listener.messages]}


# --- controls: mistakes that must be heard --------------------------------------------------------


def copying(elements: int = 64, shared: int = 0) -> Kernel:
    """y[i] = x[i]; with `shared`, through a group array of that many floats."""
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.place()
    value = p.load(x, at)
    if shared:
        held = p.emit("shared", attrs=(tensor(f32, 1, "shared", (shared,)),))
        p.store(held, p.const(shared - 1, i32), value)
        value = p.load(held, p.const(shared - 1, i32))
    p.store(y, at, value)
    return p.done()


@contextmanager
def changed(owner: Any, name: str, value: Any) -> Iterator[None]:
    """An attribute with another value for a while."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def plain(opened: VulkanDriver) -> None:
    """Nothing wrong: two launches, the second reads what the first wrote."""
    a, b, c = (opened.upload(np.zeros(64, np.float32)) for _ in range(3))
    code = opened.load(copying())
    for x, y in ((a, b), (b, c)):
        code.bind({"x": x, "y": y}, {}, {}, (2,))()
    opened.synchronise()


def large_grid(opened: VulkanDriver) -> None:
    """More groups along x than the device takes."""
    x, y = (opened.upload(np.zeros(32 * 70000, np.float32)) for _ in range(2))
    rows = changed(launch, "rows", lambda groups, most: [Row(0, groups, 1)])
    with rows, changed(encoding, "folded", lambda kernel, target: 1):
        opened.load(copying()).bind({"x": x, "y": y}, {}, {}, (70000,))()
        opened.synchronise()


def much_shared(opened: VulkanDriver) -> None:
    """A group array beyond the device's limit."""
    loaded = opened.load(copying(shared=1 << 14))
    loaded.loaded(loaded.forms.form(0))


def no_barrier(opened: VulkanDriver) -> None:
    """Two dispatches in one command buffer: the second reads what the first wrote, at once."""
    dispatched_twice(opened, lambda commands: None)


def with_barrier(opened: VulkanDriver) -> None:
    """The same, with the barrier that every launch has."""
    dispatched_twice(opened, lambda commands: opened.opened.queue.ordered(commands))


def dispatched_twice(opened: VulkanDriver, between: Callable[[int], None]) -> None:
    """The layer looks for hazards inside a command buffer, so both dispatches are in one."""
    a, b, c = (opened.upload(np.zeros(64, np.float32)).memory.range for _ in range(3))
    loaded = opened.load(copying())
    pipeline = loaded.loaded(loaded.forms.form(0)).pipeline
    block = bytes(pipeline.push_bytes)
    with opened.opened.queue.once() as commands:
        pipeline.bound((a, b), [(Row(0, 2, 1), block, None)]).record(commands)
        between(commands)
        pipeline.bound((b, c), [(Row(0, 2, 1), block, None)]).record(commands)


def in_turns(opened: VulkanDriver) -> None:
    """Two launches that each read what the other wrote."""
    a, b = (opened.upload(np.zeros(64, np.float32)) for _ in range(2))
    code = opened.load(copying())
    there, back = (code.bind({"x": x, "y": y}, {}, {}, (2,)) for x, y in ((a, b), (b, a)))
    for _ in range(2):
        there()
        back()
    opened.synchronise()


def without_waiting(opened: VulkanDriver) -> None:
    """The same, joined as if they had nothing to do with each other."""
    with changed(Hazards, "waits", lambda self, step: False):
        in_turns(opened)


def outside(opened: VulkanDriver) -> None:
    """A launch that writes behind the end of its array, which has a buffer of its own."""
    with changed(memory, "CHUNK", 0):
        x, y = opened.upload(np.zeros(128, np.float32)), opened.upload(np.zeros(64, np.float32))
    opened.load(copying()).bind({"x": x, "y": y}, {}, {}, (4,))()
    opened.synchronise()


def guarded_loads(opened: VulkanDriver) -> None:
    """Looks up elements, most of which are not there; wrong where one of those is not 0."""
    x, y = np.ones(32, np.float32), np.zeros(64, np.float32)
    at = np.arange(64, dtype=np.uint32) << 20
    with iron.use(opened):
        looked_up(x=x, at=at, y=y)
    assert y.tolist() == [1.0] + [0.0] * 63


def unguarded_loads(opened: VulkanDriver) -> None:
    """The same, with loads that read what they are told to."""
    with changed(guarded, "write", reading_anything):
        guarded_loads(opened)


def reading_anything(e: Encoder, op: Op) -> None:
    """`guarded.write` without the guard."""
    sides: list[list[int]] = []
    for region in op.regions:
        e.block(region)
        sides.append([e.id(v) for v in region.yielded])
    for result, yes, no in zip(op.results, *sides, strict=True):
        e.ids[result] = e.m.select(e.id(op.args[0]), yes, no)


def few_groups(opened: VulkanDriver) -> None:
    """A launch of fewer groups than a workgroup holds, on arrays with buffers of their own."""
    with changed(memory, "CHUNK", 0):
        x, y = (opened.upload(np.zeros(64, np.float32)) for _ in range(2))
    opened.load(copying()).bind({"x": x, "y": y}, {}, {}, (2,))()
    opened.synchronise()


def groups_beyond(opened: VulkanDriver) -> None:
    """The same, with the work of groups that the launch does not have."""
    with changed(encoding, "where_there_is_one", lambda e, write: write()):
        few_groups(opened)


CONTROLS: dict[str, tuple[tuple[str, ...], bool, Callable[[VulkanDriver], None]]] = {
    "plain": ((), True, plain),
    "plain, on the device": (("gpu",), False, plain),
    "plain, hazards": (("sync",), True, plain),
    "with barrier": (("sync",), True, with_barrier),
    "large grid": ((), True, large_grid),
    "much shared": ((), True, much_shared),
    "no barrier": (("sync",), True, no_barrier),
    "in turns": (("sync",), True, in_turns),
    "without waiting": (("sync",), True, without_waiting),
    "outside": (("gpu",), False, outside),
    "few groups": (("gpu",), False, few_groups),
    "groups beyond": (("gpu",), False, groups_beyond),
    "guarded": (("gpu",), False, guarded_loads),
    "unguarded": (("gpu",), False, unguarded_loads),
}


def controls() -> dict[str, Any]:
    """How many messages each control brings, and the first."""
    out: dict[str, Any] = {}
    for name, (checks, push, mistake) in CONTROLS.items():
        listener = Listener(checks)
        opened = VulkanDriver(listener, push=push)
        opened.target()
        listener.messages.clear()
        try:
            mistake(opened)
        except (KernelError, RuntimeError) as fault:
            out[f"{name} raised"] = str(fault)
        out[name] = [m[:300] for m in listener.messages]
        opened.close()
    return out


# --- launches again -------------------------------------------------------------------------------


def again() -> dict[str, Any]:
    """Two launches in turns, of which one is bound anew: how far the numbers went, and what the
    queue knows of their order after each round.
    """
    listener = Listener(("sync",))
    opened = VulkanDriver(listener)
    queue = opened.opened.queue
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    p.store(y, p.place(), p.emit("add", p.load(x, p.place()), p.const(1.0, f32)))
    code = opened.load(p.done())
    a, b = (opened.upload(np.zeros(64, np.float32)) for _ in range(2))
    there = code.bind({"x": a, "y": b}, {}, {}, (2,))
    known = []
    for _ in range(3):
        back = code.bind({"x": b, "y": a}, {}, {}, (2,))
        for _ in range(2):
            for _ in range(50):
                there()
                back()
            opened.synchronise()
            known.append(len(queue._known))
        del back
    return {"reached": opened.download(a).tolist(), "known": known, **said(listener)}


def writes() -> dict[str, Any]:
    """Small arrays written between launches, on a device whose memory the host does not see.

    The layer looks for hazards; `seen` are the sums that each launch should have made.
    """
    listener = Listener(("sync",))
    opened = VulkanDriver(listener, direct=False)
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    p.store(y, p.place(), p.emit("add", p.load(y, p.place()), p.load(x, p.place())))
    code = opened.load(p.done())
    a, b, c = (opened.upload(np.zeros(32, np.float32)) for _ in range(3))
    add, also = (code.bind({"x": a, "y": y}, {}, {}, (1,)) for y in (b, c))
    for number in range(40):
        for value in (number + 7, number):  # the last one counts
            opened.write(a, np.full(32, value, np.float32))
        add()
        if number % 2:
            also()
    sums = [float(opened.download(array)[5]) for array in (b, c)]
    return {"sums": sums, **said(listener)}


# --- other ways of the driver ---------------------------------------------------------------------


def ways() -> dict[str, Any]:
    """The kernels that touch every width of memory, by the roads that other devices need."""
    narrow = frozenset({"storage8", "storage16", "int8", "int16", "float16", "integer_dot"})
    exact = frozenset({"exact_division", "exact_sqrt"})

    def without(names: frozenset[str]) -> Callable[[Target], Target]:
        return lambda target: replace(target, features=target.features - names)

    drivers = {
        "staged": VulkanDriver(direct=False),
        "sets": VulkanDriver(push=False),
        "words": VulkanDriver(narrow=without(narrow)),
        "rounded": VulkanDriver(narrow=without(exact)),
    }
    out: dict[str, Any] = {}
    for name, opened in drivers.items():
        faults, passed = [], 0
        for found in ("cast", "arg_reduce", "kv_append"):
            every = expand(library()[found])
            for case in every[2 :: max(1, len(every) // 3)]:
                verdict = run_case(case, on(opened))
                passed += verdict.status == "pass"
                if not verdict.ok:
                    faults.append(f"{verdict.label}: {verdict.message}")
        out[name] = {"faults": faults, "passed": passed}
        opened.close()
    return out


def main() -> None:
    """One of the functions above, by name."""
    seldom_collected()
    what, *rest = sys.argv[1:]
    numbers = [int(r) for r in rest if r.isdecimal()]
    answers: dict[str, Callable[[], dict[str, Any]]] = {
        "cases": lambda: cases(*numbers),
        "whole": lambda: whole(rest),
        "share": lambda: share(rest),
        "fuzz": lambda: fuzz(*numbers),
        "controls": controls,
        "again": again,
        "writes": writes,
        "ways": ways,
    }
    print(json.dumps(answers[what]()))


if __name__ == "__main__":
    main()
