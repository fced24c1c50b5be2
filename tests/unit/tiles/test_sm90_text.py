"""The sm_90a road as text: NVRTC takes it without a warning, and what the road refuses it names."""

import re

import numpy as np
import pytest

from iron.backends import nvrtc
from iron.backends.cuda_code import code_of
from iron.backends.cuda_forms import forms
from iron.compiler import lower, preferred
from iron.dtypes import bf16, f16, f32
from iron.ir.text import parse_kernel, print_kernel
from iron.lang import Const, In, Out, ParamSpec, dims, dtypes, groups, kernel, mma, pipelined, zeros
from iron.targets.nvidia import LEVELS, SM_90A
from iron.targets.target import Target
from iron.tiles import sm90
from tests.unit.tiles import kernels

M, N, K = dims("M N K")
T = dtypes("T", f16, bf16, f32)
SERIAL = re.compile(r"C75[12]\d")
"""ptxas says so when it waits for products that it cannot keep in flight."""


def arrays(fn, dtype=bf16):
    made = {}
    for name, spec in fn.signature.items():
        if isinstance(spec, ParamSpec) and spec.kind != "scalar":
            t = f32 if name in ("d", "lse") else dtype
            made[name] = np.zeros((8,) * len(spec.dims or ()), t.np)
    return made


def text_of(fn, **consts):
    return code_of(kernels.special(fn, arrays(fn), **consts))


@pytest.mark.parametrize(
    ("fn", "consts"),
    [
        (kernels.product_nt, {"BM": 128, "BN": 256, "STAGES": 3, "PERSISTENT": 132}),
        pytest.param(
            kernels.product_tn,
            {"BM": 192, "BN": 128, "STAGES": 3, "CONSUMERS": 3},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            kernels.two_products, {"BM": 128, "BN": 128, "STAGES": 3}, marks=pytest.mark.slow
        ),
        (kernels.epilogues, {"BM": 64, "BN": 64}),
        (
            kernels.attention,
            {"BM": 128, "BN": 128, "HEAD": 128, "CAUSAL": True, "OVERLAP": 1},
        ),
        pytest.param(
            kernels.attention,
            {"BM": 128, "BN": 128, "HEAD": 128, "CAUSAL": True},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_assembler_has_nothing_to_say(fn, consts):
    code = text_of(fn, **consts)
    made = nvrtc.compile_text(code.text.source, "sm_90a")
    assert not [w for w in made.warnings if SERIAL.search(w)]
    assert made.spill_bytes == 0
    assert made.registers * code.threads <= 1 << 16


def test_a_product_without_its_fence_is_seen():
    """The positive control of `SERIAL`."""
    code = text_of(kernels.product_nt)
    bare = code.text.source.replace("iron_wgmma_wait<0>();", "")
    made = nvrtc.compile_text(bare, "sm_90a")
    assert [w for w in made.warnings if SERIAL.search(w)]


def test_the_text_form_holds_everything():
    made = kernels.special(kernels.product_nt, arrays(kernels.product_nt))
    assert print_kernel(parse_kernel(print_kernel(made))) == print_kernel(made)


def test_aligned_launches_get_it_and_others_the_plain_kernel():
    source = kernels.tiles_of(kernels.product_nt, arrays(kernels.product_nt))
    made = lower(source, SM_90A)
    best, *rest = forms(made)
    assert best.aligned == {"a": 16, "b": 16, "c": 16}
    assert rest[-1].aligned == {}
    assert [f.kind for f in best.code.fields][-3:] == ["map"] * 3
    assert best.code.threads == 256


@pytest.mark.parametrize("target", LEVELS.values(), ids=lambda t: t.name)
def test_no_form_is_of_another_generation(target: Target):
    source = kernels.tiles_of(kernels.product_nt, arrays(kernels.product_nt))
    texts = [form.code.text.source for form in forms(lower(source, target))]
    assert any("wgmma" in text for text in texts) == target.has("sm_90")
    assert any("tensormap" in text for text in texts) == target.has("sm_90")


# --- refusals -------------------------------------------------------------------------------------


@kernel
def flexible(
    a: In[T, M, K],
    b: In[T, N, K],
    c: Out[T, M, N],
    *,
    BM: Const = 64,
    BN: Const = 64,
    CUT: Const = 0,
):
    """c = a[:, CUT:] @ b[:, CUT:].T"""
    A, B = a[:, CUT:].tiles(BM, 64), b[:, CUT:].tiles(BN, 64)
    C = c.tiles(BM, BN)
    m, n = groups(*C.grid)
    acc = zeros((BM, BN), f32)
    for k in pipelined(A.grid[1], stages=9):
        acc = mma(A[m, k], B[n, k].T, acc)
    C[m, n] = acc.to(T)


@pytest.mark.parametrize(
    ("dtype", "consts", "reason"),
    [
        (f32, {}, "a factor is f32"),
        (bf16, {"CUT": 8}, "a view of parts of rows"),
        (bf16, {"BM": 32, "BN": 32}, "32 rows are no multiple of 64"),
        (bf16, {"BN": 512}, "no instruction has 512 columns"),
        (bf16, {"BM": 256, "BN": 256}, "256 registers a thread"),
        (bf16, {"BM": 128, "BN": 128}, "more than 232448"),
    ],
)
def test_refusals(dtype, consts, reason):
    made = kernels.tiles_of(flexible, arrays(flexible, dtype), **consts)
    assert reason in sm90.refusal(made, SM_90A)
    assert sm90.lower(made, SM_90A) is None
    assert preferred(made, SM_90A) is None
