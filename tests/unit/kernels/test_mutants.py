"""Known-bad forms of every kernel: its cases reject each one, or it is listed with the reason.

A mutant changes one operation of the kernel in IR. It is named by the change and the line of
source it falls on, so the copies that unrolling, inlining and other forms of the kernel make of a
line are one mutant: rejected as soon as one copy is.
"""

import linecache
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iron.check.expand import ConcreteCase
from iron.check.mutate import mutants
from iron.check.survive import forms
from iron.dtypes import f32
from iron.lang import KernelFunction
from iron.worker.discover import kernels, modules

IRON = Path(__file__).parents[3] / "iron"
SOURCES = {
    path.name: path for part in ("kernels", "quant/codec") for path in (IRON / part).rglob("*.py")
}
LISTED = Path(__file__).parent / "survivors.txt"
KERNELS = {
    name: kernel
    for module in modules(("iron.kernels",))
    for name, kernel in kernels(module).items()
    if isinstance(kernel, KernelFunction)
}
SECONDS = 10  # a mutant that runs longer is rejected
# What is enough of kernels whose variants are many and alike.
ENOUGH = {
    "unary": "OP=(silu|leaky_relu|erf|softplus)\\b",
    "binary": "OP=(sub|remainder|logaddexp)\\b",
    "binary_integer": "OP=(sub|shl)\\b",
    "compare": "OP=(lt|ge)\\b",
    "qmv": "gguf_q4_1.*M=2|mlx_int4.*M=1",
    "sdpa_decode_split": "D=8,E=40|MODE=(mask|first)",
    "dequant_gather": "gguf_q4_1|mlx_int4",
    "gated_activation": "VARIANT=(geglu_erf|swiglu_oai|swiglu_clip_after)",
    "gated_activation_packed": "VARIANT=swiglu_limit",
}


def wanted(name: str) -> Callable[[ConcreteCase], bool]:
    """Cases in f32 (where the kernel has it), of the variants that are enough."""
    pattern = re.compile(ENOUGH.get(name, ""))

    def choose(case: ConcreteCase) -> bool:
        floats = [t for t in case.dtypes.values() if t.is_float]
        return all(t is f32 for t in floats) and bool(pattern.search(case.label))

    return choose


class Late(Exception):
    """The time of a mutant is over."""


def ends(check: Callable[[], bool]) -> bool:
    """The answer of `check`; False when it fails or takes too long."""

    def late(*_: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        return check()
    except (Late, ArithmeticError, ValueError, IndexError, MemoryError):
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def place(mutant: str) -> str:
    """A mutant's name with the text of its line instead of its number."""
    change, file, line = re.fullmatch(r"(.*) at (\S+?):(\d+):\d+(?: \(\d+\))?", mutant).groups()
    return f"{change}  |  {linecache.getline(str(SOURCES[file]), int(line)).strip()}"


def alive(name: str) -> set[str]:
    """The mutants of a kernel that every copy's cases accept."""
    rejected: set[str] = set()
    accepted: set[str] = set()
    for form in forms(KERNELS[name], wanted(name)):
        for mutant, kernel in mutants(form.kernel):
            key = place(mutant)
            if key in rejected:
                continue
            live = ends(lambda f=form, k=kernel: f.lets_live(k))
            (accepted if live else rejected).add(key)
    return accepted - rejected


def listed() -> dict[str, set[str]]:
    """The mutants that may live, by kernel; the file groups them under their reasons."""
    out: dict[str, set[str]] = {}
    for line in LISTED.read_text().splitlines():
        if line and not line.startswith("#"):
            kernel, _, mutant = line.partition(": ")
            out.setdefault(kernel, set()).add(mutant)
    return out


@pytest.mark.parametrize("name", KERNELS)
def test_every_mutant_is_rejected_or_listed(name: str):
    assert sorted(alive(name)) == sorted(listed().get(name, set()))


def test_the_list_names_kernels():
    assert listed().keys() <= KERNELS.keys()
