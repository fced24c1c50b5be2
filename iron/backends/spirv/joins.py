"""Words put together again from the narrow elements of a wide load: the words that came."""

from __future__ import annotations

from collections.abc import Mapping

from iron.dtypes import u32
from iron.ir.core import Op, Value, const_of, is_const
from iron.ir.types import DType, element

Byte = tuple[Value, int] | None
"""Which byte of which loaded vector; None: 0."""
BYTES = 4


def joined_word(op: Op, loaded: Mapping[Value, list[int]]) -> tuple[Value, int] | None:
    """The wide load among `loaded`, and the number of its word, that `op` puts together again."""
    if op.name != "or" or op.results[0].type is not u32:
        return None
    found = _bytes(op.results[0], loaded)
    if found is None or found[0] is None:
        return None
    source, first = found[0]
    whole = all(b is not None and b == (source, first + i) for i, b in enumerate(found))
    return (source, first // BYTES) if whole and first % BYTES == 0 else None


def _bytes(value: Value, loaded: Mapping[Value, list[int]]) -> list[Byte] | None:
    """The bytes of a value, the lowest first; None where they are not known."""
    op = value.op
    if op is None or not isinstance(value.type, DType):
        return None
    if op.name == "extract" and op.args[0] in loaded:
        size = value.type.bytes
        return [(op.args[0], op.attrs[0] * size + i) for i in range(size)]
    if op.name not in ("bitcast", "cast", "shl", "or"):
        return None
    first = _bytes(op.args[0], loaded)
    if first is None:
        return None
    if op.name == "bitcast":
        return first
    if op.name == "cast":
        plain = value.type is u32 and element(op.args[0].type).kind == "u"
        return [*first, *[None] * (BYTES - len(first))] if plain else None
    if op.name == "shl":
        by = int(const_of(op.args[1])) if is_const(op.args[1]) else 1
        return [*[None] * (by // 8), *first][:BYTES] if by % 8 == 0 else None
    second = _bytes(op.args[1], loaded)
    if second is None or any(a and b for a, b in zip(first, second, strict=True)):
        return None
    return [a or b for a, b in zip(first, second, strict=True)]
