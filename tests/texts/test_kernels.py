"""The library's cases through generated text: one text a kernel here, every case when slow."""

from zlib import crc32

import pytest

from iron.check.cases import run_case
from iron.check.expand import ConcreteCase, expand
from iron.check.generate.agree import TEXTS
from iron.check.specialisations import specialisations
from iron.cli.configuration import load
from iron.cli.specimen import library
from iron.errors import KernelError
from iron.lang import KernelFunction
from iron.targets.amd import GFX942
from tests.turns import turn

KERNELS, FAULTS = library(load())
NAMES = sorted(KERNELS)


def test_the_library_is_read():
    assert FAULTS == []
    assert len(NAMES) > 20


def fits(case: ConcreteCase, text: str) -> bool:
    """A case that names its own threads runs where they are whole simdgroups."""
    return case.fits(64 if text == "hip-text-64" else 32)


def test_every_case_is_for_32_lanes_and_every_kernel_has_some_for_64():
    for name, declared in KERNELS.items():
        cases = expand(declared)
        assert all(case.fits(32) for case in cases), name
        assert any(case.fits(64) for case in cases), name


def spread(name: str) -> tuple[ConcreteCase, str]:
    """A case and a text by the kernel's name, so that all dtypes and texts have their share."""
    cases = [c for c in expand(KERNELS[name]) if not c.case.degenerate]
    number = crc32(name.encode())
    small = sorted(cases, key=lambda c: len(c.label))[: max(1, len(cases) // 2)]
    case, text = small[number % len(small)], TEXTS[number // 7 % len(TEXTS)]
    return case, text if fits(case, text) else "hip-text-32"


@pytest.mark.parametrize("name", NAMES)
def test_a_case_on_one_text(name: str):
    case, text = spread(name)
    verdict = run_case(case, text)
    assert verdict.ok, f"{text}: {verdict.label}: {verdict.message}"


def test_every_text_has_kernels():
    assert {spread(name)[1] for name in NAMES} == set(TEXTS)


BY_GROUPS = (
    *("dequantize", "quantize", "quantize_affine", "quantize_blocks"),
    "kv_quantize_append",
)


@pytest.mark.parametrize("name", BY_GROUPS)
def test_a_wave_wider_than_a_group_of_weights(name: str):
    """Groups of 32 weights, blocks of 32 activations: half of a wave of 64 is idle or one ahead."""
    verdict = run_case(expand(KERNELS[name])[-1], "hip-text-64")
    assert verdict.ok, f"{verdict.label}: {verdict.message}"


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_no_case_is_refused_for_its_width(name: str):
    """On waves of 64 lanes a call runs what it runs elsewhere, or another of its choices."""
    if not isinstance(KERNELS[name], KernelFunction):
        return
    found = specialisations(expand(KERNELS[name]), [GFX942])
    assert [f"{case.label}: {f}" for case, _, f in found if isinstance(f, KernelError)] == []


def share(name: str, text: str) -> list[ConcreteCase]:
    """The cases that fall to a text; what waves of 64 lanes have no groups for runs on 32."""
    cases, roads = expand(KERNELS[name]), len(TEXTS)
    mine = [c for c in turn(cases, TEXTS.index(text), roads) if fits(c, text)]
    if text == "hip-text-32":
        wider = turn(cases, TEXTS.index("hip-text-64"), roads)
        mine += [c for c in wider if not fits(c, "hip-text-64")]
    return mine


def test_every_case_falls_to_a_text_and_every_row_to_all():
    name = "sdpa_decode"  # some of its cases name half of a wave of 64
    cases = expand(KERNELS[name])
    shares = [{c.label for c in share(name, text)} for text in TEXTS]
    rows = {label.split("(")[0] for label in set().union(*shares)}
    assert set().union(*shares) == {c.label for c in cases}
    assert [{label.split("(")[0] for label in s} for s in shares] == [rows] * len(TEXTS)
    assert sum(map(len, shares)) < 1.2 * len(cases)


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_on_a_text(name: str, text: str):
    said = [run_case(c, text) for c in share(name, text)]
    assert [v for v in said if not v.ok] == []
