"""Random programs through every generated text, bit for bit; and a text that is wrong is seen.

A few seeds here; `python -m iron.check.generate fuzz FIRST COUNT --roads msl-text` runs many.
"""

from dataclasses import replace

import pytest

from iron.check.generate import generate
from iron.check.generate.agree import (
    DEVICE_ROADS,
    TEXTS,
    agree,
    lowered,
    prepare,
    reference,
    unlike,
)
from iron.check.generate.program import Arguments, Program, arguments
from iron.shims.driver import TextDriver
from tests.property.seeds import SEEDS
from tests.unit.shims.roads import VOCABULARIES

COUNT = 3
SIMD = {"cuda-text": 32, "hip-text-32": 32, "hip-text-64": 64, "msl-text": 32}


@pytest.mark.fuzz
@pytest.mark.parametrize("road", TEXTS)
def test_a_text_agrees_with_the_interpreter(road: str):
    programs = [generate(1000 * s + n, simd=SIMD[road]) for s in SEEDS for n in range(COUNT)]
    prepare(programs, [road])
    roads = {road: DEVICE_ROADS[road]}
    found = {p.setting.seed: agree(p, roads) for p in programs}
    assert {seed: d for seed, d in found.items() if d} == {}


PLANTED = {
    "a product rounded before the sum": ("__builtin_fmaf(a, b, c)", "a * b + c"),
    "a lane too far": ("i32 step) {", "i32 step) { step += step == 1;"),
}


@pytest.mark.parametrize("wrong", PLANTED.values(), ids=PLANTED)
def test_wrong_text_is_seen(wrong: tuple[str, str]):
    words, target = VOCABULARIES["hip-text-32"]
    driver = TextDriver("hip-text-32", replace(words, replaced=dict([wrong])), target)
    programs = [generate(seed, simd=32) for seed in range(3, 48, 6)]
    driver.prepare([lowered(p) for p in programs])
    assert any(differs(driver, p) for p in programs)


def differs(driver: TextDriver, program: Program) -> bool:
    want, have = arguments(program), arguments(program)
    reference(program, want)
    launch(driver, program, have)
    return bool(unlike(want.arrays, have.arrays))


def launch(driver: TextDriver, program: Program, given: Arguments) -> None:
    code = driver.load(lowered(program))
    code.bind(given.arrays, given.scalars, given.dims, program.setting.grid)()
