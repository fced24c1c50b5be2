"""A SPIR-V module being written: sections as lists of words, joined at the end.

Types, constants and built-in inputs exist once; a capability or an extended instruction set is
declared by the instruction that needs it. This file knows SPIR-V and nothing of kernels.
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from iron.backends.spirv.words import (
    GLCOMPUTE,
    GLSL450,
    LOGICAL,
    MAGIC,
    VERSION,
    VULKAN,
    BuiltIn,
    Capability,
    Code,
    Decoration,
    Glsl,
    Mode,
    Storage,
)

Words = list[int]


def text_words(text: str) -> Words:
    """A literal string: UTF-8, closed by at least one zero byte."""
    raw = text.encode() + b"\0"
    raw += b"\0" * (-len(raw) % 4)
    return list(struct.unpack(f"<{len(raw) // 4}I", raw))


def instruction(code: Code, operands: Sequence[int]) -> Words:
    """One instruction; its first word holds the length and the opcode."""
    return [(len(operands) + 1) << 16 | code, *operands]


@dataclass(slots=True)
class Module:
    """The sections so far. `code` is the stream that instructions of the function go to.

    `place` is the file, line and column that the next instruction with a result is from, or None
    where that is said already.
    """

    capabilities: dict[Capability, None] = field(default_factory=dict[Capability, None])
    extensions: dict[str, None] = field(default_factory=dict[str, None])
    modes: Words = field(default_factory=Words)
    strings: Words = field(default_factory=Words)
    names: Words = field(default_factory=Words)
    decorations: Words = field(default_factory=Words)
    declarations: Words = field(default_factory=Words)
    code: Words = field(default_factory=Words)
    interface: list[int] = field(default_factory=list[int])
    types: dict[int, int] = field(default_factory=dict[int, int])
    place: tuple[int, int, int] | None = None
    bound: int = 1
    _once: dict[tuple[int, ...], int] = field(default_factory=dict[tuple[int, ...], int])
    _inputs: dict[BuiltIn, int] = field(default_factory=dict[BuiltIn, int])
    _files: dict[str, int] = field(default_factory=dict[str, int])
    _titled: set[int] = field(default_factory=set[int])
    _glsl: int = 0

    def fresh(self) -> int:
        """An id that nothing else has."""
        self.bound += 1
        return self.bound - 1

    # --- the module -------------------------------------------------------------------------------

    def need(self, *capabilities: Capability) -> None:
        """Declares capabilities."""
        self.capabilities.update(dict.fromkeys(capabilities))

    def extend(self, extension: str) -> None:
        """Declares an extension."""
        self.extensions[extension] = None

    def name(self, target: int, text: str) -> int:
        """Gives an id a name, for people; the first one stays. Returns the id."""
        if text and target not in self._titled:
            self._titled.add(target)
            self.names += instruction(Code.Name, [target, *text_words(text)])
        return target

    def decorate(self, target: int, decoration: Decoration, *operands: int) -> int:
        """Decorates an id and returns it."""
        self.decorations += instruction(Code.Decorate, [target, decoration, *operands])
        return target

    def member(self, struct_: int, number: int, offset: int, name: str) -> None:
        """Places and names a member of a structure."""
        self.decorations += instruction(
            Code.MemberDecorate, [struct_, number, Decoration.Offset, offset]
        )
        self.names += instruction(Code.MemberName, [struct_, number, *text_words(name)])

    def file(self, path: str) -> int:
        """The id of a source file."""
        if path not in self._files:
            self._files[path] = self.fresh()
            self.strings += instruction(Code.String, [self._files[path], *text_words(path)])
        return self._files[path]

    # --- types, constants, variables --------------------------------------------------------------

    def once(self, code: Code, *operands: int, of: int = 0) -> int:
        """A type, or with `of` a constant of that type: the same id for the same operands."""
        key = (code, of, *operands)
        found = self._once.get(key)
        if found is None:
            found = self._once[key] = self.declare(code, *operands, of=of)
        return found

    def declare(self, code: Code, *operands: int, of: int = 0) -> int:
        """A type or constant of its own."""
        made = self.fresh()
        head = [of, made] if of else [made]
        self.declarations += instruction(code, [*head, *operands])
        if of:
            self.types[made] = of
        return made

    @property
    def bool(self) -> int:
        """The type of truth values."""
        return self.once(Code.TypeBool)

    @property
    def f32(self) -> int:
        """The type of 32-bit floats."""
        return self.once(Code.TypeFloat, 32)

    @property
    def f64(self) -> int:
        """The type of 64-bit floats."""
        self.need(Capability.Float64)
        return self.once(Code.TypeFloat, 64)

    @property
    def u32(self) -> int:
        """The type of 32-bit integers; signs belong to instructions, not to types."""
        return self.once(Code.TypeInt, 32, 0)

    @property
    def u64(self) -> int:
        """The type of 64-bit integers."""
        self.need(Capability.Int64)
        return self.once(Code.TypeInt, 64, 0)

    @property
    def pair(self) -> int:
        """The type of two 32-bit integers."""
        return self.once(Code.TypeVector, self.u32, 2)

    def pointer(self, storage: Storage, to: int) -> int:
        """A pointer type."""
        return self.once(Code.TypePointer, storage, to)

    def number(self, value: int, type: int = 0) -> int:
        """An integer constant, 32 bits wide unless `type` is the 64-bit type."""
        type = type or self.u32
        words = [value & 0xFFFFFFFF]
        if type != self.u32:
            words.append(value >> 32 & 0xFFFFFFFF)
        return self.once(Code.Constant, *words, of=type)

    def real(self, value: float) -> int:
        """A 32-bit float constant."""
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
        return self.once(Code.Constant, bits, of=self.f32)

    def real64(self, value: float) -> int:
        """A 64-bit float constant."""
        return self.once(
            Code.Constant, *struct.unpack("<II", struct.pack("<d", value)), of=self.f64
        )

    def truth(self, value: bool) -> int:
        """A constant of the type bool."""
        return self.once(Code.ConstantTrue if value else Code.ConstantFalse, of=self.bool)

    def variable(self, storage: Storage, to: int, name: str) -> int:
        """A variable of the module, part of its interface."""
        made = self.declare(Code.Variable, storage, of=self.pointer(storage, to))
        self.interface.append(made)
        return self.name(made, name)

    def input(self, which: BuiltIn) -> int:
        """The variable of a built-in input: a number, or three of a group."""
        if which not in self._inputs:
            wide = which in (BuiltIn.WorkgroupId, BuiltIn.NumWorkgroups)
            type = self.once(Code.TypeVector, self.u32, 3) if wide else self.u32
            made = self.variable(Storage.Input, type, which.name)
            self._inputs[which] = self.decorate(made, Decoration.BuiltIn, which)
        return self._inputs[which]

    # --- the function -----------------------------------------------------------------------------

    def do(self, code: Code, *operands: int) -> None:
        """An instruction without a result."""
        self.code += instruction(code, operands)

    def put(self, code: Code, type: int, *operands: int) -> int:
        """An instruction with a result."""
        made = self.fresh()
        self.types[made] = type
        if self.place is not None:
            self.code += instruction(Code.Line, self.place)
            self.place = None
        self.code += instruction(code, [type, made, *operands])
        return made

    def op(self, code: Code, *operands: int) -> int:
        """An instruction whose result has the type of its last operand."""
        return self.put(code, self.types[operands[-1]], *operands)

    def test(self, code: Code, *operands: int) -> int:
        """An instruction whose result is a bool."""
        return self.put(code, self.bool, *operands)

    def select(self, condition: int, a: int, b: int) -> int:
        """a where the condition holds, else b."""
        return self.op(Code.Select, condition, a, b)

    def exact(self, made: int) -> int:
        """Keeps a float instruction from being contracted with another."""
        return self.decorate(made, Decoration.NoContraction)

    def glsl(self, which: Glsl, *operands: int) -> int:
        """An extended instruction whose result has the type of its operands."""
        if not self._glsl:
            self._glsl = self.fresh()
        return self.put(Code.ExtInst, self.types[operands[-1]], self._glsl, which, *operands)

    def load(self, pointer: int, type: int) -> int:
        """What a pointer points to."""
        return self.put(Code.Load, type, pointer)

    @contextmanager
    def into(self, code: Words) -> Generator[None]:
        """Sends instructions to another stream for a while."""
        before, self.code = (self.code, self.place), code
        self.place = None
        yield
        self.code, self.place = before

    # --- the whole --------------------------------------------------------------------------------

    def mode(self, main: int, mode: Mode, *operands: int) -> None:
        """An execution mode of the entry point."""
        self.modes += instruction(Code.ExecutionMode, [main, mode, *operands])

    def binary(self, main: int, name: str) -> bytes:
        """The module with the entry point `main`; `code` holds the whole function."""
        words: Words = [MAGIC, VERSION, 0, self.bound, 0]
        for capability in self.capabilities:
            words += instruction(Code.Capability, [capability])
        for extension in self.extensions:
            words += instruction(Code.Extension, text_words(extension))
        if self._glsl:
            words += instruction(Code.ExtInstImport, [self._glsl, *text_words("GLSL.std.450")])
        newer = Capability.VulkanMemoryModel in self.capabilities
        words += instruction(Code.MemoryModel, [LOGICAL, VULKAN if newer else GLSL450])
        entry = [GLCOMPUTE, main, *text_words(name), *self.interface]
        words += instruction(Code.EntryPoint, entry)
        words += self.modes + self.strings + self.names + self.decorations + self.declarations
        words += self.code
        return struct.pack(f"<{len(words)}I", *words)
