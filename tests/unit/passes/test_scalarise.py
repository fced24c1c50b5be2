"""After `scalarise` a vector is the result of a load, or the pack that a store writes."""

import pytest

from iron.ir.core import Kernel
from iron.ir.parse import parse_kernel
from iron.ir.types import Vector
from iron.passes.scalarise import scalarise

TEXT = """
kernel "move" rank 1 threads 32 simd 32 index i32
tensor "x" in f32[?]
tensor "y" out f32[?]
dim "N" i32
host(%N: i32) {
  yield %N
}
body(%x: in f32[?], %y: out f32[?], %N: i32) {
  %t = thread dtype=i32 : i32
  BODY
}
"""
BODIES = {
    "moved": "%v = load %x, %t count=4 : f32x4\n store %y, %t, %v",
    "doubled": "%v = load %x, %t count=4 : f32x4\n %w = add %v, %v : f32x4\n store %y, %t, %w",
    "turned": """%v = load %x, %t count=2 : f32x2
      %a = extract %v at=0 : f32
      %b = extract %v at=1 : f32
      %w = pack %b, %a : f32x2
      store %y, %t, %w""",
}


def faults(kernel: Kernel) -> list[str]:
    """What a text backend could not write."""
    out: list[str] = []
    for op in kernel.body.walk():
        made = any(isinstance(r.type, Vector) for r in op.results)
        if made and op.name not in ("load", "pack"):
            out.append(f"{op.name} gives a vector")
        stored = op.args[-1] if op.name == "store" else None
        if stored is not None and isinstance(stored.type, Vector):
            assert stored.op is not None
            if stored.op.name != "pack":
                out.append(f"a store writes the vector of a {stored.op.name}")
    return out


@pytest.mark.parametrize("name", BODIES)
def test_vectors_are_left_only_at_memory(name: str):
    kernel = parse_kernel(TEXT.replace("BODY", BODIES[name]))
    assert faults(scalarise(kernel)) == []


def test_a_store_of_a_load_is_seen():
    assert faults(parse_kernel(TEXT.replace("BODY", BODIES["moved"]))) != []
