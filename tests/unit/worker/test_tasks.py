"""A worker's answers: what a module holds, how its cases are grouped, and what a case gives."""

import sys
from pathlib import Path

import pytest

from iron.check.cases import run_case
from iron.errors import KernelError
from iron.worker.protocol import ProtocolError
from iron.worker.tasks import handler, split_label

MODULE = """
import numpy as np
from iron.lang import ELT, Const, In, Out, dims, dtypes, each, f16, f32, kernel
(N,) = dims("N")
T = dtypes("T", f32, f16)

@kernel(choose={"VEC": [4, 1]})
def twice(x: In[T, N], y: Out[T, N], *, VEC: Const):
    (i,) = each(N)
    y[i] = 2 * x[i]

@twice.oracle
def _(x):
    return {"y": 2 * x}, {"y": np.abs(2 * x)}

@twice.case(N=[1, 7, 8], tol=ELT)
def _(rng, N):
    return {"x": rng.normal(N)}

twice.bench(N=1024)

@kernel
def bare(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i]
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "twice_kernels.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "twice_kernels"
    sys.modules.pop("twice_kernels", None)


def twice(kernel, arguments):
    """Stands in for a backend."""
    from iron.errors import error

    if arguments["x"].size % arguments["VEC"]:
        raise error("E0702", "N must be a multiple of VEC")
    arguments["y"][...] = 2 * arguments["x"]


def judge(case, seed):
    return run_case(case, twice, seed)


def listed(module: str, *dtypes: str) -> list[dict]:
    return list(handler(judge)({"do": "list", "module": module, "dtypes": dtypes}))


def test_a_module_is_listed_by_kernel_dtype_and_variant(module: str):
    found = listed(module)
    assert [(m["type"], m["kernel"], m.get("label")) for m in found] == [
        ("kernel", "twice", "f32,VEC=4"),
        ("kernel", "twice", "f32,VEC=1"),
        ("kernel", "twice", "f16,VEC=4"),
        ("kernel", "twice", "f16,VEC=1"),
        ("suite", "bare", None),
    ]
    assert [sizes for _, sizes, _ in found[0]["cases"]] == ["N=1", "N=7", "N=8"]
    assert found[0]["cases"][0][2] == found[1]["cases"][0][2] == "twice[f32](N=1)"
    assert found[-1]["text"] == "no oracle; no case; no bench"


def test_dtypes_narrow_the_list(module: str):
    assert [m["label"] for m in listed(module, "f16")[:-1]] == ["f16,VEC=4", "f16,VEC=1"]


def test_every_listed_case_runs(module: str):
    answer = handler(judge)
    statuses = {}
    for group in listed(module)[:-1]:
        for index, sizes, _ in group["cases"]:
            request = {"do": "run", "module": module, "kernel": "twice", "index": index, "seed": 3}
            (case,) = answer(request)
            statuses[group["label"], sizes] = case["status"]
            assert case["seconds"] >= 0
            assert 0 <= case["worst"] <= 1
    refused = {key for key, status in statuses.items() if status == "inapplicable"}
    assert refused == {(f"{t},VEC=4", s) for t in ("f32", "f16") for s in ("N=1", "N=7")}
    assert set(statuses.values()) == {"pass", "inapplicable"}


def test_preparing_mutants_is_never_silent_for_long(module: str):
    """A step is one case or one mutant; another group or a new worker prepares again."""
    answer = handler(judge)
    cases = listed(module)[1]["cases"]
    request = {"do": "mutants", "module": module, "kernel": "twice", "seed": 0, "dtypes": ()}
    request["indices"] = [index for index, _, _ in cases]
    *steps, last = answer(request)
    assert last["type"] == "mutants"
    assert [m["type"] for m in steps] == ["busy"] * (len(cases) + len(last["names"]))
    assert len(last["names"]) > 1
    judged = [next(answer({**request, "at": at})) for at in range(len(last["names"]))]
    assert {m["type"] for m in judged} == {"mutant"}
    assert not all(m["lives"] for m in judged)


def test_requests_that_make_no_sense():
    with pytest.raises(ProtocolError):
        list(handler(judge)({"do": "dance"}))
    with pytest.raises(KernelError):
        list(handler(judge)({"do": "modules", "packages": ["nowhere"]}))


@pytest.mark.parametrize(
    ("label", "parts"),
    [
        ("k[f16,VEC=4](R=3,N=1)", ("f16,VEC=4", "R=3,N=1")),
        ("k[]()", ("", "")),
        ("k[](AXES=(0, 1))", ("", "AXES=(0, 1)")),
    ],
)
def test_labels_are_split(label: str, parts: tuple[str, str]):
    assert split_label(label) == parts
