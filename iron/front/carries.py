"""Run-time loops: which names a loop carries, as what, and what they mean after it.

A number becomes i32, f32 or bool at loop entry. A name that changes its type, kind or list shape in
the body is not carried: the body is read again with the name broken at its start.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from iron.dtypes import bool_, f32, i32, i64, u32
from iron.front.joins import carryable, has_second_name, lists_of, unchanged
from iron.front.scope import Broken, Range, View, Weak, leaves, replaced, same_shape
from iron.front.source import assigned
from iron.front.state import Trace
from iron.front.values import as_value, demand, described, dtype_of, is_number, misfit
from iron.front.views import load
from iron.ir.core import Block, Value, const_of, is_const
from iron.ir.types import Type, element

ReadBody = Callable[[Trace, list[ast.stmt]], Value | bool]


@dataclass(slots=True)
class Findings:
    """What readings of the body have shown about names; each reading adds to it.

    `broken` names cannot be carried, for the given reasons; lists of `aliased` names may have a
    second name; `wide` names are i32 before the loop and i64 indices after its body.
    """

    broken: dict[str, str] = field(default_factory=dict[str, str])
    aliased: set[str] = field(default_factory=set[str])
    wide: set[str] = field(default_factory=set[str])

    @property
    def count(self) -> int:
        """How much is known; a reading that adds nothing is the last."""
        return len(self.broken) + len(self.aliased) + len(self.wide)


@dataclass(frozen=True, slots=True)
class Carried:
    """A name that a loop carries: its object at entry, its leaves as values."""

    name: str
    entry: object
    init: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop being read: its statement, its bounds, and what is known of its names."""

    node: ast.For
    bounds: tuple[Value, Value, Value]
    stages: int
    read_body: ReadBody
    found: Findings

    @property
    def target(self) -> str:
        """The counter's name."""
        assert isinstance(self.node.target, ast.Name)
        return self.node.target.id

    @property
    def shown(self) -> str:
        """The loop in a message."""
        return f"the loop on line {self.node.lineno}"


def read_loop(trace: Trace, node: ast.For, over: Range, read_body: ReadBody) -> None:
    """Reads a run-time loop into a `for` region."""
    if not isinstance(node.target, ast.Name):
        raise trace.fail("E0102", "a run-time loop has one counter", node=node.target)
    loop = Loop(node, _bounds(trace, node, over), over.stages, read_body, Findings())
    changed = assigned(node.body)
    names = sorted((changed & set(trace.names)) - {loop.target})
    before = trace.names
    while True:
        known = loop.found.count
        carried = _entry(trace, loop, names)
        block, stop = _turn(trace, loop, carried)
        trace.frame.names = before
        if loop.found.count == known:
            break
    trace.at = node
    _close(trace, loop, carried, block, stop)
    for name, why in loop.found.broken.items():
        trace.names[name] = Broken(why)
    trace.names[loop.target] = Broken(f"`{loop.target}` has a value inside its loop only")
    for name in changed - set(names) - {loop.target}:
        why = f"`{name}` is first assigned in {loop.shown}, which may make no turn"
        trace.names.setdefault(name, Broken(why))


def _bounds(trace: Trace, node: ast.For, over: Range) -> tuple[Value, Value, Value]:
    parts = [load(trace, p) if isinstance(p, View) else p for p in over.parts]
    demand(trace, parts[2])
    firm = [t for p in parts if (t := dtype_of(p)) is not None]
    counter = trace.index if trace.index in firm or not firm else firm[0]
    if counter not in (i32, u32, i64):
        raise trace.fail("E0201", f"a loop bound is {counter}", help="bounds are i32 or u32")
    low, high, step = (as_value(trace, p, counter) for p in parts)
    found = {v.type for v in (low, high, step)}
    if found != {counter}:
        listed = ", ".join(repr(v.type) for v in (low, high, step))
        raise trace.fail(
            "E0201",
            f"the loop's low, high and step are {listed}",
            help="all must be i32 or all u32: write `i32(x)` or `u32(x)`",
            node=node.iter,
        )
    if not _step_known(step):
        raise trace.fail(
            "E0106",
            "a loop's step is a compile-time integer of at least 1",
            help="count up and subtract inside the loop",
            node=node.iter,
        )
    return low, high, step


def _step_known(step: Value) -> bool:
    """A constant of at least 1, times the number of threads in a kernel that leaves it open."""
    if is_const(step):
        return bool(const_of(step) >= 1)
    op = step.op
    while op is not None and op.name in ("mul", "cast"):
        op = next((a.op for a in op.args if not is_const(a)), None)
    return op is not None and op.name == "threads"


def _entry(trace: Trace, loop: Loop, names: Sequence[str]) -> list[Carried]:
    """The names to carry, with numbers made values."""
    found: list[Carried] = []
    for name in names:
        entry = trace.names[name]
        if name in loop.found.broken or isinstance(entry, Broken) or not carryable(entry):
            continue
        wide = name in loop.found.wide
        init = [as_value(trace, x, entry_type(trace, x)) for x in leaves(entry)]
        if wide:
            init = [_widest(trace, v) for v in init]
        found.append(Carried(name, entry, tuple(init)))
    return found


def _widest(trace: Trace, v: Value) -> Value:
    return trace.emit("cast", v, attrs=(i64,)) if v.type is i32 else v


def entry_type(trace: Trace, x: object) -> Type:
    """The type with which a leaf enters a loop."""
    if isinstance(x, Value):
        return x.type
    own = dtype_of(x)
    if own is not None:
        return own
    if isinstance(x, Weak):
        return trace.index
    return bool_ if isinstance(x, bool | np.bool_) else f32 if isinstance(x, float) else i32


def _turn(trace: Trace, loop: Loop, carried: Sequence[Carried]) -> tuple[Block, Value | None]:
    """Reads the body once with the carried names as parameters of its block."""
    before, names = trace.names, dict(trace.names)
    counter = Value(loop.bounds[0].type, None, loop.target)
    params = [Value(v.type, None, c.name) for c in carried for v in c.init]
    _note_numbers(trace, loop, carried, params)
    fresh = iter(params)
    for c in carried:
        names[c.name] = replaced(c.entry, fresh, _marks(trace, loop, c, before))
    names |= {name: Broken(why) for name, why in loop.found.broken.items()}
    names[loop.target] = counter
    trace.frame.names = names
    trace.depth += 1
    with trace.builder.block((counter, *params)) as block:
        stop = loop.read_body(trace, loop.node.body)
        trace.at = loop.node
        yields = _yields(trace, loop, carried)
        flag = trace.const(stop, bool_) if stop is True else stop or None
        if len(yields) == len(params):
            trace.emit_all("yield", tuple(yields if flag is None else [flag, *yields]))
    trace.depth -= 1
    loop.found.aliased |= {c.name for c in carried if _gained_a_name(trace, c)}
    _changed(trace, loop, before, carried)
    return block, flag


def _note_numbers(
    trace: Trace, loop: Loop, carried: Sequence[Carried], params: Sequence[Value]
) -> None:
    """Remembers which parameters began as a number, for the message when the type does not fit."""
    entries = ((c.name, leaf) for c in carried for leaf in leaves(c.entry))
    for (name, leaf), param in zip(entries, params, strict=True):
        if isinstance(leaf, int | float):
            became = f"`{name}` becomes {param.type} at {loop.shown}, which it enters as {leaf!r}"
            trace.entered[param] = f"{became}; start it as `{name} = f32({leaf!r})` for an f32"


def _gained_a_name(trace: Trace, c: Carried) -> bool:
    lists = lists_of(trace.names[c.name])
    return any([has_second_name(trace, x, trace.names) for x in lists])


def _marks(trace: Trace, loop: Loop, c: Carried, names: dict[str, object]) -> Iterator[bool]:
    """For each list of a carried object: whether it may have a second name."""
    known = c.name in loop.found.aliased
    return (has_second_name(trace, x, names) or known for x in lists_of(c.entry))


def _yields(trace: Trace, loop: Loop, carried: Sequence[Carried]) -> list[Value]:
    """The carried values after the body; fewer when a name turns out not to fit."""
    out: list[Value] = []
    for c in carried:
        now = trace.names[c.name]
        if isinstance(now, Broken):
            loop.found.broken[c.name] = now.why
        elif not same_shape(c.entry, now) or not carryable(now):
            loop.found.broken[c.name] = f"`{c.name}` changes its shape or kind in {loop.shown}"
        else:
            out += _leaf_values(trace, loop, c, now)
    return out


def _leaf_values(trace: Trace, loop: Loop, c: Carried, now: object) -> list[Value]:
    out: list[Value] = []
    for x, init in zip(leaves(now), c.init, strict=True):
        value = _carried_value(trace, x, init.type)
        if value is not None:
            out.append(value)
        elif init.type is i32 and trace.index is i64 and dtype_of(x) is i64:
            loop.found.wide.add(c.name)
        else:
            was, now_ = repr(init.type), described(x)
            why = f"`{c.name}` is {was} before {loop.shown} and {now_} after its body"
            loop.found.broken[c.name] = why
            break
    return out


def _carried_value(trace: Trace, x: object, t: Type) -> Value | None:
    """The leaf as a value of the carried type; None when it is not one."""
    if isinstance(x, Weak) and not (element(t).is_float or element(t).bits >= 32):
        return None
    if is_number(x) and dtype_of(x) is None:
        plain = x.item() if isinstance(x, np.generic) else x
        if misfit(plain, element(t)):  # pyright: ignore[reportArgumentType]
            return None
    value = as_value(trace, x, t)
    return value if value.type is t else None


def _changed(
    trace: Trace, loop: Loop, before: dict[str, object], carried: Sequence[Carried]
) -> None:
    """Notes names that are not run-time values, and change in the body."""
    held = {c.name for c in carried} | {loop.target}
    for name in set(before) & assigned(loop.node.body) - held - set(loop.found.broken):
        was = before[name]
        if not isinstance(was, Broken) and not unchanged(was, trace.names[name]):
            why = f"`{name}` is {described(was)} before {loop.shown} and cannot change in it"
            loop.found.broken[name] = why


def _close(
    trace: Trace, loop: Loop, carried: Sequence[Carried], block: Block, stop: Value | None
) -> None:
    """Emits the loop and gives the carried names its results."""
    init = [v for c in carried for v in c.init]
    if stop is not None and loop.stages:
        raise trace.fail(
            "E0104",
            "`break` in a pipelined loop",
            help="its reads run ahead: use `range`, or make the number of turns known before it",
        )
    attrs = (stop is not None, loop.stages)
    results = trace.emit_all("for", (*loop.bounds, *init), attrs, (block,))
    fresh = iter(results)
    names = trace.names
    after = {c.name: replaced(c.entry, fresh, _marks(trace, loop, c, names)) for c in carried}
    for name, held in after.items():
        for value in leaves(held):
            if isinstance(value, Value) and not value.name:
                value.name = name
    names.update(after)
