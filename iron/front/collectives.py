"""What the threads of a group do together: reductions, scans, exchanges, barriers, atomics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from iron import lang
from iron.dtypes import i32, u32
from iron.front.arithmetic import combine
from iron.front.calls import call
from iron.front.host import is_pure
from iron.front.scope import Closure, Mask, View
from iron.front.state import Handler, Trace
from iron.front.values import as_value, const_int, described, firm_bool
from iron.front.views import element_view, loaded
from iron.ir.core import Block, Value
from iron.ir.table import Trait
from iron.ir.types import Tensor

LANG: Any = lang
Combine = Callable[[Trace, Sequence[Value]], Sequence[object]]


def _operands(trace: Trace, xs: Sequence[object], name: str) -> list[Value]:
    out: list[Value] = []
    for x in xs:
        held = loaded(trace, x)
        if not isinstance(held, Value):
            raise trace.fail(
                "E0204",
                f"`{name}` needs a run-time value, not {described(held)}",
                help="give it a dtype: `f32(x)`",
            )
        out.append(held)
    if not out:
        raise trace.fail("E0113", f"`{name}` of nothing")
    return out


def _width(trace: Trace, width: object, name: str) -> int:
    """The run of threads: 0 for the whole group."""
    if width is None:
        return 0
    n, threads = const_int(trace, width, f"the width of `{name}`"), trace.launch.threads
    if n < 1 or n & (n - 1) or threads % n:
        raise trace.fail(
            "E0304",
            f"`{name}` with width {n} in a group of {threads}",
            help="a width is a power of two that divides the number of threads",
        )
    return 0 if n == threads else n


def _region(trace: Trace, values: Sequence[Value], combine_: Combine) -> Block:
    """The combining function as a block that takes the values of two threads."""
    params = [Value(v.type) for v in (*values, *values)]
    trace.depth += 1
    with trace.builder.block(params) as block:
        results = combine_(trace, params)
        out = tuple(as_value(trace, r, v.type) for r, v in zip(results, values, strict=True))
        trace.emit_all("yield", out)
    trace.depth -= 1
    _only_of_its_arguments(trace, block)
    return block


def _only_of_its_arguments(trace: Trace, block: Block) -> None:
    """Refuses a combining function that reads a thread's own values, or memory."""
    known = set(block.params)
    for op in block.walk():
        effect = op.row.has(Trait.COLLECTIVE) or op.row.traits & (Trait.READS | Trait.WRITES)
        outside = [a for a in op.args if a not in known and not is_pure(trace, a)]
        if effect or outside or op.name in ("thread", "group"):
            raise trace.fail(
                "E0113",
                "a combining function uses more than its arguments",
                "it is applied to the values of other threads too",
                help="pass what it needs as another operand",
            )
        known.update(op.results)
        known.update(p for r in op.regions for p in r.params)


def _by_row(row: str) -> Combine:
    """The row's op on each pair of operands."""

    def combine_(trace: Trace, params: Sequence[Value]) -> Sequence[object]:
        half = len(params) // 2
        pairs = zip(params[:half], params[half:], strict=True)
        return [combine(trace, row, a, b) for a, b in pairs]

    return combine_


def _by_function(fn: Any, name: str, count: int) -> Combine:
    def combine_(trace: Trace, params: Sequence[Value]) -> Sequence[object]:
        result = call(trace, fn, params, {})
        results = list(result) if isinstance(result, tuple | list) else [result]
        if len(results) != count:
            raise trace.fail(
                "E0113", f"the function of `{name}` returns {len(results)} values for {count}"
            )
        return [loaded(trace, r) for r in results]

    return combine_


def _reduce(
    trace: Trace, values: Sequence[Value], width: object, name: str, combine_: Combine
) -> tuple[Value, ...]:
    run = _width(trace, width, name)
    region = _region(trace, values, combine_)
    return trace.emit_all("reduce", tuple(values), (run,), (region,), name)


def _result(values: Sequence[Value]) -> object:
    return values[0] if len(values) == 1 else tuple(values)


def group_reduce(trace: Trace, f: Any, *xs: object, width: object = None) -> object:
    """`group_reduce(f, *xs, width=)`: the operands combined jointly."""
    values = _operands(trace, xs, "group_reduce")
    combine_ = _by_function(_function(trace, f), "group_reduce", len(values))
    return _result(_reduce(trace, values, width, "group_reduce", combine_))


def _function(trace: Trace, f: Any) -> Any:
    if not callable(f) and not isinstance(f, Closure):
        raise trace.fail("E0113", f"a function is needed, not {described(f)}")
    return f


def group_scan(
    trace: Trace, f: Any, unit: object, *xs: object, exclusive: object = False, width: object = None
) -> object:
    """`group_scan(f, unit, *xs, exclusive=, width=)`."""
    name = "group_scan"
    values = _operands(trace, xs, name)
    units = list(unit) if isinstance(unit, tuple | list) else [unit]
    if len(units) != len(values):
        raise trace.fail("E0113", f"`{name}` has {len(units)} units for {len(values)} values")
    if not isinstance(exclusive, bool):
        raise trace.fail("E0207", "`exclusive` is True or False at compile time")
    firm = [as_value(trace, loaded(trace, u), v.type) for u, v in zip(units, values, strict=True)]
    run = _width(trace, width, name)
    region = _region(trace, values, _by_function(_function(trace, f), name, len(values)))
    attrs = (run, exclusive)
    return _result(trace.emit_all("scan", (*values, *firm), attrs, (region,), name))


def _rowwise(name: str, row: str, boolean: bool = False) -> Handler:
    """`group_sum` and its kin: each operand on its own, all in one reduction."""

    def emit(trace: Trace, *xs: object, width: object = None) -> object:
        values = _operands(trace, xs, name)
        if boolean:
            values = [firm_bool(trace, v, name) for v in values]
        return _result(_reduce(trace, values, width, name, _by_row(row)))

    return emit


def group_xor(trace: Trace, x: object, mask: object) -> Value:
    """`group_xor(x, m)`: the value of thread `thread ^ m`."""
    (value,) = _operands(trace, [x], "group_xor")
    n, threads = const_int(trace, mask, "the mask of `group_xor`"), trace.launch.threads
    if not 0 <= n < threads or (threads & (threads - 1) and n >= threads & -threads):
        raise trace.fail(
            "E0304",
            f"`group_xor` with mask {n} in a group of {threads} threads",
            help="every partner `thread ^ mask` must be a thread of the group",
        )
    return trace.emit("exchange", value, attrs=(n,), surface="group_xor")


def barrier(trace: Trace) -> None:
    """`barrier()`."""
    trace.emit_all("barrier")


def simd_ballot(trace: Trace, x: object) -> Mask:
    """`simd_ballot(x)`."""
    (value,) = _operands(trace, [x], "simd_ballot")
    flag = firm_bool(trace, value, "simd_ballot")
    return Mask(trace.emit("ballot", flag, surface="simd_ballot"))


def simd_mma(trace: Trace, a: object, b: object, sums: object) -> list[Value]:
    """`simd_mma(a, b, sums)`: signed bytes."""
    given = [list(x) if isinstance(x, list | tuple) else [x] for x in (a, b, sums)]
    if [len(x) for x in given] != [4, 2, 4]:
        raise trace.fail("E0113", "`simd_mma` takes lists of 4 and 2 words and of 4 sums")
    words = [as_value(trace, loaded(trace, x), u32) for x in (*given[0], *given[1])]
    totals = [as_value(trace, loaded(trace, x), i32) for x in given[2]]
    return list(trace.emit_all("simd_mma", (*words, *totals), ("i8", 8), surface="simd_mma"))


def _atomic(kind: str) -> Handler:
    """`atomic_add(x, i, v)` and its kin."""
    name = f"atomic_{kind}"

    def emit(trace: Trace, x: object, index: object, value: object) -> Value:
        if not isinstance(x, View):
            raise trace.fail("E0405", f"`{name}` needs memory, not {described(x)}")
        place = element_view(trace, x, index)
        memory = place.buffer.type
        assert isinstance(memory, Tensor)
        if memory.elem not in (i32, u32) or memory.space not in ("shared", "inout"):
            raise trace.fail(
                "E0405",
                f"`{name}` on {memory.space} memory of {memory.elem}",
                help="atomics act on u32 or i32 in `shared` or `InOut` memory",
            )
        held = as_value(trace, loaded(trace, value), memory.elem)
        at = [as_value(trace, i, trace.index) for i in place.axes]
        return trace.emit("atomic", place.buffer, *at, held, attrs=(kind,), surface=name)

    return emit


def family() -> dict[Any, Handler]:
    """The emitters of functions that differ in one word."""
    rows = {"sum": "add", "max": "max", "min": "min"}
    known = {
        getattr(LANG, f"group_{word}"): _rowwise(f"group_{word}", row) for word, row in rows.items()
    }
    known[LANG.group_any] = _rowwise("group_any", "or", boolean=True)
    known[LANG.group_all] = _rowwise("group_all", "and", boolean=True)
    kinds = ("add", "min", "max", "and", "or", "xor")
    return known | {getattr(LANG, f"atomic_{k}"): _atomic(k) for k in kinds}


EMITTERS: tuple[Handler, ...] = (
    *(group_reduce, group_scan, group_xor),
    *(barrier, simd_ballot, simd_mma),
)
