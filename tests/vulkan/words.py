"""Every form of kernels whose memory moves in words, on the software device.

    python -m tests.vulkan.words [wrong]

On the device as it is and with narrow types taken from it, each form leaves the interpreter's bits.
With `wrong` the elements of a word are taken in another order. It prints one JSON document.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from iron.backends.forms import Form, forms
from iron.backends.spirv import Encoded, encode, pairs, wide
from iron.compiler import lower
from iron.dtypes import DType, bf16, bool_, f16, f32, i8, i16, i32, i64, u8, u16, u32, u64
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.lang import In, Out, dims, dtypes, each, kernel
from iron.runtime.drivers.vulkan import VulkanDriver
from iron.targets.target import Target
from tests.unit.backends import test_cuda_forms as shapes

INTEGERS = (u8, i8, u16, i16, u32, i32, u64, i64, bool_)
NARROW = frozenset({"storage8", "storage16", "int8", "int16", "float16", "integer_dot"})
T = dtypes("T", *INTEGERS)
(N,) = dims("N")


@kernel
def crossed(x: In[T, N], m: In[T, N], y: Out[T, N], z: Out[i64, N]):
    """y = x ^ m, and the same with its sign."""
    (i,) = each(N)
    y[i] = x[i] ^ m[i]
    z[i] = (x[i] ^ m[i]).to(i64)


def of_dtype(dtype: DType) -> tuple[Kernel, dict[str, Any], dict[str, int]]:
    """`crossed` in one dtype, its arrays and dims."""
    rng = np.random.default_rng(dtype.bits)
    x, m = (np.frombuffer(rng.bytes(640 * dtype.bytes), dtype.np) for _ in range(2))
    if dtype is bool_:
        x, m = (rng.integers(0, 2, 640).astype(bool) for _ in range(2))
    arrays = {"x": x, "m": m, "y": np.zeros_like(x), "z": np.full(640, -1)}
    kinds = {"x": dtype, "m": dtype, "y": dtype, "z": i64}
    given = {n: TensorArg(kinds[n], a.shape, (1,)) for n, a in arrays.items()}
    bound = bind(crossed, given, {})
    return lower(traced(crossed, bound, simd=32).kernel), arrays, bound.dims


def every_form(kernel: Kernel, target: Target) -> Iterator[Form[Encoded]]:
    """The forms of a kernel as modules."""
    return forms(kernel, lambda body, sizes: encode(body, target, sizes))


def run(opened: VulkanDriver, found: tuple[Kernel, dict[str, Any], dict[str, int]]) -> list[bool]:
    """For each form that moves words, and the plain one, whether it is right."""
    plain, arrays, sizes = found
    want, right = shapes.run(plain, arrays, sizes), []
    for form in every_form(plain, opened.target()):
        grid = evaluate(form.kernel if form.regrouped else plain, {}, sizes)[0]
        loaded = opened.load(plain)
        loaded.forms.of = lambda *_, form=form, grid=grid: (form, grid)
        held = {n: a.copy() for n, a in arrays.items()}
        loaded.bind(held, {}, sizes, grid)()
        right.append(shapes.same(held, want))
    return right


def backwards(right: Callable[..., list[int]]) -> Callable[..., list[int]]:
    """A function whose list is in the other order."""
    return lambda *given: right(*given)[::-1]


def main() -> None:
    """What is wrong, and how many forms ran."""
    narrow: tuple[frozenset[str], ...] = (frozenset(), NARROW)
    found = [shapes.lowered(name, t) for name in shapes.SHAPES for t in (f32, f16, bf16)]
    if sys.argv[1:] == ["wrong"]:
        for module, name in ((wide, "cut"), (pairs, "joined")):
            setattr(module, name, backwards(getattr(module, name)))
        narrow = narrow[:1]
        found = [f for f in found if f[0].name == "flat"]
    found += [of_dtype(t) for t in INTEGERS]
    faults, ran = [], 0
    for features in narrow:
        opened = VulkanDriver(
            narrow=lambda target, f=features: replace(target, features=target.features - f)
        )
        for one in found:
            right = run(opened, one)
            ran += len(right)
            types = "/".join(str(a.dtype) for a in one[1].values())
            faults += [f"{one[0].name} {types}: form {n}" for n, ok in enumerate(right) if not ok]
        opened.close()
    print(json.dumps({"faults": faults, "ran": ran}))


if __name__ == "__main__":
    main()
