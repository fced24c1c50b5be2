"""Programs in the language agree with independent references, on every road and width.

For each program one operator is made wrong; the program's own check has to notice. Those run on the
interpreter, which reports an index outside its tensor where a device would write there.
"""

from pathlib import Path
from types import ModuleType

import pytest

import iron
from iron.errors import KernelError
from iron.runtime.driver import Driver, driver
from iron.runtime.drivers.interp import InterpreterDriver
from tests.changed_source import changed
from tests.language import library
from tests.language.programs import (
    aura_encode,
    fft,
    lstm,
    moe_sort,
    qmv_blocks,
    sort_pairs,
    topk_mask,
)

OWN = (topk_mask, sort_pairs, qmv_blocks, moe_sort, fft, lstm, aura_encode)
ROADS = {
    "interp8": lambda: InterpreterDriver(simd=8),
    "interp32": lambda: InterpreterDriver(simd=32),
    "cpu": lambda: driver("cpu"),
}


def name_of(module: ModuleType) -> str:
    """The last part of a module's name."""
    return module.__name__.rpartition(".")[2]


@pytest.fixture(params=ROADS)
def road(request: pytest.FixtureRequest) -> Driver:
    """A backend at one simd width."""
    return ROADS[request.param]()


@pytest.mark.parametrize("program", OWN, ids=name_of)
def test_program(program: ModuleType, road: Driver):
    with iron.use(road):
        program.check()


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_library_program(name: str, road: Driver):
    with iron.use(road):
        library.PROGRAMS[name].check(library.PROGRAMS[name].module)


@pytest.mark.parametrize("program", OWN, ids=name_of)
def test_a_wrong_operator_is_caught(program: ModuleType, tmp_path: Path):
    bad = changed(program, program.WRONG, tmp_path)
    with iron.use("interp"), pytest.raises((AssertionError, KernelError)):
        bad.check()


@pytest.mark.parametrize("name", library.PROGRAMS)
def test_a_wrong_operator_of_the_library_is_caught(name: str, tmp_path: Path):
    program = library.PROGRAMS[name]
    bad = changed(program.module, program.wrong, tmp_path)
    with iron.use("interp"), pytest.raises((AssertionError, KernelError)):
        program.check(bad)
