"""The state of one reading of a kernel: where it is, what names mean, and the builder.

Every op is stamped with the place in the user's source being read, so an error or a later report
can name it. This module knows no statement and no expression; the grammar is handed in.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from iron.dtypes import DType
from iron.errors import KernelError, Loc, error
from iron.front import advice
from iron.front.scope import Broken
from iron.front.source import Source, names_outside
from iron.ir.build import Builder
from iron.ir.core import Block, Require, Value
from iron.ir.table import TABLE, OpTypeError, Trait
from iron.ir.types import Type

Handler = Callable[..., Any]

AFTER_LAUNCH = frozenset({"load", "store", "atomic", "thread", "shared", "barrier"})
MAX_DEPTH = 40


@dataclass(frozen=True, slots=True)
class Rule:
    """How a syntax node is read, and which of its fields that reading uses.

    A node with anything in another field is refused, so no part of the source is dropped.
    """

    handler: Handler
    fields: frozenset[str]


@dataclass(frozen=True, slots=True)
class Grammar:
    """The language: a rule for each node class, an emitter for each function it knows."""

    expressions: Mapping[type[ast.AST], Rule]
    statements: Mapping[type[ast.AST], Rule]
    functions: Mapping[Any, Handler]
    methods: Mapping[str, Handler]


@dataclass(slots=True, eq=False)
class Frame:
    """A function being read: its names now, and the region depth at which it was entered."""

    source: Source
    names: dict[str, object]
    outside: tuple[dict[str, Any], dict[str, Any]]
    depth: int
    caller: Loc | None


@dataclass(slots=True, eq=False)
class Launch:
    """What the launch statement and the requirements said."""

    done: bool = False
    each: bool = False
    threads: int = 1
    extents: tuple[object, ...] = ()
    tail: Value | None = None
    requires: list[tuple[Value, Require]] = field(default_factory=list[tuple[Value, Require]])
    order: tuple[int, int, bool] | None = None
    open: bool = False  # `groups` left the number of threads to the compiler
    tiled: Loc | None = None  # where the first tile is used
    thread: Loc | None = None  # where a thread's own number is first used


@dataclass(frozen=True, slots=True)
class Capture:
    """A name read outside the kernel, and what it was: the kernel is stale once it changes."""

    namespace: dict[str, Any]
    name: str
    value: object

    def holds(self) -> bool:
        """True while the name still means the same object, or an equal number or string."""
        now = self.namespace.get(self.name, None)
        if now is self.value:
            return True
        plain = isinstance(now, int | float | str | bool) and type(now) is type(self.value)
        return plain and repr(now) == repr(self.value)


class Trace:
    """One reading of a kernel for one binding."""

    def __init__(self, name: str, origin: Loc, grammar: Grammar, simd: int, index: DType) -> None:
        self.name = name
        self.origin = origin  # where the kernel is defined
        self.grammar = grammar
        self.simd = simd
        self.index = index
        self.builder = Builder()
        self.launch = Launch()
        self.dims: dict[str, object] = {}
        self.dim_of: dict[Value, str] = {}
        self.entered: dict[Value, str] = {}  # carried numbers, and where they took their type
        self.host_values: set[Value] = set()  # scalars and dims
        self.dtypes: dict[str, DType] = {}
        self.formats: dict[str, Any] = {}
        self.sites = 0  # tile accesses and products so far
        self.depth = 0  # open run-time regions
        self.open_tail = ExitStack()
        self.tail = Block()
        self.frames: list[Frame] = []
        self.shared_lists: dict[int, object] = {}  # lists that a join or loop gave a second name
        self.captured: dict[tuple[int, str], Capture] = {}
        self.at: ast.AST = ast.Pass(lineno=1, col_offset=0, end_lineno=1, end_col_offset=0)

    # --- place and errors -------------------------------------------------------------------------

    @property
    def frame(self) -> Frame:
        """The function being read."""
        return self.frames[-1]

    @property
    def names(self) -> dict[str, object]:
        """The names of the function being read."""
        return self.frames[-1].names

    def loc(self, node: ast.AST | None = None) -> Loc:
        """The place of `node`, or of what is being read."""
        at: Any = self.at if node is None else node
        line, col = getattr(at, "lineno", 1), getattr(at, "col_offset", 0)
        one_line = getattr(at, "end_lineno", line) == line
        end = (getattr(at, "end_col_offset", 0) or 0) if one_line else 0
        if not self.frames:
            return self.origin
        frame = self.frames[-1]
        return Loc(frame.source.file, line, col, end, frame.caller)

    def line(self) -> int:
        """The line being read, for a message."""
        return int(getattr(self.at, "lineno", 0))

    def fail(
        self, id: str, message: str, *notes: str, help: str = "", node: ast.AST | None = None
    ) -> KernelError:
        """An error at `node`, or at what is being read; the caller raises it."""
        return error(id, message, self.loc(node), self.name, notes, help)

    # --- reading ----------------------------------------------------------------------------------

    def evaluate(self, node: ast.expr) -> Any:
        """The object that an expression yields."""
        before = self.at
        self.at = node
        result = self._rule(self.grammar.expressions, node)(self, node)
        self.at = before
        return result

    def execute(self, body: list[ast.stmt]) -> None:
        """Reads statements in order."""
        for statement in body:
            self.at = statement
            self._rule(self.grammar.statements, statement)(self, statement)

    def _rule(self, rules: Mapping[type[ast.AST], Rule], node: ast.AST) -> Handler:
        rule = rules.get(type(node))
        if rule is None:
            raise refuse(self, node)
        self.check_fields(node, rule.fields)
        return rule.handler

    def check_fields(self, node: ast.AST, used: frozenset[str]) -> None:
        """Refuses a node that has something in a field its reading does not use."""
        for name in node._fields:
            if name not in used and getattr(node, name, None) not in (None, [], 0):
                what = f"`{name}` of `{type(node).__name__}`"
                raise self.fail("E0101", f"{what} is not part of the language", node=node)

    @contextmanager
    def inside(
        self, source: Source, fn: types.FunctionType, names: dict[str, object]
    ) -> Generator[None]:
        """Reads another function: its names, its globals, and the call as the caller."""
        caller = self.loc() if self.frames else None
        if len(self.frames) > MAX_DEPTH:
            raise self.fail(
                "E0111",
                f"`{source.name}` is called more than {MAX_DEPTH} levels deep",
                help="an inlined function cannot call itself without end; use a loop",
            )
        before = self.at
        self.frames.append(Frame(source, names, names_outside(fn), self.depth, caller))
        yield
        self.frames.pop()
        self.at = before

    # --- names ------------------------------------------------------------------------------------

    def look_up(self, name: str) -> tuple[object, bool]:
        """What `name` is, and whether it is a name of the function itself."""
        frame = self.frame
        if name in frame.names:
            found = frame.names[name]
            if isinstance(found, Broken):
                raise self.fail("E0203", found.why, help=f"give `{name}` a value just before this")
            return found, True
        if name in frame.source.locals:
            raise self.fail("E0105", f"`{name}` has no value yet")
        closure, globals_ = frame.outside
        for space in (closure, globals_):
            if name in space:
                self.capture(space, name, space[name])
                return space[name], False
        builtins_: Any = globals_.get("__builtins__", {})
        builtins_ = builtins_ if isinstance(builtins_, dict) else vars(builtins_)
        if name in builtins_:
            return builtins_[name], False
        known = [*frame.names, *closure, *globals_]
        raise self.fail("E0105", f"`{name}` is not defined", help=advice.for_name(name, known))

    def capture(self, space: dict[str, Any], name: str, value: object) -> None:
        """Notes that the kernel depends on a name outside it."""
        self.captured.setdefault((id(space), name), Capture(space, name, value))

    # --- the tail of an `each` kernel -------------------------------------------------------------

    def mask_the_rest(self) -> None:
        """What follows, to the end of the kernel, is read into a block of its own."""
        self.tail = self.open_tail.enter_context(self.builder.block())

    def close_tail(self) -> None:
        """Ends that block and puts it under the launch's tail condition."""
        condition = self.launch.tail
        if condition is None:
            return
        self.builder.emit_all("yield")
        self.open_tail.close()
        with self.builder.block() as empty:
            self.builder.emit_all("yield")
        self.builder.emit_all("if", (condition,), regions=(self.tail, empty))

    # --- emission ---------------------------------------------------------------------------------

    def emit(
        self,
        name: str,
        *args: Value,
        attrs: tuple[Any, ...] = (),
        regions: tuple[Block, ...] = (),
        surface: str = "",
    ) -> Value:
        """Emits an op with one result."""
        return self.emit_all(name, args, attrs, regions, surface)[0]

    def emit_all(
        self,
        name: str,
        args: tuple[Value, ...] = (),
        attrs: tuple[Any, ...] = (),
        regions: tuple[Block, ...] = (),
        surface: str = "",
    ) -> tuple[Value, ...]:
        """Emits an op; E0302 before the launch, E0305 for a collective of an `each` kernel."""
        shown = surface or name
        if name in AFTER_LAUNCH and not self.launch.done:
            raise self.fail(
                "E0302",
                f"`{shown}` stands before the launch",
                help="`groups(...)` or `each(...)` is the first run-time statement",
            )
        collective = TABLE[name].has(Trait.COLLECTIVE) or name == "shared"
        if self.launch.each and collective:
            raise self.fail(
                "E0305",
                f"`{shown}` in an `each` kernel, whose groups are the compiler's choice",
                help="launch with `groups(..., threads=...)`",
            )
        if TABLE[name].has(Trait.TILE) and name != "threads":
            self._meet_tile(shown)
        self.builder.loc = self.loc()
        try:
            return self.builder.emit_all(name, args, attrs, regions, surface)
        except OpTypeError as wrong:
            raise self.fail("E0201", f"`{shown}`: {wrong}", help=_advice(str(wrong))) from None

    def _meet_tile(self, shown: str) -> None:
        """Notes that the kernel uses tiles, which a kernel of threads cannot."""
        launch = self.launch
        if not launch.done:
            raise self.fail(
                "E0302",
                f"`{shown}` stands before the launch",
                help="`groups(...)` is the first run-time statement of a tile kernel",
            )
        if not launch.open or launch.thread is not None:
            raise self.mixed(launch.thread)
        launch.tiled = launch.tiled or self.loc()

    def own_thread(self) -> Value:
        """This thread's number, named by the source."""
        launch = self.launch
        launch.thread = launch.thread or self.loc()
        if launch.tiled is not None:
            raise self.mixed(launch.tiled)
        return self.emit("thread", attrs=(self.index,))

    def mixed(self, other: Loc | None) -> KernelError:
        """E0306: tiles and threads in one kernel; `other` is where the other one stands."""
        if other is None:
            return self.fail(
                "E0306",
                "a tile in a kernel whose launch says how many threads a group has",
                help="leave `threads=` out: the compiler divides the work of a tile kernel",
            )
        return self.fail(
            "E0306",
            "tiles and a thread's own number in one kernel",
            f"the other one is on line {other.line}",
            help="share work with `strided`, or write the kernel for threads alone",
        )

    def site(self) -> int:
        """The number of the next tile access or product."""
        self.sites += 1
        return self.sites - 1

    def const(self, value: Any, t: Type) -> Value:
        """The constant `value` of type `t`, converted by the language's casts."""
        self.builder.loc = self.loc()
        return self.builder.const(value, t)


def _advice(wrong: str) -> str:
    if "widen" in wrong:
        return "f16 and bf16 are for storage: load with `.to(f32)`, store with `.to(f16)`"
    return "convert one side, such as `f32(x)` or `x.to(f32)`" if "differ" in wrong else ""


def refuse(trace: Trace, node: ast.AST) -> KernelError:
    """E0101 for a node that is not part of the language."""
    kind = type(node).__name__
    return trace.fail(
        "E0101", f"`{kind}` is not part of the language", help=advice.NODES.get(kind, ""), node=node
    )
