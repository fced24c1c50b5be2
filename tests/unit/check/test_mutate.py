"""Every kind of mutant is made, is a valid kernel, and is seen by a run against the truth."""

import numpy as np
import pytest

from iron.check import mutate
from iron.check.mutate import apply, mutants, mutations
from iron.errors import KernelError
from iron.ir.interp import run
from iron.ir.rebuild import rebuild
from iron.ir.text import digest, parse_kernel
from iron.ir.verify import verify

# y[g * 8 + t] = x[g * 8 + (7 - t)] - 2 * (sum of the first K elements of w), masked at N
KERNEL = """\
kernel "turn" rank 1 threads 8 simd 8 index i32
tensor "x" in f32[?]
tensor "w" in f32[?]
tensor "y" out f32[?]
dim "N" i32
dim "K" i32
host(%N: i32, %K: i32) {
  %7 = const i32 7
  %8 = const i32 8
  %n = add %N, %7 : i32
  %groups = floordiv %n, %8 : i32
  yield %groups
}
body(%x: in f32[?], %w: in f32[?], %y: out f32[?], %N: i32, %K: i32) {
  %pile = shared type=shared f32[8] : shared f32[8]
  %t = thread dtype=i32 : i32
  %g = group axis=0 dtype=i32 : i32
  %8 = const i32 8
  %first = mul %g, %8 : i32
  %i = add %first, %t : i32
  %inside = lt %i, %N : bool
  %zero = const f32 0x0p+0
  %v = if %inside {
    %loaded = load %x, %i count=0 : f32
    yield %loaded
  } {
    yield %zero
  } : f32
  store %pile, %t, %v
  barrier
  %low = const i32 0
  %one = const i32 1
  %sum = for %low, %K, %one, %zero stop=false (%k: i32, %s: f32) {
    %e = load %w, %k count=0 : f32
    %more = add %s, %e : f32
    yield %more
  } : f32
  %7 = const i32 7
  %back = sub %7, %t : i32
  %other = load %pile, %back count=0 : f32
  %two = const f32 0x1.0p+1
  %double = mul %sum, %two : f32
  %result = sub %other, %double : f32
  if %inside {
    store %y, %i, %result
    yield
  } {
    yield
  }
}
"""
N, K = 13, 5
X = np.arange(1, N + 1, dtype=np.float32) ** 2
W = np.arange(2, K + 2, dtype=np.float32)


def truth():
    padded = np.zeros(16, np.float32)
    padded[:N] = X
    return (padded.reshape(2, 8)[:, ::-1].reshape(-1) - 2 * W.sum())[:N]


def works(kernel) -> bool:
    y = np.full(N, np.nan, np.float32)
    try:
        run(kernel, {"x": X, "w": W, "y": y}, {}, {"N": N, "K": K}, (2,))
    except KernelError as fault:
        return fault.id == "E0901"  # an invalid kernel counts as a survivor
    return np.array_equal(y, truth())


def test_the_kernel_works():
    assert works(parse_kernel(KERNEL))


def test_every_kind_is_made():
    kinds = {m.name.split(" at ")[0] for m in mutations(parse_kernel(KERNEL))}
    assert {
        "drop mask",
        "lt -> le",
        "bound + 1",
        "swap operands of sub",
        "add -> sub",
        "sub -> add",
        "drop barrier",
        "8 + 1 in mul",
        "0.0 + 1 in for",
    } <= kinds


def test_mutants_are_valid_different_and_killed():
    kernel = parse_kernel(KERNEL)
    made = list(mutants(kernel))
    names = [name for name, _ in made]
    assert len(set(names)) == len(names)
    assert len({digest(m) for _, m in made} | {digest(kernel)}) == len(made) + 1
    survivors = []
    for name, mutant in made:
        verify(mutant)
        if works(mutant):
            survivors.append(name)
    assert survivors == []
    assert len(made) >= 14


def test_only_wanted_mutants_are_made(monkeypatch: pytest.MonkeyPatch):
    """What is wanted may change on the way: a rejected line wants no other copy."""
    made = []
    monkeypatch.setattr(mutate, "apply", lambda k, m: made.append(m.name) or apply(k, m))
    kernel = parse_kernel(KERNEL)
    every = [name for name, _ in mutants(kernel)]
    seen = []
    for name, _ in mutants(kernel, wanted=lambda name: len(seen) < 3):
        seen.append(name)
    assert seen == every[:3]
    assert made[-3:] == every[:3]


def test_one_op_changes():
    kernel = rebuild(parse_kernel(KERNEL))
    barrier = next(m for m in mutations(kernel) if m.name.startswith("drop barrier"))
    before = [op.name for op in kernel.body.walk()]
    after = [op.name for op in apply(kernel, barrier).body.walk()]
    before.remove("barrier")
    assert after == before


def test_names_say_where():
    located = KERNEL.replace("  barrier\n", '  barrier @ "lib/turn.py":7:4:13\n')
    names = [m.name for m in mutations(parse_kernel(located))]
    assert "drop barrier at turn.py:7:5" in names
    assert "bound + 1 at ?" in names
