"""The library's cases through generated text: one text a kernel here, every case when slow."""

from zlib import crc32

import pytest

from iron.check.cases import check, run_case
from iron.check.expand import ConcreteCase, expand
from iron.check.generate.agree import TEXTS
from iron.cli.configuration import load
from iron.cli.specimen import library

KERNELS, FAULTS = library(load())
NAMES = sorted(KERNELS)


# Their groups have 32 threads: no target whose simdgroups have 64 takes them.
NARROW = frozenset(
    {
        *("dequantize", "quantize", "quantize_affine", "quantize_blocks"),
        *("kv_quantize_append",),
    }
)


def test_the_library_is_read():
    assert FAULTS == []
    assert len(NAMES) > 20


def spread(name: str) -> tuple[ConcreteCase, str]:
    """A case and a text by the kernel's name, so that all dtypes and texts have their share."""
    cases = [c for c in expand(KERNELS[name]) if not c.case.degenerate]
    number = crc32(name.encode())
    texts = [t for t in TEXTS if t != "hip-text-64" or name not in NARROW]
    small = sorted(cases, key=lambda c: len(c.label))[: max(1, len(cases) // 2)]
    return small[number % len(small)], texts[number // 7 % len(texts)]


@pytest.mark.parametrize("name", NAMES)
def test_a_case_on_one_text(name: str):
    case, text = spread(name)
    verdict = run_case(case, text)
    assert verdict.ok, f"{text}: {verdict.label}: {verdict.message}"


def test_every_text_has_kernels():
    assert {spread(name)[1] for name in NAMES} == set(TEXTS)


@pytest.mark.parametrize("name", sorted(NARROW))
def test_a_group_narrower_than_a_wave_is_refused(name: str):
    """A kernel that is no longer refused leaves the list."""
    verdict = run_case(expand(KERNELS[name])[0], "hip-text-64")
    assert "E0301" in verdict.message


@pytest.mark.slow
@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("name", NAMES)
def test_every_case_on_every_text(name: str, text: str):
    if text == "hip-text-64" and name in NARROW:
        return
    assert [v for v in check(KERNELS[name], text) if not v.ok] == []
