"""`simd_mma`: the product of bytes as threads write it, its refusals, and who has it."""

import numpy as np
import pytest

from iron.check.interpret import read_call
from iron.compiler import lower
from iron.errors import KernelError
from iron.lang import In, Out, groups, i32, kernel, simd_mma, thread, u32, unrolled
from iron.targets.apple import APPLE7
from iron.targets.cpu import X86_64_V3
from iron.targets.nvidia import SM_80


@kernel
def product(x: In[u32, 16, 8], w: In[u32, 8, 8], z: In[i32, 16, 8], y: Out[i32, 16, 8]):
    groups(1, threads=32)
    g, t = thread // 4, thread % 4
    a = [x[g + 8 * (i % 2), t + i // 2 * 4] for i in unrolled(4)]
    b = [w[g, t + 4 * i] for i in unrolled(2)]
    sums = simd_mma(a, b, [z[g + i // 2 * 8, 2 * t + i % 2] for i in unrolled(4)])
    for i in unrolled(4):
        y[g + i // 2 * 8, 2 * t + i % 2] = sums[i]


def arguments() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    x, w = (rng.integers(0, 2**32, (n, 8), dtype=np.uint32) for n in (16, 8))
    z = rng.integers(-(2**31), 2**31, (16, 8), dtype=np.int32)
    return {"x": x, "w": w, "z": z, "y": np.zeros((16, 8), np.int32)}


@pytest.mark.parametrize("simd", [8, 32])
def test_it_is_the_product_of_signed_bytes(simd: int):
    given = arguments()
    read = read_call(product, given, simd)
    read.run(read.kernel)
    left, right = (given[n].view(np.int8).astype(np.int64) for n in ("x", "w"))
    want = (left @ right.T + given["z"]).astype(np.int32)
    np.testing.assert_array_equal(given["y"], want)


def test_another_number_of_words_is_refused():
    @kernel
    def few(x: In[u32, 32], y: Out[i32, 32]):
        groups(1, threads=32)
        y[thread] = simd_mma([x[thread]] * 3, [x[thread]] * 2, [i32(0)] * 4)[0]

    with pytest.raises(KernelError, match="lists of 4 and 2 words") as caught:
        read_call(few, {"x": np.zeros(32, np.uint32), "y": np.zeros(32, np.int32)}, 32)
    assert caught.value.id == "E0113"


@pytest.mark.parametrize("target", [X86_64_V3, APPLE7])
def test_a_target_without_it_refuses(target):
    read = read_call(product, arguments(), 32)
    with pytest.raises(KernelError, match="`simd_mma` in product needs `simd_mma`") as caught:
        lower(read.kernel, target)
    assert caught.value.id == "E0602"


def test_a_target_that_has_it_does_not():
    assert any(
        op.name == "simd_mma"
        for op in lower(read_call(product, arguments(), 32).kernel, SM_80).body.walk()
    )
