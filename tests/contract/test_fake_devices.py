"""The library's kernels through the drivers of HIP and Metal, on the fakes of their interfaces."""

from typing import Any

import pytest

import iron
from iron.check.cases import run_case
from iron.check.expand import Declared, expand
from iron.cli.configuration import load
from iron.cli.specimen import library
from iron.runtime.driver import Driver
from tests.contract import fake_hip, fake_metal
from tests.turns import dealt

KERNELS, FAULTS = library(load())
OPEN = {
    "hip gfx942": lambda: fake_hip.fake_driver("gfx942"),
    "hip gfx1100": fake_hip.fake_driver,
    "metal": fake_metal.fake_driver,
}


def through(device: str, driver: Driver, name: str) -> list[str]:
    """What is wrong with a kernel; each set of dtypes falls to one device, in its smallest case."""
    kernel: Any = KERNELS[name]
    cases = [c for c in expand(kernel) if not c.case.degenerate]
    first = {tuple(c.dtypes.values()): c for c in sorted(cases, key=lambda c: -len(c.label))}

    def run(declared: Declared, arguments: dict[str, Any]) -> None:
        with iron.use(driver):
            declared(**arguments)

    mine = dealt([*first.values()], [*OPEN].index(device), len(OPEN))
    said = [run_case(case, run) for case in mine]
    return [f"{v.label}: {v.message}" for v in said if not v.ok]


@pytest.mark.parametrize("name", ["softmax", "quantize_blocks"])
@pytest.mark.parametrize("device", OPEN)
def test_two_kernels(device: str, name: str):
    assert FAULTS == []
    assert through(device, OPEN[device](), name) == []


@pytest.mark.slow
@pytest.mark.parametrize("device", OPEN)
def test_every_kernel(device: str):
    driver = OPEN[device]()
    assert {name: wrong for name in KERNELS if (wrong := through(device, driver, name))} == {}
