"""Functions of the `fast_` kind: kept where the target has an instruction, in its stated bound."""

import numpy as np
import pytest

from iron.backends.cuda_code import code_of
from iron.backends.nvrtc import compile_text
from iron.compiler import lower
from iron.dtypes import f32
from iron.ir.core import Kernel
from iron.ir.table import TABLE, Trait
from iron.targets import amd, apple, cpu, nvidia, vulkan
from iron.targets.target import Approximation, Target
from tests.unit.elementary.evaluate import ulps
from tests.unit.ir.handmade import Handmade
from tests.unit.shims.roads import opened

FAST = ("fast_exp2", "fast_rcp", "fast_rsqrt")
TARGETS = {
    t.name: t
    for levels in (nvidia.LEVELS, amd.LEVELS, apple.LEVELS, cpu.LEVELS)
    for t in levels.values()
} | {vulkan.USUAL.name: vulkan.USUAL}
HAVE = {*nvidia.LEVELS, *amd.LEVELS, cpu.X86_64_V4.name}


def of(name: str) -> Kernel:
    p = Handmade(threads=32, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    p.store(y, p.place(), p.emit(name, p.load(x, p.place())))
    return p.done()


def faults(target: Target) -> list[str]:
    """What a target states that its row does not allow."""
    rows = {a.op: TABLE.get(a.op) for a in target.approximations}
    return [
        a.op
        for a in target.approximations
        if (row := rows[a.op]) is None or not row.has(Trait.EXPANDED) or not 0 < a.ulp <= row.ulp
    ]


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_keeps_what_it_has_and_nothing_else(name):
    target = TARGETS[name]
    assert faults(target) == []
    for op in FAST:
        left = {o.name for o in lower(of(op), target).body.walk()} & set(FAST)
        assert left == ({op} if name in HAVE else set())
        assert not {o.name for o in lower(of(op)).body.walk()} & set(FAST)


def test_a_bound_beyond_the_row_is_seen():
    for wrong in (Approximation("fast_rcp", 9.0), Approximation("rcp", 1.0)):
        assert faults(Target("t", "gpu", 32, 32, 0, approximations=(wrong,))) == [wrong.op]


@pytest.mark.parametrize(
    ("name", "instruction"),
    [("fast_exp2", "ex2"), ("fast_rcp", "rcp"), ("fast_rsqrt", "rsqrt")],
)
def test_the_instruction_is_in_the_code(name, instruction):
    made = compile_text(code_of(lower(of(name), nvidia.SM_90A)).text.source, "sm_90a")
    assert f"{instruction}.approx.ftz.f32" in made.ptx


def error(name: str, road: str, by: float = 1.0) -> float:
    """The worst error in ulp on a text road, of results times `by`; a flushed zero is exact."""
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.uniform(-150, 150, 3000), np.exp2(rng.uniform(-130, 127.9, 1064))])
    x = np.concatenate([x, [0.0, 1.0, 2.0, 128.0, -126.0, np.inf, np.nan, 4.0]])
    x = np.abs(x) if name == "fast_rsqrt" else x
    x = np.resize(x.astype(np.float32), 4096)
    y = np.full_like(x, np.nan)
    opened(road).load(of(name)).bind({"x": x, "y": y}, {}, {}, (len(x) // 32,))()
    operand = np.where(np.abs(x) < 2.0**-126, 0.0, x.astype(np.float64)) if "exp" not in name else x
    with np.errstate(all="ignore"):
        truth = np.asarray(TABLE[name].truth(operand.astype(np.float64)))
    truth = np.where((np.abs(truth) < 2.0**-125) & (y == 0), y, truth)
    return float(ulps(y * np.float32(by), truth).max())


@pytest.mark.parametrize("road", ["cuda-text", "hip-text-32"])
@pytest.mark.parametrize("name", FAST)
def test_text_computes_the_function(name, road):
    assert error(name, road) <= TABLE[name].ulp
    assert error(name, road, 1 + 2.0**-20) > TABLE[name].ulp
