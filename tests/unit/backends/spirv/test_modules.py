"""Every library kernel is a valid module on a usual device and on the least one."""

from struct import pack, unpack

import pytest

from iron.backends.spirv import Encoded, encode
from iron.cli.specimen import choose
from iron.compiler import lower
from iron.lang.declare import KernelFunction
from iron.targets.vulkan import LEAST, USUAL
from iron.worker.discover import kernels, modules
from tests.unit.backends.spirv.validator import complaint

KERNELS = {
    name: kernel
    for module in modules(("iron.kernels",))
    for name, kernel in kernels(module).items()
    if isinstance(kernel, KernelFunction)
}


def encoded(name: str, target=USUAL) -> Encoded:
    return encode(lower(choose(KERNELS[name], target, None, {}).kernel), target)


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_a_valid_module(name: str):
    for target in (USUAL, LEAST):
        assert complaint(encoded(name, target).words) == ""


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
