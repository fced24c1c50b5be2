"""A lowered kernel as a SPIR-V module: entry point, arguments, ids, and the walk over its ops.

Values narrower than 32 bits live in 32-bit registers, zero- or sign-extended as their dtype says;
`f16` and `bf16` are their bits. Only memory has narrow elements, so a module needs no feature for
arithmetic on small types.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import numpy as np

from iron.analysis.zeros import signless
from iron.backends.spirv import arguments, indices
from iron.backends.spirv.aliased import aliased
from iron.backends.spirv.folding import COLLECTIVES, folded, where_there_is_one
from iron.backends.spirv.modes import float_modes
from iron.backends.spirv.module import Module, Words
from iron.backends.spirv.pairs import Pairs, pairs_of
from iron.backends.spirv.words import (
    Capability,
    Code,
    Decoration,
    Mode,
    Storage,
)
from iron.dtypes import DType, bf16, f16, u32
from iron.errors import Loc
from iron.ir.core import Block, Kernel, Op, Value, const_of, is_const
from iron.ir.places import package_path
from iron.ir.types import Tensor, element
from iron.targets.target import Target


@dataclass(frozen=True, slots=True)
class Encoded:
    """A module and what a driver must know to launch it.

    `bindings` names the storage buffers in the order of their binding numbers: tensor parameters,
    then `TABLES` where the kernel has constant tables, whose contents are `tables`. An argument
    block that is not pushed is the binding after those. `full` says that every subgroup must have
    all its lanes. A workgroup of the device does the work of `fold` groups of the kernel.
    """

    words: bytes
    entry: str
    block: arguments.Block
    bindings: tuple[str, ...]
    tables: bytes
    full: bool
    shared_bytes: int
    fold: int = 1


TABLES = ":tables"

PART = 4
"""Bytes of a part of a word that is a vector."""
RUN = 16
"""Bytes of a vector of four parts."""

Rule = Callable[["Encoder", Op], None]
Spelling = Callable[["Encoder", DType, Op, Sequence[int]], int]


@dataclass(frozen=True, slots=True)
class Place:
    """An array in memory: its variable, the type of an element's pointer and of an element.

    `ratio` elements of the dtype lie in each element of the array: more than one where a device
    has no access to narrow elements, and in runs. `seen` says that in the Vulkan memory model other
    threads take part in its accesses.
    """

    variable: int
    pointer: int
    stored: int
    ratio: int = 1
    member: bool = True
    seen: bool = False


@dataclass(slots=True)
class Encoder:
    """The module so far, and the id of each value."""

    kernel: Kernel
    target: Target
    rules: Mapping[str, Rule]
    wide: Mapping[Op, int]
    m: Module = field(default_factory=Module)
    ids: dict[Value, int] = field(default_factory=dict[Value, int])
    parts: dict[Value, Sequence[int]] = field(default_factory=dict[Value, Sequence[int]])
    places: dict[Value, Place] = field(default_factory=dict[Value, Place])
    views: dict[tuple[Value, int], Place] = field(default_factory=dict[tuple[Value, int], Place])
    read_back: set[Value] = field(init=False)
    pairs: Pairs = field(default_factory=Pairs)
    loaded: dict[Value, list[int]] = field(default_factory=dict[Value, list[int]])
    opaque: bool = False
    run_arrays: frozenset[Value] = frozenset()
    prologue: Words = field(default_factory=Words)
    names: dict[Value, str] = field(default_factory=dict[Value, str])
    table_starts: dict[Value, int] = field(default_factory=dict[Value, int])
    here: int = 0
    tables: bytes = b""
    shared_bytes: int = 0
    piles: dict[tuple[DType, int, int, int], Place] = field(
        default_factory=dict[tuple[DType, int, int, int], Place]
    )
    depth: int = 0
    turn: int = 0
    guard: int = 0
    signless: frozenset[Value] = frozenset()
    block_of: arguments.Block = field(init=False)
    fold: int = 1
    _layouts: dict[int, int] = field(default_factory=dict[int, int])
    _fields: dict[int, int] = field(default_factory=dict[int, int])
    _named: dict[str, int] = field(default_factory=dict[str, int])
    _loc: Loc | None = None
    _arguments: int = 0
    _words: Place | None = None

    def __post_init__(self) -> None:
        hidden = not self.target.has("exact_zero") and arguments.computes(self.kernel)
        self.fold = folded(self.kernel, self.target)
        self.block_of = arguments.block(self.kernel, zero=hidden, count=self.fold > 1)
        self.read_back = arguments.read_back(self.kernel)
        self.signless = signless(self.kernel)
        paired = (bf16, f16) if self.target.has("float16") else (bf16,)
        self.pairs = pairs_of(self.kernel, self.wide, paired)

    # --- types and constants ----------------------------------------------------------------------

    def held(self, dtype: DType) -> int:
        """The type of a register that holds a value."""
        if dtype.kind == "b":
            return self.m.bool
        if dtype.kind == "f":
            return self.m.f32
        return self.m.u64 if dtype.bits == 64 else self.m.u32

    def id(self, value: Value) -> int:
        """The id of a value; constants are declared when they are first used."""
        if is_const(value):
            return self.constant(const_of(value), element(value.type))
        return self.ids[value]

    def constant(self, value: object, dtype: DType) -> int:
        """A constant of `dtype`."""
        if dtype.kind == "b":
            return self.m.truth(bool(value))
        raw = np.asarray(value, dtype.np)
        bits = int(raw.view(f"u{dtype.bytes}"))
        if dtype.kind == "f":
            return self.m.once(Code.Constant, bits, of=self.m.f32)
        if dtype.kind == "i" and dtype.bits < 32:
            bits = int(raw)
        return self.m.number(bits, self.held(dtype))

    def operand(self, value: Value, *, always: bool = False) -> int:
        """A float operand. Some compilers take x + 0, 0 * x, 0 / x and x - x for x or 0, which is
        wrong for -0, infinities and NaN: from them a constant 0, or with `always` any operand, is
        hidden behind an exclusive-or with a 0 that they do not see.
        """
        made = self.id(value)
        zero = is_const(value) and const_of(value) == 0
        return self.hidden(made) if zero or always else made

    def hidden(self, made: int) -> int:
        """A float as it is, from compilers that would guess; others get it undisguised."""
        if self.target.has("exact_zero"):
            return made
        m = self.m
        bits = m.put(Code.Bitcast, m.u32, made)
        return m.put(Code.Bitcast, m.f32, m.op(Code.BitwiseXor, bits, self.argument("zero")))

    # --- arguments --------------------------------------------------------------------------------

    def argument(self, kind: str, name: str = "", axis: int = 0) -> int:
        """A field of the argument block, loaded once at the start; a bool stays a number."""
        number = self.block_of.find(kind, name, axis)
        if number not in self._fields:
            m, found = self.m, self.block_of.fields[number]
            type = m.f32 if found.dtype.kind == "f" else self._word(found.dtype)
            storage = self._block_storage()
            with m.into(self.prologue):
                at = m.put(
                    Code.AccessChain, m.pointer(storage, type), self._arguments, m.number(number)
                )
                self._fields[number] = m.name(m.load(at, type), found.label)
        return self._fields[number]

    def _word(self, dtype: DType) -> int:
        return self.m.u64 if dtype.bits == 64 else self.m.u32

    def _block_storage(self) -> Storage:
        """The block's storage class; its variable is declared on first use."""
        m, block = self.m, self.block_of
        storage = Storage.PushConstant if block.pushed else Storage.Uniform
        if not self._arguments:
            types = [m.f32 if f.dtype.kind == "f" else self._word(f.dtype) for f in block.fields]
            layout = m.name(m.declare(Code.TypeStruct, *types), "Arguments")
            m.decorate(layout, Decoration.Block)
            for number, f in enumerate(block.fields):
                m.member(layout, number, f.offset, f.label)
            self._arguments = m.variable(storage, layout, "arguments")
            if not block.pushed:
                self._bind(self._arguments, len(self.bindings()))
        return storage

    def bindings(self) -> tuple[str, ...]:
        """Storage buffers in the order of their numbers."""
        has_tables = any(op.name == "table" for op in self.kernel.body.walk())
        return arguments.touched(self.kernel) + ((TABLES,) if has_tables else ())

    def _bind(self, variable: int, number: int) -> None:
        self.m.decorate(variable, Decoration.DescriptorSet, 0)
        self.m.decorate(variable, Decoration.Binding, number)

    # --- buffers ----------------------------------------------------------------------------------

    def buffer(self, name: str, dtype: DType) -> Place:
        """The binding called `name` as an array of elements, or of the words they lie in."""
        type, stride = self._stored(dtype)
        return self.binding(name, name, type, stride, max(1, stride // dtype.bytes))

    def words(self, name: str, dtype: DType, size: int) -> Place:
        """The binding called `name` as an array of words of `size` bytes."""
        m = self.m
        if size < PART:
            m.need(Capability.StorageBuffer16BitAccess)
            return self.binding(name, f"{name}_words", m.once(Code.TypeInt, 16, 0), size)
        part = m.f32 if dtype.kind == "f" else m.u32
        count = size // PART
        type = part if count == 1 else m.once(Code.TypeVector, part, count)
        return self.binding(name, f"{name}_words", type, size)

    def binding(self, name: str, title: str, type: int, stride: int, ratio: int = 1) -> Place:
        """A variable for the binding called `name`: an array of `type`, every `stride` bytes."""
        m = self.m
        layout = self._layouts.get(type)
        if layout is None:
            array = m.declare(Code.TypeRuntimeArray, type)
            m.decorate(array, Decoration.ArrayStride, stride)
            layout = self._layouts[type] = m.declare(Code.TypeStruct, array)
            m.decorate(layout, Decoration.Block)
            m.member(layout, 0, 0, "at")
        plain = title.replace(".", "_").lstrip(":")
        variable = m.variable(Storage.StorageBuffer, layout, plain)
        self._bind(variable, self.bindings().index(name))
        return Place(variable, m.pointer(Storage.StorageBuffer, type), type, ratio)

    def _stored(self, dtype: DType) -> tuple[int, int]:
        """The type of an element in a storage buffer and its bytes."""
        m, bits = self.m, 8 * dtype.bytes
        if bits < 32 and self.target.has(f"storage{bits}"):
            m.need(Capability[f"StorageBuffer{bits}BitAccess"])
            return m.once(Code.TypeInt, bits, 0), dtype.bytes
        return (m.f32 if dtype.kind == "f" else self._word(dtype)), max(4, dtype.bytes)

    @property
    def table_words(self) -> Place:
        """The binding of every constant table, as words."""
        if self._words is None:
            self._words = self.buffer(TABLES, u32)
            self.m.decorate(self._words.variable, Decoration.NonWritable)
        return self._words

    # --- ids of threads and groups ----------------------------------------------------------------

    @property
    def shuffles(self) -> bool:
        """True when a simdgroup of the kernel is a subgroup of the device."""
        return self.kernel.simd == self.target.simd and self.kernel.threads > 1

    @property
    def together(self) -> bool:
        """True when some threads of a group act together."""
        return self.opaque or any(op.name in COLLECTIVES for op in self.kernel.body.walk())

    @property
    def thread_index(self) -> int:
        """This thread's number in its group, from subgroup ids where lanes matter."""
        if self.kernel.threads == 1:
            return self.m.number(0)
        return self.once_named("thread_index", lambda: indices.of_thread(self))

    @property
    def group_index(self) -> int:
        """This group's number in the launch, the first axis fastest."""
        return self.once_named("group_index", lambda: indices.of_group(self))

    def once_named(self, name: str, make: Callable[[], int]) -> int:
        """A value made once, at the start of the function."""
        if name not in self._named:
            code: Words = []
            with self.m.into(code):
                self._named[name] = self.m.name(make(), name)
            self.prologue += code
        return self._named[name]

    # --- ops --------------------------------------------------------------------------------------

    @contextmanager
    def nested(self) -> Generator[None]:
        """What is written inside may be passed over, or more than once."""
        self.depth += 1
        yield
        self.depth -= 1

    def label(self, id: int) -> None:
        """Opens a block."""
        self.m.do(Code.Label, id)
        self.here = id

    def block(self, block: Block) -> None:
        """Every op of a block but its yield."""
        for op in block.ops:
            if op.name == "yield":
                continue
            self._line(op.loc)
            before = self.m.bound
            self.rules[op.name](self, op)
            self._title(op, before)

    def _line(self, loc: Loc | None) -> None:
        if loc is not None and loc != self._loc:
            self.m.place = (self.m.file(package_path(loc.file)), loc.line, loc.col + 1)
            self._loc = loc

    def _title(self, op: Op, before: int) -> None:
        """Results made by this op are called what the author called them."""
        for result in op.results:
            made = self.ids.get(result, 0)
            if result.name and made >= before:
                self.m.name(made, result.name)

    def set(self, op: Op, made: int) -> None:
        """The id of an op's only result."""
        self.ids[op.results[0]] = made

    # --- the whole --------------------------------------------------------------------------------

    def encode(self) -> Encoded:
        """Walks the body once and joins the sections."""
        m, kernel = self.m, self.kernel
        m.need(Capability.Shader)
        main = m.fresh()
        m.name(main, kernel.name)
        m.mode(main, Mode.LocalSize, kernel.threads * self.fold, 1, 1)
        void = m.once(Code.TypeVoid)
        start = m.fresh()
        self._parameters()
        self.here = start
        if self.fold > 1:
            where_there_is_one(self, lambda: self.block(kernel.body))
        else:
            self.block(kernel.body)
        m.do(Code.Return)
        m.do(Code.FunctionEnd)
        body, m.code = m.code, []
        m.do(Code.Function, void, main, 0, m.once(Code.TypeFunction, void))
        m.do(Code.Label, start)
        m.code += self.prologue + body
        float_modes(self, main)
        return Encoded(
            m.binary(main, kernel.name),
            kernel.name,
            self.block_of,
            self.bindings(),
            self.tables,
            self.shuffles and self.together,
            self.shared_bytes,
            self.fold,
        )

    def _parameters(self) -> None:
        touched = arguments.touched(self.kernel)
        written, shared = self._written(), aliased(self.kernel)
        for param, value in zip(self.kernel.params, self.kernel.body.params, strict=True):
            t = param.type
            if not isinstance(t, Tensor):
                if any(f.kind == param.role and f.name == param.name for f in self.block_of.fields):
                    self.ids[value] = self._scalar(param.role, param.name, t)
            elif param.name in touched:
                self.names[value] = param.name
                decorations: list[Decoration] = []
                if value not in written:
                    decorations.append(Decoration.NonWritable)
                elif self._exchanged(value) and not self.opaque:
                    decorations.append(Decoration.Coherent)
                if value in shared:
                    decorations.append(Decoration.Aliased)
                self._variables(value, param.name, t.elem, decorations)

    def _variables(
        self, value: Value, name: str, dtype: DType, decorations: list[Decoration]
    ) -> None:
        """A variable for the elements of a tensor, and one for each size of word it is moved in."""
        ops = (op for op in self.kernel.body.walk() if value in op.args)
        sizes = sorted({self.wide.get(op, 0) for op in ops})
        if len(sizes) > 1 and Decoration.Aliased not in decorations:
            decorations.append(Decoration.Aliased)
        for size in sizes:
            if size:
                made = self._seen(value, self.words(name, dtype, size))
                self.views[value, size] = made
            else:
                made = self.places[value] = self._seen(value, self.buffer(name, dtype))
            for decoration in decorations:
                self.m.decorate(made.variable, decoration)

    def _scalar(self, role: str, name: str, t: object) -> int:
        raw = self.argument(role, name)
        if isinstance(t, DType) and t.kind == "b":
            with self.m.into(self.prologue):
                return self.m.test(Code.INotEqual, raw, self.m.number(0))
        return raw

    def _written(self) -> set[Value]:
        return {op.args[0] for op in self.kernel.body.walk() if op.name in ("store", "atomic")}

    def _seen(self, value: Value, place: Place) -> Place:
        exchanged = self.opaque and value in self._written() and self._exchanged(value)
        return replace(place, seen=exchanged)

    def _exchanged(self, value: Value) -> bool:
        """True when threads may read what others wrote, behind a barrier."""
        names = {op.name for op in self.kernel.body.walk() if value in op.args}
        return "barrier" in {op.name for op in self.kernel.body.walk()} and "load" in names
