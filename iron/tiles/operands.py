"""What a lane gives to the products of its simdgroup, from operands in group memory.

Where the target loads matrices, a lane gives the place of one row of 16 bytes and gets words of
four matrices; else it loads its words one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from iron.dtypes import f32
from iron.ir.core import Value
from iron.ir.ops.copy import BYTES
from iron.ir.ops.matrix import ROWS as MATRIX
from iron.ir.types import Tensor, Tile, element
from iron.targets.atoms.form import WORDS, Form
from iron.tiles import compute
from iron.tiles.emitter import Emitter
from iron.tiles.storage import Shared, Spot

Words = list[Value]


def left(
    e: Emitter, form: Form, a: Shared, k: Value, rows: Sequence[Spot], per_word: int
) -> list[Words]:
    """The words of each product's rows of a in step k: of every row, the first along k first."""
    if not _loaded(form, a):
        words = _words(e, form, k)
        held = [[_word(e, a, r.at, w, per_word) for w in words] for r in rows]
        return [
            [held[i + h][w] for w in range(len(words)) for h in range(form.halves)]
            for i in range(0, len(rows), form.halves)
        ]
    step = e.grid.down
    below = e.early("mul", _bit(e, 1), step)
    base = e.early("add", _corner(e, "down", form.down, 1), below)
    depth = _depth(e, k, _bit(e, 2), per_word)
    firsts = [e.number(i * step) for i in range(0, len(rows), form.halves)]
    return [_matrices(e, a, (base, first), depth, 4) for first in firsts]


def held(e: Emitter, a: Value, k: int, rows: Sequence[Spot]) -> list[Words]:
    """As `left`, of a tile whose chunks of two columns are the words that this lane gives."""
    assert isinstance(a.type, Tile)
    columns = [e.spot("across", a.type.shape[1], 2 * k + half) for half in (0, 1)]
    pairs = [rows[i : i + 2] for i in range(0, len(rows), 2)]
    return [[_pair(e, compute.chunk(e, a, (r, c))) for c in columns for r in two] for two in pairs]


def _pair(e: Emitter, chunk: Value) -> Value:
    """Two neighbours of 16 bits as a word: rounded together where they come from f32."""
    made, elem = chunk.op, element(chunk.type)
    if made is not None and made.name == "cast" and element(made.args[0].type) is f32:
        return e.b.emit("pair", *e.parts(made.args[0], 2), attrs=(elem,))
    return e.bits(e.wide(chunk, 2))


def right(
    e: Emitter, form: Form, b: Shared, k: Value, columns: Sequence[Spot], per_word: int
) -> list[Words]:
    """The words of each chunk of columns of b in step k; `b` is turned, its rows are columns."""
    if not _loaded(form, b):
        words = _words(e, form, k)
        return [[_word(e, b, _column(e, form, c), w, per_word) for w in words] for c in columns]
    step = e.grid.across * form.width
    base = _corner(e, "across", form.across, form.width)
    beside = e.early("add", base, e.early("mul", _bit(e, 2), step))
    depth = _depth(e, k, _bit(e, 1), per_word)
    out: list[Words] = []
    while len(out) < len(columns):
        two = len(columns) - len(out) > 1
        first = (beside if two else base, e.number(len(out) * step))
        found = _matrices(e, b, first, depth, 4 if two else 2)
        out += [found[i : i + 2] for i in range(0, len(found), 2)]
    return out


# --- matrices -------------------------------------------------------------------------------------


def _loaded(form: Form, kept: Shared) -> bool:
    """Whether an operand lies in rows of which matrices are loaded."""
    held = kept.array.type
    assert isinstance(held, Tensor)
    even = held.shape[-1] * held.elem.bytes % BYTES == 0
    return form.loads and not kept.words and even and (not kept.turned or held.elem.bytes == 2)


def _bit(e: Emitter, number: int) -> Value:
    """A bit of the number of the matrix whose row this lane gives."""
    return _lane(e, number + 2, 2)


def _corner(e: Emitter, kind: str, lanes: int, width: int) -> Value:
    """The first row or column of this simdgroup's products in a chunk."""
    thread = e.thread(kind)
    return e.early("mul", e.early("floordiv", thread, lanes), lanes * width)


def _depth(e: Emitter, k: Value, half: Value, per_word: int) -> Value:
    """Where the matrix begins along k, whose words come in two halves."""
    first = e.b.emit("mul", k, e.number(WORDS * per_word))
    return e.b.emit("add", first, e.early("mul", half, WORDS // 2 * per_word))


def _matrices(
    e: Emitter, kept: Shared, first: tuple[Value, Value], depth: Value, count: int
) -> Words:
    """The words of `count` matrices of an operand, from the sum `first` of rows and `depth` on."""
    b, own = e.b, _lane(e, 0, MATRIX)
    row, moved = first
    if kept.turned:
        place = [b.emit("add", depth, own), b.emit("add", moved, row)]
    else:
        place = [b.emit("add", moved, e.early("add", row, own)), depth]
    slot = [kept.slot] if kept.slot is not None else []
    return list(b.emit_all("simd_load", (kept.array, *slot, *place), (count, kept.turned)))


# --- words ----------------------------------------------------------------------------------------


def _lane(e: Emitter, bit: int, count: int) -> Value:
    """Some bits of this thread's lane as a number."""
    thread = e.early("thread", attrs=(e.index,))
    return e.early("mod", e.early("floordiv", thread, 1 << bit) if bit else thread, count)


def _words(e: Emitter, form: Form, k: Value) -> list[Value]:
    """The words along k that this lane gives of step `k`."""
    t, many = _lane(e, form.across_bit, form.across), WORDS // form.across
    first = t if form.apart else e.early("mul", t, many)
    word = e.b.emit("add", e.b.emit("mul", k, e.number(WORDS)), first)
    step = form.across if form.apart else 1
    return [e.b.emit("add", word, e.number(i * step)) for i in range(many)]


def _column(e: Emitter, form: Form, spot: Spot) -> Value:
    """The column of b that this lane gives for a chunk of columns."""
    t = e.early("mul", _lane(e, form.across_bit, form.across), form.width)
    g = _lane(e, form.down_bit, form.columns)
    return e.b.emit("add", spot.at, e.early("sub", g, t))


def _word(e: Emitter, kept: Shared, row: Value, word: Value, per_word: int) -> Value:
    """Word `word` along the second axis of a staged operand, of `per_word` elements."""
    b = e.b
    if kept.words:
        return b.emit("load", kept.array, row, word, attrs=(0,))
    first = b.emit("mul", word, e.number(per_word))
    if not kept.turned:
        held = b.emit("load", kept.array, row, first, attrs=(per_word if per_word > 1 else 0,))
        return e.bits(held)
    at = [b.emit("add", first, e.number(i)) for i in range(per_word)]
    return e.bits(e.packed([e.shared(kept, (row, k), 1) for k in at]))
