"""Mutants of real kernels against their cases: strong cases leave none, weak ones are told."""

import numpy as np
import pytest

from iron.check.cases import check, expand
from iron.check.interpret import interpret, read_call
from iron.check.mutate import mutants
from iron.check.prepare import prepare
from iron.check.survive import forms, survivors
from iron.lang import (
    EXACT,
    RED,
    Const,
    In,
    Out,
    Scalar,
    barrier,
    dims,
    dot,
    dtypes,
    each,
    f16,
    f32,
    group_sum,
    groups,
    kernel,
    require,
    shared,
    strided,
    thread,
    u32,
)

R, N = dims("R N")
T = dtypes("T", f32, f16)


@kernel(choose={"VEC": [4, 1]})
def lengths(x: In[T, R, N], y: Out[T, R], shift: Scalar[f32], *, VEC: Const, THREADS: Const = 64):
    """y = sum of squares of each row, plus shift."""
    (row,) = groups(R, threads=THREADS)
    require(N % VEC == 0, "N must be a multiple of VEC")
    total = f32(0)
    for i in strided(N, VEC):
        chunk = x[row, i : i + VEC].to(f32)
        total += dot(chunk, chunk)
    total = group_sum(total)
    if thread == 0:
        y[row] = (total + shift).to(T)


@lengths.oracle
def _(x, shift):
    y = (x * x).sum(-1)
    return {"y": y + shift}, {"y": y + abs(shift)}


def strong(shift: float = 2.0, sizes=(132, 201)):
    lengths.suite.cases.clear()

    @lengths.case(R=[3], N=list(sizes), T=[f32], tol=RED("N"))
    def _(rng, R, N):
        return {"x": rng.normal(R, N), "shift": shift}

    return lengths


@kernel
def turned(x: In[u32, N], y: Out[u32, N], *, THREADS: Const = 64):
    """The elements of each run of THREADS in opposite order."""
    (g,) = groups(N // THREADS, threads=THREADS)
    require(N % THREADS == 0, "N must be a multiple of THREADS")
    pile = shared((THREADS,), u32)
    pile[thread] = x[g * THREADS + thread]
    barrier()
    y[g * THREADS + thread] = pile[THREADS - 1 - thread]


@turned.oracle
def _(x):
    return {"y": x.reshape(-1, 32)[:, ::-1].reshape(-1)}


@turned.case(N=[96], THREADS=[32], tol=EXACT)
def _(rng, N):
    return {"x": rng.permutation(N)}


@kernel
def halves(x: In[f32, N], y: Out[f32, N]):
    """Halves."""
    (i,) = each(N)
    y[i] = x[i] * 0.5


@halves.oracle
def _(x):
    return {"y": x / 2}, {"y": np.abs(x)}


@halves.case(N=[301], tol=RED(1))
def _(rng, N):
    return {"x": rng.normal(N)}


@pytest.mark.parametrize("declared", [turned, halves])
def test_strong_cases_leave_no_mutant(declared):
    assert {v.status for v in check(declared, interpret)} == {"pass"}
    (form,) = forms(declared, lambda case: True, 0)
    assert len(form.trials) == 1
    assert list(survivors(declared)) == []


def test_every_alternative_is_mutated():
    declared = strong()
    assert {v.status for v in check(declared, interpret)} == {"pass", "inapplicable"}
    found = forms(declared, lambda case: True, 0)
    assert sorted(len(f.trials) for f in found) == [1, 2]  # VEC = 4 serves one size of two
    left = {s.mutant.split(" at ")[0] for s in survivors(declared)}
    assert left == {"0 + 1 in eq"}  # every thread holds the total, so thread 1 may write it too


def test_a_shift_too_small_to_see_is_told():
    left = [s.mutant for s in survivors(strong(shift=1e-7))]
    assert any(name.startswith("add -> sub") for name in left)


def test_rows_of_one_turn_are_told():
    left = [s.mutant for s in survivors(strong(sizes=(4, 31)))]
    assert any(name.startswith("32 + 1 in for") for name in left)


def test_a_guard_that_gives_up_counts_as_killed():
    assert list(survivors(strong(shift=1e-7), guard=lambda check: False)) == []


def test_only_wanted_cases_count():
    declared = strong()
    assert forms(declared, lambda case: case.axes["N"] == 201, 0)[0].trials[0].case.axes["N"] == 201


@pytest.mark.parametrize("simd", [8, 32])
def test_the_interpreter_runs_at_other_widths(simd):
    case = expand(strong())[0]
    prepared = prepare(case)
    read = read_call(lengths, prepared.arguments, simd, narrow=True)
    assert read.kernel.threads == simd
    read.run(read.kernel)
    out = prepared.outputs["y"]
    np.testing.assert_allclose(out.held.array, out.reference, rtol=1e-6)


def test_a_limit_takes_mutants_evenly():
    declared = strong(shift=1e-7)
    every = [s.mutant for s in survivors(declared, guard=lambda check: True)]
    some = [s.mutant for s in survivors(declared, guard=lambda check: True, most=5)]
    assert len(some) <= 5 * len(forms(declared, lambda case: True))
    assert set(some) < set(every)


def test_a_trial_starts_afresh_each_time():
    (form,) = forms(turned, lambda case: True)
    assert all(form.lets_live(form.kernel) for _ in range(2))
    _, broken = next(mutants(form.kernel))
    assert not form.lets_live(broken)
    assert form.lets_live(form.kernel)
