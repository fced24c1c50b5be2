"""What a machine is told that has no Vulkan loader, no device, or one that lacks something."""

from types import SimpleNamespace
from typing import Any

import pytest

from iron.backends.spirv import encode
from iron.compiler import lower
from iron.errors import KernelError
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.lang import In, Out, dims, each, f32, kernel
from iron.runtime.drivers.vulkan.api import open_loader
from iron.runtime.drivers.vulkan.device import VERSION_1_2, Instance, choose, offer
from iron.targets.vulkan import vulkan_target

(N,) = dims("N")


def told(refused: pytest.ExceptionInfo[KernelError]) -> str:
    """The message, which is one sentence on one line, and says behind it what to do."""
    message = refused.value.diagnostic.message
    assert "\n" not in message
    assert refused.value.diagnostic.help
    return f"{refused.value.id}: {message}"


def found(**changed: Any) -> Any:
    """A device that will do, but for what is changed."""
    subgroup = {"subgroupSupportedOperations": 0x39, "subgroupSupportedStages": 0x20}
    subgroup |= {"subgroupSize": 32}
    limits = SimpleNamespace(
        maxComputeWorkGroupInvocations=1024,
        maxComputeWorkGroupSize=(1024, 1, 1),
        maxComputeSharedMemorySize=1 << 15,
    )
    subgroup |= {n: v for n, v in changed.items() if n in subgroup}
    api = changed.get("api", VERSION_1_2)
    made = {"name": "Card", "api": api, "limits": limits, "features": frozenset[str]()}
    return SimpleNamespace(**made, subgroup=SimpleNamespace(**subgroup))


def test_a_device_that_will_do_is_a_target():
    assert offer(found()).simd == 32


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"api": 1 << 22 | 1 << 12}, "E0603: Card lacks Vulkan 1.2"),
        ({"subgroupSupportedOperations": 0x31}, "E0603: Card lacks subgroup ballot"),
        (
            {"subgroupSupportedStages": 0x10},
            "E0603: Card lacks subgroups in compute shaders",
        ),
        ({"subgroupSize": 1}, "E0603: Card lacks a usual subgroup size (it has 1)"),
    ],
)
def test_a_device_that_lacks_something(changed: dict[str, Any], sentence: str):
    with pytest.raises(KernelError) as refused:
        offer(found(**changed))
    assert told(refused) == sentence


def test_a_device_of_another_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("IRON_VULKAN_DEVICE", "radeon")
    with pytest.raises(KernelError) as refused:
        choose([found()])
    assert told(refused) == "E0603: no Vulkan device is called 'radeon'"
    assert "Card" in (refused.value.diagnostic.help or "")


def test_no_loader(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("IRON_VULKAN_LOADER", "/no/libvulkan.so")
    with pytest.raises(KernelError) as refused:
        open_loader()
    assert told(refused) == "E0603: there is no Vulkan loader (/no/libvulkan.so)"


@pytest.mark.device("vulkan")
def test_no_device(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VK_DRIVER_FILES", "/no/driver.json")
    monkeypatch.setenv("VK_ICD_FILENAMES", "/no/driver.json")
    with pytest.raises(KernelError) as refused:
        Instance(open_loader()).devices()
    assert told(refused) == "E0603: the Vulkan loader finds no device"


@kernel
def shared_out(x: In[f32, N], y: Out[f32, N]):
    """y = x / 7."""
    (i,) = each(N)
    y[i] = x[i] / 7


def test_a_kernel_that_needs_what_the_device_lacks():
    args = {n: TensorArg(f32, (64,), (1,)) for n in ("x", "y")}
    made = lower(traced(shared_out, bind(shared_out, args, {}), simd=32).kernel)
    bare = vulkan_target("Card", "1.2", 32, 1024, 1 << 15, ())
    with pytest.raises(KernelError) as refused:
        encode(made, bare)
    want = "E0602: a correctly rounded quotient needs `float64`, which Card does not have"
    assert told(refused) == want
