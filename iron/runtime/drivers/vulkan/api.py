"""The Vulkan loader through ctypes: every function that Iron calls, with the types it takes.

Handles of instances, devices, queues and command buffers are pointers; all others are 64-bit
numbers on every platform.
"""

from __future__ import annotations

import ctypes as C
import os
import sys
from typing import Any

from iron.errors import error
from iron.runtime.drivers.vulkan.records import f32, i32, pointer, size, text, u32, u64

SUCCESS = 0
RESULTS = {
    -1: "out of host memory",
    -2: "out of device memory",
    -3: "initialisation failed",
    -4: "device lost",
    -5: "memory map failed",
    -6: "layer not present",
    -7: "extension not present",
    -8: "feature not present",
    -9: "incompatible driver",
    -13: "unknown error",
}

_any = pointer  # the address of a structure or of an output

_RESULTS: dict[str, tuple[Any, ...]] = {
    "vkCreateInstance": (_any, _any, _any),
    "vkEnumerateInstanceVersion": (_any,),
    "vkEnumerateInstanceLayerProperties": (_any, _any),
    "vkEnumeratePhysicalDevices": (pointer, _any, _any),
    "vkEnumerateDeviceExtensionProperties": (pointer, text, _any, _any),
    "vkCreateDevice": (pointer, _any, _any, _any),
    "vkCreateBuffer": (pointer, _any, _any, _any),
    "vkAllocateMemory": (pointer, _any, _any, _any),
    "vkBindBufferMemory": (pointer, u64, u64, u64),
    "vkMapMemory": (pointer, u64, u64, u64, u32, _any),
    "vkCreateShaderModule": (pointer, _any, _any, _any),
    "vkCreateDescriptorSetLayout": (pointer, _any, _any, _any),
    "vkCreatePipelineLayout": (pointer, _any, _any, _any),
    "vkCreateComputePipelines": (pointer, u64, u32, _any, _any, _any),
    "vkCreatePipelineCache": (pointer, _any, _any, _any),
    "vkGetPipelineCacheData": (pointer, u64, _any, _any),
    "vkCreateDescriptorPool": (pointer, _any, _any, _any),
    "vkAllocateDescriptorSets": (pointer, _any, _any),
    "vkCreateCommandPool": (pointer, _any, _any, _any),
    "vkAllocateCommandBuffers": (pointer, _any, _any),
    "vkBeginCommandBuffer": (pointer, _any),
    "vkEndCommandBuffer": (pointer,),
    "vkCreateFence": (pointer, _any, _any, _any),
    "vkResetFences": (pointer, u32, _any),
    "vkWaitForFences": (pointer, u32, _any, u32, u64),
    "vkGetFenceStatus": (pointer, u64),
    "vkQueueSubmit": (pointer, u32, _any, u64),
    "vkQueueWaitIdle": (pointer,),
    "vkDeviceWaitIdle": (pointer,),
    "vkCreateQueryPool": (pointer, _any, _any, _any),
    "vkGetQueryPoolResults": (pointer, u64, u32, u32, size, _any, u64, u32),
}
"""Functions that return a result code."""

_PLAIN: dict[str, tuple[Any, ...]] = {
    "vkDestroyInstance": (pointer, _any),
    "vkDestroyDevice": (pointer, _any),
    "vkGetPhysicalDeviceProperties2": (pointer, _any),
    "vkGetPhysicalDeviceFeatures2": (pointer, _any),
    "vkGetPhysicalDeviceMemoryProperties": (pointer, _any),
    "vkGetPhysicalDeviceQueueFamilyProperties": (pointer, _any, _any),
    "vkGetDeviceQueue": (pointer, u32, u32, _any),
    "vkGetBufferMemoryRequirements": (pointer, u64, _any),
    "vkDestroyBuffer": (pointer, u64, _any),
    "vkFreeMemory": (pointer, u64, _any),
    "vkDestroyShaderModule": (pointer, u64, _any),
    "vkDestroyDescriptorSetLayout": (pointer, u64, _any),
    "vkDestroyPipelineLayout": (pointer, u64, _any),
    "vkDestroyPipelineCache": (pointer, u64, _any),
    "vkDestroyPipeline": (pointer, u64, _any),
    "vkDestroyDescriptorPool": (pointer, u64, _any),
    "vkUpdateDescriptorSets": (pointer, u32, _any, u32, _any),
    "vkDestroyCommandPool": (pointer, u64, _any),
    "vkDestroyFence": (pointer, u64, _any),
    "vkDestroyQueryPool": (pointer, u64, _any),
    "vkCmdBindPipeline": (pointer, u32, u64),
    "vkCmdBindDescriptorSets": (pointer, u32, u64, u32, u32, _any, u32, _any),
    "vkCmdPushConstants": (pointer, u64, u32, u32, u32, text),
    "vkCmdDispatch": (pointer, u32, u32, u32),
    "vkCmdPipelineBarrier": (pointer, u32, u32, u32, u32, _any, u32, _any, u32, _any),
    "vkCmdCopyBuffer": (pointer, u64, u64, u32, _any),
    "vkCmdUpdateBuffer": (pointer, u64, u64, u64, text),
    "vkCmdResetQueryPool": (pointer, u64, u32, u32),
    "vkCmdWriteTimestamp": (pointer, u32, u64, u32),
}
"""Functions that return nothing."""

PUSH_DESCRIPTOR_SET = (pointer, u32, u64, u32, u32, _any)

__all__ = ["SUCCESS", "Api", "f32", "i32", "names", "open_loader"]


class VulkanFault(RuntimeError):
    """A call that failed; `code` is its result."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {RESULTS.get(code, f'result {code}')}")
        self.code = code


class Api:
    """The loader's functions by name; a negative result is raised as `VulkanFault`."""

    def __init__(self, library: C.CDLL) -> None:
        self._library = library
        self._found: dict[str, Any] = {}
        for name, arguments in _RESULTS.items():
            function: Any = getattr(library, name)
            function.restype, function.argtypes, function.errcheck = i32, arguments, _check
            self._found[name] = function
        for name, arguments in _PLAIN.items():
            function = getattr(library, name)
            function.restype, function.argtypes = None, arguments
            self._found[name] = function
        library.vkGetInstanceProcAddr.restype = pointer
        library.vkGetInstanceProcAddr.argtypes = (pointer, text)
        library.vkGetDeviceProcAddr.restype = pointer
        library.vkGetDeviceProcAddr.argtypes = (pointer, text)

    def __getattr__(self, name: str) -> Any:
        return self._found[name]

    def create(self, name: str, parent: Any, info: C.Structure) -> int:
        """The handle that a `vkCreate..` or `vkAllocateMemory` call makes."""
        made = u64()
        self._found[name](parent, C.addressof(info), None, C.addressof(made))
        return made.value

    def of_instance(self, instance: Any, name: str, result: Any, *arguments: Any) -> Any:
        """An extension's function, found through an instance."""
        return _typed(
            self._library.vkGetInstanceProcAddr(instance, name.encode()), result, arguments
        )

    def of_device(self, device: Any, name: str, result: Any, *arguments: Any) -> Any:
        """An extension's function, found through a device."""
        return _typed(self._library.vkGetDeviceProcAddr(device, name.encode()), result, arguments)


def _typed(address: int | None, result: Any, arguments: tuple[Any, ...]) -> Any:
    return C.CFUNCTYPE(result, *arguments)(address) if address else None


def _check(result: int, function: Any, arguments: Any) -> int:
    if result < 0:
        raise VulkanFault(function.__name__, result)
    return result


def names(given: tuple[str, ...]) -> Any:
    """An array of C strings."""
    return (text * max(1, len(given)))(*(n.encode() for n in given))


def library_names(platform: str = sys.platform) -> tuple[str, ...]:
    """The files that a Vulkan loader may be, best first; `IRON_VULKAN_LOADER` names another."""
    if chosen := os.environ.get("IRON_VULKAN_LOADER"):
        return (chosen,)
    if platform == "win32":
        return ("vulkan-1.dll",)
    if platform == "darwin":
        return ("libvulkan.dylib", "libvulkan.1.dylib", "libMoltenVK.dylib")
    return ("libvulkan.so.1", "libvulkan.so")


def open_loader() -> Api:
    """The loader of this machine. Raises E0603 when there is none."""
    tried = library_names()
    for name in tried:
        try:
            return Api(C.CDLL(name))
        except (OSError, AttributeError):
            continue
    raise error(
        "E0603",
        f"there is no Vulkan loader ({' or '.join(tried)})",
        help="install it: `apt install libvulkan1`, `dnf install vulkan-loader`, or the Vulkan SDK",
    )
