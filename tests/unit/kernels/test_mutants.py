"""Known-bad forms of every kernel: its cases reject each one, or it is listed with the reason.

A mutant changes one operation of the kernel in IR. It is named by the change and the line of
source it falls on, so the copies that unrolling, inlining and other forms of the kernel make of a
line are one mutant: rejected as soon as one copy is.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from iron.check.expand import ConcreteCase
from iron.check.mutate import mutants
from iron.check.survive import forms
from iron.dtypes import f32
from iron.lang import KernelFunction
from iron.worker.discover import kernels, modules
from iron.worker.hunt import listed
from iron.worker.mutants import SECONDS, in_time, place

IRON = Path(__file__).parents[3] / "iron"
SOURCES = {
    path.name: str(path)
    for part in ("kernels", "quant/codec")
    for path in (IRON / part).rglob("*.py")
}
LISTED = listed((Path(__file__).parent / "survivors.txt").read_text())
KERNELS = {
    name: kernel
    for module in modules(("iron.kernels",))
    for name, kernel in kernels(module).items()
    if isinstance(kernel, KernelFunction)
}
# What is enough of kernels whose variants are many and alike.
ENOUGH = {
    "unary": "OP=(silu|leaky_relu|erf|softplus)\\b",
    "binary": "OP=(sub|remainder|logaddexp)\\b",
    "binary_integer": "OP=(sub|shl)\\b",
    "compare": "OP=(lt|ge)\\b",
    "qmv_codes": "mlx_int4_g64.*M=1|int8_sym.*M=2",
    "qmv": "gguf_q4_1.*M=2|mlx_int4.*M=1|WAY=matrix",
    "sdpa_decode": "KEYS=2|D=72.*MODE=softcap",
    "sdpa_decode_split": "KEYS=2",
    "dequant_gather": "gguf_q4_1|mlx_int4",
    "quantize": "FORMAT=(int3_g64|mxfp4)",
    "quantize_affine": "f32,f32.*K=192",
    "dequantize": "gguf_q4_1|mlx_int|int8_row",
    "gated_activation": "VARIANT=(geglu_erf|swiglu_oai|swiglu_clip_after)",
    "gated_activation_packed": "VARIANT=swiglu_limit",
}


def wanted(name: str) -> Callable[[ConcreteCase], bool]:
    """Cases in f32 (where the kernel has it), of the variants that are enough."""
    pattern = re.compile(ENOUGH.get(name, ""))

    def choose(case: ConcreteCase) -> bool:
        floats = [t for t in case.dtypes.values() if t.is_float]
        return all(t is f32 for t in floats) and bool(pattern.search(case.label))

    return choose


def alive(name: str) -> set[str]:
    """The mutants of a kernel that every copy's cases accept."""
    rejected: set[str] = set()
    accepted: set[str] = set()
    for form in forms(KERNELS[name], wanted(name)):
        for mutant, kernel in mutants(
            form.kernel, wanted=lambda mutant: place(mutant, SOURCES) not in rejected
        ):
            key = place(mutant, SOURCES)
            live = in_time(lambda f=form, k=kernel: f.lets_live(k), SECONDS)
            (accepted if live else rejected).add(key)
    return accepted - rejected


SLOW = {
    *(
        "gemm",
        "gemm_parts",
        "qmv",
        "qmv_codes",
        "quantize",
        "quantize_affine",
        "top_k_mask",
    ),
    *("sdpa_decode", "sdpa_decode_split", "sdpa_prefill", "sdpa_prefill_varlen"),
    *("sdpa_bidirectional", "sdpa_decode_divided"),
}
NAMES = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in KERNELS]


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_is_rejected_or_listed(name: str):
    assert sorted(alive(name)) == sorted(LISTED.get(name, set()))


def test_the_list_names_kernels():
    assert LISTED.keys() <= KERNELS.keys()
