"""Tile kernels on a device with cooperative matrices: valid modules that move operands by words."""

from dataclasses import replace

import pytest

from iron.backends.spirv import disassemble, encode
from iron.backends.spirv.joins import joined_word
from iron.compiler import lower
from iron.dtypes import bf16, f16, i8, u16, u32
from iron.ir.core import Kernel
from iron.targets.atoms.vulkan import USUAL as ATOMS
from iron.targets.vulkan import USUAL
from tests.unit.backends.spirv.test_modules import forms_of
from tests.unit.backends.spirv.validator import complaint
from tests.unit.ir.handmade import Handmade
from tests.unit.tiles.programs import gemm

DEVICE = replace(
    USUAL,
    features=USUAL.features | {"fused_fma", "exact_zero", "exact_division", "exact_sqrt"},
    matrices=ATOMS,
)


@pytest.mark.parametrize("variant", ["NN", "TT"])
def test_a_product_moves_words_and_matrices(variant: str):
    flags = {name: str(int(side == "T")) for name, side in zip(("TA", "TB"), variant, strict=True)}
    wide, *_ = forms_of("gemm", "bf16", DEVICE, **flags)
    assert "OpMemoryModel 0 3" in wide
    assert wide.count("OpCooperativeMatrixMulAdd ") >= 4
    four = next(line.split()[0] for line in wide.splitlines() if "OpTypeVector %u32 4" in line)
    assert wide.count(f"OpTypeArray {four} ") == 2  # both operands
    lines = wide.splitlines()
    copies = [
        line
        for line, before in zip(lines[1:], lines, strict=False)
        if "OpStore" in line and line.endswith(" 32") and "OpAccessChain" in before
    ]
    assert copies


def test_words_are_not_taken_apart_on_their_way(monkeypatch: pytest.MonkeyPatch):
    """What is fetched before the loop is stored as it came; the control takes it apart."""

    def before_the_loop() -> str:
        return forms_of("gemm", "bf16", DEVICE, TB="1")[0].split("OpLoopMerge")[0]

    assert "OpBitwiseOr" not in before_the_loop()
    monkeypatch.setattr("iron.backends.spirv.arith.joined_word", lambda *_: None)
    assert "OpBitwiseOr" in before_the_loop()


@pytest.mark.parametrize(
    ("order", "shift", "whole"),
    [((0, 1), 16, True), ((2, 3), 16, True), ((1, 0), 16, False), ((1, 2), 16, False),
     ((0, 2), 16, False), ((0, 1), 8, False)],
)  # fmt: skip
def test_only_a_word_as_it_came_is_one(order: tuple[int, int], shift: int, whole: bool):
    p = Handmade()
    loaded = p.load(p.tensor("x", u16), p.const(0), count=4)
    parts = [p.emit("extract", loaded, attrs=(i,)) for i in order]
    low, high = (p.emit("cast", x, attrs=(u32,)) for x in parts)
    made = p.emit("or", low, p.emit("shl", high, p.const(shift, u32)))
    assert made.op is not None
    found = joined_word(made.op, {loaded: [1, 2]})
    assert found == ((loaded, order[0] // 2) if whole else None)
    assert joined_word(made.op, {}) is None


def test_products_of_bytes_are_signed():
    made = gemm((65, 70, 41), (64, 64, 32), i8, "NT").kernel
    text = disassemble(valid(made))
    assert " 15\n" in text[text.index("OpCooperativeMatrixMulAdd") :]


def test_attention_goes_both_ways():
    wide, *_ = forms_of("sdpa_prefill", "f16", DEVICE)
    assert wide.count("OpCooperativeMatrixStore ") > 0
    assert wide.count("OpCooperativeMatrixMulAdd ") >= 4


@pytest.mark.parametrize("dtype", [f16, bf16])
def test_accesses_that_others_see_say_so(dtype):
    """In the Vulkan memory model nothing else makes them visible."""
    text = disassemble(valid(gemm((65, 70, 41), (32, 32, 32), dtype).kernel))
    barriers = [line.split()[-1] for line in text.splitlines() if "OpControlBarrier" in line]
    assert barriers
    assert set(barriers) == {"%u32_24904"}  # with MakeAvailable and MakeVisible
    assert "Coherent" not in text
    shared = [line for line in text.splitlines() if line.strip().endswith(" 32")]
    assert any("OpStore" in line for line in shared)
    assert any("OpLoad" in line for line in shared)


def test_a_kernel_without_matrices_is_as_it_was():
    wide, *_ = forms_of("gemm", "f32", DEVICE)
    assert "OpMemoryModel 0 1" in wide


def valid(kernel: Kernel) -> bytes:
    made = encode(lower(kernel, DEVICE), DEVICE).words
    assert complaint(made) == ""
    return made
