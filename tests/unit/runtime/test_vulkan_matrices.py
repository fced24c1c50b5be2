"""A device's list of products as atoms."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from iron.dtypes import bf16, f16, f32, i8, i32, u8
from iron.runtime.drivers.vulkan.matrices import atom, listed, usable
from iron.targets.atoms.opaque import OpaqueAtom
from iron.targets.vulkan import LEAST

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


def test_atoms_that_a_module_may_ask_for():
    atoms = tuple(OpaqueAtom(16, 16, 16, t, t, f32) for t in (f16, bf16, u8))
    features = {"cooperative_matrix", "memory_model", "int16", "float16"}
    target = replace(LEAST, features=frozenset(features))
    assert usable(atoms, target) == atoms[:1]
    both = replace(target, features=target.features | {"bfloat16_matrix"})
    assert usable(atoms, both) == atoms[:2]
    for missing in ("cooperative_matrix", "memory_model", "int16"):
        assert usable(atoms, replace(both, features=both.features - {missing})) == ()


def test_a_device_without_the_extension_lists_none():
    assert listed(SimpleNamespace(), SimpleNamespace(features=frozenset[str]())) == ()  # type: ignore[arg-type]
