"""Vulkan targets: what a device says of itself, as the compiler sees it.

Features are names of ours for what a module may rely on: `storage8` and `storage16` (narrow
elements in storage buffers), `int8`, `int16`, `int64`, `float16`, `float64` (types),
`denorm_preserve32` and the like (execution modes), and what a device was measured to do:
`fused_fma`, `exact_division` and `exact_sqrt` round once, `exact_zero` computes with a constant 0
as with any number, `exact_bfloat` converts to bf16 to nearest even, `split_bfloat` makes NaNs whose
lower half is not 0, by which arithmetic that rounds to bf16 is seen to fail, `even_by_default`
rounds to even without being asked. The functions of the `fast_` kind that it computes well enough
are its approximations. With `folds_groups` a workgroup does the work of several groups, whose
number a launch passes.
"""

from __future__ import annotations

from collections.abc import Iterable

from iron.targets.target import Target

SUBGROUPS = (4, 8, 16, 32, 64, 128)


def vulkan_target(
    device: str,
    api: str,
    simd: int,
    max_threads: int,
    shared_bytes: int,
    features: Iterable[str],
) -> Target:
    """The target of a device called `device` whose subgroups have `simd` lanes."""
    return Target(
        "vulkan", "gpu", simd, max_threads, shared_bytes, frozenset(features), api, device
    )


NARROW = ("storage8", "storage16", "int8", "int16", "float16", "integer_dot")
WIDE = ("int64", "float64")
MODES = tuple(
    f"{mode}{bits}"
    for mode in ("denorm_preserve", "signed_zero_inf_nan", "round_to_even")
    for bits in (16, 32)
)

LEAST = vulkan_target("any device", "1.3", 32, 1024, 32 << 10, WIDE)
"""A device with nothing that is optional but 64-bit types."""
USUAL = vulkan_target("a usual device", "1.3", 32, 1024, 48 << 10, (*NARROW, *WIDE))
"""What desktop and server devices offer."""
