"""`gemm` at ragged sizes and at every value of its schedule, on the roads of a machine without GPU.

A few of the sizes run always; all pairs of them, and the text roads, wait for `make full`.
"""

from collections.abc import Callable
from itertools import product as every
from typing import Any

import numpy as np
import pytest

from iron import compiler
from iron.check.cases import run_case
from iron.check.expand import ConcreteCase
from iron.ir.host import evaluate
from iron.kernels.gemm.gemm import gemm, operands
from iron.lang import DOT, bf16, f16, f32
from iron.lang.suite import Case
from iron.runtime.driver import driver
from iron.runtime.drivers.cpu import CpuDriver
from tests.unit.front.trial import read

SIDES = (1, 7, 31, 33, 97, 104, 1000)
DTYPES = (f32, f16, bf16)
PRODUCTS = ("cuda-text", "msl-text")
"""Texts whose products are those of matrices."""
WAVES = ("hip-text-32", "hip-text-64")
MOST_ON_TEXT = 2**21
"""Products that fibres and a software device compute in a second or so."""


def pairs() -> list[tuple[int, int, int]]:
    """Triples of `SIDES` in which every pair of sizes meets in every pair of places."""
    many = range(len(SIDES))
    return [(SIDES[i], SIDES[j], SIDES[(i + j) % len(SIDES)]) for i, j in every(many, many)]


def cased(M: int, N: int, K: int, number: int, **consts: Any) -> ConcreteCase:
    """A case of these sizes; the number chooses dtype and which operands are turned."""
    axes = {"M": M, "N": N, "K": K, "TA": number % 2, "TB": number // 2 % 2, **consts}
    case = Case({}, DOT, lambda rng, M, N, K, TA, TB: operands(rng, M, N, K, TA, TB))
    return ConcreteCase(gemm, case, axes, {"T": DTYPES[number % 3]}, {}, {}, {})


SHAPES = [cased(*shape, number) for number, shape in enumerate(pairs())]
FEW = [c for c in SHAPES if np.prod([c.axes[n] for n in "MNK"]) <= MOST_ON_TEXT]


def spread(cases: list[ConcreteCase], step: int) -> list[Any]:
    """The cases, all but every so-many-th marked slow."""
    slow = pytest.mark.slow
    return [
        pytest.param(c, id=c.label, marks=() if i % step == step // 2 else slow)
        for i, c in enumerate(cases)
    ]


def test_all_pairs_meet():
    for one, two in ((0, 1), (0, 2), (1, 2)):
        assert {(t[one], t[two]) for t in pairs()} == set(every(SIDES, SIDES))


@pytest.mark.parametrize("road", ["interp", "cpu"])
@pytest.mark.parametrize("case", spread(SHAPES, 8))
def test_ragged_sizes(case: ConcreteCase, road: str):
    verdict = run_case(case, road)
    assert verdict.ok, verdict.message


@pytest.mark.parametrize("number", [5, 11])
def test_the_rows_of_a_transpose_may_be_no_power_of_two(number: int):
    """48 of them: lanes in two rows, for which the micro-kernels of a CPU are not."""
    verdict = run_case(cased(33, 31, 104, number), "cpu")
    assert verdict.status == "pass", verdict.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("case", "text"),
    [(c, t) for i, c in enumerate(FEW) for t in (*PRODUCTS, WAVES[i % 2])],
    ids=lambda p: getattr(p, "label", p),
)
def test_ragged_sizes_on_text(case: ConcreteCase, text: str):
    verdict = run_case(case, text)
    assert verdict.ok, verdict.message


@pytest.mark.slow
@pytest.mark.device("vulkan")
@pytest.mark.parametrize("case", FEW, ids=lambda c: c.label)
def test_ragged_sizes_on_vulkan(case: ConcreteCase):
    verdict = run_case(case, "vulkan")
    assert verdict.ok, verdict.message


# --- schedules ------------------------------------------------------------------------------------

SPACE = [
    cased(70, 150, 97, number, **dict(zip(gemm.tune, values, strict=True)))
    for number, values in enumerate(every(*gemm.tune.values()))
]


@pytest.mark.parametrize("road", ["interp", "cpu"])
@pytest.mark.parametrize("case", spread(SPACE, 18))
def test_every_schedule_computes_the_same(case: ConcreteCase, road: str):
    verdict = run_case(case, road)
    assert verdict.ok or verdict.refused == "E0501", verdict.message


def covering() -> list[ConcreteCase]:
    """Schedules in which every two values of two keys meet (the rows of an orthogonal array)."""
    BM, BN, BK, STAGES = gemm.tune.values()
    out: list[ConcreteCase] = []
    for i, j in every(range(len(BM)), range(len(BN))):
        chosen = {
            "BM": BM[i],
            "BN": BN[j],
            "BK": BK[(i + j) % 3],
            "STAGES": STAGES[(i + 2 * j) % 3],
        }
        number = 3 * (i + 2 * j) + 1 + (i + j) % 2  # 16 bits, which matrices multiply
        out.append(cased(70, 150, 97, number, **chosen))
    return out


ARRAY = covering()


def test_all_values_of_a_schedule_meet():
    keys = list(gemm.tune)
    for i, one in enumerate(keys):
        for two in keys[i + 1 :]:
            met = {(c.axes[one], c.axes[two]) for c in ARRAY}
            assert met == set(every(gemm.tune[one], gemm.tune[two]))


@pytest.mark.slow
@pytest.mark.parametrize("road", PRODUCTS)
@pytest.mark.parametrize("case", ARRAY, ids=lambda c: c.label)
def test_schedules_on_text(case: ConcreteCase, road: str):
    scheduled(case, road)


@pytest.mark.slow
@pytest.mark.device("vulkan")
@pytest.mark.parametrize("case", ARRAY, ids=lambda c: c.label)
def test_schedules_on_vulkan(case: ConcreteCase):
    scheduled(case, "vulkan")


def scheduled(case: ConcreteCase, road: str) -> None:
    """The case passes, unless its tiles are more than a group of the road holds."""
    verdict = run_case(case, road)
    assert verdict.ok or verdict.refused == "E0501", verdict.message
    held = sum(case.axes[n] for n in ("BM", "BN")) * (case.axes["BK"] + 8) * 2 * case.axes["STAGES"]
    room = driver(road).target().shared_bytes
    assert verdict.ok or held > room, f"{held} bytes of tiles, {room} of a group"


def test_most_schedules_fit():
    """So that the test above is no test of refusals."""
    verdicts = [run_case(case, "cpu") for case in SPACE[9::18]]
    assert sum(v.ok for v in verdicts) > len(verdicts) / 2


@pytest.mark.parametrize("CHAIN", [0, 16, 64, 1000])
def test_every_length_of_a_chain(CHAIN: int):
    assert run_case(cased(9, 40, 333, CHAIN, CHAIN=CHAIN), "cpu").status == "pass"


@pytest.mark.parametrize("number", range(6))
def test_passes_keep_every_bit(number: int, monkeypatch: pytest.MonkeyPatch):
    """What only makes code faster changes nothing that the CPU computes."""
    rng, (m, n, k), T = np.random.default_rng(number), (33, 70, 97), DTYPES[number % 3]
    ta, tb = number % 2, number // 2 % 2
    shapes = {"a": (k, m) if ta else (m, k), "b": (n, k) if tb else (k, n), "bias": (n,)}
    given = {name: rng.normal(size=s).astype(T.np) for name, s in shapes.items()}
    given["c"] = np.full((m, n), np.nan, T.np)
    road = CpuDriver()
    consts = {"TA": ta, "TB": tb, "ACT": "silu", "BM": 32, "BN": 64, "CHAIN": 64 * (number % 2)}
    kernel = read(gemm, road.target().simd, **given, **consts)
    dims = dict(zip("PQRS", (*shapes["a"], *shapes["b"]), strict=True))
    grid, _ = evaluate(kernel, {}, dims)
    left = []
    for names in (None, ("fuse", "elementary")):
        if names:
            monkeypatch.setattr(compiler, "passes_for", only(names, compiler.passes_for))
        arrays = {name: held.copy() for name, held in given.items()}
        road.load(compiler.lower(kernel, road.target())).bind(arrays, {}, dims, grid)()
        left.append(arrays["c"])
    assert not np.isnan(left[0].astype(np.float32)).any()
    assert left[0].tobytes() == left[1].tobytes()


def only(names: tuple[str, ...], passes: Callable[..., Any]) -> Callable[..., Any]:
    """The passes of these names."""
    return lambda target: tuple(p for p in passes(target) if p[0] in names)
