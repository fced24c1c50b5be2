"""Every library kernel is a valid module on a usual device and on the least one."""

import re
from dataclasses import replace
from struct import pack, unpack
from typing import Any

import pytest

from iron.backends.forms import forms
from iron.backends.spirv import Encoded, disassemble, encode
from iron.cli.specimen import choose
from iron.compiler import lower
from iron.dtypes import f16, f32
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.lang import In, Out, dims, each, kernel
from iron.lang.declare import KernelFunction
from iron.targets.nvidia import APPROXIMATIONS
from iron.targets.target import Target
from iron.targets.vulkan import LEAST, USUAL
from iron.worker.discover import kernels, modules
from tests.unit.backends.spirv.validator import complaint

AGAIN = True
(N,) = dims("N")

KERNELS = {
    name: found
    for module in modules(("iron.kernels",))
    for name, found in kernels(module).items()
    if isinstance(found, KernelFunction)
}


EXACT = {"exact_bfloat", "exact_division", "exact_sqrt", "exact_zero", "fused_fma"}
MODERN = replace(USUAL, features=USUAL.features | EXACT, approximations=APPROXIMATIONS)
"""A device that was seen to do everything itself."""
PLAIN = replace(MODERN, features=MODERN.features - {"exact_bfloat"}, approximations=())


def encoded(name: str, target=USUAL) -> Encoded:
    return encode(lower(choose(KERNELS[name], target, None, {}).kernel, target), target)


IN_TURNS = [
    pytest.param(name, target, marks=() if (i + j) % 2 == 0 else pytest.mark.slow)
    for i, name in enumerate(KERNELS)
    for j, target in enumerate((USUAL, LEAST))
]


@pytest.mark.parametrize(("name", "target"), IN_TURNS, ids=lambda x: getattr(x, "name", x))
def test_every_form_of_a_kernel_is_a_valid_module(name: str, target: Target):
    """And has a text; a run that is not of all takes one of the two devices for each kernel."""
    lowered = lower(choose(KERNELS[name], target, None, {}).kernel, target)
    for form in forms(lowered, lambda body, words: encode(body, target, words)):
        assert complaint(form.code.words) == "", form.aligned
    assert disassemble(form.code.words).endswith("OpFunctionEnd\n")


def test_a_scan_asks_for_no_lane_below_the_first():
    """A relative shuffle gives anything there, and Mesa at 8 lanes ends the process over it."""
    text = disassemble(encoded("scan_rows").words)
    sources = re.findall(r"OpGroupNonUniformShuffle \S+ \S+ \S+ (\S+)", text)
    assert sources
    assert all(re.search(rf"{re.escape(source)} = OpSelect ", text) for source in sources)
    assert "ShuffleUp" not in text


@kernel
def rounded(x: In[f32, N], y: Out[f16, N], z: Out[f32, N]):
    """y = x, and z the rounded x where AGAIN."""
    (i,) = each(N)
    y[i] = x[i].to(f16)
    z[i] = x[i].to(f16).to(f32) if AGAIN else x[i]


@pytest.mark.parametrize("again", [False, True])
def test_an_f16_that_is_used_again_is_rounded_in_integers(again: bool, monkeypatch: Any):
    """NVIDIA's compiler takes f32(f16(x)) for x in some kernels."""
    monkeypatch.setitem(rounded.fn.__globals__, "AGAIN", again)
    shapes = {"x": f32, "y": f16, "z": f32}
    bound = bind(rounded, {n: TensorArg(t, (64,), (1,)) for n, t in shapes.items()}, {})
    made = encode(lower(traced(rounded, bound, simd=32).kernel), USUAL)
    assert complaint(made.words) == ""
    assert ("OpFConvert %f16" in disassemble(made.words)) == (not again)


def forms_of(name: str, dtype: str, target=MODERN, **variant: str) -> list[str]:
    """The texts of a kernel's forms on a device, each a valid module."""
    lowered = lower(choose(KERNELS[name], target, dtype, variant).kernel, target)
    made = [f.code.words for f in forms(lowered, lambda body, words: encode(body, target, words))]
    assert [complaint(words) for words in made] == [""] * len(made)
    return [disassemble(words) for words in made]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_two_16_bit_floats_are_converted_at_once(dtype: str):
    wide, *_ = forms_of("unary", dtype, OP="silu")
    assert wide.count("OpFConvert") == 4 + (8 if dtype == "f16" else 0)  # 8 neighbours
    assert (wide.count("OpTypeFloat 16 0") == 1) == (dtype == "bf16")
    integers, *_ = forms_of("unary", dtype, PLAIN, OP="silu")
    assert (integers.count("OpFConvert") == 0) == (dtype == "bf16")


def test_eight_bf16_are_looked_through_for_a_nan_at_once():
    wide, alone = forms_of("unary", "bf16", PLAIN, OP="neg")
    before, inside = wide.split("OpBranchConditional")[-2:]
    assert before.count("OpFUnordNotEqual") == 1
    assert inside.count("OpFUnordNotEqual") == inside.count("OpPhi") == 8
    assert alone.count("OpFUnordNotEqual") == 1
    assert alone.count("OpPhi") == 0


def test_eight_bf16_are_rounded_by_arithmetic_where_nans_tell():
    telling = replace(PLAIN, features=PLAIN.features | {"split_bfloat"})
    wide, alone = forms_of("unary", "bf16", telling, OP="neg")
    before, inside = wide.split("OpBranchConditional")[-2:]
    assert (before.count("OpFMul"), before.count("OpFSub")) == (8, 16)
    assert inside.partition("OpPhi")[0].count("OpIAdd") == 16
    assert inside.count("OpPhi") == 4  # the words
    assert alone.count("OpFSub") == 0


def test_fast_functions_are_the_devices_where_it_has_them():
    own, bodies = (
        forms_of("unary", "f16", target, OP="exp", MATH="fast")[0] for target in (MODERN, PLAIN)
    )
    assert own.count("Exp2") == 8  # one for each neighbour
    assert own.count("Fma") == 0
    assert bodies.count("Exp2") == 0
    assert bodies.count("Fma") > 8


def test_an_extreme_beside_a_constant_is_one_comparison():
    """silu has two for each of four neighbours; -104 is no NaN."""
    wide, *_ = forms_of("unary", "f32", OP="silu")
    assert wide.count("OpFUnordGreaterThan") == 8
    assert wide.count("OpFUnordNotEqual") == wide.count("OpLogicalOr") == 0
    assert wide.count("OpSelect ") == 12  # and one for the sign


def test_collectives_outside_loops_have_one_barrier_each():
    sums, *_ = forms_of("layer_norm", "f32")
    assert sums.count("OpControlBarrier") == 2
    assert "OpLoopMerge" not in sums  # a row of 2048 is held, its totals are read side by side
    assert sums.count("OpSelect ") == 0  # sums mind no order of lanes


def test_the_validator_is_heard():
    """The control: a module whose first merge instruction is gone, and one without capabilities."""
    words = list(unpack(f"<{len(encoded('softmax').words) // 4}I", encoded("softmax").words))
    at = 5
    while words[at] & 0xFFFF not in (246, 247):  # OpLoopMerge, OpSelectionMerge
        at += words[at] >> 16
    without_merge = words[:at] + words[at + (words[at] >> 16) :]
    assert complaint(pack(f"<{len(without_merge)}I", *without_merge)) != ""
    assert words[5] & 0xFFFF == 17  # OpCapability Shader
    assert complaint(pack(f"<{len(words) - 2}I", *words[:5], *words[7:])) != ""


def test_the_same_kernel_gives_the_same_words():
    assert encoded("rms_norm").words == encoded("rms_norm").words
