"""One Vulkan device: chosen, its features read and switched on, its one compute queue, its end.

What the device offers becomes a `Target` of ours (`offer`); every feature a module may use is
checked against that before a pipeline is made, since some drivers end the process instead of
returning an error.
"""

from __future__ import annotations

import ctypes as C
import os
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from iron.errors import error
from iron.runtime.drivers.vulkan import properties as p
from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.api import PUSH_DESCRIPTOR_SET, Api, VulkanFault, names
from iron.runtime.drivers.vulkan.validation import Listener
from iron.targets.target import Target
from iron.targets.vulkan import SUBGROUPS, vulkan_target

VERSION_1_2, VERSION_1_3 = 1 << 22 | 2 << 12, 1 << 22 | 3 << 12
COMPUTE_BIT = 0x2
STAGE_COMPUTE = 0x20
KINDS = {2: "discrete", 1: "integrated", 3: "virtual", 4: "cpu", 0: "other"}
PREFERENCE = (2, 1, 3, 4, 0)
INTEGRATED, CPU = 1, 4
NO_DRIVER = -9
PUSHING = "VK_KHR_push_descriptor"

# Subgroup operations that collectives are made of, and the bits that promise them.
SUBGROUP_OPERATIONS = {"basic": 0x1, "ballot": 0x8, "shuffle": 0x10}

# Feature of ours -> the structure and the flag that switch it on.
FLAGS: dict[str, tuple[type[r.Chained], int]] = {
    "float64": (p.Features2, 39),
    "int64": (p.Features2, 40),
    "int16": (p.Features2, 41),
    "storage16": (p.Features11, 0),
    "storage8": (p.Features12, 2),
    "float16": (p.Features12, 7),
    "int8": (p.Features12, 8),
    "subgroup_size_control": (p.Features13, 7),
    "full_subgroups": (p.Features13, 8),
    "integer_dot": (p.Features13, 13),
    "memory_model": (p.Features12, 41),
    "bfloat16": (p.FeaturesBfloat16, 0),
    "bfloat16_matrix": (p.FeaturesBfloat16, 2),
    "cooperative_matrix": (p.FeaturesCooperativeMatrix, 0),
}
EXTENDED = (p.FeaturesBfloat16, p.FeaturesCooperativeMatrix)
"""Structures that belong to extensions."""


@dataclass(frozen=True, slots=True)
class Found:
    """A physical device and what it says of itself."""

    handle: int
    name: str
    kind: int
    api: int
    properties: Any
    subgroup: Any
    floats: Any
    features: frozenset[str]
    extensions: frozenset[str]
    driver: str

    @property
    def limits(self) -> Any:
        """Its limits."""
        return self.properties.limits

    @property
    def unified(self) -> bool:
        """True when the host reads and writes the memory that the device computes in."""
        return self.kind in (INTEGRATED, CPU)


class Instance:
    """A connection to the loader; `listener` hears the validation layer."""

    def __init__(self, api: Api, listener: Listener | None = None) -> None:
        self.api, self.listener = api, listener
        layers, extensions, chain = listener.wanted(api) if listener else ((), (), None)
        info = r.ApplicationInfo(pApplicationName=b"iron", apiVersion=VERSION_1_3)
        layer_names, extension_names = names(layers), names(extensions)
        create = r.InstanceCreateInfo(
            pNext=chain,
            pApplicationInfo=C.pointer(info),
            enabledLayerCount=len(layers),
            ppEnabledLayerNames=layer_names,
            enabledExtensionCount=len(extensions),
            ppEnabledExtensionNames=extension_names,
        )
        self.handle = C.c_void_p()
        try:
            api.vkCreateInstance(C.addressof(create), None, C.addressof(self.handle))
        except VulkanFault as fault:
            reason = f"Vulkan cannot be started: {fault}"
            if fault.code == NO_DRIVER:
                reason = "the Vulkan loader finds no device"
            raise error("E0603", reason, help=DRIVERS) from None
        self._silence = listener.attach(api, self.handle) if listener else None

    def devices(self) -> list[Found]:
        """Every device, the fastest kind first. Raises E0603 when there is none."""
        count = r.u32()
        ask = self.api.vkEnumeratePhysicalDevices
        try:
            ask(self.handle, C.addressof(count), None)
        except VulkanFault:
            count.value = 0
        handles = (C.c_void_p * max(1, count.value))()
        if count.value:
            ask(self.handle, C.addressof(count), C.addressof(handles))
        found = [describe(self.api, h) for h in handles[: count.value] if h]
        if not found:
            raise error("E0603", "the Vulkan loader finds no device", help=DRIVERS)
        return sorted(found, key=lambda d: PREFERENCE.index(d.kind) if d.kind in KINDS else 9)

    def close(self) -> None:
        """Ends the connection."""
        if self._silence:
            self._silence()
        self.api.vkDestroyInstance(self.handle, None)


DRIVERS = (
    "install a driver: that of the GPU, or `apt install mesa-vulkan-drivers` for a software "
    "device; VK_DRIVER_FILES names a driver's .json file"
)


def describe(api: Api, handle: int) -> Found:
    """What a physical device says of itself."""
    floats = p.Properties12()
    subgroup = p.Properties11(pNext=C.addressof(floats))
    whole = p.DeviceProperties2(pNext=C.addressof(subgroup))
    api.vkGetPhysicalDeviceProperties2(handle, C.addressof(whole))
    properties = whole.properties
    extensions = frozenset(_extensions(api, handle))
    structures = feature_structures(properties.apiVersion, extensions)
    if properties.apiVersion >= VERSION_1_2:
        api.vkGetPhysicalDeviceFeatures2(handle, C.addressof(structures[p.Features2]))
    features = {n for n, (s, at) in FLAGS.items() if s in structures and structures[s].flags[at]}
    for feature, flags in (
        ("denorm_preserve", floats.shaderDenormPreserve),
        ("signed_zero_inf_nan", floats.shaderSignedZeroInfNanPreserve),
        ("round_to_even", floats.shaderRoundingModeRTE),
    ):
        features |= {f"{feature}{bits}" for at, bits in enumerate((16, 32)) if flags[at]}
    return Found(
        handle,
        properties.deviceName.decode(),
        properties.deviceType,
        properties.apiVersion,
        properties,
        subgroup,
        floats,
        frozenset(features),
        extensions,
        f"{floats.driverName.decode()} {floats.driverInfo.decode()}".strip(),
    )


def feature_structures(version: int, extensions: frozenset[str]) -> dict[type[r.Chained], Any]:
    """The chain of feature structures that a device of this version knows, its head first."""
    kinds: list[type[r.Chained]] = [p.Features2, p.Features11, p.Features12]
    kinds += [p.Features13] if version >= VERSION_1_3 else []
    kinds += [kind for kind in EXTENDED if kind.EXTENSION in extensions]
    made = {kind: kind() for kind in kinds}
    for before, after in pairwise(made.values()):
        before.pNext = C.addressof(after)
    return made


def _extensions(api: Api, handle: int) -> list[str]:
    count = r.u32()
    api.vkEnumerateDeviceExtensionProperties(handle, None, C.addressof(count), None)
    listed = (p.ExtensionProperties * max(1, count.value))()
    api.vkEnumerateDeviceExtensionProperties(handle, None, C.addressof(count), C.addressof(listed))
    return [e.extensionName.decode() for e in listed[: count.value]]


def choose(found: list[Found]) -> Found:
    """The device that `IRON_VULKAN_DEVICE` names by a part of its name, else the first."""
    wanted = os.environ.get("IRON_VULKAN_DEVICE", "")
    for device in found:
        if wanted.lower() in device.name.lower():
            return device
    known = ", ".join(d.name for d in found)
    raise error(
        "E0603",
        f"no Vulkan device is called {wanted!r}",
        help=f"IRON_VULKAN_DEVICE is a part of one of these names: {known}",
    )


def offer(device: Found) -> Target:
    """The device as a target. Raises E0603 when it lacks what every kernel needs."""
    missing: list[str] = []
    if device.api < VERSION_1_2:
        missing.append("Vulkan 1.2")
    else:
        have = device.subgroup.subgroupSupportedOperations
        missing += [f"subgroup {n}" for n, bit in SUBGROUP_OPERATIONS.items() if not have & bit]
        if not device.subgroup.subgroupSupportedStages & STAGE_COMPUTE:
            missing.append("subgroups in compute shaders")
        if device.subgroup.subgroupSize not in SUBGROUPS:
            missing.append(f"a usual subgroup size (it has {device.subgroup.subgroupSize})")
    if missing:
        raise error(
            "E0603",
            f"{device.name} lacks {', '.join(missing)}",
            help="update its driver, or choose another device with IRON_VULKAN_DEVICE",
        )
    limits = device.limits
    threads = min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0])
    return vulkan_target(
        device.name,
        f"{device.api >> 22}.{device.api >> 12 & 0x3FF}.{device.api & 0xFFF}",
        device.subgroup.subgroupSize,
        threads,
        limits.maxComputeSharedMemorySize,
        device.features,
    )


class Device:
    """A device in use: its handle, its compute queue, and what to undo at the end.

    `push_descriptors` is the function of VK_KHR_push_descriptor, or None.
    """

    def __init__(self, instance: Instance, found: Found, *, push: bool = True) -> None:
        self.api, self.found = instance.api, found
        self.family, self.timestamp_bits = self._compute_family()
        priority = r.f32(1.0)
        queue = r.DeviceQueueCreateInfo(
            queueFamilyIndex=self.family, queueCount=1, pQueuePriorities=C.pointer(priority)
        )
        push = push and PUSHING in found.extensions
        wanted = [k.EXTENSION for k in EXTENDED if k.EXTENSION in found.extensions]
        wanted += [PUSHING] if push else []
        structures = feature_structures(found.api, found.extensions)
        for feature, (structure, flag) in FLAGS.items():
            if feature in found.features:
                structures[structure].flags[flag] = 1
        extension_names = names(tuple(wanted))
        create = r.DeviceCreateInfo(
            pNext=C.addressof(structures[p.Features2]),
            queueCreateInfoCount=1,
            pQueueCreateInfos=C.pointer(queue),
            enabledExtensionCount=len(wanted),
            ppEnabledExtensionNames=extension_names,
        )
        self.handle = C.c_void_p()
        self.api.vkCreateDevice(found.handle, C.addressof(create), None, C.addressof(self.handle))
        self.queue = C.c_void_p()
        self.api.vkGetDeviceQueue(self.handle, self.family, 0, C.addressof(self.queue))
        self.push_descriptors: Any = None
        if push:
            self.push_descriptors = self.api.of_device(
                self.handle, "vkCmdPushDescriptorSetKHR", None, *PUSH_DESCRIPTOR_SET
            )
        self._last: list[Callable[[], None]] = [lambda: self.api.vkDestroyDevice(self.handle, None)]

    def _compute_family(self) -> tuple[int, int]:
        count = r.u32()
        ask = self.api.vkGetPhysicalDeviceQueueFamilyProperties
        ask(self.found.handle, C.addressof(count), None)
        families = (p.QueueFamilyProperties * max(1, count.value))()
        ask(self.found.handle, C.addressof(count), C.addressof(families))
        for number, family in enumerate(families[: count.value]):
            if family.queueFlags & COMPUTE_BIT:
                return number, family.timestampValidBits
        raise error(
            "E0603",
            f"{self.found.name} has no compute queue",
            help="choose another device with IRON_VULKAN_DEVICE",
        )

    def at_close(self, undo: Callable[[], None]) -> None:
        """Something to undo before the device is destroyed; the latest first."""
        self._last.append(undo)

    def close(self) -> None:
        """Waits for the device and undoes everything, the device itself last."""
        self.api.vkDeviceWaitIdle(self.handle)
        while self._last:
            self._last.pop()()
