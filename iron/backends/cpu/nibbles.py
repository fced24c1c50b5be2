"""Numbers of four-bit codes: sixteen results in a register instead of the steps that make them.

On AVX-512 one instruction takes 16 lanes of a 16-entry table. What a kernel computes from nothing
but `x & 15` is such a table, however long the way there is: the levels of a codebook, a minifloat,
an integer less its offset. The entries are computed by the rows' own definitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.backends.cpu.lanes import Lanes
from iron.backends.cpu.state import Emitter
from iron.backends.cpu.types import float_literal, lanes
from iron.dtypes import f32, u32
from iron.ir import scalar
from iron.ir.core import Kernel, Op, Value, const_of, is_const
from iron.ir.table import Trait
from iron.ir.types import Tensor, element

CODES = 16

Found = tuple[Value, Any]
"""x and the entries: the value is `entries[x & 15]`."""


def looked_up(e: Emitter, op: Op) -> str | None:
    """The f32 result of `op` as a look-up; None where it is no function of one nibble alone."""
    result = op.results[0]
    if result.type is not f32 or not e.has_nibbles:
        return None
    width = e.width(result)
    if width % CODES or not e.target.has("avx512"):
        return None
    found = entries(result, e.nibbles)
    if found is None or not e.varies(found[0]) or not e.at_hand(found[0]):
        return None
    code, table = found
    x, y = Lanes(e.w, f32, width), Lanes(e.w, f32, CODES)
    (index,) = e.names(code, width)
    levels = ", ".join(f"float {float_literal(float(v))}" for v in table)
    parts: list[str] = []
    for start in range(0, width, CODES):
        at = list(range(start, start + CODES))
        some = index if width == CODES else e.w.pick(index, "i32", width, at)
        operands = (y.t, f"<{levels}>"), (lanes("i32", CODES), some)
        parts.append(e.w.call(y.t, "llvm.x86.avx512.permvar.sf.512", *operands))
    return e.w.concat(parts, x.ll, CODES)


def present(kernel: Kernel) -> bool:
    """Whether a kernel takes four bits of something."""
    return any(op.name in ("and", "shr") and _code(op) is not None for op in kernel.body.walk())


def entries(value: Value, known: dict[Value, Found | None]) -> Found | None:
    """The nibble that `value` is computed from, and what it is for each of them."""
    if value not in known:
        known[value] = _find(value, known)
    return known[value]


def _find(value: Value, known: dict[Value, Found | None]) -> Found | None:
    op = value.op
    if op is None or isinstance(value.type, Tensor) or element(value.type) is not value.type:
        return None
    if (code := _code(op)) is not None:
        held = CODES - 1 if op.name == "shr" else int(const_of(op.args[1]))
        return code, (np.arange(CODES) & held).astype(element(value.type).np)
    if op.name == "load":
        return _level(op, known)
    whole = op.name == "bitcast" and element(op.args[0].type).bits == element(value.type).bits
    if op.row.ref is None or not (whole or op.row.has(Trait.ELEMENTWISE)):
        return None
    root: Value | None = None
    columns: list[Any] = []
    for operand in op.args:
        found = None if is_const(operand) else entries(operand, known)
        if found is None and not is_const(operand):
            return None
        if found is not None:
            if root is not None and root is not found[0]:
                return None
            root = found[0]
        columns.append(const_of(operand) if found is None else found[1])
    if root is None:
        return None
    with scalar.quiet():
        made = np.asarray(op.row.ref(*columns, *op.attrs)).astype(element(value.type).np)
    return (root, made) if made.shape == (CODES,) else None


def _code(op: Op) -> Value | None:
    """What the look-up takes for its index: it ignores all but the low four bits."""
    value = op.results[0]
    if op.name not in ("and", "shr") or not is_const(op.args[1]) or element(value.type).bits != 32:
        return None
    by = int(const_of(op.args[1]))
    if op.name == "and" and 0 < by < CODES:
        return op.args[0]
    return value if op.name == "shr" and by == 28 and value.type is u32 else None


def _level(op: Op, known: dict[Value, Found | None]) -> Found | None:
    """An entry of a constant table of at least 16."""
    made = op.args[0].op
    if made is None or made.name != "table" or len(op.args) != 2 or op.attr("count"):
        return None
    found = entries(op.args[1], known)
    kind: Tensor = made.attr("type")
    held = np.frombuffer(made.attr("data"), kind.elem.np)
    if found is None or len(held) <= int(found[1].max()) or int(found[1].min()) < 0:
        return None
    return found[0], held[found[1].astype(np.int64)]
