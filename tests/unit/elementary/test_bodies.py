"""Each body against the function in float64: its stated bound, edges and special values."""

import numpy as np
import pytest

from iron.dtypes import bool_, f32, i32
from iron.elementary import BODIES, RULES, STRAIGHT, exponential, quadrant
from iron.ir.build import Builder
from iron.ir.core import Value, const_of, is_const
from iron.ir.table import TABLE, Trait
from tests.unit.elementary.evaluate import body, call, ulps

EXPANDED = [row.name for row in TABLE.values() if row.has(Trait.EXPANDED)]
EXACT_OPS = {
    *("add", "sub", "mul", "div", "fma", "neg", "abs", "min", "max", "sqrt", "floor", "copysign"),
    *("and", "or", "xor", "shl", "shr", "mulhi", "eq", "ne", "lt", "le", "gt", "ge", "where"),
    *("cast", "bitcast", "const", "splat", "extract", "if", "yield"),
}
SPECIAL = np.array(
    [
        *(0, 1, 2, 3, 4, 9, 0.5, 0.625, 0.921875, 1e-45, 2.0**-126, 2.0**-126 - 2.0**-149),
        *(1 - 2.0**-24, 1 + 2.0**-23, 88.72283, 88.72284, 103.97, 103.98, 127.99999, 128, 149),
        *(149.5, 150, 2.0**20, 2.0**20 + 0.125, 1e10, 16367173 * 2.0**72, 3.4028235e38),
        *(np.inf, np.nan),
    ],
    np.float32,
)
SPECIAL = np.concatenate([SPECIAL, -SPECIAL])
POINTS = 1_000_000


def every_exponent() -> np.ndarray:
    ends = np.concatenate([np.arange(8), 2**23 - 1 - np.arange(8), [0x3504F3, 0x490FDB]])
    bits = ((np.arange(256)[:, None] << 23) | ends[None]).ravel().astype(np.uint32)
    return np.concatenate([bits, bits | np.uint32(1 << 31)]).view(np.float32)


def points(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    anywhere = rng.integers(0, 2**32, count // 2, dtype=np.uint64).astype(np.uint32).view("f4")
    usual = rng.standard_normal(count // 2) * np.exp(rng.uniform(-3, 5, count // 2))
    steps = np.arange(-3000, 3000) * 2.0**-24
    turns = rng.integers(-(2**20), 2**20, 4000) * (np.pi / 4)
    parts = [SPECIAL, every_exponent(), 1 + steps, steps - 1, turns, anywhere, usual]
    return np.concatenate([p.astype(np.float32) for p in parts])


def pairs(name: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    x = points(POINTS // 4)
    grid = np.meshgrid(SPECIAL, SPECIAL)
    a, b = [grid[0].ravel(), x], [grid[1].ravel(), rng.permutation(x)]
    if name == "pow":
        base = np.exp(rng.uniform(-80, 80, POINTS // 4)).astype(np.float32)
        a += [base, rng.uniform(0.5, 2, POINTS // 4).astype(np.float32)]
        b += [(rng.uniform(-104, 89, POINTS // 4) / np.log(base.astype("f8"))).astype(np.float32)]
        b += [rng.uniform(-200, 200, POINTS // 4).astype(np.float32)]
        whole = rng.integers(-40, 40, 4000).astype(np.float32)
        a, b = [*a, rng.uniform(-9, 9, 4000).astype(np.float32)], [*b, whole]
    return np.concatenate(a), np.concatenate(b)


def arguments(name: str) -> tuple[np.ndarray, ...]:
    if len(TABLE[name].operands) == 2:
        return pairs(name)
    if name == "erfinv":
        rng = np.random.default_rng(2)
        near = (1 - np.exp2(rng.uniform(-24, 0, 20000))).astype(np.float32)
        tiny = np.exp2(rng.uniform(-149, 0, 20000)).astype(np.float32)
        inside = rng.uniform(-1, 1, 100000).astype(np.float32)
        return (np.concatenate([SPECIAL, near, -near, tiny, inside]),)
    return (points(POINTS),)


def errors(name: str, xs: tuple[np.ndarray, ...], got: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        truth = np.asarray(TABLE[name].truth(*[x.astype(np.float64) for x in xs]))
    if name == "fast_exp2":
        truth = np.where((truth < 2.0**-125) & (got == 0), 0.0, truth)
    return ulps(got, truth)


def worst(name: str) -> tuple[float, tuple[float, ...]]:
    xs = arguments(name)
    error = errors(name, xs, call(name, *xs))
    at = int(error.argmax())
    return float(error[at]), tuple(float(x[at]) for x in xs)


def test_every_expanded_row_has_a_body_and_no_other_does():
    assert set(EXPANDED) == set(BODIES)


@pytest.mark.parametrize("name", EXPANDED)
def test_bound_of_the_row_holds(name):
    error, at = worst(name)
    assert error <= TABLE[name].ulp, f"{error} ulp at {at}"
    if not name.startswith("fast_"):  # those rows leave room for a target's own instruction
        assert error > TABLE[name].ulp / 2, f"the row states {TABLE[name].ulp}, measured {error}"


@pytest.mark.parametrize("name", EXPANDED)
def test_body_uses_only_exact_ops_and_forbids_contraction(name):
    block, _, _ = body(name)
    ops = list(block.walk())
    assert {op.name for op in ops} <= EXACT_OPS
    assert all(op.exact for op in ops)
    assert all(op.attrs[0] in (f32, i32) for op in ops if op.name == "cast")


def test_a_wrong_coefficient_is_seen(monkeypatch):
    wrong = (*exponential.EXP[:3], exponential.EXP[3] * (1 + 1e-5), exponential.EXP[4])
    monkeypatch.setattr(exponential, "EXP", wrong)
    assert worst("exp")[0] > TABLE["exp"].ulp


def test_a_lost_part_of_the_reduction_is_seen(monkeypatch):
    monkeypatch.setattr(quadrant, "HALF_PI", (*quadrant.HALF_PI[:2], 0.0))
    assert worst("sin")[0] > TABLE["sin"].ulp


def test_a_lost_word_of_the_far_reduction_is_seen(monkeypatch):
    words = (*quadrant.BITS_OF_TWO_OVER_PI[:4], 0, 0, 0)
    monkeypatch.setattr(quadrant, "BITS_OF_TWO_OVER_PI", words)
    assert worst("cos")[0] > TABLE["cos"].ulp


def test_a_lost_sign_of_zero_is_an_infinite_error():
    zeros = np.array([0.0, -0.0], np.float32)
    assert ulps(zeros, zeros.astype(np.float64)).tolist() == [0, 0]
    assert ulps(np.abs(zeros), zeros.astype(np.float64)).tolist() == [0, np.inf]


@pytest.mark.parametrize("name", ["sin", "cos", "tan", "exp", "pow"])
def test_body_without_branches_has_the_same_bits(name):
    xs = tuple(x[:20000] for x in arguments(name))
    straight, usual = (call(name, *xs, rules=rules) for rules in (STRAIGHT, RULES))
    assert "if" not in {op.name for op in body(name, STRAIGHT)[0].walk()}
    number = straight == straight
    assert np.array_equal(straight.view("u4")[number], usual.view("u4")[number])
    assert np.array_equal(number, usual == usual)


def test_sine_and_cosine_stay_within_one():
    x = points(200_000, seed=5)
    x = x[np.isfinite(x)]
    for name in ("sin", "cos"):
        assert np.abs(call(name, x)).max() <= 1


@pytest.mark.parametrize("name", EXPANDED)
def test_a_constant_operand_folds_through_the_body(name):
    count = len(TABLE[name].operands)
    for v in SPECIAL[:: 1 if count == 1 else 5]:
        arrays = [np.array([v], np.float32), np.array([1.5], np.float32)][:count]
        builder = Builder()
        with builder.block():
            args = tuple(builder.const(a[0], f32) for a in arrays)
            (folded,) = RULES[name](builder, None, args)
        want = call(name, *arrays)[0]
        assert is_const(folded)
        have = const_of(folded)
        assert have.tobytes() == want.tobytes() or (have != have and want != want)


def test_exp_is_short():
    arithmetic = [op for op in body("exp")[0].walk() if op.name not in ("const", "bitcast")]
    assert len(arithmetic) <= 21


def test_condition_of_a_rare_case_is_a_bool():
    (branch,) = [op for op in body("sin")[0].walk() if op.name == "if"]
    assert branch.args[0].type is bool_
    assert isinstance(branch.results[0], Value)
