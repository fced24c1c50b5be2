"""The forms of a kernel that a launch chooses among, by what its arguments allow.

Wide memory access needs aligned pointers and strides, neighbours for each thread need extents that
divide, a unit stride needs to be one. A form states what it needs; the last needs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Generic, TypeVar

from iron.analysis.ranges import Ranges, ranges
from iron.ir.core import Kernel, Op, Param, Value
from iron.ir.rebuild import Sweep, replace_blocks
from iron.ir.types import Tensor, Vector, tensor
from iron.passes.combine import combine
from iron.passes.dead import dead
from iron.passes.scalarise import scalarise
from iron.passes.unsigned import unsigned
from iron.passes.vectorise import vectorise

WORDS = (2, 4, 8, 16, 32, 64)
"""Neighbours of an access that words are made for."""
WORD = 16
"""Bytes that one memory instruction of a thread moves at most."""

C = TypeVar("C")
Write = Callable[[Kernel, Mapping[Op, int]], C]
"""Writes a kernel's code. The accesses given are to move words of that many bytes; where there
are some, the kernel is scalar already."""


@dataclass(frozen=True, slots=True)
class Form(Generic[C]):
    """A kernel, its code and what a launch of it needs.

    `aligned` gives the bytes that the address of each row of a parameter is a multiple of, `unit`
    the parameters whose last axis has stride 1, `preceded` the axes as long as which there are
    addresses before their parameter. A `regrouped` form has its own number of groups and
    its own requirements: those of `kernel`.
    """

    kernel: Kernel
    code: C
    aligned: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unit: frozenset[str] = frozenset()
    regrouped: bool = False
    preceded: tuple[tuple[str, int], ...] = ()


def forms(kernel: Kernel, write: Write[C]) -> Iterator[Form[C]]:
    """The forms of a lowered kernel, best first; `write` makes the code of one."""
    straight, unit = _unit_strides(kernel)
    spread = vectorise(straight)
    if spread is not straight:
        found = _wide(spread, write)
        if found is not None:
            yield replace(found, unit=unit, regrouped=True)
    found = _wide(straight, write)
    if found is not None:
        yield replace(found, unit=unit)
    if unit:
        yield Form(straight, write(unsigned(straight), {}), unit=unit)
    yield Form(kernel, write(unsigned(kernel), {}))


def _unit_strides(kernel: Kernel) -> tuple[Kernel, frozenset[str]]:
    """`kernel` with the last axis of every parameter at stride 1, and which ones had any stride."""
    names = {
        p.name
        for p in kernel.params
        if isinstance(p.type, Tensor) and not p.type.packed and p.type.rank
    }
    if not names:
        return kernel, frozenset()
    params = tuple(_straight(p) if p.name in names else p for p in kernel.params)
    values = [Value(p.type, None, p.name) for p in params]
    body = Sweep({}).block(kernel.body, values)
    return replace(replace_blocks(kernel, body=body), params=params), frozenset(names)


def _straight(p: Param) -> Param:
    assert isinstance(p.type, Tensor)
    return replace(p, type=tensor(p.type.elem, p.type.rank, p.type.space))


def _wide(kernel: Kernel, write: Write[C]) -> Form[C] | None:
    """The form whose accesses of neighbours are words; None when there are none."""
    scalar = scalarise(kernel)
    joined = unsigned(dead(combine(scalar, _most(ranges(scalar)))))
    facts = ranges(joined)
    names = dict(zip(joined.body.params, (p.name for p in joined.params), strict=True))
    found: dict[Op, int] = {}
    aligned: dict[str, int] = {}
    for op in joined.body.walk():
        word = _word(op)
        if word < 2:
            continue
        held = op.args[op.name == "async_copy"]
        place = held.type
        assert isinstance(place, Tensor)
        index = facts.at(op, len(op.args) - (2 if op.name == "store" else 1))
        if index is not None and index.multiple_of(word // place.elem.bytes):
            found[op] = word
            name = names[held]
            aligned[name] = max(word, aligned.get(name, 1))
    if not found:
        return None
    return Form(kernel, write(joined, found), aligned)


def _most(facts: Ranges) -> Callable[[Op], int]:
    """How many neighbours may begin at an access: as many as its index is a multiple of, if any."""

    def most(op: Op) -> int:
        index = facts.at(op, len(op.args) - (1 if op.name == "load" else 2))
        known = [n for n in WORDS if index is not None and index.multiple_of(n)]
        return max(known, default=max(WORDS))

    return most


def _word(op: Op) -> int:
    """Bytes of the words that an access of neighbours may be made of; 0 for any other op."""
    if op.name == "async_copy":
        return WORD
    if op.name not in ("load", "store") or not isinstance(op.args[0].type, Tensor):
        return 0
    held = op.results[0].type if op.name == "load" else op.args[-1].type
    place = op.args[0].type
    if not isinstance(held, Vector) or held.count not in WORDS or not place.packed:
        return 0
    if place.space not in ("in", "out", "inout"):
        return 0
    return min(WORD, held.count * place.elem.bytes)
