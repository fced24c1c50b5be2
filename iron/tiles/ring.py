"""Rings: which tile reads are filled ahead of their products, and which of them share a slot.

A read that is an operand of an `mma`, straight or through `tile_transpose`, is staged. Staged reads
of one block that meet in an `mma` die together, so they share the slots of one ring. Membership is
a matter of sites, decided on the program as it was written: copies that skew and peel make keep
their site, and so their ring.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iron.ir import scalar
from iron.ir.core import Block, Kernel, Op, Value, carried
from iron.ir.types import Tensor, Tile


@dataclass(frozen=True, slots=True)
class Staged:
    """A read that feeds an `mma`; `turned` when the product sees it transposed."""

    read: Op
    turned: bool

    @property
    def site(self) -> int:
        """The read's number."""
        return self.read.attr("site")


@dataclass(frozen=True, slots=True)
class Ring:
    """The sites whose tiles share a slot, and how many slots there are.

    `once`: the reads stand outside of the loop of their products, and fill one slot for all.
    """

    sites: tuple[int, ...]
    slots: int
    once: bool


def staged(product: Op) -> tuple[Staged | None, Staged | None]:
    """The reads behind the two factors of an `mma`; None for a factor that was computed."""
    first, second = (_behind(a) for a in product.args[:2])
    return first, second


def _behind(value: Value) -> Staged | None:
    turned, op = False, value.op
    while op is not None and op.name == "tile_transpose":
        turned, op = not turned, op.args[0].op
    return Staged(op, turned) if op is not None and op.name == "tile_read" else None


def rings(kernel: Kernel) -> tuple[Ring, ...]:
    """The rings of `kernel`, in the order of their first sites."""
    found = _Membership()
    found.block(kernel.body, ())
    return found.rings()


class _Membership:
    """One walk over a kernel: where each read stands, and which reads meet."""

    def __init__(self) -> None:
        self.places: dict[int, tuple[Op, ...]] = {}  # the loops and branches around a read
        self.parent: dict[int, int] = {}
        self.once: dict[int, bool] = {}

    def block(self, block: Block, around: tuple[Op, ...]) -> None:
        for op in block.ops:
            if op.name == "tile_read":
                self.places[op.attr("site")] = around
            elif op.name == "mma":
                self._product(op, around)
            for region in op.regions:
                self.block(region, (*around, op))

    def _product(self, op: Op, around: tuple[Op, ...]) -> None:
        sites = [s.site for s in staged(op) if s is not None]
        for site in sites:
            self.parent.setdefault(site, site)
            self.once[site] = self.places[site] != around
            if self.places[site] == self.places[sites[0]]:
                self.parent[self._root(site)] = self._root(sites[0])

    def _root(self, site: int) -> int:
        while self.parent[site] != site:
            site = self.parent[site]
        return site

    def rings(self) -> tuple[Ring, ...]:
        members: dict[int, list[int]] = {}
        for site in sorted(self.parent):
            members.setdefault(self._root(site), []).append(site)
        return tuple(self._ring(tuple(sites)) for sites in members.values())

    def _ring(self, sites: tuple[int, ...]) -> Ring:
        once = self.once[sites[0]]
        loops = [op for op in self.places[sites[0]] if op.name == "for"]
        slots = loops[-1].attr("stages") if loops and not once else 1
        return Ring(sites, max(1, slots), once)


# --- the sequence of fills ------------------------------------------------------------------------

Fill = tuple[int, tuple[int, ...]]
"""A site and the integers that its read was given."""


def sequence(
    kernel: Kernel,
    found: tuple[Ring, ...],
    values: Mapping[str, int],
    groups: tuple[int, ...],
) -> dict[Ring, list[Fill]]:
    """The fills of each ring in order, by running the scalars of one group.

    `values` are the scalars and dims by name. A role that reads in another order than a second one
    fills would take each other's tiles: `check` compares two roles.
    """
    run = _Run(found, groups)
    for param, value in zip(kernel.params, kernel.body.params, strict=True):
        if not isinstance(param.type, Tensor):
            run.known[value] = param.type.np.type(values[param.name])  # type: ignore[union-attr]
    with scalar.quiet():
        run.block(kernel.body)
    return run.fills


class _Run:
    """One group's scalars, evaluated; what a tile holds is not known."""

    def __init__(self, found: tuple[Ring, ...], groups: tuple[int, ...]) -> None:
        self.of_site = {site: ring for ring in found for site in ring.sites}
        self.groups = groups
        self.known: dict[Value, Any] = {}
        self.fills: dict[Ring, list[Fill]] = {ring: [] for ring in found}

    def block(self, block: Block) -> None:
        for op in block.ops:
            self._op(op)

    def _op(self, op: Op) -> None:
        if op.name == "tile_read":
            if (site := op.attr("site")) in self.of_site:
                place = tuple(int(self.known[a]) for a in op.args[1:])
                self.fills[self.of_site[site]].append((site, place))
        elif op.name == "for":
            self._loop(op)
        elif op.name == "if":
            side = op.regions[0 if self.known[op.args[0]] else 1]
            self.block(side)
            self._pass(side.yielded, op.results)
        elif op.name == "const":
            self.known[op.results[0]] = op.attrs[0]
        elif op.name == "group":
            self.known[op.results[0]] = op.attrs[1].np.type(self.groups[op.attrs[0]])
        elif op.row.ref is not None and all(a in self.known for a in op.args):
            made = op.row.ref(*(self.known[a] for a in op.args), *op.attrs)
            self.known[op.results[0]] = made

    def _loop(self, op: Op) -> None:
        (body,) = op.regions
        low, high, step = (int(self.known[a]) for a in op.args[:3])
        self._pass(op.args[3:], body.params[1:])
        for turn in range(low, high, step):
            self.known[body.params[0]] = _number(body.params[0], turn)
            self.block(body)
            self._pass(carried(op), body.params[1:])
        self._pass(body.params[1:], op.results)

    def _pass(self, given: tuple[Value, ...], taken: tuple[Value, ...]) -> None:
        moved = [self.known.get(v) for v in given]
        self.known.update(
            (t, m) for t, m in zip(taken, moved, strict=True) if not isinstance(t.type, Tile)
        )


def _number(value: Value, number: int) -> Any:
    return value.type.np.type(number)  # type: ignore[union-attr]


def check(
    producer: Kernel,
    consumer: Kernel,
    found: tuple[Ring, ...],
    values: Mapping[str, int],
    groups: tuple[int, ...],
) -> str:
    """The first difference between what two roles fill and read, or '' where there is none."""
    one, two = (sequence(k, found, values, groups) for k in (producer, consumer))
    for ring in found:
        if one[ring] != two[ring]:
            pairs = list(zip(one[ring], two[ring], strict=False))
            turn = next((i for i, (a, b) in enumerate(pairs) if a != b), len(pairs))
            return f"ring of sites {ring.sites}: fill {turn} differs"
    return ""


def reads(block: Block, found: Ring) -> Iterator[Op]:
    """The reads of a ring that stand in `block` itself."""
    for op in block.ops:
        if op.name == "tile_read" and op.attr("site") in found.sites:
            yield op


def touches(block: Block, found: Ring) -> bool:
    """True when a read of the ring, or a product of one, stands somewhere in `block`."""
    for op in block.walk():
        sites = (
            [op.attr("site")]
            if op.name == "tile_read"
            else [s.site for s in staged(op) if s is not None]
            if op.name == "mma"
            else []
        )
        if any(site in found.sites for site in sites):
            return True
    return False
