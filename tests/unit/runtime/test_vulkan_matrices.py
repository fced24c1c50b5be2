"""A device's list of products as atoms."""

from types import SimpleNamespace
from typing import Any

import pytest

from iron.dtypes import bf16, f16, f32, i8, i32
from iron.runtime.drivers.vulkan.matrices import atom, listed
from iron.targets.atoms.vulkan import OpaqueAtom

HALF, SINGLE, BYTE, WORD, BRAIN, DOUBLE = 0, 1, 3, 5, 1000141000, 2


def row(kinds: tuple[int, int, int, int], *, scope: int = 3, saturating: int = 0) -> Any:
    a, b, c, result = kinds
    made = {"MSize": 16, "NSize": 8, "KSize": 32, "scope": scope}
    made |= {"AType": a, "BType": b, "CType": c, "ResultType": result}
    return SimpleNamespace(**made, saturatingAccumulation=saturating)


@pytest.mark.parametrize(
    ("kinds", "dtypes"),
    [
        ((HALF, HALF, SINGLE, SINGLE), (f16, f16, f32)),
        ((BRAIN, BRAIN, SINGLE, SINGLE), (bf16, bf16, f32)),
        ((BYTE, BYTE, WORD, WORD), (i8, i8, i32)),
    ],
)
def test_a_row_is_an_atom(kinds: tuple[int, int, int, int], dtypes: Any):
    assert atom(row(kinds)) == OpaqueAtom(16, 8, 32, *dtypes)
    assert atom(row(kinds, saturating=1)) == OpaqueAtom(16, 8, 32, *dtypes, saturating=True)


@pytest.mark.parametrize(
    "other",
    [
        row((DOUBLE, DOUBLE, DOUBLE, DOUBLE)),
        row((HALF, HALF, HALF, SINGLE)),
        row((HALF, HALF, SINGLE, SINGLE), scope=2),
    ],
)
def test_other_rows_are_left_out(other: Any):
    assert atom(other) is None


def test_a_device_without_the_extension_lists_none():
    assert listed(SimpleNamespace(), SimpleNamespace(features=frozenset[str]())) == ()  # type: ignore[arg-type]
