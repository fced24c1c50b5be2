"""16-bit floats by twos: a word that holds two is taken apart, and made, by conversions alone.

So it is where what a wide load brings is only made wider, and where what a wide store takes was
only made narrow for it: nobody asks for the bits of a single one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iron.backends.spirv import bfloat, halffloat
from iron.backends.spirv.words import Code
from iron.dtypes import DType, bf16
from iron.ir.core import Kernel, Op, Value
from iron.ir.types import element

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder


@dataclass(slots=True)
class Pairs:
    """The loads and packs that go by twos, and what is known of their elements so far.

    `held` is the word and the half of one that was loaded, `source` the f32 of one to be stored.
    """

    loads: set[Op] = field(default_factory=set[Op])
    packs: set[Op] = field(default_factory=set[Op])
    held: dict[Value, tuple[int, int]] = field(default_factory=dict[Value, tuple[int, int]])
    source: dict[Value, int] = field(default_factory=dict[Value, int])
    narrowed: set[Value] = field(default_factory=set[Value])
    words: dict[Value, list[int]] = field(default_factory=dict[Value, list[int]])


def pairs_of(kernel: Kernel, wide: Mapping[Op, int], dtypes: Collection[DType]) -> Pairs:
    """What of a kernel, among accesses of `dtypes`, goes by twos."""
    found = Pairs()
    moved = [op for op in wide if element(_moved(op).type) in dtypes]
    if not moved:
        return found
    uses: dict[Value, list[Op]] = {}
    for op in kernel.body.walk():
        for value in op.args:
            uses.setdefault(value, []).append(op)
    for op in moved:
        made = _moved(op)
        if op.name == "load":
            parts = uses.get(made, [])
            if all(p.name == "extract" and _only(uses, p.results[0], "cast") for p in parts):
                found.loads.add(op)
        elif _by_twos(made, uses):
            assert made.op is not None
            found.packs.add(made.op)
            found.narrowed.update(made.op.args)
    return found


def _by_twos(packed: Value, uses: Mapping[Value, Sequence[Op]]) -> bool:
    """True for a pack, of one store, of what was made f16 for it alone."""
    pack = packed.op
    if pack is None or pack.name != "pack" or len(uses[packed]) != 1:
        return False
    return all(_narrowed(a) and uses[a] == [pack] for a in pack.args)


def _moved(op: Op) -> Value:
    return op.results[0] if op.name == "load" else op.args[-1]


def _only(uses: Mapping[Value, Sequence[Op]], value: Value, name: str) -> bool:
    return all(op.name == name for op in uses.get(value, ()))


def _narrowed(value: Value) -> bool:
    return value.op is not None and value.op.name == "cast"


def widened(e: Encoder, value: Value) -> int:
    """The f32 of a 16-bit float that lies in a word."""
    m, (word, half) = e.m, e.pairs.held[value]
    if element(value.type) is bf16:
        return bfloat.half_to_f32(m, word, half)
    kind, pair = halffloat.types(m)
    both = m.put(Code.Bitcast, pair, word)
    return m.put(Code.FConvert, m.f32, m.put(Code.CompositeExtract, kind, both, half))


def joined(e: Encoder, pack: Op) -> list[int]:
    """Words of the 16-bit floats that a pack holds, two in each."""
    sources = [e.pairs.source[a] for a in pack.args]
    if element(pack.args[0].type) is bf16:
        return bfloat.words_of(e, sources)
    return [halffloat.word_of(e, *sources[n : n + 2]) for n in range(0, len(sources), 2)]
