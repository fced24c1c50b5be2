"""Views: indexing, slicing, shapes, and the loads and stores behind them.

A slice is a view and copies nothing. Where a value is needed, a view with one free axis of known
length (1 to 64) is a vector; with no free axis it is a scalar.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from iron.dtypes import DType
from iron.front import arithmetic
from iron.front.scope import Span, View, Weak
from iron.front.state import Trace
from iron.front.values import as_value, const_int, demand, described
from iron.ir.core import Value, const_of, is_const
from iron.ir.types import MAX_VECTOR, Tensor, Vector, element, vector

Linear = dict[Value | None, int]


def whole(buffer: Value, lengths: Sequence[object]) -> View:
    """The view of a whole tensor."""
    return View(buffer, tuple(Span(0, 1, n) for n in lengths))


def narrow(trace: Trace, view: View, key: object) -> View:
    """The part of `view` that `key` (an index, a slice, or a tuple of them) names."""
    keys = list(key) if isinstance(key, tuple) else [key]
    free = [i for i, a in enumerate(view.axes) if isinstance(a, Span)]
    if len(keys) > len(free):
        raise trace.fail("E0208", f"{len(keys)} indices for {len(free)} axes")
    axes = list(view.axes)
    for at, k in zip(free, keys, strict=False):
        span = view.axes[at]
        assert isinstance(span, Span)
        axes[at] = _slice(trace, span, k) if isinstance(k, slice) else _at(trace, span, k)
    return View(view.buffer, tuple(axes))


def index(trace: Trace, view: View, key: object) -> object:
    """`view[key]`: the element when no axis is left, else a view."""
    part = narrow(trace, view, key)
    return part if part.spans else load(trace, part)


def _at(trace: Trace, span: Span, k: object) -> object:
    """The buffer index of element `k` of a span."""
    k = _integer(trace, k)
    if isinstance(k, int):
        number = k
        length = span.length
        if isinstance(length, int) and not -length <= number < length:
            raise trace.fail("E0208", f"index {number} of an axis of {length} elements")
        k = arithmetic.binary(trace, "add", length, number) if number < 0 else number
    return _place(trace, span, k)


def _place(trace: Trace, span: Span, k: object) -> object:
    """`offset + k * step` in the dtype of indices."""
    if span.step != 1:
        k = arithmetic.binary(trace, "mul", _as_index(trace, k), span.step)
    if isinstance(span.offset, int) and span.offset == 0:
        return k
    return arithmetic.binary(trace, "add", _as_index(trace, span.offset), _as_index(trace, k))


def _as_index(trace: Trace, x: object) -> object:
    if isinstance(x, Value) and x.type is not trace.index:
        return trace.emit("cast", x, attrs=(trace.index,))
    return x


def _integer(trace: Trace, k: object) -> object:
    """An index as an int, `Weak` or integer value; E0208 for anything else."""
    if isinstance(k, View):
        k = load(trace, k)
    if isinstance(k, Weak):
        return k
    if isinstance(k, Value) and isinstance(k.type, DType) and k.type.is_integer:
        return int(const_of(k)) if is_const(k) else k
    if isinstance(k, int | np.integer) and not isinstance(k, bool):
        return int(k)
    raise trace.fail("E0208", f"an index is {described(k)}, not an integer")


def _slice(trace: Trace, span: Span, k: slice) -> Span:
    step = 1 if k.step is None else const_int(trace, k.step, "the step of a slice")
    if step == 0:
        raise trace.fail("E0208", "the step of a slice is 0")
    start, stop = _ends(trace, span, k, step)
    length = _length(trace, start, stop, step)
    same = isinstance(start, int) and start == 0
    offset = span.offset if same else _place(trace, span, start)
    return Span(offset, span.step * step, length)


def _ends(trace: Trace, span: Span, k: slice, step: int) -> tuple[object, object]:
    """Start and stop counted from the start of the span; -1 is before it for a negative step."""
    first, last = (0, span.length) if step > 0 else (_end(trace, span, -1), -1)
    start = first if k.start is None else _end(trace, span, _integer(trace, k.start))
    stop = last if k.stop is None else _end(trace, span, _integer(trace, k.stop))
    return start, stop


def _end(trace: Trace, span: Span, x: object) -> object:
    if isinstance(x, int) and x < 0:
        return arithmetic.binary(trace, "add", span.length, x)
    return _as_index(trace, x)


def _length(trace: Trace, start: object, stop: object, step: int) -> object:
    low, high = (start, stop) if step > 0 else (stop, start)
    by = abs(step)
    known = difference(high, low)
    if known is not None:
        return max(0, -(-known // by))
    span = arithmetic.binary(trace, "sub", high, low)
    return arithmetic.ceil_div(trace, span, by) if by > 1 else span


def difference(high: object, low: object) -> int | None:
    """`high - low` when it is a constant, by their linear forms over values."""
    terms = linear(high)
    for term, factor in linear(low).items():
        terms[term] = terms.get(term, 0) - factor
    if any(factor for term, factor in terms.items() if term is not None):
        return None
    return terms.get(None, 0)


def linear(x: object) -> Linear:
    """`x` as a sum of values times integers; the key None holds the constant."""
    if isinstance(x, Weak):
        x = x.value
    if not isinstance(x, Value):
        return {None: int(x)}  # pyright: ignore[reportArgumentType]
    if is_const(x):
        return {None: int(const_of(x))}
    form = _FORMS.get(x.op.name) if x.op is not None else None
    found = form(x.op.args, x) if form is not None and x.op is not None else None
    return found if found is not None else {x: 1}


def _sum(args: Sequence[Value], _: Value, sign: int = 1) -> Linear:
    total = dict(linear(args[0]))
    for term, factor in linear(args[1]).items():
        total[term] = total.get(term, 0) + sign * factor
    return total


def _scaled(args: Sequence[Value], _: Value) -> Linear | None:
    for x, by in (args, args[::-1]):
        if is_const(by):
            return {term: f * int(const_of(by)) for term, f in linear(x).items()}
    return None


def _same_width(args: Sequence[Value], x: Value) -> Linear | None:
    have, to = element(args[0].type), element(x.type)
    return linear(args[0]) if have.is_integer and to.is_integer and have.bits == to.bits else None


_FORMS: dict[str, Any] = {
    "add": _sum,
    "sub": lambda args, x: _sum(args, x, -1),
    "mul": _scaled,
    "neg": lambda args, _: {term: -f for term, f in linear(args[0]).items()},
    "cast": _same_width,
}


def shape(view: View) -> tuple[object, ...]:
    """The lengths of the free axes."""
    return tuple(s.length for s in view.spans)


def size(trace: Trace, view: View) -> object:
    """The number of elements."""
    total: object = 1
    for length in shape(view):
        total = arithmetic.binary(trace, "mul", total, length)
    return total


def loaded(trace: Trace, x: object) -> Any:
    """`x`, read when it is a view."""
    return load(trace, x) if isinstance(x, View) else x


def load_both(trace: Trace, a: object, b: object) -> tuple[object, object]:
    """Both operands with views read; one view given twice is read once."""
    first = loaded(trace, a)
    return (first, first) if b is a else (first, loaded(trace, b))


# --- memory ---------------------------------------------------------------------------------------


def _indices(trace: Trace, view: View, at: int = 0) -> list[Value]:
    """The buffer indices of element `at` of a view with at most one free axis."""
    found: list[Value] = []
    for axis in view.axes:
        place = _place(trace, axis, at) if isinstance(axis, Span) else axis
        value = as_value(trace, place, trace.index)
        found.append(value)
    return found


def vector_length(trace: Trace, view: View) -> int:
    """0 for a scalar, else the constant length of the one free axis; E0209 or E0210 otherwise."""
    if not view.spans:
        return 0
    demand(trace, *(s.length for s in view.spans))
    lengths = [s.length for s in view.spans]
    (length, *more) = lengths
    if more or not isinstance(length, int):
        raise trace.fail(
            "E0209",
            f"a view with shape ({', '.join(map(_shown, lengths))}) is used as a value",
            help="index it down to one axis of compile-time length, such as `x[i : i + 4]`",
        )
    if not 1 <= length <= MAX_VECTOR:
        raise trace.fail("E0210", f"a vector has 1 to {MAX_VECTOR} elements, not {length}")
    return length


def _shown(length: object) -> str:
    return str(length) if isinstance(length, int) else "?"


def _contiguous(view: View) -> bool:
    last = view.axes[-1]
    return isinstance(last, Span) and last.step == 1


def load(trace: Trace, view: View) -> Value:
    """The scalar or vector that a view names."""
    length = vector_length(trace, view)
    if not length or _contiguous(view):
        return trace.emit("load", view.buffer, *_indices(trace, view), attrs=(length,))
    items = [
        trace.emit("load", view.buffer, *_indices(trace, view, i), attrs=(0,))
        for i in range(length)
    ]
    return trace.emit("pack", *items)


def store(trace: Trace, view: View, x: object) -> None:
    """`view[...] = x`: a scalar or vector of the view's dtype, or a literal."""
    _writable(trace, view)
    length = vector_length(trace, view)
    value = as_value(trace, loaded(trace, x), view.elem)
    _storable(trace, view, value, length)
    if length and not isinstance(value.type, Vector):
        value = trace.emit("splat", value, attrs=(length,))
    if not length or _contiguous(view):
        trace.emit_all("store", (view.buffer, *_indices(trace, view), value))
        return
    for i in range(length):
        item = trace.emit("extract", value, attrs=(i,))
        trace.emit_all("store", (view.buffer, *_indices(trace, view, i), item))


def _writable(trace: Trace, view: View) -> None:
    space = _tensor(view).space
    if space in ("in", "table"):
        what = "an `In` parameter" if space == "in" else "a table"
        raise trace.fail("E0401", f"{what} is read-only", help="declare it `Out` or `InOut`")


def _storable(trace: Trace, view: View, value: Value, length: int) -> None:
    elem = view.elem
    if isinstance(value.type, Vector) and value.type.count != length:
        place = f"{length} elements" if length else "one element"
        raise trace.fail("E0210", f"a vector of {value.type.count} is stored into {place}")
    if element(value.type) is not elem:
        raise trace.fail(
            "E0201",
            f"{value.type} is stored into {elem}",
            help=f"convert it: `.to({elem})`",
        )


def _tensor(view: View) -> Tensor:
    t = view.buffer.type
    assert isinstance(t, Tensor)
    return t


def element_view(trace: Trace, view: View, key: object) -> View:
    """The single element `view[key]` as a place, for atomics."""
    part = narrow(trace, view, key)
    if part.spans:
        raise trace.fail("E0208", f"{len(part.spans)} axes are left without an index")
    return part


def vector_of(trace: Trace, items: Sequence[Value]) -> Value:
    """The vector of `items`; E0210 for none or too many."""
    if not 1 <= len(items) <= MAX_VECTOR:
        raise trace.fail("E0210", f"a vector has 1 to {MAX_VECTOR} elements, not {len(items)}")
    return trace.emit("pack", *items)


def vector_type(trace: Trace, elem: DType, length: int) -> Vector:
    """The vector type; E0210 for an impossible length."""
    if not 1 <= length <= MAX_VECTOR:
        raise trace.fail("E0210", f"a vector has 1 to {MAX_VECTOR} elements, not {length}")
    return vector(elem, length)
