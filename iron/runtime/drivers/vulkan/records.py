"""The structures of Vulkan that Iron fills in or reads, as ctypes; names follow the header.

Source: vulkan_core.h. A gap of fields that nobody reads is one array whose name begins with `_`.
"""

from __future__ import annotations

import ctypes as C
from typing import Any, ClassVar

i32, u8, u32, u64, f32 = C.c_int32, C.c_uint8, C.c_uint32, C.c_uint64, C.c_float
size, pointer, text = C.c_size_t, C.c_void_p, C.c_char_p

HEAD = (("sType", u32), ("pNext", pointer))


class Chained(C.Structure):
    """A structure that begins with its type and the next one of a chain."""

    TYPE: ClassVar[int] = -1

    def __init__(self, **fields: Any) -> None:
        super().__init__(sType=self.TYPE, **fields)


class ApplicationInfo(Chained):
    """Who asks, and for which version of the interface."""

    TYPE = 0
    _fields_ = (
        *HEAD,
        ("pApplicationName", text),
        ("applicationVersion", u32),
        ("pEngineName", text),
        ("engineVersion", u32),
        ("apiVersion", u32),
    )


class InstanceCreateInfo(Chained):
    """Layers and extensions of an instance."""

    TYPE = 1
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("pApplicationInfo", C.POINTER(ApplicationInfo)),
        ("enabledLayerCount", u32),
        ("ppEnabledLayerNames", C.POINTER(text)),
        ("enabledExtensionCount", u32),
        ("ppEnabledExtensionNames", C.POINTER(text)),
    )


class DeviceQueueCreateInfo(Chained):
    """Queues of one family."""

    TYPE = 2
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("queueFamilyIndex", u32),
        ("queueCount", u32),
        ("pQueuePriorities", C.POINTER(f32)),
    )


class DeviceCreateInfo(Chained):
    """Queues, extensions and features of a device."""

    TYPE = 3
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("queueCreateInfoCount", u32),
        ("pQueueCreateInfos", C.POINTER(DeviceQueueCreateInfo)),
        ("enabledLayerCount", u32),
        ("ppEnabledLayerNames", C.POINTER(text)),
        ("enabledExtensionCount", u32),
        ("ppEnabledExtensionNames", C.POINTER(text)),
        ("pEnabledFeatures", pointer),
    )


# --- memory ---------------------------------------------------------------------------------------


class BufferCreateInfo(Chained):
    """The size and uses of a buffer."""

    TYPE = 12
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("size", u64),
        ("usage", u32),
        ("sharingMode", u32),
        ("queueFamilyIndexCount", u32),
        ("pQueueFamilyIndices", pointer),
    )


class MemoryRequirements(C.Structure):
    """What memory a buffer can have."""

    _fields_ = (("size", u64), ("alignment", u64), ("memoryTypeBits", u32))


class MemoryAllocateInfo(Chained):
    """An allocation of one kind of memory."""

    TYPE = 5
    _fields_ = (*HEAD, ("allocationSize", u64), ("memoryTypeIndex", u32))


class BufferCopy(C.Structure):
    """A range to copy between two buffers."""

    _fields_ = (("srcOffset", u64), ("dstOffset", u64), ("size", u64))


# --- pipelines ------------------------------------------------------------------------------------


class ShaderModuleCreateInfo(Chained):
    """A SPIR-V module."""

    TYPE = 16
    _fields_ = (*HEAD, ("flags", u32), ("codeSize", size), ("pCode", text))


class PipelineCacheCreateInfo(Chained):
    """What an earlier pipeline cache held."""

    TYPE = 17
    _fields_ = (*HEAD, ("flags", u32), ("initialDataSize", size), ("pInitialData", text))


class ShaderStage(Chained):
    """A module's entry point as a stage."""

    TYPE = 18
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("stage", u32),
        ("module", u64),
        ("pName", text),
        ("pSpecializationInfo", pointer),
    )


class ComputePipelineCreateInfo(Chained):
    """A compute pipeline."""

    TYPE = 29
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("stage", ShaderStage),
        ("layout", u64),
        ("basePipelineHandle", u64),
        ("basePipelineIndex", i32),
    )


class SetLayoutBinding(C.Structure):
    """One binding of a descriptor set."""

    _fields_ = (
        ("binding", u32),
        ("descriptorType", u32),
        ("descriptorCount", u32),
        ("stageFlags", u32),
        ("pImmutableSamplers", pointer),
    )


class SetLayoutCreateInfo(Chained):
    """The bindings of a descriptor set."""

    TYPE = 32
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("bindingCount", u32),
        ("pBindings", C.POINTER(SetLayoutBinding)),
    )


class PushConstantRange(C.Structure):
    """Bytes that travel in the command buffer."""

    _fields_ = (("stageFlags", u32), ("offset", u32), ("size", u32))


class PipelineLayoutCreateInfo(Chained):
    """Descriptor sets and push constants of a pipeline."""

    TYPE = 30
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("setLayoutCount", u32),
        ("pSetLayouts", C.POINTER(u64)),
        ("pushConstantRangeCount", u32),
        ("pPushConstantRanges", C.POINTER(PushConstantRange)),
    )


class PoolSize(C.Structure):
    """Descriptors of a type in a pool."""

    _fields_ = (("type", u32), ("descriptorCount", u32))


class DescriptorPoolCreateInfo(Chained):
    """A pool of descriptor sets."""

    TYPE = 33
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("maxSets", u32),
        ("poolSizeCount", u32),
        ("pPoolSizes", C.POINTER(PoolSize)),
    )


class DescriptorSetAllocateInfo(Chained):
    """Sets taken from a pool."""

    TYPE = 34
    _fields_ = (
        *HEAD,
        ("descriptorPool", u64),
        ("descriptorSetCount", u32),
        ("pSetLayouts", C.POINTER(u64)),
    )


class DescriptorBufferInfo(C.Structure):
    """The range of a buffer that a binding sees."""

    _fields_ = (("buffer", u64), ("offset", u64), ("range", u64))


class WriteDescriptorSet(Chained):
    """What a binding of a set refers to."""

    TYPE = 35
    _fields_ = (
        *HEAD,
        ("dstSet", u64),
        ("dstBinding", u32),
        ("dstArrayElement", u32),
        ("descriptorCount", u32),
        ("descriptorType", u32),
        ("pImageInfo", pointer),
        ("pBufferInfo", C.POINTER(DescriptorBufferInfo)),
        ("pTexelBufferView", pointer),
    )


# --- commands -------------------------------------------------------------------------------------


class CommandPoolCreateInfo(Chained):
    """Where command buffers come from."""

    TYPE = 39
    _fields_ = (*HEAD, ("flags", u32), ("queueFamilyIndex", u32))


class CommandBufferAllocateInfo(Chained):
    """Command buffers from a pool."""

    TYPE = 40
    _fields_ = (*HEAD, ("commandPool", u64), ("level", u32), ("commandBufferCount", u32))


class CommandBufferBeginInfo(Chained):
    """How a command buffer will be used."""

    TYPE = 42
    _fields_ = (*HEAD, ("flags", u32), ("pInheritanceInfo", pointer))


class MemoryBarrier(Chained):
    """Writes made available to later reads."""

    TYPE = 46
    _fields_ = (*HEAD, ("srcAccessMask", u32), ("dstAccessMask", u32))


class SubmitInfo(Chained):
    """Command buffers for a queue."""

    TYPE = 4
    _fields_ = (
        *HEAD,
        ("waitSemaphoreCount", u32),
        ("pWaitSemaphores", pointer),
        ("pWaitDstStageMask", pointer),
        ("commandBufferCount", u32),
        ("pCommandBuffers", C.POINTER(pointer)),
        ("signalSemaphoreCount", u32),
        ("pSignalSemaphores", pointer),
    )


class FenceCreateInfo(Chained):
    """What the host waits for."""

    TYPE = 8
    _fields_ = (*HEAD, ("flags", u32))


class QueryPoolCreateInfo(Chained):
    """Timestamps to be written."""

    TYPE = 11
    _fields_ = (
        *HEAD,
        ("flags", u32),
        ("queryType", u32),
        ("queryCount", u32),
        ("pipelineStatistics", u32),
    )
