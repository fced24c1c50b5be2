"""A module as a compute pipeline, and the commands that launch it."""

from __future__ import annotations

import ctypes as C
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from iron.backends.spirv import Encoded
from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.device import STAGE_COMPUTE, Device
from iron.runtime.drivers.vulkan.memory import Range
from iron.runtime.drivers.vulkan.store import PipelineStore

COMPUTE = 1  # the bind point
UNIFORM_BUFFER, STORAGE_BUFFER = 6, 7
PUSHED_SET = 1
FULL_SUBGROUPS = 2
ROW = 32768
"""Groups of a row, where a launch has more than fit in one dimension of a dispatch."""


@dataclass(frozen=True, slots=True)
class Row:
    """One dispatch: its first group, and its groups along x and y."""

    first: int
    x: int
    y: int


def rows(groups: int, most: int) -> list[Row]:
    """Dispatches for `groups` groups with at most `most` along x: full rows, then the rest."""
    if groups <= most:
        return [Row(0, groups, 1)]
    full, rest = divmod(groups, ROW)
    out = [Row(0, ROW, full)]
    return [*out, Row(full * ROW, rest, 1)] if rest else out


class Pipeline:
    """The pipeline of a module; destroyed with the device."""

    def __init__(self, device: Device, code: Encoded, store: PipelineStore) -> None:
        self.device, self.code = device, code
        api, handle = device.api, device.handle
        self.types = [STORAGE_BUFFER] * len(code.bindings)
        self.push_bytes = code.block.bytes if code.block.pushed else 0
        if not code.block.pushed:
            self.types.append(UNIFORM_BUFFER)
        self.set_layout = self._set_layout()
        self.layout = self._layout()
        create = r.ShaderModuleCreateInfo(codeSize=len(code.words), pCode=code.words)
        module = api.create("vkCreateShaderModule", handle, create)
        stage = r.ShaderStage(stage=STAGE_COMPUTE, module=module, pName=code.entry.encode())
        if code.full and "full_subgroups" in device.found.features:
            stage.flags = FULL_SUBGROUPS
        whole = r.ComputePipelineCreateInfo(stage=stage, layout=self.layout, basePipelineIndex=-1)
        made = r.u64()
        with store.opened(code) as kept:
            api.vkCreateComputePipelines(
                handle, kept, 1, C.addressof(whole), None, C.addressof(made)
            )
        self.handle = made.value
        api.vkDestroyShaderModule(handle, module, None)
        device.at_close(self._destroy)

    def _set_layout(self) -> int:
        count = len(self.types)
        listed = (r.SetLayoutBinding * max(1, count))(
            *(r.SetLayoutBinding(n, t, 1, STAGE_COMPUTE) for n, t in enumerate(self.types))
        )
        flags = PUSHED_SET if self.device.push_descriptors else 0
        create = r.SetLayoutCreateInfo(flags=flags, bindingCount=count, pBindings=listed)
        return self.device.api.create("vkCreateDescriptorSetLayout", self.device.handle, create)

    def _layout(self) -> int:
        one = r.u64(self.set_layout)
        pushed = r.PushConstantRange(STAGE_COMPUTE, 0, self.push_bytes)
        create = r.PipelineLayoutCreateInfo(
            setLayoutCount=1,
            pSetLayouts=C.pointer(one),
            pushConstantRangeCount=1 if self.push_bytes else 0,
            pPushConstantRanges=C.pointer(pushed),
        )
        return self.device.api.create("vkCreatePipelineLayout", self.device.handle, create)

    def _destroy(self) -> None:
        api, handle = self.device.api, self.device.handle
        api.vkDestroyPipeline(handle, self.handle, None)
        api.vkDestroyPipelineLayout(handle, self.layout, None)
        api.vkDestroyDescriptorSetLayout(handle, self.set_layout, None)

    # --- commands ---------------------------------------------------------------------------------

    def bound(
        self, ranges: Sequence[Range], dispatches: Sequence[tuple[Row, bytes, Range | None]]
    ) -> Commands:
        """The commands of the dispatches over ranges, to be recorded any number of times.

        Each dispatch comes with its argument block: the bytes that are pushed, and the range that
        holds them where they are not.
        """
        parts: list[Part] = []
        for row, block, held in dispatches:
            listed = [*ranges, held] if held is not None else list(ranges)
            infos = (r.DescriptorBufferInfo * len(listed))(
                *(r.DescriptorBufferInfo(b.buffer.handle, b.offset, b.size) for b in listed)
            )
            parts.append(Part(row, block, infos, self._writes(infos), self._pool()))
        return Commands(self, parts)

    def _writes(self, infos: C.Array[r.DescriptorBufferInfo]) -> C.Array[r.WriteDescriptorSet]:
        return (r.WriteDescriptorSet * len(infos))(
            *(
                r.WriteDescriptorSet(
                    dstBinding=number,
                    descriptorCount=1,
                    descriptorType=type,
                    pBufferInfo=C.pointer(infos[number]),
                )
                for number, type in enumerate(self.types)
            )
        )

    def _pool(self) -> int:
        """A pool for one descriptor set, where descriptors are not pushed; else 0."""
        if self.device.push_descriptors or not self.types:
            return 0
        sizes = (r.PoolSize * 2)(
            r.PoolSize(STORAGE_BUFFER, max(1, len(self.code.bindings))),
            r.PoolSize(UNIFORM_BUFFER, 1),
        )
        create = r.DescriptorPoolCreateInfo(maxSets=1, poolSizeCount=2, pPoolSizes=sizes)
        return self.device.api.create("vkCreateDescriptorPool", self.device.handle, create)


@dataclass(slots=True)
class Part:
    """One dispatch: its groups, its argument block, and what its bindings see.

    `writes` point into `infos`.
    """

    row: Row
    block: bytes
    infos: C.Array[r.DescriptorBufferInfo]
    writes: C.Array[r.WriteDescriptorSet]
    pool: int


class Commands:
    """Dispatches of one pipeline with everything bound. `free` undoes what was made for them."""

    def __init__(self, pipeline: Pipeline, parts: Sequence[Part]) -> None:
        self._pipeline, self._parts = pipeline, parts
        self._sets = [self._set(part) for part in parts]

    def _set(self, part: Part) -> Any:
        """A descriptor set of the part's pool, or None where descriptors are pushed."""
        if not part.pool:
            return None
        api, device = self._pipeline.device.api, self._pipeline.device.handle
        layout, made = r.u64(self._pipeline.set_layout), r.u64()
        take = r.DescriptorSetAllocateInfo(
            descriptorPool=part.pool, descriptorSetCount=1, pSetLayouts=C.pointer(layout)
        )
        api.vkAllocateDescriptorSets(device, C.addressof(take), C.addressof(made))
        for write in part.writes:
            write.dstSet = made.value
        api.vkUpdateDescriptorSets(device, len(part.infos), C.addressof(part.writes), 0, None)
        return made

    def record(self, commands: int) -> None:
        """Adds the dispatches to a command buffer."""
        one, device = self._pipeline, self._pipeline.device
        api, layout = device.api, one.layout
        api.vkCmdBindPipeline(commands, COMPUTE, one.handle)
        for part, held in zip(self._parts, self._sets, strict=True):
            if held is not None:
                api.vkCmdBindDescriptorSets(
                    commands, COMPUTE, layout, 0, 1, C.addressof(held), 0, None
                )
            elif part.infos:
                device.push_descriptors(
                    commands, COMPUTE, layout, 0, len(part.infos), C.addressof(part.writes)
                )
            if one.push_bytes:
                api.vkCmdPushConstants(
                    commands, layout, STAGE_COMPUTE, 0, one.push_bytes, part.block
                )
            api.vkCmdDispatch(commands, part.row.x, part.row.y, 1)

    def free(self) -> None:
        """Destroys the pools, once nothing that was recorded is in flight."""
        for part in self._parts:
            if part.pool:
                device = self._pipeline.device
                device.api.vkDestroyDescriptorPool(device.handle, part.pool, None)
