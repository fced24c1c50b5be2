"""A lowered kernel as C-style text: names from the source, a line for each statement of the author.

A pure value with one use in its own block is written where it is used; everything else becomes a
named constant. Only what a loop carries or a branch yields is a variable that changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from iron.analysis.early import Early, early
from iron.analysis.ranges import Ranges, ranges
from iron.analysis.zeros import signless
from iron.backends.clike import collective, memory, sums
from iron.backends.clike.dialect import Argument, Dialect
from iron.backends.clike.expression import PRODUCT, UNARY, Expr, constant, extreme, spell
from iron.backends.clike.group_memory import POOL, POOL_ALIGN, Array, declared
from iron.backends.clike.plain import plain
from iron.backends.tensor_maps import TensorMap, lengths, tensor_maps
from iron.dtypes import DTYPES, DType, f32, i64, u64
from iron.errors import Loc
from iron.ir.core import Block, Kernel, Op, Value, carried, const_of, is_const, stop_flag
from iron.ir.table import Trait
from iron.ir.types import Tensor, Type, Vector, element

LONGEST_INLINE = 72

_C_WORDS = frozenset(
    re.findall(
        r"\w+",
        """auto break case char const continue default do double else enum extern float for goto if
        inline int long register return short signed sizeof static struct switch typedef union
        unsigned void volatile while bool true false class private public template this operator
        new delete namespace using half kernel device thread constant threadgroup vec uint ushort
        main""",
    )
)

_OWN = frozenset({*DTYPES, "thread_index", "group_index", "step", "run", POOL})
"""What the text uses itself: the 32nd `i` is not called like a type."""


@dataclass(frozen=True, slots=True)
class Text:
    """A rendered kernel: `prelude` holds the types and functions that `body` uses.

    `arguments` is the ABI: pointers, scalars, dims, then element strides of tensors, then the
    launch extents of all axes but the last. `places` gives the user's place for each line of
    `body`, where there is one. `body` begins with the declarations of `tables`. `dynamic` bytes of
    group memory are asked for at the launch.
    """

    symbol: str
    prelude: str
    body: str
    arguments: tuple[Argument, ...]
    places: tuple[Loc | None, ...]
    tables: tuple[str, ...] = ()
    dynamic: int = 0

    @property
    def source(self) -> str:
        """The whole text."""
        return f"{self.prelude}\n\n{self.body}\n"

    @property
    def lines(self) -> tuple[Loc | None, ...]:
        """The user's place for each line of `source`, where there is one."""
        return (*[None] * (self.prelude.count("\n") + 2), *self.places)

    def numbered(self, file: str) -> str:
        """The body with `#line` directives: the user's lines, or those of `source` as `file`."""
        out: list[str] = []
        lead = self.prelude.count("\n") + 3
        expected = ("", 0)
        for number, (line, loc) in enumerate(
            zip(self.body.split("\n"), self.places, strict=True), lead
        ):
            place = (loc.file, loc.line) if loc is not None else (file, number)
            if place != expected:
                out.append(f'#line {place[1]} "{place[0]}"')
            out.append(line)
            expected = (place[0], place[1] + 1)
        return "\n".join(out)


def render(
    kernel: Kernel, dialect: Dialect, symbol: str, wide: frozenset[Op] = frozenset()
) -> Text:
    """The text of `kernel`, which `passes.scalarise` has been over.

    `wide` are the accesses of neighbours whose address is aligned to what they move, so that one
    word of the dialect's `iron_f16x8` kind moves them.
    """
    return Renderer(kernel, dialect, wide).text(symbol)


@dataclass(slots=True)
class Renderer:
    """The text so far, and what each value is called."""

    kernel: Kernel
    dialect: Dialect
    wide: frozenset[Op] = frozenset()
    out: list[str] = field(default_factory=list[str])
    places: list[Loc | None] = field(default_factory=list[Loc | None])
    globals: list[str] = field(default_factory=list[str])
    arrays: list[Array] = field(default_factory=lambda: list[Array]())
    piles: dict[tuple[DType, int, int, int], str] = field(
        default_factory=dict[tuple[DType, int, int, int], str]
    )
    turn: int = 1
    depth: int = 1
    loc: Loc | None = None
    expressions: dict[Value, Expr] = field(default_factory=dict[Value, Expr])
    uses: Counter[Value] = field(default_factory=Counter[Value])
    local: set[Value] = field(default_factory=set[Value])
    known: Ranges = field(init=False)
    signless: frozenset[Value] = frozenset()
    given: set[Value] = field(default_factory=set[Value])
    copied: set[Value] = field(default_factory=set[Value])
    early: Early = field(default_factory=Early)
    mapped: dict[Op, TensorMap] = field(init=False)
    maps: dict[TensorMap, str] = field(default_factory=lambda: dict[TensorMap, str]())
    lengths: dict[tuple[str, int], str] = field(
        default_factory=lambda: dict[tuple[str, int], str]()
    )
    changing: dict[Value, str] = field(default_factory=lambda: dict[Value, str]())
    matrices: set[Value] = field(default_factory=set[Value])
    parts: dict[tuple[Value, int], Expr] = field(default_factory=dict[tuple[Value, int], Expr])
    taken: set[str] = field(default_factory=set[str])

    # --- the whole --------------------------------------------------------------------------------

    def text(self, symbol: str) -> Text:
        """Renders everything once."""
        self.taken |= _C_WORDS | _OWN | self.dialect.keywords
        self.known = ranges(self.kernel)
        self.signless = signless(self.kernel)
        self.early = early(self.kernel) if self.dialect.hold else Early()
        self._count(self.kernel.body)
        arguments = self._arguments()
        self._prologue()
        self.block(self.kernel.body)
        head = self.dialect.entry(symbol, arguments, self.kernel)
        arrays, dynamic = declared(self.arrays, self.dialect)
        before = "\n".join([*self.globals, *head, *arrays])
        body = "\n".join([before, *self.out, "}"])
        places = (*[None] * (before.count("\n") + 1), *self.places, None)
        prelude, tables = self.dialect.prelude(body), tuple(self.globals)
        return Text(symbol, prelude, body, tuple(arguments), places, tables, dynamic)

    def _count(self, block: Block) -> None:
        mine = {*block.params, *(r for op in block.ops for r in op.results)}
        for op in block.ops:
            if op.name == "yield":
                self.given.update(op.args)
            if op.name in ("async_copy", "simd_load"):
                self.matrices.add(op.args[0])
            if op.name == "store" and isinstance(op.args[-1].type, Vector):
                self.copied.add(op.args[-1])
            for arg in memory.read(op):
                self.uses[arg] += 1
                if arg in mine:
                    self.local.add(arg)
            for region in op.regions:
                self._count(region)
                outer = {a for inner in region.walk() for a in inner.args}
                self.local -= outer & mine
                self.uses.update(outer & mine)

    def _arguments(self) -> list[Argument]:
        made: list[Argument] = []
        pairs = list(zip(self.kernel.params, self.kernel.body.params, strict=True))
        for param, value in pairs:
            name = self.fresh(param.name.replace(".", "_"))
            self.expressions[value] = Expr(name)
            t = param.type
            pointer = isinstance(t, Tensor)
            made.append(Argument(name, element(t), pointer, pointer and t.space != "in"))
        for param, value in pairs:
            t = param.type
            if isinstance(t, Tensor):
                axes = range(t.rank - 1 if t.packed else t.rank)
                made += [
                    Argument(f"{self.expressions[value].text}_stride{axis}", i64) for axis in axes
                ]
        made += [Argument(f"extent{a}", i64) for a in range(self.kernel.rank - 1)]
        for name, axis in lengths(self.kernel):
            self.lengths[name, axis] = self.fresh(f"{name.replace('.', '_')}_length{axis}")
            made.append(Argument(self.lengths[name, axis], i64))
        self.taken |= {a.name for a in made}
        self.mapped = tensor_maps(self.kernel)
        for found in dict.fromkeys(self.mapped.values()):
            self.maps[found] = self.fresh(f"{found.name.replace('.', '_')}_map")
            made.append(Argument(self.maps[found], u64, mapped=True))
        return made

    def _prologue(self) -> None:
        """The ids that the body reads."""
        names = {op.name for op in self.kernel.body.walk()}
        needs_thread = "thread" in names or bool(names & collective.COLLECTIVES)
        if needs_thread and self.kernel.threads > 1:
            own = self.dialect.thread.replace("{simd}", str(self.kernel.simd))
            self.line(f"const i32 thread_index = {own};")
        if "group" in names:
            self.line(f"const {self.dialect.counts} group_index = {self.dialect.group};")

    # --- lines and names --------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """One line at the current depth."""
        self.out.append("  " * self.depth + text)
        self.places.append(self.loc)

    def fresh(self, wanted: str) -> str:
        """A name like `wanted` that nothing else has."""
        plain = re.sub(r"\W", "_", wanted) or "t"
        plain = f"v{plain}" if plain[0].isdigit() else plain
        name, number = plain, 1
        while name in self.taken or name.startswith("iron_"):
            number += 1
            name = f"{plain.rstrip('_')}{number}"
        self.taken.add(name)
        return name

    def array(self, dtype: DType, stem: str, size: int, align: int = POOL_ALIGN) -> str:
        """A new array of the group. Every dialect allows it at the kernel's own scope."""
        name = self.fresh(stem)
        self.arrays.append(Array(dtype, name, size, align))
        return name

    def map(self, op: Op) -> str:
        """The argument that is the tensor map of a bulk copy."""
        return self.maps[self.mapped[op]]

    def length(self, op: Op) -> str:
        """The argument that is the length of the axis whose end a bulk copy gives."""
        found = self.mapped[op]
        assert found.ended is not None
        return self.lengths[found.name, found.ended]

    def expr(self, value: Value) -> Expr:
        """How `value` is written."""
        if is_const(value) and value not in self.expressions:
            dtype = element(value.type)
            return constant(const_of(value), dtype, self.dialect.long_suffix)
        return self.expressions[value]

    def declare(self, value: Value, text: str, stem: str = "") -> str:
        """A named constant for `value`."""
        name = self.constant(value.type, value.name or stem or "t", text)
        self.expressions[value] = Expr(name)
        return name

    def constant(self, dtype: object, stem: str, text: str) -> str:
        """A named constant."""
        name = self.fresh(stem)
        self.line(f"const {dtype} {name} = {text};")
        return name

    def variable(self, dtype: Type, stem: str, text: str = "") -> str:
        """A variable that may change."""
        name = self.fresh(stem or "t")
        self.line(f"{self.dialect.spelled(dtype)} {name}{f' = {text}' if text else ''};")
        return name

    def copied_variable(self, value: Value, stem: str) -> str:
        """A new variable that begins with `value`."""
        return self.variable(value.type, stem, self.expr(value).text)

    # --- ops --------------------------------------------------------------------------------------

    def block(self, block: Block) -> None:
        """Every op of a block but its yield."""
        for op in block.ops:
            self.loc = op.loc
            if op.name == "yield":
                continue
            if op in self.early.first:
                self.line(f"{self.dialect.hold};")
            rule = _RULES.get(op.name) or self.dialect.rules.get(op.name)
            if rule is not None:
                rule(self, op)
            else:
                self._elementwise(op)
            if op in self.early.last:
                self.line(f"{self.dialect.hold};")

    def _elementwise(self, op: Op) -> None:
        (result,) = op.results
        dtype, args = element(op.args[-1].type), [self.expr(a) for a in op.args]
        if op.name in ("min", "max") and dtype is f32 and result in self.signless:
            made = extreme(op, args)
        else:
            made = plain(op, dtype, args, self.known) or spell(op, dtype, args)
        self.place(result, made, op)

    def place(self, result: Value, made: Expr, op: Op) -> None:
        """Writes a pure value where it is used, or names it."""
        if self.uses[result] == 0 and op.row.has(Trait.PURE):
            return
        once = self.uses[result] == 1 and result in self.local
        longest = LONGEST_INLINE if result in self.given or not result.name else LONGEST_INLINE // 3
        if once and len(made.text) <= longest:
            self.expressions[result] = made
        else:
            self.declare(result, made.text)

    def nested(self, head: str, body: Callable[[], None], tail: str = "}") -> None:
        """A braced statement."""
        self.line(head)
        self.depth += 1
        body()
        self.depth -= 1
        if tail:
            self.line(tail)

    # --- ids --------------------------------------------------------------------------------------

    def thread(self, op: Op) -> None:
        """This thread's number."""
        wide = op.attrs[0]
        text = "thread_index" if self.kernel.threads > 1 else "0"
        plain = Expr(text) if wide.name == "i32" else Expr(f"({wide}){text}", UNARY)
        self.expressions[op.results[0]] = plain

    def group(self, op: Op) -> None:
        """This group's number along an axis: the first axis varies fastest."""
        axis, dtype = op.attrs
        counts, at = self.dialect.counts, Expr("group_index")
        cast = "" if counts == "i64" else f"({counts})"
        for outer in range(axis):
            at = Expr(f"{at.text} / {cast}extent{outer}", PRODUCT)
        if axis < self.kernel.rank - 1:
            at = Expr(f"{at.text} % {cast}extent{axis}", PRODUCT)
        text = at.text if dtype.name == counts else f"({dtype}){at.at(UNARY)}"
        self.declare(op.results[0], text, f"group{axis}")

    # --- control ----------------------------------------------------------------------------------

    def if_(self, op: Op) -> None:
        """A branch; what it yields is assigned on both sides."""
        names = [
            self.variable(r.type, r.name or "chosen") if self.uses[r] else "" for r in op.results
        ]
        then, other = op.regions

        def side(region: Block) -> Callable[[], None]:
            def body() -> None:
                self.block(region)
                for name, value in zip(names, region.yielded, strict=True):
                    if name:
                        self.line(f"{name} = {self.expr(value).text};")

            return body

        both = len(other.ops) > 1 or any(names)
        condition = self.expr(op.args[0]).text
        self.nested(f"if ({condition}) {{", side(then), "" if both else "}")
        if both:
            self.nested("} else {", side(other))
        for name, result in zip(names, op.results, strict=True):
            self.expressions[result] = Expr(name)

    def for_(self, op: Op) -> None:
        """A counted loop; what it carries are variables."""
        body = op.regions[0]
        counter, params = body.params[0], body.params[1:]
        names: list[str] = []
        own = sums.variable if sums.multiplied(body) else Renderer.copied_variable
        for param, init, result in zip(params, op.args[3:], op.results, strict=True):
            names.append(own(self, init, param.name or result.name))
            sums.bind(self, param, names[-1])
        i = self.fresh(counter.name or "i")
        self.expressions[counter] = Expr(i)
        low, high, step = (self.expr(a) for a in op.args[:3])
        advance = f"++{i}" if step.text == "1" else f"{i} += {step.text}"
        head = f"for ({counter.type} {i} = {low.text}; {i} < {high.at(11)}; {advance}) {{"
        if all(map(is_const, op.args[:3])) and _written_out(body):
            self.line("#pragma unroll")

        def turn() -> None:
            self.block(body)
            flag = stop_flag(op)
            stop = self.expr(flag).text if flag is not None else ""
            if stop and self.expr(flag).reads:  # type: ignore[arg-type]
                stop = self.constant("bool", "stop", stop)
            self.assign(names, carried(op))
            if stop:
                self.line(f"if ({stop}) break;")

        self.nested(head, turn)
        for name, result in zip(names, op.results, strict=True):
            sums.bind(self, result, name)

    def assign(self, names: Sequence[str], values: Sequence[Value]) -> None:
        """All at once: a value that reads another of the variables is taken first."""
        made = [self.expr(v) for v in values]
        texts: list[str] = []
        for name, value, e in zip(names, values, made, strict=True):
            others = e.reads & set(names) - {name}
            texts.append(self.constant(value.type, f"{name}_next", e.text) if others else e.text)
        for name, text in zip(names, texts, strict=True):
            if name != text:
                self.line(f"{name} = {text};")

    def barrier(self, op: Op) -> None:
        """Nothing to wait for in a group of one thread."""
        if self.kernel.threads > 1:
            self.line(f"{self.dialect.barrier};")

    def const(self, op: Op) -> None:
        """Literals are written where they are used."""


def _written_out(body: Block) -> bool:
    """True where an index into registers may depend on the turn, and for products, whose operands
    are then loaded before the products of the turn before have run."""
    return any(op.name == "simd_mma" for op in body.walk()) or any(
        isinstance(a.type, Tensor) and a.type.space == "registers"
        for op in body.walk()
        if op.name in ("load", "store")
        for a in op.args
    )


_RULES: dict[str, Callable[[Renderer, Op], None]] = {
    "load": memory.load,
    "extract": memory.extract,
    "store": memory.store,
    "pack": memory.pack,
    "atomic": memory.atomic,
    "shared": memory.shared,
    "table": memory.table,
    "thread": Renderer.thread,
    "group": Renderer.group,
    "if": Renderer.if_,
    "for": Renderer.for_,
    "barrier": Renderer.barrier,
    "const": Renderer.const,
    "reduce": collective.reduce,
    "scan": collective.scan,
    "exchange": collective.exchange,
    "ballot": collective.ballot,
}
