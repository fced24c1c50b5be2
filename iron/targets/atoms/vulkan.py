"""Vulkan: cooperative matrices, whose sizes a device lists and whose layout it keeps to itself.

Source: VK_KHR_cooperative_matrix; SPV_KHR_cooperative_matrix, "the mapping between invocations and
components is implementation-dependent".
"""

from iron.dtypes import bf16, f16, f32, i8, i32
from iron.targets.atoms.opaque import OpaqueAtom

SUBGROUP_SCOPE = 3
"""VK_SCOPE_SUBGROUP_KHR: the only scope that an atom of ours uses."""

USUAL = (
    OpaqueAtom(16, 16, 16, f16, f16, f32),
    OpaqueAtom(16, 8, 16, f16, f16, f32),
    OpaqueAtom(16, 16, 16, bf16, bf16, f32),
    OpaqueAtom(16, 16, 32, i8, i8, i32),
)
"""What NVIDIA's driver lists among others."""
