"""The records of matrix and copy instructions: which place of a simdgroup holds which element.

An atom's layouts are written as places: `k2` is one bit whose image is two steps along axis k, `.`
a bit without an image (a copy). Bits are listed from the lowest.
"""

from __future__ import annotations

from dataclasses import dataclass

from iron.dtypes import DType
from iron.ir.layout import Coordinate, Layout


def places(axes: str, register: str = "", lane: str = "", simd: str = "") -> Layout:
    """The layout whose bits have these images; its sides are what the images reach."""
    parts = [[_place(axes, word) for word in bits.split()] for bits in (register, lane, simd)]
    images = [image for part in parts for image in part]
    sides = (max((i[a] for i in images), default=0) * 2 or 1 for a in range(len(axes)))
    held = [tuple(part) for part in parts]
    return Layout(tuple(sides), held[0], held[1], held[2])


def _place(axes: str, word: str) -> Coordinate:
    if word == ".":
        return (0,) * len(axes)
    at = axes.index(word[0])
    return tuple(int(word[1:]) if axis == at else 0 for axis in range(len(axes)))


@dataclass(frozen=True, slots=True)
class MatrixAtom:
    """One instruction: acc += a @ b, with a of m x k, b of k x n and acc of m x n.

    `operands` names the number formats of a and b that the layouts serve, as the vendor does where
    they are no dtype (`tf32`, `e4m3`). An operand without a layout is read
    from group memory. `lanes` is the width of the simdgroup and `simds` how many act together.
    """

    name: str
    m: int
    n: int
    k: int
    operands: tuple[str, ...]
    accumulator: DType
    a: Layout | None
    b: Layout | None
    acc: Layout
    lanes: int
    simds: int = 1

    def faults(self) -> list[str]:
        """What is wrong with the record: each layout must hold its whole tile.

        An accumulator holds every element once; an operand may be held in several places.
        """
        sides = {"a": (self.m, self.k), "b": (self.k, self.n), "acc": (self.m, self.n)}
        out: list[str] = []
        for name, shape in sides.items():
            held: Layout | None = getattr(self, name)
            if held is None:
                continue
            if held.shape != shape:
                out.append(f"{self.name}: {name} covers {held.shape}, not {shape}")
            if not held.covers or (name == "acc" and not held.exact):
                out.append(f"{self.name}: {name} holds some element not at all or more than once")
            if (held.lanes, held.simds) != (self.lanes, self.simds):
                out.append(f"{self.name}: {name} counts {held.lanes} lanes of {held.simds}")
        return out


@dataclass(frozen=True, slots=True)
class CopyAtom:
    """One instruction that moves a tile between registers and group memory by a simdgroup.

    `data` says which register holds which element, `rows` which lane gives the address of which
    run of neighbours along the last axis: there a register counts the elements of a run.
    """

    name: str
    operands: tuple[str, ...]
    data: Layout
    rows: Layout

    def faults(self) -> list[str]:
        """What is wrong with the record: both layouts must hold the tile exactly once."""
        out: list[str] = []
        if self.data.shape != self.rows.shape:
            out.append(f"{self.name}: rows cover {self.rows.shape}, not {self.data.shape}")
        for name, held in (("data", self.data), ("rows", self.rows)):
            if not held.exact:
                out.append(f"{self.name}: {name} holds some element not at all or more than once")
        return out
