"""Layouts: which element of a tile each register of each lane of each simdgroup holds.

A layout is linear over F2 in the bits of (register, lane, simdgroup); a side that is no power of
two adds outer repeats, digits of the register number of any size that stand above the linear part.
This module knows no target and no op.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from iron.ir.linear import Linear, spans

Coordinate = tuple[int, ...]

COSTS = ("none", "registers", "lanes", "shared")
"""What a change of layout costs, the least first: nothing, other names for registers, an exchange
between lanes of a simdgroup, a round through group memory."""


@dataclass(frozen=True, slots=True)
class Layout:
    """`core` is the shape that the linear part covers, of powers of two.

    `register`, `lane` and `simd` hold the image of each bit as a coordinate of `core`; a lane or
    simdgroup bit whose image is zero holds a copy. `repeats` are (axis, count) pairs, innermost
    first: each repeats everything before it `count` times along its axis.
    """

    core: tuple[int, ...]
    register: tuple[Coordinate, ...] = ()
    lane: tuple[Coordinate, ...] = ()
    simd: tuple[Coordinate, ...] = ()
    repeats: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if any(side < 1 or side & (side - 1) for side in self.core):
            raise ValueError(f"a side of the linear part is a power of two, not {self.core}")
        for image in (*self.register, *self.lane, *self.simd):
            inside = len(image) == len(self.core) and all(
                0 <= c < side for c, side in zip(image, self.core, strict=True)
            )
            if not inside:
                raise ValueError(f"{image} lies outside of {self.core}")

    @property
    def shape(self) -> tuple[int, ...]:
        """The tile's sides."""
        sides = list(self.core)
        for axis, count in self.repeats:
            sides[axis] *= count
        return tuple(sides)

    @property
    def registers(self) -> int:
        """Elements held by one lane."""
        return prod((count for _, count in self.repeats), start=1 << len(self.register))

    @property
    def lanes(self) -> int:
        """Lanes that the layout tells apart, copies included."""
        return 1 << len(self.lane)

    @property
    def simds(self) -> int:
        """Simdgroups that the layout tells apart, copies included."""
        return 1 << len(self.simd)

    @property
    def linear(self) -> Linear:
        """The linear part: bits of register, lane and simdgroup, lowest first, to bits of the
        coordinate, the last axis lowest."""
        images = (*self.register, *self.lane, *self.simd)
        return Linear(tuple(self.flat(c) for c in images), prod(self.core).bit_length() - 1)

    @property
    def covers(self) -> bool:
        """True when every element of the tile is held somewhere."""
        return self.linear.onto

    @property
    def exact(self) -> bool:
        """True when every element of the tile is held exactly once."""
        return self.linear.exact

    @property
    def copies(self) -> int:
        """How many places hold one element, of a layout that covers its tile."""
        return self.registers * self.lanes * self.simds // prod(self.shape)

    def at(self, register: int, lane: int = 0, simd: int = 0) -> Coordinate:
        """The coordinate of the element in `register` of `lane` of simdgroup `simd`."""
        low = len(self.register)
        inside = register & ((1 << low) - 1)
        bits = inside | lane << low | simd << (low + len(self.lane))
        where, digits = list(self._coordinate(self.linear(bits))), register >> low
        sides = list(self.core)
        for axis, count in self.repeats:
            digits, digit = divmod(digits, count)
            where[axis] += digit * sides[axis]
            sides[axis] *= count
        return tuple(where)

    def find(self, coordinate: Coordinate) -> tuple[int, int, int]:
        """(register, lane, simdgroup) of one place that holds the element at `coordinate`.

        Raises ValueError when none does.
        """
        where, sides, radix = list(coordinate), list(self.shape), self.registers
        register = 0
        for axis, count in reversed(self.repeats):
            sides[axis] //= count
            digit, where[axis] = divmod(where[axis], sides[axis])
            radix //= count
            register += digit * radix
        bits = self.linear.solve(self.flat(tuple(where)))
        if bits is None or any(w >= s for w, s in zip(where, self.core, strict=True)):
            raise ValueError(f"no place holds {coordinate}")
        low, middle = len(self.register), len(self.lane)
        inside, lane = bits & ((1 << low) - 1), bits >> low & ((1 << middle) - 1)
        return register + inside, lane, bits >> (low + middle)

    def repeat(self, axis: int, count: int) -> Layout:
        """The layout `count` times along `axis`, in more registers.

        A power of two becomes register bits as long as no outer repeat stands below.
        """
        out = self
        while count % 2 == 0 and not out.repeats:
            out, count = out._grown("register", axis), count // 2
        return out if count == 1 else replace(out, repeats=(*out.repeats, (axis, count)))

    def across(self, axis: int, count: int) -> Layout:
        """The layout on `count` times as many simdgroups, which follow each other along `axis`.

        Raises ValueError when `count` is no power of two or outer repeats stand below.
        """
        if count & (count - 1) or any(a == axis for a, _ in self.repeats):
            raise ValueError(f"{count} simdgroups along an axis of {self.shape}")
        out = self
        while count > 1:
            out, count = out._grown("simd", axis), count // 2
        return out

    def transpose(self) -> Layout:
        """The layout of the transposed matrix: the same places, the two axes exchanged."""
        turn = tuple[Coordinate, ...]
        return Layout(
            self.core[::-1],
            turn(c[::-1] for c in self.register),
            turn(c[::-1] for c in self.lane),
            turn(c[::-1] for c in self.simd),
            tuple((1 - axis, count) for axis, count in self.repeats),
        )

    def slice(self, axis: int) -> tuple[Layout, tuple[int, ...]]:
        """The layout without `axis`, and for each register the one that holds its remains.

        A place of the slice holds what its place in the matrix holds, with `axis` left out: lanes
        that differ only along it hold copies.
        """

        def cut(c: Coordinate) -> Coordinate:
            return (*c[:axis], *c[axis + 1 :])

        kept = [i for i, c in enumerate(self.register) if any(cut(c))]
        outer = [i for i, (a, _) in enumerate(self.repeats) if a != axis]
        out = Layout(
            cut(self.core),
            tuple(cut(self.register[i]) for i in kept),
            tuple(cut(c) for c in self.lane),
            tuple(cut(c) for c in self.simd),
            tuple((a - (a > axis), count) for a, count in (self.repeats[i] for i in outer)),
        )
        return out, tuple(self._kept(r, kept, outer) for r in range(self.registers))

    def _kept(self, register: int, bits: Sequence[int], repeats: Sequence[int]) -> int:
        """The register number that remains of `register`: these bits, these outer digits."""
        out = sum((register >> b & 1) << i for i, b in enumerate(bits))
        digits, radix = register >> len(self.register), 1 << len(bits)
        for i, (_, count) in enumerate(self.repeats):
            digits, digit = divmod(digits, count)
            if i in repeats:
                out += digit * radix
                radix *= count
        return out

    def _grown(self, part: str, axis: int) -> Layout:
        """The layout twice along `axis`, by one more bit of `part`."""
        image = tuple(side if a == axis else 0 for a, side in enumerate(self.core))
        core = tuple(side * 2 if a == axis else side for a, side in enumerate(self.core))
        grown = (*getattr(self, part), image)
        return replace(self, core=core, **{part: grown})

    def flat(self, coordinate: Coordinate) -> int:
        """The bits of a coordinate of the linear part, the last axis lowest."""
        out = 0
        for c, side in zip(coordinate, self.core, strict=True):
            out = out * side + c
        return out

    def _coordinate(self, flat: int) -> Coordinate:
        out: list[int] = []
        for side in reversed(self.core):
            flat, c = divmod(flat, side)
            out.append(c)
        return tuple(reversed(out))


@dataclass(frozen=True, slots=True)
class Conversion:
    """How values move from one layout to another of the same tile.

    `cost` is one of `COSTS`. `source[r]` is the register that holds the new register r, where the
    cost is `none` or `registers`, and empty otherwise.
    """

    cost: str
    source: tuple[int, ...] = ()


def convert(old: Layout, new: Layout) -> Conversion:
    """The cheapest way from `old` to `new`. Raises ValueError when they are of different tiles.

    `registers`: every lane holds what it needs. `lanes`: its simdgroup does. For layouts with
    unlike outer repeats only the cost `registers` is looked for before `shared` is answered.
    """
    if old.shape != new.shape:
        raise ValueError(f"a tile of {old.shape} does not become one of {new.shape}")
    if not old.covers:
        raise ValueError("the old layout does not hold its tile")
    source = _renamed(old, new)
    if source is not None:
        same = source == tuple(range(len(source))) and old.registers == new.registers
        return Conversion("none" if same else "registers", source)
    if (old.core, old.repeats) == (new.core, new.repeats) and _inside_a_simdgroup(old, new):
        return Conversion("lanes")
    return Conversion("shared")


def _renamed(old: Layout, new: Layout) -> tuple[int, ...] | None:
    """For each new register the old one that holds it on every lane; None where a lane lacks it."""
    if (_aligned(old.lane), _aligned(old.simd)) != (_aligned(new.lane), _aligned(new.simd)):
        return None
    held = {old.at(r): r for r in reversed(range(old.registers))}
    found = [held.get(new.at(r)) for r in range(new.registers)]
    return None if None in found else tuple(r for r in found if r is not None)


def _aligned(images: tuple[Coordinate, ...]) -> tuple[Coordinate, ...]:
    """The images without trailing copies, which are the same as bits that a layout leaves out."""
    last = max((i for i, c in enumerate(images) if any(c)), default=-1)
    return images[: last + 1]


def _inside_a_simdgroup(old: Layout, new: Layout) -> bool:
    """True when every element that a lane needs is held by some lane of its own simdgroup."""
    near = [old.flat(c) for c in (*old.register, *old.lane)]
    zero = (0,) * len(old.core)
    count = max(len(old.simd), len(new.simd))
    before = (*old.simd, *(zero,) * (count - len(old.simd)))
    after = (*new.simd, *(zero,) * (count - len(new.simd)))
    moved = [old.flat(a) ^ old.flat(b) for a, b in zip(before, after, strict=True)]
    wanted = [old.flat(c) for c in (*new.register, *new.lane)]
    return all(spans(near, y) for y in (*wanted, *moved))
