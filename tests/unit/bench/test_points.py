"""Benches made concrete: spread over lists and dtypes, inputs found, random data made fast."""

import numpy as np
import pytest

from iron.bench.points import BLOCK, BenchInputs, points
from iron.errors import KernelError
from iron.kernels.gemm.qmv import qmv
from iron.kernels.ops.cast import cast
from iron.kernels.ops.unary import unary
from iron.kernels.sdpa.decode_batched import T, sdpa_decode_batched
from iron.lang import ATTN, ELT, RED, In, InOut, KernelFunction, Out, bf16, dims, each, f32, kernel
from iron.lang.parameter import ParamSpec
from iron.quant.format import by_name
from iron.worker import discover

(N,) = dims("N")


def test_lists_and_open_dtypes_are_spread():
    found = {(p.tags, p.shape) for p in points(unary)}
    assert ("bf16,OP=silu", "N=64Mi") in found
    assert ("f32,OP=exp", "N=1Mi") in found
    assert len(found) == len(points(unary)) == 12


def test_dtypes_and_formats_are_named():
    assert ("f32,f16", "N=64Mi") in {(p.tags, p.shape) for p in points(cast)}
    assert ("f32,gguf_q8_0", "M=1,N=14336,K=4096") in {(p.tags, p.shape) for p in points(qmv)}


def uncounted(declared: KernelFunction) -> bool:
    """True when a bench takes the size of an array that is changed in part for what it moves."""
    partly = any(s.kind == "inout" for s in declared.signature.values() if isinstance(s, ParamSpec))
    return partly and any(b.bytes is None for b in declared.suite.benches)


def test_what_is_changed_in_place_is_counted_by_its_bench():
    @kernel
    def put(x: In[f32, N], y: InOut[f32, 8]):
        (i,) = each(N)
        y[i] = x[i]

    put.bench(N=4)
    assert uncounted(put)
    put.suite.benches.clear()
    every = [k for m in discover.modules(("iron.kernels",)) for k in discover.kernels(m).values()]
    assert not [k.name for k in every if isinstance(k, KernelFunction) and uncounted(k)]


def test_a_bench_without_inputs_is_named():
    @kernel
    def strange(x: In[f32, N], y: Out[f32, N]):
        (i,) = each(N)
        y[i] = x[i]

    strange.case(N=[3], FORM=["odd"], tol=ELT)(lambda rng, N, FORM: {"x": rng.normal(N)})
    strange.bench(N=64)
    with pytest.raises(KernelError, match="no case asks for just its sizes"):
        points(strange)
    strange.suite.benches.clear()
    strange.bench(N=64, FORM="odd")
    assert points(strange)[0].case.case.make is strange.suite.cases[0].make


def test_a_bench_is_judged_by_the_class_of_cases_in_its_dtypes():
    """f32 attention keeps its weights, bf16 rounds them: one class for both fails what is right."""
    judged = {p.case.dtypes["T"]: p.case.case.tol for p in points(sdpa_decode_batched)}
    assert judged == {bf16: {"o": ATTN.rounded(T), "lse": RED("L")}}
    assert points(cast)[0].case.case.tol == cast.suite.cases[0].tol


def test_every_kernel_of_the_library_has_points():
    for module in discover.modules(("iron.kernels",)):
        for name, found in discover.kernels(module).items():
            assert points(found), name


STREAMS = {
    "unary", "binary", "compare", "copy", "cast", "select", "gated_activation", "rms_norm",
    "layer_norm", "softmax", "reduce", "scan",
}  # fmt: skip


def test_what_memory_bounds_is_timed_beyond_every_cache():
    seen = {
        name: max(int(np.prod([v for k, v in p.case.axes.items() if k in ("R", "N", "C")]))
                  for p in points(found))
        for module in discover.modules(("iron.kernels",))
        for name, found in discover.kernels(module).items()
        if name in STREAMS
    }  # fmt: skip
    assert set(seen) == STREAMS
    assert {name: size for name, size in seen.items() if size < 1 << 26} == {}


# --- inputs ---------------------------------------------------------------------------------------


def test_small_inputs_are_those_of_cases():
    from iron.check.inputs import Inputs

    same = BenchInputs(3, "x").normal(5, 7), Inputs(3, "x").normal(5, 7)
    np.testing.assert_array_equal(*same)


@pytest.mark.parametrize("draw", ["normal", "uniform", "integers", "distinct"])
def test_large_inputs_repeat_a_block(draw: str):
    found = getattr(BenchInputs(3), draw)(3, BLOCK)
    assert found.shape == (3, BLOCK)
    np.testing.assert_array_equal(found[0], found[2])
    assert np.unique(found[0]).size > 200


def test_large_weights_repeat_their_rows():
    fmt = by_name("gguf_q8_0")
    found = BenchInputs(3).packed(fmt, 40, BLOCK // 16)
    assert found.shape == (40, BLOCK // 16)
    decoded = found.decode()
    np.testing.assert_array_equal(decoded[0], decoded[16])
    assert decoded.std() == pytest.approx(1, abs=0.05)
