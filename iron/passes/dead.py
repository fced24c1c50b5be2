"""Removes what nobody uses: pure ops, loads, and values that loops and branches carry in vain."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value, carried, stop_flag
from iron.ir.rebuild import replace_blocks
from iron.ir.table import Trait


def dead(kernel: Kernel) -> Kernel:
    """`kernel` without unused work.

    A carried value lives if the loop's result is used or if something live in the body reads it;
    parameters, initial values, yields and results shrink together.
    """
    return replace_blocks(
        kernel, host=_sliced(kernel.host, writes, _Rest), body=_sliced(kernel.body, writes, _Rest)
    )


def sliced(block: Block, effect: Callable[[Op], bool]) -> Block:
    """`block` with only the ops that are an `effect`, and what these and its yield need.

    It shares no op with `block`, so that one kernel can hold several slices.
    """
    return _sliced(block, effect, _Copy)


def _sliced(block: Block, effect: Callable[[Op], bool], form: type[_Copy]) -> Block:
    live = Liveness(effect)
    live.need(block.yielded)
    live.block(block)
    return form(live).block(block, block.yielded, keep=block.params)


def writes(op: Op) -> bool:
    """True for an op that does more than make its results."""
    return op.row.traits & (Trait.WRITES | Trait.HINT) != 0


class Liveness:
    """The values and ops of a block that its yield or an effect needs."""

    def __init__(self, effect: Callable[[Op], bool] = writes) -> None:
        self.effect = effect
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self._effects: dict[Op, bool] = {}

    def need(self, values: Iterable[Value]) -> None:
        """Marks `values` as used."""
        self.values.update(values)

    def block(self, block: Block) -> None:
        """Goes backwards through `block`, whose yield the caller has judged."""
        for op in reversed(block.ops):
            if op.name == "yield":
                continue
            if not (self._has_effect(op) or any(r in self.values for r in op.results)):
                continue
            self.ops.add(op)
            if op.name == "for":
                self._loop(op)
            elif op.name == "if":
                self._branch(op)
            else:
                self.need(op.args)
                for region in op.regions:
                    self.need(region.yielded)
                    self.block(region)

    def _loop(self, op: Op) -> None:
        body, stop = op.regions[0], stop_flag(op)
        self.need(op.args[:3])
        self.need([stop] if stop is not None else [])
        wanted: set[int] = set()
        more = {i for i, r in enumerate(op.results) if r in self.values}
        while True:
            wanted |= more
            self.need(carried(op)[i] for i in wanted)
            self.block(body)
            more = {i for i, p in enumerate(body.params[1:]) if p in self.values} - wanted
            if not more:
                break
        self.need(op.args[3 + i] for i in wanted)
        self.need(op.results[i] for i in wanted)

    def _branch(self, op: Op) -> None:
        self.need(op.args)
        for side in op.regions:
            self.need(v for v, r in zip(side.yielded, op.results, strict=True) if r in self.values)
            self.block(side)

    def _has_effect(self, op: Op) -> bool:
        known = self._effects.get(op)
        if known is None:
            known = self.effect(op)
            if op.regions and not known:
                inner = (o for region in op.regions for o in region.ops)
                known = any(map(self._has_effect, inner))
            self._effects[op] = known
        return known


class _Copy:
    """Emits the live part of a block, op by op and unfolded."""

    def __init__(self, live: Liveness) -> None:
        self.live = live
        self.builder = Builder(fold=False)
        self.values: dict[Value, Value] = {}

    def block(self, old: Block, yielded: Sequence[Value], keep: Sequence[Value]) -> Block:
        """`old` with the parameters `keep` and the yield `yielded`."""
        fresh = self.parameters(keep)
        self.values.update(zip(keep, fresh, strict=True))
        with self.builder.block(fresh) as new:
            for op in old.ops:
                if op.name == "yield":
                    self._emit(op, yielded, ())
                elif op in self.live.ops and not self.kept(op, new):
                    self._op(op)
        return new

    def parameters(self, old: Sequence[Value]) -> Sequence[Value]:
        """What stands for the parameters `old`."""
        return [Value(p.type, None, p.name) for p in old]

    def kept(self, op: Op, into: Block) -> bool:
        """True where `op` itself became part of `into`."""
        return False

    def _op(self, op: Op) -> None:
        if op.name == "for":
            body, stop = op.regions[0], stop_flag(op)
            wanted = [i for i, r in enumerate(op.results) if r in self.live.values]
            through = [stop] if stop is not None else []
            through += [carried(op)[i] for i in wanted]
            params = [body.params[0], *(body.params[1 + i] for i in wanted)]
            args = [*op.args[:3], *(op.args[3 + i] for i in wanted)]
            self._emit(op, args, (self.block(body, through, params),), wanted)
        elif op.name == "if":
            wanted = [i for i, r in enumerate(op.results) if r in self.live.values]
            sides = [self.block(s, [s.yielded[i] for i in wanted], ()) for s in op.regions]
            self._emit(op, op.args, tuple(sides), wanted)
        else:
            regions = tuple(self.block(r, r.yielded, r.params) for r in op.regions)
            self._emit(op, op.args, regions)

    def _emit(
        self,
        op: Op,
        args: Sequence[Value],
        regions: tuple[Block, ...],
        wanted: Sequence[int] | None = None,
    ) -> None:
        b = self.builder
        b.loc, b.exact = op.loc, op.exact
        mapped = [self.values[a] for a in args]
        results = b.emit_all(op.name, mapped, op.attrs, regions, op.surface)
        old = op.results if wanted is None else [op.results[i] for i in wanted]
        for before, after in zip(old, results, strict=True):
            self.values[before] = after
            after.name = before.name


class _Rest(_Copy):
    """The live part in place of the whole: an op whose operands stay is taken along as it is."""

    def parameters(self, old: Sequence[Value]) -> Sequence[Value]:
        return old

    def kept(self, op: Op, into: Block) -> bool:
        if op.regions or any([self.values[a] is not a for a in op.args]):
            return False
        into.ops.append(op)
        self.values.update(zip(op.results, op.results, strict=True))
        return True
