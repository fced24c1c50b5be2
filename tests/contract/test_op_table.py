"""Every op on every backend has a spelling, a pass that replaces it, or a refusal with a reason.

A new backend is one entry of `BACKENDS`; a new row fails here until each has an answer.
"""

from dataclasses import dataclass, field

import pytest

from iron.backends.clike.expression import SPELLINGS
from iron.backends.clike.render import _RULES as CLIKE
from iron.backends.cpu.entry import RULES as CPU
from iron.backends.mma import RULES as MMA
from iron.backends.msl_matrix import RULES as METAL
from iron.backends.ptx import RULES as PTX
from iron.backends.sm80 import RULES as SM80
from iron.backends.spirv.entry import RULES as SPIRV
from iron.elementary import BODIES
from iron.ir import ops as _rows  # noqa: F401
from iron.ir.interp import _HANDLERS as INTERP
from iron.ir.ops import fragment
from iron.ir.table import TABLE, OpDef, Trait, defop
from iron.passes.scalarise import _RULES as SCALARISED
from iron.tiles.lower import REBUILT_OPS
from iron.tiles.lower import RULES as TILE_RULES

ELEMENTARY = dict.fromkeys(BODIES, "elementary")
TILES = dict.fromkeys((r.name for r in TABLE.values() if r.has(Trait.TILE)), "tiles")
SCALARS = {**ELEMENTARY, **TILES, "splat": "scalarise"}
STRUCTURE = {"yield"}  # spelled by the op whose region it ends


@dataclass(frozen=True)
class Backend:
    """What a backend spells, which pass replaces the rest before it, and what it refuses."""

    spelled: set[str]
    replaced: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)


RINGS = dict.fromkeys(PTX, "made for one target alone, beside a kernel that every backend takes")
SIMD = dict.fromkeys(MMA, "made for targets whose simdgroups compute products")
COPIES = dict.fromkeys(SM80, "made for targets that copy beside their threads and load matrices")
OPAQUE = dict.fromkeys(
    (r.name for r in vars(fragment).values() if isinstance(r, OpDef)),
    "made for targets that list matrices whose layout they keep to themselves",
)
MADE = RINGS | SIMD | COPIES | OPAQUE
FOR_CPUS = dict.fromkeys(("panel_mma", "prefetch"), "made for CPUs alone")
BACKENDS: dict[str, Backend] = {
    "interp": Backend(
        set(INTERP) | {r.name for r in TABLE.values() if r.ref is not None},
        ELEMENTARY,
        {name: why for name, why in RINGS.items() if name != "pair"},
    ),
    "cpu": Backend(set(CPU), {**ELEMENTARY, **TILES}, MADE),
    "spirv": Backend(set(SPIRV), SCALARS, RINGS | SIMD | COPIES | FOR_CPUS),
    "clike": Backend(set(SPELLINGS) | set(CLIKE), SCALARS, MADE | FOR_CPUS),
    "cuda": Backend(
        set(SPELLINGS) | set(CLIKE) | set(PTX) | set(MMA) | set(SM80), SCALARS, OPAQUE | FOR_CPUS
    ),
    "metal": Backend(
        set(SPELLINGS) | set(CLIKE) | set(METAL), SCALARS, RINGS | SIMD | COPIES | FOR_CPUS
    ),
}
REPLACING = {
    "elementary": set(BODIES),
    "scalarise": set(SCALARISED),
    "tiles": set(TILE_RULES) | set(REBUILT_OPS),
}


def faults(rows: dict[str, OpDef], backend: Backend) -> list[str]:
    """Rows without an answer, and answers that are not true."""
    spelled = backend.spelled | STRUCTURE
    answered = spelled | set(backend.replaced) | set(backend.refused)
    out = [f"{name} has no answer" for name in rows if name not in answered]
    out += [f"{name} is no op" for name in sorted(answered) if name not in rows]
    out += [f"{n} is refused and spelled" for n in backend.refused if n in spelled]
    out += [f"{n} is refused without a reason" for n, why in backend.refused.items() if not why]
    out += [
        f"{n} is not replaced by {by}"
        for n, by in backend.replaced.items()
        if n not in REPLACING.get(by, ())
    ]
    return out


@pytest.mark.parametrize("name", BACKENDS)
def test_every_op_has_an_answer(name):
    assert faults(TABLE, BACKENDS[name]) == []


def test_expanded_rows_and_bodies_are_the_same():
    assert {r.name for r in TABLE.values() if r.has(Trait.EXPANDED)} == set(BODIES)


@pytest.mark.parametrize("name", BACKENDS)
def test_a_new_row_is_missed(name):
    row = defop("planted", "x", sig="T->T", kinds="f", doc="Planted.")
    try:
        assert faults(TABLE, BACKENDS[name]) == ["planted has no answer"]
    finally:
        del TABLE[row.name]


@pytest.mark.parametrize(
    ("backend", "fault"),
    [
        (Backend({"add"}, refused={"add": "no adder"}), "add is refused and spelled"),
        (Backend(set(), refused={"add": ""}), "add is refused without a reason"),
        (Backend(set(), {"add": "elementary"}), "add is not replaced by elementary"),
        (Backend({"plus"}), "plus is no op"),
    ],
)
def test_an_answer_that_is_not_true_is_seen(backend, fault):
    assert fault in faults(TABLE, backend)
