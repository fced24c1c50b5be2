"""What a device says of itself, as Vulkan's structures: properties, limits, features, memory.

Source: vulkan_core.h. A gap of fields that nobody reads is one array whose name begins with `_`.
"""

from __future__ import annotations

import ctypes as C

from iron.runtime.drivers.vulkan.records import HEAD, Chained, f32, size, u8, u32, u64


class ExtensionProperties(C.Structure):
    """The name of an extension that a device has."""

    _fields_ = (("extensionName", C.c_char * 256), ("specVersion", u32))


class LayerProperties(C.Structure):
    """The name of an installed layer."""

    _fields_ = (
        ("layerName", C.c_char * 256),
        ("specVersion", u32),
        ("implementationVersion", u32),
        ("description", C.c_char * 256),
    )


class Limits(C.Structure):
    """VkPhysicalDeviceLimits."""

    _fields_ = (
        ("_images", u32 * 6),
        ("maxUniformBufferRange", u32),
        ("maxStorageBufferRange", u32),
        ("maxPushConstantsSize", u32),
        ("maxMemoryAllocationCount", u32),
        ("maxSamplerAllocationCount", u32),
        ("bufferImageGranularity", u64),
        ("sparseAddressSpaceSize", u64),
        ("maxBoundDescriptorSets", u32),
        ("_samplers", u32 * 2),
        ("maxPerStageDescriptorStorageBuffers", u32),
        ("_descriptors", u32 * 11),
        ("_graphics", u32 * 23),
        ("maxComputeSharedMemorySize", u32),
        ("maxComputeWorkGroupCount", u32 * 3),
        ("maxComputeWorkGroupInvocations", u32),
        ("maxComputeWorkGroupSize", u32 * 3),
        ("_precision", u32 * 5),
        ("_samplerLimits", f32 * 2),
        ("_viewports", u32 * 6),
        ("minMemoryMapAlignment", size),
        ("minTexelBufferOffsetAlignment", u64),
        ("minUniformBufferOffsetAlignment", u64),
        ("minStorageBufferOffsetAlignment", u64),
        ("_offsets", u32 * 21),
        ("timestampComputeAndGraphics", u32),
        ("timestampPeriod", f32),
        ("_distances", u32 * 4),
        ("_lines", u32 * 8),
        ("optimalBufferCopyOffsetAlignment", u64),
        ("optimalBufferCopyRowPitchAlignment", u64),
        ("nonCoherentAtomSize", u64),
    )


class DeviceProperties(C.Structure):
    """VkPhysicalDeviceProperties."""

    _fields_ = (
        ("apiVersion", u32),
        ("driverVersion", u32),
        ("vendorID", u32),
        ("deviceID", u32),
        ("deviceType", u32),
        ("deviceName", C.c_char * 256),
        ("pipelineCacheUUID", u8 * 16),
        ("limits", Limits),
        ("sparseProperties", u32 * 5),
    )


class Properties11(Chained):
    """VkPhysicalDeviceVulkan11Properties."""

    TYPE = 50
    _fields_ = (
        *HEAD,
        ("_uuids", u8 * 40),
        ("deviceNodeMask", u32),
        ("deviceLUIDValid", u32),
        ("subgroupSize", u32),
        ("subgroupSupportedStages", u32),
        ("subgroupSupportedOperations", u32),
        ("_views", u32 * 5),
        ("maxPerSetDescriptors", u32),
        ("maxMemoryAllocationSize", u64),
    )


class Properties12(Chained):
    """VkPhysicalDeviceVulkan12Properties."""

    TYPE = 52
    _fields_ = (
        *HEAD,
        ("driverID", u32),
        ("driverName", C.c_char * 256),
        ("driverInfo", C.c_char * 256),
        ("conformanceVersion", u8 * 4),
        ("denormBehaviorIndependence", u32),
        ("roundingModeIndependence", u32),
        ("shaderSignedZeroInfNanPreserve", u32 * 3),
        ("shaderDenormPreserve", u32 * 3),
        ("shaderDenormFlushToZero", u32 * 3),
        ("shaderRoundingModeRTE", u32 * 3),
        ("shaderRoundingModeRTZ", u32 * 3),
        ("_indexing", u32 * 28),
        ("maxTimelineSemaphoreValueDifference", u64),
        ("framebufferIntegerColorSampleCounts", u32),
    )


class DeviceProperties2(Chained):
    """The properties of a device and a chain of more."""

    TYPE = 1000059001
    _fields_ = (*HEAD, ("properties", DeviceProperties))


class Features2(Chained):
    """VkPhysicalDeviceFeatures: 55 flags, and a chain of more."""

    TYPE = 1000059000
    _fields_ = (*HEAD, ("flags", u32 * 55))


class Features11(Chained):
    """VkPhysicalDeviceVulkan11Features."""

    TYPE = 49
    _fields_ = (*HEAD, ("flags", u32 * 12))


class Features12(Chained):
    """VkPhysicalDeviceVulkan12Features."""

    TYPE = 51
    _fields_ = (*HEAD, ("flags", u32 * 47))


class Features13(Chained):
    """VkPhysicalDeviceVulkan13Features."""

    TYPE = 53
    _fields_ = (*HEAD, ("flags", u32 * 15))


class FeaturesBfloat16(Chained):
    """VkPhysicalDeviceShaderBfloat16FeaturesKHR."""

    TYPE = 1000141000
    EXTENSION = "VK_KHR_shader_bfloat16"
    _fields_ = (*HEAD, ("flags", u32 * 3))


class FeaturesCooperativeMatrix(Chained):
    """VkPhysicalDeviceCooperativeMatrixFeaturesKHR."""

    TYPE = 1000506000
    EXTENSION = "VK_KHR_cooperative_matrix"
    _fields_ = (*HEAD, ("flags", u32 * 2))


class CooperativeMatrixProperties(Chained):
    """VkCooperativeMatrixPropertiesKHR: one product that a device computes."""

    TYPE = 1000506001
    _fields_ = (
        *HEAD,
        ("MSize", u32),
        ("NSize", u32),
        ("KSize", u32),
        ("AType", u32),
        ("BType", u32),
        ("CType", u32),
        ("ResultType", u32),
        ("saturatingAccumulation", u32),
        ("scope", u32),
    )


class QueueFamilyProperties(C.Structure):
    """What the queues of a family can do."""

    _fields_ = (
        ("queueFlags", u32),
        ("queueCount", u32),
        ("timestampValidBits", u32),
        ("minImageTransferGranularity", u32 * 3),
    )


class MemoryType(C.Structure):
    """One kind of memory."""

    _fields_ = (("propertyFlags", u32), ("heapIndex", u32))


class MemoryHeap(C.Structure):
    """One pool of memory."""

    _fields_ = (("size", u64), ("flags", u32))


class MemoryProperties(C.Structure):
    """The kinds of memory of a device."""

    _fields_ = (
        ("memoryTypeCount", u32),
        ("memoryTypes", MemoryType * 32),
        ("memoryHeapCount", u32),
        ("memoryHeaps", MemoryHeap * 16),
    )
