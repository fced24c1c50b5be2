"""What Vulkan leaves open, on the software device, beside the interpreter: a child process.

    python -m tests.vulkan.numbers

It prints one JSON document: for each kind of number how much is wrong, and how much would be
without the code that minds it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np

import iron
from iron.backends.spirv import arith, bfloat, fused
from iron.backends.spirv.encode import Encoder
from iron.dtypes import bf16, f32, i32, i64, u32, u64
from iron.ir.scalar import quiet
from iron.kernels.ops.cast import cast
from iron.lang import In, Out, dims, dtypes, each, fma, fmax, fmin, kernel, maximum, minimum
from iron.runtime.drivers.vulkan import VulkanDriver
from iron.runtime.drivers.vulkan.measure import among_others, bfloat_operands
from iron.targets.target import Target
from tests.vulkan.child import changed

T, (N,) = dtypes("T", i32, u32, i64, u64), dims("N")


@kernel
def there_and_back(x: In[T, N], y: Out[T, N]):
    """y = x rounded to a float."""
    (i,) = each(N)
    y[i] = x[i].to(f32).to(T)


@kernel
def joined(x: In[f32, N], y: In[f32, N], z: In[f32, N], total: Out[f32, N]):
    """x y + z, rounded once."""
    (i,) = each(N)
    total[i] = fma(x[i], y[i], z[i])


@kernel
def between(x: In[f32, N], y: Out[f32, N, 6]):
    """The extremes of x and a constant, in both orders; NaN wins, or loses."""
    (i,) = each(N)
    y[i, 0], y[i, 1] = maximum(x[i], -104.0), minimum(x[i], 3.0)
    y[i, 2], y[i, 3] = maximum(-104.0, x[i]), minimum(3.0, x[i])
    y[i, 4], y[i, 5] = fmax(x[i], 0.0), fmin(0.0, x[i])


def integers() -> dict[str, Any]:
    """Integers that become floats and integers again, beside the interpreter's; `control` names the
    types that go wrong where the float is not hidden.
    """

    def wrong(opened: VulkanDriver) -> list[str]:
        out = []
        for dtype in (i32, u32, i64, u64):
            bits = np.random.default_rng(3).bytes(256 * dtype.bytes)
            x = np.frombuffer(bits, dtype.np) >> np.arange(256, dtype=dtype.np) % 32
            made = [np.zeros_like(x) for _ in range(2)]
            for backend, y in zip(("interp", opened), made, strict=True):
                with iron.use(backend):
                    there_and_back(x=x, y=y)
            out += [] if np.array_equal(*made) else [str(dtype)]
        return out

    faults = wrong(VulkanDriver())
    with changed(Encoder, "hidden", lambda self, value: value):
        return {"faults": faults, "control": wrong(VulkanDriver())}


def bfloats() -> dict[str, Any]:
    """Numbers of all kinds as bf16, in words; `control` counts those that go wrong where no NaN
    is looked for: one of the numbers beside it makes a thread look."""
    x = np.tile(bfloat_operands(), 4)

    def wrong(opened: VulkanDriver) -> int:
        y = np.zeros(x.shape, bf16.np)
        with iron.use(opened):
            cast(x=x, y=y)
        with quiet():
            same = y.view(np.uint16) == x.astype(bf16.np).view(np.uint16)
            return int(np.count_nonzero(~(same | np.isnan(x) & np.isnan(y))))

    faults = wrong(VulkanDriver())
    with changed(bfloat, "_quieted", lambda e, sources: sources):
        return {"faults": faults, "control": wrong(VulkanDriver())}


def split() -> dict[str, Any]:
    """Numbers rounded to bf16 by arithmetic, as on devices whose NaNs tell: not on this one, so no
    NaN becomes of these. `control` counts those that go wrong where nothing is looked for."""
    x = among_others()
    x[~(np.abs(x) < 2.0**111)] = 1.0

    def telling(target: Target) -> Target:
        return replace(target, features=target.features | {"split_bfloat"})

    def wrong() -> int:
        y = np.zeros(x.shape, bf16.np)
        with iron.use(VulkanDriver(narrow=telling)):
            cast(x=x, y=y)
        return int(np.count_nonzero(y.view(np.uint16) != x.astype(bf16.np).view(np.uint16)))

    faults = wrong()
    with changed(bfloat, "_joined", lambda m, code, values: m.number(0)):
        return {"faults": faults, "control": wrong()}


def sums() -> dict[str, Any]:
    """Products and sums rounded once, in words: many are as near to one f32 as to the next but for
    what is added, and some are no numbers. `control` counts those that go wrong where a sum in f64
    is rounded again as it is.
    """
    rng = np.random.default_rng(11)
    x, y = (1 + rng.integers(0, 1 << 12, 1 << 12) / np.float32(1 << 12) for _ in range(2))
    z = rng.choice([-1.0, 1.0], 1 << 12) * 2.0 ** rng.integers(-90, 3, 1 << 12)
    strange = np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2**-126, 3e38, -3e38])
    some = np.stack([m.ravel() for m in np.meshgrid(strange, strange, strange)])
    given = np.concatenate([some, np.stack([x, y, z])], axis=1).astype(np.float32)

    def made(backend: Any) -> np.ndarray[Any, Any]:
        total = np.full(given.shape[1], np.nan, np.float32)
        with iron.use(backend):
            joined(x=given[0], y=given[1], z=given[2], total=total)
        return total

    def wrong(opened: VulkanDriver) -> int:
        return differing(made(opened), made("interp"))

    faults = wrong(VulkanDriver())
    with changed(fused, "_lost", lambda m, *terms: m.real64(0.0)):
        return {"faults": faults, "control": wrong(VulkanDriver())}


def extremes() -> dict[str, Any]:
    """Extremes of numbers of all kinds, in words; `control` counts those that go wrong where every
    operand counts as a number.
    """
    x = np.float32([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 2**-126, 3e38, -3e38, 3, -104])

    def made(backend: Any) -> np.ndarray[Any, Any]:
        y = np.full((x.size, 6), np.nan, np.float32)
        with iron.use(backend):
            between(x=x, y=y)
        return y

    def wrong(opened: VulkanDriver) -> int:
        return differing(made(opened), made("interp"))

    faults = wrong(VulkanDriver())
    with changed(arith, "_is_number", lambda value: True):
        return {"faults": faults, "control": wrong(VulkanDriver())}


def differing(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> int:
    """How many words differ; all NaNs count as one."""
    same = one.view(np.uint32) == other.view(np.uint32)
    return int(np.count_nonzero(~(same | np.isnan(one) & np.isnan(other))))


ASKED = {
    "integers": integers,
    "bfloats": bfloats,
    "split": split,
    "sums": sums,
    "extremes": extremes,
}

if __name__ == "__main__":
    print(json.dumps({name: answer() for name, answer in ASKED.items()}))
