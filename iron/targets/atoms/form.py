"""Products of a simdgroup as numbers: which rows, columns and words of k a lane has to do with."""

from __future__ import annotations

from dataclasses import dataclass

from iron.targets.target import Target

ROWS, WORDS = 16, 8
"""Rows of a product, and words of 32 bits along k."""


@dataclass(frozen=True, slots=True)
class Form:
    """A product of `ROWS` x `columns` by `WORDS` words of k.

    `down` lanes have rows of their own, `across` lanes share a row; the numbers of both are bits of
    the lane's, from `down_bit` and `across_bit` on. A lane holds `width` neighbouring columns of
    each of `ROWS / down` rows, and gives `WORDS / across` words of each of these rows and of one
    column: `apart` says that its words lie `across` apart, else they are neighbours. `loads` says
    that operands are loaded from group memory as matrices, which copies fill that nobody waits for.
    `sums` are as many as a lane holds beside what it loads.
    """

    columns: int
    down: int
    down_bit: int
    across: int
    across_bit: int
    apart: bool
    formats: frozenset[str]
    loads: bool = False
    sums: int = 64

    @property
    def width(self) -> int:
        """Neighbouring columns of a row that a lane holds."""
        return self.columns // self.across

    @property
    def halves(self) -> int:
        """Rows of a product that a lane has to do with."""
        return ROWS // self.down

    @property
    def order(self) -> tuple[str, ...]:
        """What each bit of a lane's number counts."""
        down = ("down",) * (self.down.bit_length() - 1)
        across = ("across",) * (self.across.bit_length() - 1)
        return (*across, *down) if self.down_bit else (*down, *across)


NVIDIA = Form(8, 8, 2, 4, 0, True, frozenset({"f16", "bf16", "tf32", "i8", "u8"}), True, 128)
CDNA = Form(16, 16, 0, 4, 4, False, frozenset({"f16", "bf16"}))
CDNA3 = Form(16, 16, 0, 4, 4, False, frozenset({"f16", "bf16", "i8"}))
RDNA4 = Form(16, 16, 0, 2, 4, False, frozenset({"f16", "bf16"}))


def form_of(target: Target | None, simd: int) -> Form | None:
    """The products of `target`'s simdgroups of `simd` lanes, or None."""
    if target is None:
        return None
    if target.has("cuda") and simd == 32:
        return NVIDIA
    if target.has("cdna") and simd == 64:
        return CDNA3 if target.name.startswith("gfx94") else CDNA
    if target.has("rdna") and target.name.startswith("gfx12") and simd == 32:
        return RDNA4
    return None
