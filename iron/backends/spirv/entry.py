"""From a lowered kernel to a SPIR-V module: every op's rule, by topic."""

from __future__ import annotations

from iron.backends.spirv import arith, control, convert, group, memory
from iron.backends.spirv.encode import Encoded, Encoder, Rule
from iron.ir.core import Kernel
from iron.passes.scalarise import scalarise
from iron.targets.target import Target

RULES: dict[str, Rule] = {
    **arith.RULES,
    **convert.RULES,
    **memory.RULES,
    **control.RULES,
    **group.RULES,
}


def encode(kernel: Kernel, target: Target) -> Encoded:
    """The module of a lowered kernel. Errors: E0602 when the target lacks what an op needs."""
    return Encoder(scalarise(kernel), target, RULES).encode()
