"""From a lowered kernel to a SPIR-V module: every op's rule, by topic."""

from __future__ import annotations

from collections.abc import Mapping

from iron.backends.spirv import arith, control, convert, fragments, group, memory, wide
from iron.backends.spirv.encode import PART, Encoded, Encoder, Rule
from iron.ir.core import Kernel, Op
from iron.passes.scalarise import scalarise
from iron.targets.target import Target

RULES: dict[str, Rule] = {
    **arith.RULES,
    **convert.RULES,
    **memory.RULES,
    **wide.RULES,
    **control.RULES,
    **group.RULES,
    **fragments.RULES,
}


def encode(kernel: Kernel, target: Target, words: Mapping[Op, int] | None = None) -> Encoded:
    """The module of a lowered kernel. Errors: E0602 when the target lacks what an op needs.

    The accesses of neighbours in `words` move words of that many bytes; with any, the kernel is
    scalar already.
    """
    least = 2 if target.has("storage16") else PART
    able = {op: size for op, size in (words or {}).items() if size >= least}
    made = kernel if words else scalarise(kernel)
    opaque, runs = fragments.has_matrices(made), fragments.run_arrays(made)
    return Encoder(made, target, RULES, able, opaque=opaque, run_arrays=runs).encode()
