"""Every kernel of the library as artefacts: its first case, in all forms, by each real compiler."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from iron.backends import clang
from iron.backends.clike.render import render
from iron.backends.msl import MSL
from iron.backends.msl_check import check
from iron.check.expand import expand
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.cli.configuration import load
from iron.cli.specimen import library
from iron.compiler import lower
from iron.emit.build import build
from iron.emit.family import Destination
from iron.emit.manifest import Specialised
from iron.emit.targets import destination
from iron.errors import KernelError
from iron.lang.declare import KernelFunction
from iron.passes.scalarise import scalarise
from iron.shims import metal_text
from iron.shims.driver import TextDriver
from iron.targets.apple import APPLE7
from tests.golden.texts import of

TARGETS = [
    *("cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a"),
    *("hip:gfx90a", "hip:gfx942", "hip:gfx1100", "hip:gfx1201"),
]
BINARY = {"cuda": "cubin", "hip": "hsaco"}
SPILLS = ("spill_bytes", "spilled_registers")


@cache
def kernels() -> dict[str, KernelFunction]:
    """Every kernel by name; a plan is its kernels."""
    found, faults = library(load())
    assert faults == []
    return {n: k for n, k in sorted(found.items()) if isinstance(k, KernelFunction)}


def first(declared: KernelFunction, to: Destination) -> Specialised | None:
    """What the first case that the target serves runs."""
    for case in expand(declared):
        found = specialise(case, prepare(case), to.target)
        if found is not None:
            return found
    return None


def faults(target: str, specialised: Specialised) -> Iterator[str]:
    """What is wrong with the machine code of a kernel for a target."""
    to = destination(target)
    record = build(specialised, to, (BINARY[to.family.name],)).record["targets"][0]
    for entry in (record, *record["forms"]):
        name, took = entry.get("entry", "the plain form"), entry["resources"]
        if not took:
            yield f"{name} is not in the module"
            continue
        yield from (f"{name}: {took[s]} {s}" for s in SPILLS if took.get(s))
        held = took["shared_bytes"] + entry["dynamic_bytes"]
        if held > to.target.shared_bytes:
            yield f"{name}: {held} bytes of group memory"


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_every_kernel_compiles(target: str):
    wrong: list[str] = []
    count = 0
    for name, declared in kernels().items():
        try:
            found = first(declared, destination(target))
            assert found is not None, "no case fits"
            wrong += [f"{name}: {fault}" for fault in faults(target, found)]
            count += 1
        except Exception as fault:  # one kernel hides no other
            wrong.append(f"{name}: {fault}")
    assert wrong == []
    assert count == len(kernels()) > 40


def metal_to_both_checks(names: Iterable[str]) -> None:
    """The strict front end, and C++ with the compiler's own address spaces."""
    to = destination("metal")
    lowered = {}
    for name in names:
        found = first(kernels()[name], to)
        assert found is not None, name
        lowered[name] = lower(found.kernel, to.target)
        check(render(scalarise(lowered[name]), MSL, found.symbol))
    driver = TextDriver("msl-text", metal_text.WORDS, APPLE7)
    driver.prepare(lowered.values())
    for name, kernel in lowered.items():
        assert driver.load(kernel).unit.kernel(0), name


def test_kernels_of_threads_and_of_tiles_are_metal():
    metal_to_both_checks(["cast", "patch_embed"])


@pytest.mark.slow
def test_every_kernel_is_metal():
    metal_to_both_checks(kernels())


def test_an_entry_that_is_missing_or_spills_is_seen(monkeypatch: pytest.MonkeyPatch):
    from iron.emit import targets

    target = "cuda:sm_90a"
    right = of("cast", target)
    assert list(faults(target, right)) == []
    compiled = targets.nvrtc.compile_text

    def spilling(*given: Any) -> Any:
        made = compiled(*given)
        worst = {name: replace(e, spill_bytes=8) for name, e in made.entries.items()}
        return replace(made, entries=dict([*worst.items()][:1]))

    monkeypatch.setattr(targets.nvrtc, "compile_text", spilling)
    found = list(faults(target, right))
    assert len(found) == 2
    assert any("8 spill_bytes" in f for f in found)
    assert any("is not in the module" in f for f in found)


def test_a_missing_compiler_is_no_skip(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(clang, "CLANG", "clang-of-nobody")
    with pytest.raises(KernelError) as missing:
        list(faults("hip:gfx942", of("cast", "hip:gfx942")))
    assert missing.value.id == "E0603"
