"""The products of cooperative matrices that a device lists, as atoms of ours.

Source: vulkan_core.h, VK_KHR_cooperative_matrix and VK_KHR_shader_bfloat16.
"""

from __future__ import annotations

import ctypes as C
from collections.abc import Iterable
from typing import Any

from iron.dtypes import DType, bf16, f16, f32, i8, i32, u8, u32
from iron.runtime.drivers.vulkan import properties as p
from iron.runtime.drivers.vulkan import records as r
from iron.runtime.drivers.vulkan.device import Found, Instance
from iron.targets.atoms.opaque import OpaqueAtom
from iron.targets.atoms.vulkan import SUBGROUP_SCOPE
from iron.targets.target import Target

COMPONENTS: dict[int, DType] = {0: f16, 1: f32, 3: i8, 5: i32, 7: u8, 9: u32, 1000141000: bf16}
"""VkComponentTypeKHR, of those that atoms have."""


NEEDED = {f16: ("float16", "int16"), bf16: ("bfloat16_matrix", "int16"), i8: ("int8",)}
"""What a module with matrices of these elements rests on, besides the memory model."""


def usable(atoms: Iterable[OpaqueAtom], target: Target) -> tuple[OpaqueAtom, ...]:
    """The atoms for products of signed numbers that a module of ours may ask `target` for."""
    if not target.has("cooperative_matrix") or not target.has("memory_model"):
        return ()
    return tuple(a for a in atoms if all(target.has(f) for f in NEEDED.get(a.a, ("none",))))


def listed(instance: Instance, found: Found) -> tuple[OpaqueAtom, ...]:
    """The products of a subgroup whose dtypes are ours; none without the extension."""
    if "cooperative_matrix" not in found.features:
        return ()
    name = "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR"
    arguments = (C.c_void_p, C.c_void_p, C.c_void_p)
    ask: Any = instance.api.of_instance(instance.handle, name, C.c_int, *arguments)
    count = r.u32()
    ask(found.handle, C.addressof(count), None)
    rows = (p.CooperativeMatrixProperties * max(1, count.value))(
        *(p.CooperativeMatrixProperties() for _ in range(max(1, count.value)))
    )
    ask(found.handle, C.addressof(count), C.addressof(rows))
    atoms = (atom(row) for row in rows[: count.value])
    return tuple(a for a in atoms if a is not None)


def atom(row: Any) -> OpaqueAtom | None:
    """A row of the list; None for another scope, other dtypes, or a result unlike its addend."""
    kinds = [COMPONENTS.get(n) for n in (row.AType, row.BType, row.CType, row.ResultType)]
    a, b, c, result = kinds
    if row.scope != SUBGROUP_SCOPE or a is None or b is None or c is None or c is not result:
        return None
    saturating = bool(row.saturatingAccumulation)
    return OpaqueAtom(row.MSize, row.NSize, row.KSize, a, b, c, saturating)
