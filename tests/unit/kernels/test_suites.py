"""Every case of every kernel, on the interpreter (`make full`: at two simd widths) and the CPU.

Of a kernel with many cases the interpreter takes three of each nine and the CPU the three after
them, so that neither meets the same of two forms each time; each takes all in `make full`.
"""

from typing import Any

import pytest

import iron
from iron.check.cases import Runner, Verdict, check, run_case
from iron.check.expand import expand
from iron.runtime.driver import Driver, driver
from iron.runtime.drivers.interp import InterpreterDriver
from iron.worker.discover import kernels, modules

KERNELS = {
    name: kernel
    for module in modules(("iron.kernels",))
    for name, kernel in kernels(module).items()
}
ROADS = {
    "interp8": lambda: InterpreterDriver(simd=8),
    "interp32": lambda: InterpreterDriver(simd=32),
    "cpu": lambda: driver("cpu"),
}


MANY = 20


def on(backend: Driver) -> Runner:
    """Runs kernels on a driver."""

    def run(kernel: Any, arguments: dict[str, Any]) -> None:
        with iron.use(backend):
            kernel(**arguments)

    return run


@pytest.mark.parametrize(
    "road", [pytest.param("interp8", marks=pytest.mark.slow), "interp32", "cpu"]
)
@pytest.mark.parametrize("name", KERNELS)
def test_cases(name: str, road: str, request: pytest.FixtureRequest):
    verdicts = tried(KERNELS[name], road, whole=request.config.getoption("--full", False))
    assert [f"{v.label}: {v.message}" for v in verdicts if not v.ok] == []
    assert any(v.status == "pass" for v in verdicts)


def tried(kernel: Any, road: str, *, whole: bool) -> list[Verdict]:
    """The verdicts of a road on its share of the cases."""
    run, cases = on(ROADS[road]()), list(expand(kernel))
    if whole or len(cases) <= MANY:
        return check(kernel, run)
    mine = (case for i, case in enumerate(cases) if i // 3 % 3 == (road == "cpu"))
    return [run_case(case, run) for case in mine]


def test_the_library_is_found():
    assert len(KERNELS) >= 20
    assert {"rms_norm", "qmv", "sdpa_decode", "sdpa_decode_two_pass"} <= KERNELS.keys()
