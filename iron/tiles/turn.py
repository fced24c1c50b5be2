"""The program of transposed tiles: turn.

A product with few rows and many columns is the transpose of one with many rows and few columns:
c = a @ b is c^T = b^T @ a^T. Units whose instructions have a least number of rows take it that way.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.rebuild import Rule, Sweep, replace_blocks
from iron.ir.types import Tile, Type, tile
from iron.tiles.sides import Groups, sides


def turn(kernel: Kernel) -> Kernel | None:
    """`kernel` with every tile of two axes transposed, which reads and writes the same elements.

    None where it has tiles of more axes, or keeps tiles as arrays of the group.
    """
    for op in kernel.body.walk():
        if op.name == "tile_stage" or any(_axes(v) > 2 for v in op.results):
            return None
    return replace_blocks(kernel, body=_Turn(_RULES).block(kernel.body))


def _axes(value: Value) -> int:
    return len(value.type.shape) if isinstance(value.type, Tile) else 0


def _turned(t: Type) -> Type:
    if isinstance(t, Tile) and len(t.shape) == 2:
        return tile(t.elem, t.shape[::-1])
    return t


class _Turn(Sweep):
    """The sweep; what loops carry is turned as well."""

    def block(self, old: Block, params: Sequence[Value] | None = None) -> Block:
        """A new block whose parameters are turned."""
        fresh = [Value(_turned(p.type), None, p.name) for p in old.params]
        return super().block(old, params if params is not None else fresh)


def _window(op: Op, args: tuple[Value, ...], groups: Groups) -> tuple[Value, ...]:
    """The operands of an access with its two axes exchanged."""
    cut, count = len(groups[0]), len(groups[0]) + len(groups[1])
    after = len(args) - 2 * count - (op.name == "tile_write")
    at, extents, value = (
        args[after:][:count],
        args[after + count :][:count],
        args[after:][2 * count :],
    )
    return (*args[:after], *at[cut:], *at[:cut], *extents[cut:], *extents[:cut], *value)


def _access(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    groups = sides(op)
    if len(groups) != 2:
        return None
    cut = len(groups[0])
    attrs = dict(zip(op.row.attrs, op.attrs, strict=True))
    for name in ("axes", "steps"):
        attrs[name] = (*attrs[name][cut:], *attrs[name][:cut])
    if "shape" in attrs:
        attrs["shape"] = attrs["shape"][::-1]
    return b.emit_all(op.name, _window(op, args, groups), tuple(attrs.values()), (), op.surface)


def _shaped(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    return b.emit_all(op.name, args, (op.attr("shape")[::-1],), (), op.surface)


def _expand(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    if _axes(op.results[0]) != 2:
        return None
    return b.emit_all(op.name, args, (1 - op.attr("axis"),), (), op.surface)


def _reduce(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    kind, axis = op.attrs
    if _axes(op.args[0]) != 2:
        return None
    return b.emit_all(op.name, args, (kind, 1 - axis), (), op.surface)


def _mma(b: Builder, op: Op, args: tuple[Value, ...]) -> tuple[Value, ...] | None:
    x, y, acc = args
    return b.emit_all(op.name, (y, x, acc), op.attrs, (), op.surface)


_RULES: dict[str, Rule] = {
    "tile_read": _access,
    "tile_write": _access,
    "tile_full": _shaped,
    "tile_broadcast": _shaped,
    "tile_expand": _expand,
    "tile_reduce": _reduce,
    "mma": _mma,
}
