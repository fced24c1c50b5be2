"""The builder: emits ops into nested blocks, infers their types, folds and numbers values."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any

from iron.errors import Loc
from iron.ir import ops as _rows  # noqa: F401  # pyright: ignore[reportUnusedImport]  fills the table
from iron.ir import scalar
from iron.ir.core import Block, Op, Value
from iron.ir.fold import fold
from iron.ir.table import TABLE, OpDef, Trait
from iron.ir.types import Tile, Type, Vector, element


class Builder:
    """Emits into the innermost open block.

    `loc` and `exact` are stamped on what is emitted next. With `fold=False` every op is emitted
    as asked: the reference side of a test that a pass or a fold keeps the meaning.
    """

    def __init__(self, *, fold: bool = True) -> None:
        self.folding = fold
        self.loc: Loc | None = None
        self.exact = False
        self._blocks: list[Block] = []
        self._memos: list[dict[Any, tuple[Value, ...]]] = []

    @contextmanager
    def block(self, params: Sequence[Value] = ()) -> Generator[Block]:
        """A new block that receives what is emitted inside the `with`."""
        new = Block(tuple(params))
        with self.into(new, {}):
            yield new

    @contextmanager
    def into(self, block: Block, memo: dict[Any, tuple[Value, ...]]) -> Generator[None]:
        """Continues an existing block with its own memo of numbered values."""
        self._blocks.append(block)
        self._memos.append(memo)
        try:
            yield
        finally:
            self._blocks.pop()
            self._memos.pop()

    @property
    def memo(self) -> dict[Any, tuple[Value, ...]]:
        """The numbered values of the innermost block, to continue it later with `into`."""
        return self._memos[-1]

    def const(self, value: Any, t: Type) -> Value:
        """The constant `value` of type `t`; a vector or tile type spreads it."""
        dtype = element(t)
        held = scalar.cast(value, dtype)
        (single,) = self.emit_all("const", (), (held, dtype))
        if isinstance(t, Tile):
            return self.emit("tile_full", single, attrs=(t.shape,))
        return self.emit("splat", single, attrs=(t.count,)) if isinstance(t, Vector) else single

    def emit(
        self,
        name: str,
        *args: Value,
        attrs: tuple[Any, ...] = (),
        regions: tuple[Block, ...] = (),
        surface: str = "",
    ) -> Value:
        """Emits an op that has one result."""
        (result,) = self.emit_all(name, args, attrs, regions, surface)
        return result

    def emit_all(
        self,
        name: str,
        args: Sequence[Value] = (),
        attrs: tuple[Any, ...] = (),
        regions: tuple[Block, ...] = (),
        surface: str = "",
    ) -> tuple[Value, ...]:
        """Emits an op and returns its results; a folded or numbered one is not emitted again."""
        row = TABLE[name]
        if not (self.folding and row.traits & Trait.PURE):
            return self._append(row, tuple(args), attrs, regions, surface).results
        known = fold(self, row, args, attrs)
        if known is not None:
            return (known,)
        key = self._key(row, args, attrs)
        for memo in reversed(self._memos):
            if (hit := memo.get(key)) is not None:
                return hit
        results = self._append(row, tuple(args), attrs, regions, surface).results
        self._memos[-1][key] = results
        return results

    def _append(
        self,
        row: OpDef,
        args: tuple[Value, ...],
        attrs: tuple[Any, ...],
        regions: tuple[Block, ...],
        surface: str,
    ) -> Op:
        op = Op(row, args, attrs, regions, self.loc, self.exact, surface)
        self._blocks[-1].ops.append(op)
        return op

    def _key(self, row: OpDef, args: Sequence[Value], attrs: tuple[Any, ...]) -> Any:
        if row.name == "const":
            return (row.name, attrs[0].tobytes(), attrs[1])
        ids = [id(a) for a in args]
        if row.traits & Trait.COMMUTATIVE:
            ids.sort()
        return (row.name, tuple(ids), attrs, self.exact)
