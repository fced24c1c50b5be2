"""The checker passes a faithful backend and fails each kind of broken one, with the reason."""

from dataclasses import replace

import numpy as np
import pytest

import iron
from iron.check.cases import check, expand, run_case, weakness
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.check.tolerance import CaseError
from iron.errors import error
from iron.kernels.sdpa.decode import sdpa_decode
from iron.lang import ELT, EXACT, RED, In, Out, Packed, dims, f32, formats, kernel, partial, u8, u32
from iron.runtime.drivers.interp import InterpreterDriver
from iron.targets.amd import GFX942, GFX1100
from tests.unit.check.scaled import declare, right, truth


def test_expansion_is_axes_by_dtypes_by_variants_by_alternatives():
    cases = expand(declare())
    assert len(cases) == 2 * 3 * 2 * 2 * 2
    assert cases[0].label == "scaled[f32,FLIP=False,VEC=4](R=1,N=1)"
    assert len({c.label for c in cases}) == len(cases)


def test_axes_may_name_a_const_a_dtype_or_a_variant():
    k = declare()
    k.suite.cases.clear()
    k.case(N=[3], T=[f32], VEC=[1], FLIP=[True], R=[2], tol=ELT)(lambda rng: {})
    (case,) = expand(k)
    assert dict(case.dtypes) == {"T": f32}
    assert case.consts == {"VEC": 1, "FLIP": True}
    assert case.label == "scaled[f32](N=3,VEC=1,FLIP=True,R=2)"


def test_formats_multiply():
    N, K = dims("N K")
    FMT = formats("FMT", "a", "b")

    @kernel
    def k(w: Packed[FMT, N, K], y: Out[f32, N]):
        pass

    k.case(N=[3], K=[32], tol=ELT)(lambda rng: {})
    assert [c.formats for c in expand(k)] == [{"FMT": "a"}, {"FMT": "b"}]


def test_a_faithful_backend_passes():
    verdicts = check(declare(), right)
    assert {v.status for v in verdicts} == {"pass", "inapplicable"}
    assert 0 < max(v.worst for v in verdicts) < 0.5
    inapplicable = [v for v in verdicts if v.status == "inapplicable"]
    assert all(
        "VEC=4" in v.label and ("N=1)" in v.label or "N=33)" in v.label) for v in inapplicable
    )


def test_inputs_are_rounded_before_the_oracle_and_repeatable():
    seen = []
    k = declare(
        oracle=lambda x, w, positive, by, FLIP: seen.append(x) or truth(x, w, positive, by, FLIP)
    )
    case = next(c for c in expand(k) if "f16" in c.label)
    one, two = prepare(case, seed=5), prepare(case, seed=5)
    assert seen[0].dtype == np.float64
    np.testing.assert_array_equal(seen[0], one.arguments["x"].astype(np.float64))
    assert one.arguments["x"].tobytes() == two.arguments["x"].tobytes()
    assert prepare(case, seed=6).arguments["x"].tobytes() != one.arguments["x"].tobytes()
    assert list(one.arguments) == list(k.signature)
    assert np.isnan(one.arguments["y"]).all()


def unwritten(kernel, arguments):
    keep = arguments["y"][..., -1].copy()
    right(kernel, arguments)
    arguments["y"][..., -1] = keep


def overrun(kernel, arguments):
    right(kernel, arguments)
    y = arguments["y"]
    outside = np.lib.stride_tricks.as_strided(y, (y.size + 1,), (y.itemsize,))
    outside[-1] = 1.0


def underrun(kernel, arguments):
    right(kernel, arguments)
    total = arguments["total"]
    np.lib.stride_tricks.as_strided(total[::-1], (total.size + 1,), (-4,))[-1] = 1.0


def constant(kernel, arguments):
    right(kernel, arguments)
    arguments["y"][...] = 0


def one_element(kernel, arguments):
    right(kernel, arguments)
    arguments["y"].reshape(-1)[-1] *= 1.01


def changes_its_input(kernel, arguments):
    right(kernel, arguments)
    arguments["x"][0, 0] += 1


def not_a_number(kernel, arguments):
    right(kernel, arguments)
    arguments["total"][-1] = np.nan


def off_by_one_count(kernel, arguments):
    right(kernel, arguments)
    arguments["positive"][0] += 1


@pytest.mark.parametrize(
    ("backend", "output", "says"),
    [
        (unwritten, "y", "is nan"),
        (overrun, "y", "past its end"),
        (underrun, "total", "4 bytes before its start"),
        (constant, "y", "is 0.0"),
        (one_element, "y", "worst"),
        (changes_its_input, "x", "was changed"),
        (not_a_number, "total", "is nan"),
        (off_by_one_count, "positive", "outside the bound"),
    ],
)
def test_a_broken_backend_fails(backend, output, says):
    verdicts = [v for v in check(declare(), backend) if v.status != "inapplicable"]
    assert {v.status for v in verdicts} == {"fail"}
    assert {v.output for v in verdicts} == {output}
    assert says in verdicts[0].message


def test_a_failure_names_the_first_bad_element():
    case = next(c for c in expand(declare()) if c.label == "scaled[f32,FLIP=False,VEC=1](R=3,N=33)")
    assert run_case(case, one_element).index == (2, 32)


def test_a_wrong_oracle_fails():
    def wrong(x, w, positive, by, FLIP):
        value, condition = truth(x, w, positive, by, FLIP)
        return {**value, "total": value["total"] * (1 + 1e-4)}, condition

    verdicts = [v for v in check(declare(oracle=wrong), right) if v.status != "inapplicable"]
    assert {v.output for v in verdicts} == {"total"}


def test_a_wrong_variant_fails_only_there():
    def backend(kernel, arguments):
        right(kernel, {**arguments, "FLIP": False})

    failed = {v.label for v in check(declare(), backend) if not v.ok}
    assert failed
    assert all("FLIP=True" in label for label in failed)


def test_inputs_without_power_are_a_fault_of_the_case():
    k = declare()
    k.suite.cases.clear()

    def flat(rng, R, N):
        return {"x": np.ones((R, N)), "positive": np.zeros(R, int), "by": 1.0}

    k.case(R=[3], N=[33], tol=RED("N"))(flat)
    verdicts = [v for v in check(k, right) if v.status != "inapplicable"]
    assert all("cannot tell a broken kernel" in v.message for v in verdicts)
    assert all("cannot tell a broken kernel" in weakness(case) for case in expand(k))
    k.suite.cases.clear()
    k.case(R=[3], N=[33], tol=RED("N"), degenerate="rows of ones")(flat)
    assert all(v.ok for v in check(k, right))


def test_a_size_that_no_alternative_serves_is_a_failure():
    def backend(kernel, arguments):
        if arguments["x"].shape[1] == 33:
            right(kernel, {**arguments, "VEC": 32})
        right(kernel, arguments)

    failed = [v for v in check(declare(), backend) if not v.ok]
    assert {v.message for v in failed} == {"no alternative of `choose` serves this size"}
    assert all("N=33" in v.label for v in failed)


def test_an_error_of_the_kernel_is_a_failure_with_its_text():
    def backend(kernel, arguments):
        arguments["VEC"] = 7
        right(kernel, arguments)

    k = declare()
    case = expand(k)[0]
    verdict = run_case(replace(case, choice={}, axes={**case.axes, "VEC": 4}), backend)
    assert (verdict.status, "E0702" in verdict.message) == ("fail", True)


def on_lanes(simd):
    def run(kernel, arguments):
        with iron.use(InterpreterDriver(simd=simd)):
            kernel(**arguments)

    return run


def test_threads_without_simdgroups_on_a_target_are_elsewhere():
    """A case of a group of 32 threads is no fault of a target with waves of 64."""
    named = next(c for c in expand(sdpa_decode) if c.consts.get("THREADS") == 32)
    assert [run_case(named, on_lanes(n)).status for n in (32, 64)] == ["pass", "elsewhere"]
    assert specialise(named, prepare(named), GFX942) is None
    assert specialise(named, prepare(named), GFX1100) is not None
    nowhere = replace(named, axes={**named.axes, "THREADS": 33})
    assert run_case(nowhere, on_lanes(64)).status == "fail"

    def full(kernel, arguments):
        raise error("E0301", "more groups than a launch can have")

    everywhere = replace(named, axes={**named.axes, "THREADS": 64})
    assert run_case(everywhere, full).status == "fail"


def test_partial_outputs_compare_what_the_oracle_states():
    (N,) = dims("N")

    @kernel
    def k(x: In[u32, N], y: Out[u32, N, partial]):
        pass

    @k.oracle
    def _(x):
        kept = x[x % 2 == 0]
        held = np.ma.masked_all(x.shape, np.uint32)
        held[: kept.size] = kept
        return {"y": held}

    k.case(N=[33], tol=EXACT)(lambda rng, N: {"x": rng.integers(N, high=10**6)})
    (case,) = expand(k)

    def backend(kernel, arguments, short=0):
        kept = arguments["x"][arguments["x"] % 2 == 0]
        arguments["y"][: kept.size - short] = kept[: kept.size - short]

    assert run_case(case, backend).status == "pass"
    assert run_case(case, lambda k, a: backend(k, a, 1)).status == "fail"


def test_small_integers_cannot_hide_an_unwritten_element():
    (N,) = dims("N")

    @kernel
    def k(x: In[u8, N], y: Out[u8, N]):
        pass

    k.oracle(lambda x: {"y": x})
    k.case(N=[33], tol=EXACT)(lambda rng, N: {"x": rng.integers(N, low=120, high=132)})
    (case,) = expand(k)

    def backend(kernel, arguments):
        written = arguments["x"] != 0x7F
        arguments["y"][written] = arguments["x"][written]

    assert 0x7F in prepare(case).arguments["x"]
    assert run_case(case, backend).status == "fail"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"x": np.zeros((3, 32))}, "dim N is 33 elsewhere but 32 in x"),
        ({"w": np.zeros((3, 33))}, "w has 2 axes"),
        ({"y": np.zeros((3, 33))}, "gives the output y"),
        ({"z": 1}, "which the kernel does not have"),
        ({"x": None}, "does not give x"),
    ],
)
def test_wrong_inputs_are_a_fault_of_the_case(change, says):
    k = declare()
    k.suite.cases.clear()
    good = {"x": np.ones((3, 33)), "positive": np.zeros(3, int), "by": 1.0}
    k.case(R=[3], N=[33], tol=RED("N"))(lambda rng: {**good, **change})
    with pytest.raises(CaseError, match=says):
        prepare(expand(k)[0])


@pytest.mark.parametrize(
    ("told", "says"),
    [
        (lambda v: {k: v[k] for k in ("y", "total")}, "says nothing about positive"),
        (lambda v: {**v, "total": v["y"]}, "the oracle's total has shape"),
        (lambda v: {**v, "more": 1}, "no outputs"),
        (lambda v: {**v, "positive": v["total"]}, "do not fit u32"),
    ],
)
def test_wrong_oracles_are_a_fault_of_the_case(told, says):
    def oracle(x, w, positive, by, FLIP):
        value, condition = truth(x, w, positive, by, FLIP)
        return told(value), condition

    assert says in run_case(expand(declare(oracle=oracle))[-1], right).message


def test_a_case_or_oracle_that_raises_is_a_failure_with_its_place():
    k = declare(oracle=lambda x: {"y": x.no_such_thing})
    verdict = run_case(expand(k)[0], right)
    assert verdict.status == "fail"
    assert "test_cases.py:" in verdict.message
    assert "raised AttributeError" in verdict.message
    k.suite.cases.clear()
    k.case(R=[3], N=[33], tol=RED("N"))(lambda rng: [][1])
    assert "raised IndexError" in run_case(expand(k)[0], right).message
