"""Compiled pipelines come back from the cache: not damaged ones, nor those of another driver."""

from __future__ import annotations

import ctypes as C
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from iron.runtime.cache import Cache
from iron.runtime.drivers.vulkan.store import HEADER, PipelineStore, pipeline_key

UUID = bytes(range(16))
MODULE: Any = SimpleNamespace(words=b"module", entry="softmax")


@dataclass
class FakeApi:
    """Keeps what a cache is made with, and gives `data` for every cache."""

    data: bytes
    given: list[bytes] = field(default_factory=list)
    open: int = 0

    def create(self, name: str, parent: Any, info: Any) -> int:
        assert name == "vkCreatePipelineCache"
        self.open += 1
        size = info.initialDataSize
        at = C.c_void_p.from_address(C.addressof(info) + type(info).pInitialData.offset)
        self.given.append(C.string_at(at.value, size) if size else b"")
        return 7

    def vkGetPipelineCacheData(self, device: Any, made: int, size: int, data: int | None) -> None:
        if data is None:
            C.c_size_t.from_address(size).value = len(self.data)
        else:
            C.memmove(data, self.data, len(self.data))

    def vkDestroyPipelineCache(self, device: Any, made: int, allocator: None) -> None:
        self.open -= 1


def data_of(*, uuid: bytes = UUID, rest: bytes = b"code") -> bytes:
    return HEADER.pack(HEADER.size, 1, 0x10DE, 0x2335, uuid) + rest


def opened(cache: Cache | None, data: bytes, *, driver_version: int = 1) -> FakeApi:
    """A device after it made the pipeline of a module."""
    properties = SimpleNamespace(
        pipelineCacheUUID=UUID, vendorID=0x10DE, deviceID=0x2335, driverVersion=driver_version
    )
    found = SimpleNamespace(
        name="Card",
        driver="driver 1",
        properties=properties,
        subgroup=SimpleNamespace(subgroupSize=32),
    )
    api = FakeApi(data)
    device: Any = SimpleNamespace(api=api, handle=1, found=found)
    with PipelineStore(device, cache).opened(MODULE) as handle:
        assert handle == (7 if cache is not None else 0)
    assert api.open == 0
    api.key = pipeline_key(MODULE.words, found)  # type: ignore[attr-defined]
    return api


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def test_the_second_process_gets_what_the_first_compiled(cache: Cache):
    assert opened(cache, data_of()).given == [b""]
    assert opened(cache, b"").given == [data_of()]


def test_without_a_cache_nothing_is_kept():
    assert opened(None, data_of()).given == []


def test_another_version_of_the_driver_begins_anew(cache: Cache):
    opened(cache, data_of())
    assert opened(cache, data_of(), driver_version=2).given == [b""]


def test_a_damaged_file_is_ignored_and_replaced(cache: Cache):
    key = opened(cache, data_of()).key  # type: ignore[attr-defined]
    path = cache.path(key)
    raw = bytearray(path.read_bytes())
    raw[-1] ^= 1
    path.write_bytes(raw)
    assert opened(cache, data_of()).given == [b""]
    assert opened(cache, b"").given == [data_of()]


def test_data_of_another_device_is_not_handed_to_the_driver(cache: Cache):
    opened(cache, data_of(uuid=bytes(16)))
    assert opened(cache, data_of()).given == [b""]


def test_a_driver_that_keeps_nothing_leaves_no_file(cache: Cache):
    opened(cache, data_of(rest=b""))
    assert cache.stats().entries == 0
