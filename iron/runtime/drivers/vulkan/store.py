"""Pipelines that an earlier process compiled: what the driver keeps of each, in Iron's cache.

An entry belongs to a module, a device and its driver's version. A file that is damaged, or that
another driver wrote, counts as none: drivers are not asked to look at such bytes.
"""

from __future__ import annotations

import ctypes as C
import hashlib
import json
import os
import struct
from collections.abc import Generator
from contextlib import contextmanager

from iron.backends.spirv import Encoded
from iron.runtime.cache import Cache
from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.device import Device, Found

HEADER = struct.Struct("<IIII16s")
"""VkPipelineCacheHeaderVersionOne: its size, its version, vendor, device, UUID."""


class PipelineStore:
    """Remembers in `cache`, which may be None, what a device's driver compiled."""

    def __init__(self, device: Device, cache: Cache | None) -> None:
        self._device, self._cache = device, cache

    @contextmanager
    def opened(self, code: Encoded) -> Generator[int]:
        """A `VkPipelineCache` for making the pipeline of a module inside; 0 without a cache."""
        if self._cache is None:
            yield 0
            return
        device, found = self._device, self._device.found
        key = pipeline_key(code.words, found)
        known = self._cache.get(key)
        if known is not None and not written_by(known, found):
            known = None
        create = r.PipelineCacheCreateInfo(initialDataSize=len(known or b""), pInitialData=known)
        made = device.api.create("vkCreatePipelineCache", device.handle, create)
        try:
            yield made
            if known is None:
                data = self._data(made)
                if len(data) > HEADER.size:  # some drivers keep nothing
                    meta = {"kernel": code.entry, "kind": "pipeline", "target": found.name}
                    self._cache.put(key, data, meta)
        finally:
            device.api.vkDestroyPipelineCache(device.handle, made, None)

    def _data(self, made: int) -> bytes:
        size, device = r.size(), self._device
        ask = device.api.vkGetPipelineCacheData
        ask(device.handle, made, C.addressof(size), None)
        held = C.create_string_buffer(max(1, size.value))
        ask(device.handle, made, C.addressof(size), C.addressof(held))
        return held.raw[: size.value]


def pipeline_key(words: bytes, found: Found) -> str:
    """Everything that a compiled pipeline depends on."""
    properties = found.properties
    parts = [
        "pipeline",
        bytes(properties.pipelineCacheUUID).hex(),
        *(properties.vendorID, properties.deviceID, properties.driverVersion, found.driver),
        found.subgroup.subgroupSize,
        os.environ.get("LP_NATIVE_VECTOR_WIDTH", ""),
        hashlib.sha256(words).hexdigest(),
    ]
    return json.dumps(parts)


def written_by(data: bytes, found: Found) -> bool:
    """True for the data of a pipeline cache of this very device and driver."""
    if len(data) < HEADER.size:
        return False
    size, version, vendor, device, uuid = HEADER.unpack_from(data)
    properties = found.properties
    mine = (properties.vendorID, properties.deviceID, bytes(properties.pipelineCacheUUID))
    return size >= HEADER.size and version == 1 and (vendor, device, uuid) == mine
