"""The search over the schedule of a tile kernel, on this machine's CPU and its clock."""

import numpy as np
import pytest

from iron.bench.measure import Protocol
from iron.bench.points import points
from iron.bench.search import search
from iron.kernels.gemm.gemm import gemm, operands
from iron.kernels.sdpa.prefill import sdpa_prefill, whole
from iron.lang import DOT, Const, In, Out, dims, f32, groups, kernel, mma, pipelined, zeros
from iron.lang.suite import Bench
from iron.runtime import launch, tune
from iron.runtime.drivers.cpu import CpuDriver

M, N, K = dims("M N K")


@kernel(tune={"BM": [16, 32, 1024], "STAGES": [2, 3]})
def small(
    a: In[f32, M, K], b: In[f32, K, N], c: Out[f32, M, N], *, BM: Const = 8, STAGES: Const = 2
):
    """c = a @ b."""
    A, B, C = a.tiles(BM, 32), b.tiles(32, 256), c.tiles(BM, 256)
    m, n = groups(*C.grid)
    acc = zeros((BM, 256), f32)
    for k in pipelined(A.grid[1], stages=STAGES):
        acc = mma(A[m, k], B[k, n], acc)
    C[m, n] = acc


@small.oracle
def _(a, b):
    return {"c": a @ b}, {"c": (np.sqrt((a * a) @ (b * b)), np.abs(a) @ np.abs(b))}


def factors(rng, M, N, K):
    given = operands(rng, M, N, K, 0, 0)
    return {"a": given["a"], "b": given["b"]}


@small.case(M=[33], N=[70], K=[97], tol=DOT)
def _(rng, M, N, K):
    return factors(rng, M, N, K)


small.bench(M=64, N=256, K=64, make=factors)


class Quick:
    """A scale for a few turns."""

    @staticmethod
    def protocol(cold: bool, **limits) -> Protocol:
        return Protocol(None, **{**limits, "least": 2, "most": 2})


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """No results but those of the test."""
    monkeypatch.setenv("IRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(tune, "PACKAGE", tmp_path / "tuned")
    tune.forget()
    launch._CHOSEN.clear()


def test_every_configuration_is_right_or_passed_over_with_its_reason(alone):
    (point,) = points(small)
    row = list(search(point, CpuDriver(), Quick(), False, 0, {}))[-1]
    assert row["wrong"] == []
    assert row["tried"] == 2  # a third stage changes nothing on a CPU
    assert [said.partition(":")[0] for said in row["passed"]] == [
        "BM=16,STAGES=3",
        "BM=32,STAGES=3",
        "BM=1024,STAGES=2",
        "BM=1024,STAGES=3",
    ]
    assert "the code of BM=16,STAGES=2" in row["passed"][0]
    assert "elements" in row["passed"][2]  # more than a tile may have
    assert row["place"] == "a:f32[64,64] b:f32[64,256]"


SMALL = {
    "gemm": (gemm, {"M": 48, "N": 80, "K": 64, "TA": 0, "TB": 1, "T": f32}, operands),
    "sdpa_prefill": (
        sdpa_prefill,
        {"B": 1, "H": 2, "G": 1, "S": 40, "L": 70, "D": 64, "E": 64, "T": f32, "CAUSAL": False},
        whole,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_every_schedule_of_the_library_is_right_or_passed_over(name: str, alone, monkeypatch):
    kernel, sizes, make = SMALL[name]
    monkeypatch.setattr(kernel.suite, "benches", [Bench(sizes, make=make)])
    (point,) = points(kernel)
    row = list(search(point, CpuDriver(), Quick(), False, 0, {}))[-1]
    assert row["wrong"] == []
    assert row["tried"] > 2
    assert all(any(w in said for w in ("code of", "memory", "elements")) for said in row["passed"])
