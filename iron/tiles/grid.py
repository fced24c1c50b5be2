"""The threads of a group as a rectangle, and how the axes of a tile lie on it.

The last axis of a tile is shared by the threads of a row of the rectangle, the axis before it by
the rows; further axes each thread holds whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from iron.ir.core import Kernel, Op
from iron.ir.layout import Layout
from iron.ir.types import Tile
from iron.targets.atoms.form import Form
from iron.targets.atoms.opaque import OpaqueAtom
from iron.targets.target import Target

Kinds = tuple[str, ...]
"""For each axis of a value who shares it: `across` the threads of a row, `down` the rows, `own`
nobody."""

WIDEST = 4
"""Neighbours along the last axis that one thread of a GPU holds as a vector."""
LEAST_THREADS, MOST_THREADS = 64, 256
REGISTERS = 32
"""Elements of the largest accumulator that a thread of a GPU aims to hold."""
ACROSS = 16


@dataclass(frozen=True, slots=True)
class Along:
    """One axis: element `(chunk * lanes + lane) * width + i` is number i of a chunk of a lane.

    Threads beyond `lanes` hold copies. Each thread has `count` chunks.
    """

    size: int
    width: int
    lanes: int
    count: int


@dataclass(frozen=True, slots=True)
class Grid:
    """`down` rows of `across` threads, both powers of two.

    The bits of a thread's number, from the lowest, count its column (`across`) or row (`down`) as
    `order` says; without one the columns come first. `widest` is the longest vector along the last
    axis. `looped` says that chunks are walked by loops and kept in memory, because registers are
    few and a loop costs nothing. The chunks of an accumulator are those of the simdgroups'
    products `matrix`, or blocks of matrices for the atoms `opaque`, if there are any.
    """

    down: int
    across: int
    widest: int = WIDEST
    looped: bool = False
    order: Kinds = ()
    matrix: Form | None = None
    opaque: tuple[OpaqueAtom, ...] = ()

    @property
    def multiplies(self) -> bool:
        """Whether simdgroups multiply."""
        return self.matrix is not None or bool(self.opaque)

    @property
    def threads(self) -> int:
        """Threads of a group."""
        return self.down * self.across

    def bits(self, kind: str) -> list[int]:
        """The bits of a thread's number that count its column or row, from the lowest."""
        columns = self.across.bit_length() - 1
        order = self.order or ("across",) * columns + ("down",) * (self.down.bit_length() - 1)
        return [i for i, k in enumerate(order) if k == kind]

    def along(self, kind: str, size: int) -> Along:
        """How an axis of `size` elements lies on the threads of `kind`."""
        even = size & -size
        lanes = {"across": min(self.across, even), "down": min(self.down, even)}.get(kind, 1)
        width = min(self.widest, even // lanes) if kind == "across" else 1
        return Along(size, width, lanes, size // (lanes * width))

    def layout(self, kinds: Kinds, shape: tuple[int, ...], simd: int) -> Layout:
        """The same as a layout, for simdgroups of `simd` lanes."""
        axes = [self.along(kind, size) for kind, size in zip(kinds, shape, strict=True)]
        core = tuple(a.width * a.lanes for a in axes)

        def images(axis: int, low: int, bits: int, copies: int = 0) -> list[tuple[int, ...]]:
            zero = (0,) * len(axes)
            moved = [(*zero[:axis], low << i, *zero[axis + 1 :]) for i in range(bits)]
            return moved + [zero] * copies

        register = [
            image
            for axis, a in enumerate(axes)
            for image in images(axis, 1, a.width.bit_length() - 1)
        ]
        thread = images(0, 0, 0, self.threads.bit_length() - 1)
        for kind in ("across", "down"):
            if kind in kinds:
                axis = kinds.index(kind)
                a, mine = axes[axis], self.bits(kind)
                moved = images(axis, a.width, a.lanes.bit_length() - 1)
                for bit, image in zip(mine, moved, strict=False):
                    thread[bit] = image
        lanes = simd.bit_length() - 1
        out = Layout(core, tuple(register), tuple(thread[:lanes]), tuple(thread[lanes:]))
        for axis, a in reversed(list(enumerate(axes))):
            out = out.repeat(axis, a.count)
        return out


def natural(rank: int) -> Kinds:
    """The kinds of a value of `rank` axes that nothing else decides."""
    return ("own",) * (rank - 2) + ("down", "across")[max(0, 2 - rank) :]


def grid(kernel: Kernel, target: Target | None) -> Grid:
    """The rectangle for the tiles of `kernel`: one simdgroup in a row on a CPU, else enough
    threads that an accumulator fills `REGISTERS` of each."""
    shapes = [t.shape for t in _tiles(kernel)]
    odd = [s[-1] & -s[-1] for s in shapes if s[-1] & (s[-1] - 1)]
    if target is not None and target.family == "cpu":
        across = min([kernel.simd, *odd])
        return Grid(kernel.simd // across, across, 1, looped=True)
    held = (op.results[0].type for op in products(kernel))
    sums = [prod(t.shape) for t in held if isinstance(t, Tile)]
    largest = max(sums or [prod(s) for s in shapes], default=LEAST_THREADS)
    threads = LEAST_THREADS
    while threads < MOST_THREADS and threads * REGISTERS < largest:
        threads *= 2
    threads = max(threads, kernel.simd)
    across = min([ACROSS, *odd])
    return Grid(threads // across, across)


def _tiles(kernel: Kernel) -> Iterator[Tile]:
    for op in kernel.body.walk():
        for value in (*op.results, *(p for r in op.regions for p in r.params)):
            if isinstance(value.type, Tile):
                yield value.type


def products(kernel: Kernel) -> Iterator[Op]:
    """Every `mma`."""
    return (op for op in kernel.body.walk() if op.name == "mma")
