"""Passes keep every bit of random programs, and a pass that does not is seen."""

from collections.abc import Callable
from importlib import import_module

import pytest

from iron.analysis import interval
from iron.check.generate import generate
from iron.check.generate.agree import Difference, agree, interpret, plain
from iron.ir.core import Kernel
from iron.ir.verify import verify
from iron.passes import THREAD_PASSES
from iron.passes.combine import combine
from iron.passes.dead import dead
from iron.passes.scalarise import scalarise
from iron.passes.unsigned import unsigned

forward, select, joining = (
    import_module(f"iron.passes.{n}") for n in ("forward", "select", "combine")
)
KEEPING = {
    **{name: (run,) for name, run in THREAD_PASSES if name not in ("fuse", "elementary")},
    "all": tuple(run for name, run in THREAD_PASSES if name != "fuse"),
    "combine": (scalarise, combine, dead),
    "unsigned": (unsigned,),
}
COUNT = 12


def differences(passes: tuple[Callable[[Kernel], Kernel], ...], seeds: range) -> list[Difference]:
    def road(program, given) -> None:
        kernel = plain(program)
        for run in passes:
            kernel = run(kernel)
            verify(kernel)
        interpret(kernel, program, given)

    return [d for seed in seeds for d in agree(generate(seed), {"passes": road})]


@pytest.mark.fuzz
@pytest.mark.parametrize("name", KEEPING)
def test_a_pass_keeps_every_bit(name):
    assert differences(KEEPING[name], range(COUNT)) == []


def planted_mod(a, b):
    """Forgets the greatest remainder."""
    found = interval_mod(a, b)
    return interval.between(found.low, max(found.low, found.high - 1))


interval_mod = interval.mod
right_key = joining._key


def planted_key(op):
    """Forgets what the last index adds to."""
    return right_key(op)[:-1]


PLANTED = {
    "a remainder too small": ("simplify", interval, "mod", planted_mod),
    "a condition too strong": ("simplify", interval, "meet", lambda a, b: interval.exactly(a.low)),
    "values held over a write": ("forward", forward, "_drop", lambda held, buffers: None),
    "effects selected": ("select", select, "_weight", lambda side: 0),
    "neighbours of other rows": ("combine", joining, "_key", lambda op: planted_key(op)),
}


FIRST = {"values held over a write": 260}  # where programs that show the fault begin


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name, monkeypatch):
    which, module, attribute, wrong = PLANTED[name]
    monkeypatch.setattr(module, attribute, wrong)
    assert any(
        differences(KEEPING[which], range(s, s + 10)) for s in range(FIRST.get(name, 0), 500, 10)
    )
