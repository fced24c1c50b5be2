"""The parser of a kernel's text form, which `text` describes and prints."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from iron.dtypes import DTYPES, DType
from iron.errors import KernelError, Loc, error
from iron.ir import ops as _rows  # noqa: F401  # pyright: ignore[reportUnusedImport]  fills the table
from iron.ir import scalar
from iron.ir.core import Block, Kernel, Op, Param, Require, Value
from iron.ir.table import TABLE, OpTypeError
from iron.ir.types import PARAMETER_SPACES, Tensor, Type, matrix, tensor, tile, vector

__all__ = ["parse_kernel"]


def parse_kernel(text: str) -> Kernel:
    """The kernel that `text` describes; E0801 with the line where it is not one."""
    return _Parser(text).kernel()


_STRING = r'"(?:[^"\\\n]|\\.)*"'
_TOKENS = re.compile(
    rf"""(?P<skip>[ \t\r]+|//[^\n]*)
    |(?P<end>\n)
    |(?P<bytes>hex"[0-9a-f]*")
    |(?P<string>{_STRING})
    |(?P<value>%(?:\d+|[A-Za-z_][\w.]*|{_STRING})(?:\#\d+)?)
    |(?P<number>nan\.[0-9a-f]+|[-+]?(?:0x[0-9a-f.]+p[-+]?\d+|\d+|inf\b))
    |(?P<word>[A-Za-z_]\w*)
    |(?P<mark>[](){{}}[,:=@<?])""",
    re.VERBOSE,
)

Token = tuple[str, str, int]


def _exactly(value: float, dtype: DType) -> Any:
    """`value` in `dtype`; ValueError when it is between two of its numbers."""
    with scalar.quiet():
        held = np.float32(value).astype(dtype.np)
    if float(held) != value:
        raise ValueError("a constant is exact")
    return held


def _fail(message: str, line: int) -> KernelError:
    return error("E0801", f"line {line} of the kernel text: {message}")


def _tokens(text: str) -> list[Token]:
    out: list[Token] = []
    at, line = 0, 1
    while at < len(text):
        found = _TOKENS.match(text, at)
        if found is None:
            raise _fail(f"unexpected {text[at]!r}", line)
        kind = found.lastgroup or ""
        if kind != "skip":
            out.append((kind, found.group(), line))
        line += kind == "end"
        at = found.end()
    return [*out, ("end", "\n", line), ("stop", "the end", line)]


class _Parser:
    """One parse: a list of tokens, a place in it, and the values in scope."""

    def __init__(self, text: str) -> None:
        self.tokens = _tokens(text)
        self.at = 0
        self.values: dict[str, Value] = {}

    # tokens

    @property
    def line(self) -> int:
        return self.tokens[self.at][2]

    def next(self, kind: str) -> str:
        """The text of the next token, which is of this kind."""
        have, text, line = self.tokens[self.at]
        if have != kind:
            raise _fail(f"expected a {kind}, found {text!r}", line)
        self.at += 1
        return text

    def peek(self, text: str) -> bool:
        return self.tokens[self.at][1] == text and self.tokens[self.at][0] != "string"

    def take(self, text: str) -> bool:
        """True, and moves on, when the next token is `text`."""
        if not self.peek(text):
            return False
        self.at += 1
        return True

    def need(self, text: str) -> None:
        if not self.take(text):
            raise _fail(f"expected {text!r}, found {self.tokens[self.at][1]!r}", self.line)

    def lines(self) -> None:
        while self.take("\n"):
            pass

    def string(self) -> str:
        return str(json.loads(self.next("string")))

    def integer(self) -> int:
        text, line = self.next("number"), self.line
        try:
            return int(text)
        except ValueError:
            raise _fail(f"{text} is not an integer", line) from None

    def listed(self, close: str) -> Iterator[int]:
        """Turns of a comma-separated list up to `close`, which is taken."""
        turn = 0
        while not self.take(close):
            if turn:
                self.need(",")
            yield turn
            turn += 1

    # types and attributes

    def dtype(self) -> DType:
        word, line = self.next("word"), self.line
        if word not in DTYPES:
            raise _fail(f"no dtype is called {word}", line)
        return DTYPES[word]

    def type(self) -> Type:
        word, line = self.next("word"), self.line
        if word in DTYPES:
            return DTYPES[word]
        elem, x, count = word.rpartition("x")
        if x and elem in DTYPES and count.isdecimal():
            return vector(DTYPES[elem], int(count))
        if word == "tile":
            return self.tile(line)
        if word == "matrix":
            return self.matrix(line)
        if word not in (*PARAMETER_SPACES, "shared", "table", "registers"):
            raise _fail(f"no type begins with {word}", line)
        return self.tensor(word)

    def tensor(self, space: str) -> Tensor:
        elem = self.dtype()
        self.need("[")
        rank, shape = 0, list[int]()
        for _ in self.listed("]"):
            rank += 1
            if not self.take("?"):
                shape.append(self.integer())
        return tensor(elem, rank, space, tuple(shape), not self.take("strided"))

    def tile(self, line: int) -> Type:
        elem = self.dtype()
        try:
            return tile(elem, self.numbers())
        except ValueError as problem:
            raise _fail(str(problem), line) from problem

    def matrix(self, line: int) -> Type:
        elem, sides = self.dtype(), self.numbers()
        try:
            rows, columns = sides
            return matrix(elem, rows, columns, self.next("word"))
        except ValueError as problem:
            raise _fail(str(problem), line) from problem

    def numbers(self) -> tuple[int, ...]:
        """`[4, 8]`."""
        self.need("[")
        return tuple(self.integer() for _ in self.listed("]"))

    def attribute(self) -> Any:
        kind, text, _ = self.tokens[self.at]
        if text == "[" and kind == "mark":
            self.at += 1
            return tuple(self.attribute() for _ in self.listed("]"))
        if kind == "number":
            return self.integer()
        if kind == "string":
            return self.string()
        if kind == "bytes":
            return bytes.fromhex(self.next("bytes")[4:-1])
        if text in ("true", "false"):
            return self.next("word") == "true"
        return self.type()

    def constant(self, dtype: DType) -> Any:
        if dtype.kind == "b":
            return np.bool_(self.next("word") == "true")
        line, text = self.line, self.next("number")
        try:
            if dtype.is_integer:
                return dtype.np.type(int(text))
            if text.startswith("nan."):
                return np.array(int(text[4:], 16), f"u{dtype.bytes}").view(dtype.np)[()]
            return _exactly(float.fromhex(text), dtype)
        except (ValueError, OverflowError) as problem:
            raise _fail(f"{text} is no {dtype}", line) from problem

    def loc(self) -> Loc | None:
        if not self.take("@"):
            return None
        return self.span()

    def span(self) -> Loc:
        file, numbers = self.string(), list[int]()
        for _ in range(3):
            self.need(":")
            numbers.append(self.integer())
        caller = self.span() if self.take("<") else None
        return Loc(file, *numbers, caller=caller)

    # blocks and ops

    def define(self, text: str, value: Value) -> None:
        if text in self.values:
            raise _fail(f"{text} is defined twice", self.line)
        name = text[1:].rpartition("#")[0] or text[1:]
        value.name = "" if name.isdecimal() else json.loads(name) if name[0] == '"' else name
        self.values[text] = value

    def use(self) -> Value:
        text = self.next("value")
        if text not in self.values:
            raise _fail(f"{text} is not defined", self.line)
        return self.values[text]

    def block(self) -> Block:
        params: list[Value] = []
        if self.take("("):
            for _ in self.listed(")"):
                text = self.next("value")
                self.need(":")
                params.append(Value(self.type()))
                self.define(text, params[-1])
        block = Block(tuple(params))
        self.need("{")
        self.lines()
        while not self.take("}"):
            block.ops.append(self.op())
            self.lines()
        return block

    def op(self) -> Op:
        line, results = self.line, list[str]()
        while self.tokens[self.at][0] == "value":
            results.append(self.next("value"))
            self.need("=" if not self.peek(",") else ",")
        name = self.next("word")
        if name not in TABLE:
            raise _fail(f"no op is called {name}", line)
        op = self.call(name, line)
        if len(results) != len(op.results):
            raise _fail(f"{name} has {len(op.results)} results, not {len(results)}", line)
        for text, value in zip(results, op.results, strict=True):
            self.define(text, value)
        return op

    def call(self, name: str, line: int) -> Op:
        args, attrs = self.operands(name)
        exact = self.take("exact")
        surface = self.string() if self.take("as") else ""
        regions: list[Block] = []
        while self.peek("(") or self.peek("{"):
            regions.append(self.block())
        types = self.types()
        try:
            op = Op(TABLE[name], args, attrs, tuple(regions), self.loc(), exact, surface)
        except (OpTypeError, ValueError, IndexError) as problem:
            raise _fail(f"{name}: {problem}", line) from problem
        if types is not None and types != [r.type for r in op.results]:
            raise _fail(f"{name} gives {[r.type for r in op.results]}, not {types}", line)
        self.need("\n")
        return op

    def operands(self, name: str) -> tuple[tuple[Value, ...], tuple[Any, ...]]:
        if name == "const":
            dtype = self.dtype()
            return (), (self.constant(dtype), dtype)
        args: list[Value] = []
        while self.tokens[self.at][0] == "value":
            args.append(self.use())
            if not self.take(","):
                break
        attrs: list[Any] = []
        row = TABLE[name]
        for at, wanted in enumerate(row.attrs):
            if at >= len(row.attrs) - len(row.defaults) and not self.peek(wanted):
                break
            self.need(wanted)
            self.need("=")
            attrs.append(self.attribute())
        return tuple(args), tuple(attrs)

    def types(self) -> list[Type] | None:
        if not self.take(":"):
            return None
        out = [self.type()]
        while self.take(","):
            out.append(self.type())
        return out

    # the kernel

    def kernel(self) -> Kernel:
        self.lines()
        self.need("kernel")
        name = self.string()
        rank, threads, simd = (self.numbered(w) for w in ("rank", "threads", "simd"))
        self.need("index")
        index, each = self.dtype(), self.take("each")
        self.lines()
        params, requires, schedule = self.header()
        host = self.top("host")
        body = self.top("body")
        self.next("stop")
        return Kernel(
            name, params, body, host, rank, threads, simd, requires, index, each, schedule
        )

    def numbered(self, word: str) -> int:
        self.need(word)
        return self.integer()

    def header(
        self,
    ) -> tuple[tuple[Param, ...], tuple[Require, ...], tuple[tuple[str, Any], ...]]:
        params, requires, schedule = list[Param](), list[Require](), list[tuple[str, Any]]()
        while not self.peek("host"):
            role = self.next("word")
            if role == "require":
                requires.append(Require(self.string(), self.loc()))
            elif role == "schedule":
                schedule.append((self.string(), self.attribute()))
            elif role in ("tensor", "scalar", "dim"):
                params.append(Param(self.string(), role, self.type(), self.take("partial")))
            else:
                raise _fail(f"unexpected {role}", self.line)
            self.lines()
        return tuple(params), tuple(requires), tuple(schedule)

    def top(self, title: str) -> Block:
        self.need(title)
        self.values = {}
        block = self.block()
        self.lines()
        return block
