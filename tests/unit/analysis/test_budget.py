"""Group memory is summed and compared with the target's, and a refusal shows the sum."""

from dataclasses import replace

import pytest

from iron.analysis.budget import check_budget, shared_bytes
from iron.errors import KernelError
from iron.ir.parse import parse_kernel
from iron.targets.cpu import X86_64_V3

KERNEL = parse_kernel("""
kernel "two" rank 1 threads 32 simd 32 index i32
dim "N" i32
host(%N: i32) {
  yield %N
}
body(%N: i32) {
  %a = shared type=shared f32[100, 3] : shared f32[100, 3]
  %b = shared type=shared u8[77] : shared u8[77]
}
""")


def test_the_sum_counts_every_array():
    assert shared_bytes(KERNEL) == 100 * 3 * 4 + 77


def test_the_limit_itself_fits():
    check_budget(KERNEL, replace(X86_64_V3, shared_bytes=1277))


def test_one_byte_less_is_refused_with_the_sum():
    with pytest.raises(KernelError) as refused:
        check_budget(KERNEL, replace(X86_64_V3, shared_bytes=1276))
    assert refused.value.id == "E0501"
    assert "1277 bytes" in str(refused.value)
    assert "a: shared f32[100, 3], 1200 bytes" in str(refused.value)
    assert "b: shared u8[77], 77 bytes" in str(refused.value)
