"""Attention of many queries for heads of 64 to 256 elements with every option, where its products
are those of a simdgroup's matrices: `mma.sync` in text for sm_80, and Metal's.

The interpreter and the CPU compute the same; all but two of the cases wait for `make full`.
"""

from typing import Any

import pytest

import iron
from iron.check.cases import run_case
from iron.check.expand import ConcreteCase
from iron.ir.core import Kernel
from iron.kernels.sdpa.prefill import inputs, sdpa_prefill
from iron.kernels.sdpa.prefill_varlen import packed, sdpa_prefill_varlen
from iron.lang import ATTN, RED, bf16, f16
from iron.lang.suite import Case
from iron.runtime.driver import driver
from iron.runtime.drivers.cpu import CpuDriver

HEADS = ((64, 64), (80, 80), (96, 96), (128, 128), (192, 128), (256, 256))
OPTIONS = ("plain", "causal", "mask", "sink", "softcap", "window", "used", "all")
ROWS = ((33, 65), (3, 70), (70, 97), (40, 24))
"""Queries and keys: few queries, more than a tile has, and queries that see nothing."""
GROUPED = ((2, 2), (3, 1), (4, 2))
"""Heads of queries and of keys."""
MATRICES = {"cuda-text": "simd_mma", "msl-text": "matrix_mma"}
"""Roads of this machine that multiply by matrices, and the op that does."""


def attended(rng: Any, B: int, H: int, G: int, S: int, L: int, D: int, E: int, MODE: str) -> Any:
    """The inputs of one option, or of all at once."""
    if MODE != "all":
        return inputs(rng, B, H, G, S, L, D, E, "plain" if MODE == "causal" else MODE)
    every = [inputs(rng, B, H, G, S, L, D, E, m) for m in ("used", "mask", "sink")]
    return every[0] | {
        "mask": every[1]["mask"],
        "sink": every[2]["sink"],
        "softcap": 0.75,
        "window": 15,
    }


def tiles(D: int) -> dict[str, int]:
    """Small ones, of all options but the plainest: a C++ compiler is as slow as tiles are large."""
    return {"BM": 32, "BN": 32} if D <= 128 else {"BM": 16, "BN": 16}


def cased(number: int, head: int, option: int) -> ConcreteCase:
    """A case of these; the number chooses dtype, rows and heads."""
    T, (D, E), (S, L) = (f16, bf16)[number % 2], HEADS[head], ROWS[(head + option // 2) % len(ROWS)]
    H, G = GROUPED[number % len(GROUPED)]
    mode = OPTIONS[option]
    axes = {"B": 2 if mode in ("used", "all") else 1, "H": H, "G": G, "S": S, "L": L, "D": D}
    axes |= {"E": E, "MODE": mode} | ({} if mode == "plain" else tiles(D))
    case = Case({}, {"o": ATTN.rounded(T), "lse": RED("L")}, attended)
    variant = {"CAUSAL": mode in ("causal", "window", "all")}
    form = {"CAPPED": mode in ("softcap", "all"), "WINDOWED": mode in ("window", "all")}
    return ConcreteCase(sdpa_prefill, case, axes, {"T": T}, {}, variant, form)


def lengths(number: int, head: int) -> ConcreteCase:
    """Sequences of several lengths, some of them empty."""
    T, (D, E) = (bf16, f16)[number % 2], HEADS[head]
    queries, keys = ([5, 0, 37, 17], [9, 0, 33, 64]) if number % 2 else ([1, 20, 40], [33, 3, 40])

    def make(rng: Any, H: int, G: int, D: int, E: int) -> Any:
        return packed(rng, H, G, D, E, queries, keys)

    case = Case({}, {"o": ATTN.rounded(T), "lse": RED("L")}, make)
    axes = {"H": 4, "G": 2, "D": D, "E": E} | tiles(D)
    return ConcreteCase(
        sdpa_prefill_varlen, case, axes, {"T": T}, {}, {"CAUSAL": number % 2 == 0}, {}
    )


PLACES = [(d, o) for d in range(len(HEADS)) for o in range(len(OPTIONS)) if (d + o) % 2 == 0]
CASES = [cased(number, *place) for number, place in enumerate(PLACES)]
CASES += [lengths(number, head) for number, head in enumerate(range(len(HEADS)))]
SHARES = [
    (case, tuple(MATRICES)[(number // 2 + head // 2) % 2])
    for case, number, head in zip(
        CASES,
        (*range(len(PLACES)), *range(0, 2 * len(HEADS), 2)),
        (*(d for d, _ in PLACES), *range(len(HEADS))),
        strict=True,
    )
]
"""Each case on one of the roads, each head, option and dtype on both."""
FAST = (CASES[1], CASES[-6])


class Watched:
    """A road, and the ops of the last kernel that was loaded on it."""

    def __init__(self, road: Any) -> None:
        self.road = road
        self.ops: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.road, name)

    def load(self, kernel: Kernel) -> Any:
        self.ops = {op.name for op in kernel.body.walk()}
        return self.road.load(kernel)


def judged(case: ConcreteCase, road: Any) -> set[str]:
    """The ops that a case ran, once its outputs are right."""
    watched = Watched(road)

    def run(kernel: Any, arguments: dict[str, Any]) -> None:
        with iron.use(watched):
            kernel(**arguments)

    verdict = run_case(case, run)
    assert verdict.status == "pass", verdict.message
    return watched.ops


def spread(cases: list[ConcreteCase]) -> list[Any]:
    """The cases, all but a few marked slow."""
    slow = pytest.mark.slow
    return [pytest.param(c, id=c.label, marks=() if c in FAST else slow) for c in cases]


def test_every_head_meets_half_of_the_options():
    for head in range(len(HEADS)):
        assert len({o for d, o in PLACES if d == head}) == len(OPTIONS) // 2
    for option in range(len(OPTIONS)):
        assert len({d for d, o in PLACES if o == option}) == len(HEADS) // 2
    for T in (f16, bf16):
        assert {c.axes["D"] for c in CASES if c.dtypes["T"] is T} == {d for d, _ in HEADS}


@pytest.mark.parametrize("text", MATRICES)
def test_every_head_option_and_dtype_falls_to_each_text(text: str):
    mine = [case for case, road in SHARES if road == text]
    assert {(c.axes["D"], c.dtypes["T"]) for c in mine} == {
        (d, T) for d, _ in HEADS for T in (f16, bf16)
    }
    assert {c.axes.get("MODE", "several lengths") for c in mine} == {*OPTIONS, "several lengths"}


@pytest.mark.parametrize("case", spread(CASES))
def test_heads_and_options(case: ConcreteCase):
    judged(case, CpuDriver())


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_heads_and_options_in_the_interpreter(case: ConcreteCase):
    judged(case, driver("interp"))


@pytest.mark.slow
@pytest.mark.parametrize(("case", "text"), SHARES, ids=lambda p: getattr(p, "label", p))
def test_heads_and_options_by_matrices(case: ConcreteCase, text: str):
    assert MATRICES[text] in judged(case, driver(text))


@pytest.mark.slow
@pytest.mark.device("vulkan")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.label)
def test_heads_and_options_on_vulkan(case: ConcreteCase):
    judged(case, driver("vulkan"))
