"""Takes vectors apart: afterwards only wide loads and stores still hold one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iron.dtypes import DType, u8, u16, u32, u64
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.rebuild import replace_blocks
from iron.ir.types import Type, Vector, element

_UNSIGNED = {8: u8, 16: u16, 32: u32, 64: u64}


def scalarise(kernel: Kernel) -> Kernel:
    """`kernel` with every vector value as its scalars.

    A vector is left only as the result of a `load`, taken apart at once, and as the `pack` that a
    `store` writes. Carried and combined vectors become that many scalars.
    """
    return replace_blocks(kernel, body=_Apart().block(kernel.body))


class _Apart:
    """Emits blocks anew with the scalars of each old value."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.parts: dict[Value, tuple[Value, ...]] = {}

    def block(self, old: Block) -> Block:
        params: list[Value] = []
        for p in old.params:
            self.parts[p] = tuple(Value(t, None, p.name) for t in _scalars(p.type))
            params += self.parts[p]
        with self.builder.block(params) as new:
            for op in old.ops:
                self._op(op)
        return new

    def _op(self, op: Op) -> None:
        self.builder.loc, self.builder.exact = op.loc, op.exact
        wide = any(isinstance(v.type, Vector) for v in (*op.args, *op.results))
        rule = _RULES.get(op.name) if wide else None
        if rule is not None:
            results = rule(self, op)
        elif wide and op.row.sig:
            results = self._elementwise(op)
        else:
            results = self._flattened(op)
        at = 0
        for old in op.results:
            size = len(_scalars(old.type))
            self.parts[old] = tuple(results[at : at + size])
            at += size
            for part in self.parts[old] if old.name else ():
                if not part.name:
                    part.name = old.name

    def _elementwise(self, op: Op) -> list[Value]:
        columns = zip(*(self.parts[a] for a in op.args), strict=True)
        return [self.builder.emit(op.name, *c, attrs=op.attrs, surface=op.surface) for c in columns]

    def _flattened(self, op: Op) -> Sequence[Value]:
        """The op on the scalars of its operands and regions."""
        args = [part for a in op.args for part in self.parts[a]]
        regions = tuple(self.block(r) for r in op.regions)
        self.builder.loc, self.builder.exact = op.loc, op.exact
        return self.builder.emit_all(op.name, args, op.attrs, regions, op.surface)

    def splat(self, op: Op) -> Sequence[Value]:
        return self.parts[op.args[0]] * op.attrs[0]

    def pack(self, op: Op) -> Sequence[Value]:
        return [self.parts[a][0] for a in op.args]

    def extract(self, op: Op) -> Sequence[Value]:
        return (self.parts[op.args[0]][op.attrs[0]],)

    def load(self, op: Op) -> Sequence[Value]:
        (whole,) = self._flattened(op)
        whole.name = op.results[0].name
        return [self.builder.emit("extract", whole, attrs=(i,)) for i in range(op.attrs[0])]

    def store(self, op: Op) -> Sequence[Value]:
        *place, value = op.args
        # As asked: packing what a load gave, in order, would fold to the load.
        self.builder.folding = False
        whole = self.builder.emit("pack", *self.parts[value])
        self.builder.folding = True
        args = [part for a in place for part in self.parts[a]]
        return self.builder.emit_all("store", (*args, whole))

    def exchange(self, op: Op) -> Sequence[Value]:
        parts = self.parts[op.args[0]]
        return [self.builder.emit("exchange", p, attrs=op.attrs) for p in parts]

    def bitcast(self, op: Op) -> Sequence[Value]:
        parts, to = self.parts[op.args[0]], op.attrs[0]
        have = element(op.args[0].type)
        if have.bits == to.bits:
            return [self.builder.emit("bitcast", p, attrs=(to,)) for p in parts]
        return self._split(parts, have, to) if have.bits > to.bits else self._join(parts, have, to)

    def _split(self, parts: Sequence[Value], have: DType, to: DType) -> list[Value]:
        b, wide, narrow = self.builder, _UNSIGNED[have.bits], _UNSIGNED[to.bits]
        out: list[Value] = []
        for part in parts:
            bits = b.emit("bitcast", part, attrs=(wide,))
            for shift in range(0, have.bits, to.bits):
                moved = b.emit("shr", bits, b.const(shift, wide))
                cut = b.emit("cast", moved, attrs=(narrow,))
                out.append(b.emit("bitcast", cut, attrs=(to,)))
        return out

    def _join(self, parts: Sequence[Value], have: DType, to: DType) -> list[Value]:
        b, narrow, wide = self.builder, _UNSIGNED[have.bits], _UNSIGNED[to.bits]
        ratio = to.bits // have.bits
        out: list[Value] = []
        for first in range(0, len(parts), ratio):
            joined = b.const(0, wide)
            for j, part in enumerate(parts[first : first + ratio]):
                bits = b.emit("cast", b.emit("bitcast", part, attrs=(narrow,)), attrs=(wide,))
                moved = b.emit("shl", bits, b.const(j * have.bits, wide))
                joined = b.emit("or", joined, moved)
            out.append(b.emit("bitcast", joined, attrs=(to,)))
        return out


_RULES: dict[str, Callable[[_Apart, Op], Sequence[Value]]] = {
    "splat": _Apart.splat,
    "pack": _Apart.pack,
    "extract": _Apart.extract,
    "load": _Apart.load,
    "store": _Apart.store,
    "exchange": _Apart.exchange,
    "bitcast": _Apart.bitcast,
}


def _scalars(t: Type) -> list[Type]:
    """The types of a value's scalars; a tensor or tile stays itself."""
    return [t.elem] * t.count if isinstance(t, Vector) else [t]
