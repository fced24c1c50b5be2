"""The text form of a kernel: `print_kernel` and `parse_kernel` are inverses of each other.

    kernel "scale" rank 1 threads 32 simd 32 index i32
    tensor "x" in f32[?]
    tensor "y" out f32[?]
    dim "N" i32
    require "N > 0"
    host(%N: i32) {
      %0 = const i32 32
      %1 = floordiv %N, %0 : i32
      %2 = const i32 0
      %3 = gt %N, %2 : bool
      yield %1, %3
    }
    body(%x: in f32[?], %y: out f32[?], %N: i32) {
      %t = thread dtype=i32 : i32
      %0 = load %x, %t count=0 : f32
      store %y, %t, %0
    }

One op a line: results, name, operands, attributes by name, `exact`, `as "surface name"`, regions,
result types, `@ "file":line:col:end` with `<` before each call site. A value is `%name`, `%name#2`
where the name is used again, or `%7` without one. Floats are hexadecimal and NaNs show their bits,
so constants are exact; table data is hexadecimal bytes, and a list of numbers is `[4, 8]`. An
attribute that holds its default is left out. `//` starts a comment.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, cast

import numpy as np

from iron.dtypes import DType
from iron.errors import Loc
from iron.ir.core import Block, Kernel, Op, Value
from iron.ir.parse import parse_kernel

__all__ = ["constant", "digest", "parse_kernel", "print_kernel"]

_PLAIN = re.compile(r"[A-Za-z_][\w.]*\Z")


def print_kernel(kernel: Kernel, *, locs: bool = False) -> str:
    """The kernel as text; equal kernels give equal text. `locs` adds source places."""
    return _print(kernel, locs=locs, names=True)


def digest(kernel: Kernel) -> str:
    """The sha256 of what a kernel means: places, surface names and value names do not count."""
    text = _print(kernel, locs=False, names=False)
    return hashlib.sha256(text.encode()).hexdigest()


# --- printing -------------------------------------------------------------------------------------


def _print(k: Kernel, *, locs: bool, names: bool) -> str:
    each = " each" if k.each else ""
    lines = [
        f"kernel {json.dumps(k.name)} rank {k.rank} threads {k.threads} simd {k.simd} "
        f"index {k.index}{each}"
    ]
    lines += [
        f"{p.role} {json.dumps(p.name)} {p.type}{' partial' if p.partial else ''}" for p in k.params
    ]
    for rule in k.requires:
        place = f" @ {_loc(rule.loc)}" if locs and rule.loc is not None else ""
        lines.append(f"require {json.dumps(rule.message)}{place}")
    lines += [f"schedule {json.dumps(n)} {_attribute(v)}" for n, v in k.schedule]
    for title, block in (("host", k.host), ("body", k.body)):
        printer = _Printer(locs, names)
        lines.append(f"{title}{printer.parameters(block)} {{")
        printer.block(block, "  ")
        lines += [*printer.lines, "}"]
    return "\n".join(lines) + "\n"


class _Printer:
    """Prints one top block: numbers its values and collects the lines."""

    def __init__(self, locs: bool, names: bool) -> None:
        self.locs, self.names = locs, names
        self.lines: list[str] = []
        self.known: dict[Value, str] = {}
        self.used: dict[str, int] = {}

    def define(self, value: Value) -> str:
        if value.name and self.names:
            plain = value.name if _PLAIN.match(value.name) else json.dumps(value.name)
            count = self.used[plain] = self.used.get(plain, 0) + 1
            text = f"%{plain}" if count == 1 else f"%{plain}#{count}"
        else:
            number = self.used[""] = self.used.get("", -1) + 1
            text = f"%{number}"
        self.known[value] = text
        return text

    def parameters(self, block: Block) -> str:
        return "(" + ", ".join(f"{self.define(p)}: {p.type}" for p in block.params) + ")"

    def block(self, block: Block, pad: str) -> None:
        for op in block.ops:
            self.op(op, pad)

    def op(self, op: Op, pad: str) -> None:
        """Operands are named before results, and regions lie between."""
        call = self._call(op)
        row = len(self.lines)
        self.lines.append("")
        for region in op.regions:
            self.lines[-1] += f" {self.parameters(region)} {{" if region.params else " {"
            self.block(region, pad + "  ")
            self.lines.append(pad + "}")
        results = ", ".join([self.define(r) for r in op.results])
        self.lines[row] = f"{pad}{results}{' = ' if results else ''}{call}{self.lines[row]}"
        if op.results and op.name != "const":
            self.lines[-1] += " : " + ", ".join([repr(r.type) for r in op.results])
        if self.locs and op.loc is not None:
            self.lines[-1] += f" @ {_loc(op.loc)}"

    def _call(self, op: Op) -> str:
        if op.name == "const":
            parts = [f"const {op.attrs[1]} {constant(op.attrs[0], op.attrs[1])}"]
        else:
            operands = ", ".join([self.known[a] for a in op.args])
            parts = [f"{op.name} {operands}" if operands else op.name]
            parts += [f"{n}={_attribute(a)}" for n, a in _shown(op)]
        if op.exact:
            parts.append("exact")
        if self.names and op.surface != op.name:
            parts.append(f"as {json.dumps(op.surface)}")
        return " ".join(parts)


def _shown(op: Op) -> list[tuple[str, Any]]:
    """The attributes without those at the end that hold their defaults."""
    row, shown = op.row, list(zip(op.row.attrs, op.attrs, strict=True))
    for default in reversed(row.defaults):
        if shown[-1][1] != default:
            break
        shown.pop()
    return shown


def constant(value: Any, dtype: DType) -> str:
    """A numpy scalar, exactly."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    if value != value:
        return f"nan.{int(np.asarray(value).view(f'u{dtype.bytes}')):x}"
    return float(value).hex()


def _attribute(a: Any) -> str:
    if isinstance(a, bool):
        return "true" if a else "false"
    if isinstance(a, bytes):
        return f'hex"{a.hex()}"'
    if isinstance(a, tuple):
        return "[" + ", ".join(map(_attribute, cast("tuple[Any, ...]", a))) + "]"
    return json.dumps(a) if isinstance(a, str) else str(a)


def _loc(loc: Loc) -> str:
    spans = (loc, *loc.chain())
    return " < ".join(f"{json.dumps(s.file)}:{s.line}:{s.col}:{s.end}" for s in spans)
