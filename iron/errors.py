"""Diagnostics: one record, one formatter, one catalogue of ids; nothing here knows a compiler.

Every error a user can meet carries an id, the user's line with a caret, the call chain and one
line of help. Ids: E01 syntax, E02 types and shapes, E03 uniformity and launch, E04 memory,
E05 budget, E06 target cannot, E07 host call, E08 tools and files, E09 internal.
"""

from __future__ import annotations

import linecache
from dataclasses import dataclass, field
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class Loc:
    """A span of the user's source: 1-based `line`, 0-based `col` to `end` on that line.

    `caller` is the call site when the span lies in an inlined function.
    """

    file: str
    line: int
    col: int = 0
    end: int = 0
    caller: Loc | None = None

    def chain(self) -> tuple[Loc, ...]:
        """The call sites from the innermost caller outwards."""
        out: list[Loc] = []
        at = self.caller
        while at is not None:
            out.append(at)
            at = at.caller
        return tuple(out)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: what is wrong, where, why, and what to do."""

    id: str
    message: str
    loc: Loc | None = None
    kernel: str = ""
    notes: tuple[str, ...] = field(default=())
    help: str = ""

    def text(self) -> str:
        """The finding as the user reads it."""
        lines = [f"error[{self.id}]: {self.message}"]
        width = 2
        if self.loc is not None:
            width = len(str(self.loc.line))
            lines += _excerpt(self.loc, self.kernel, width)
        pad = " " * width
        lines += [f"{pad} = note: {note}" for note in self.notes]
        if self.help:
            lines.append(f"{pad} = help: {self.help}")
        return "\n".join(lines)


def _excerpt(loc: Loc, kernel: str, width: int) -> list[str]:
    pad = " " * width
    source = linecache.getline(loc.file, loc.line).rstrip("\n")
    where = f"{PurePath(loc.file).name}:{loc.line}:{loc.col + 1}"
    lines = [f"{pad}--> {where}" + (f" in kernel {kernel}" if kernel else "")]
    if source:
        end = loc.end if loc.end > loc.col else len(source.rstrip())
        lead = "".join("\t" if c == "\t" else " " for c in source[: loc.col])
        lines += [
            f"{pad} |",
            f"{loc.line} | {source}",
            f"{pad} | {lead}{'^' * max(1, end - loc.col)}",
        ]
    for site in loc.chain():
        call = linecache.getline(site.file, site.line).strip()
        lines.append(f"{pad} = note: called from {PurePath(site.file).name}:{site.line}: {call}")
    return lines


class KernelError(Exception):
    """A diagnostic raised: wrong kernel source, wrong call, or a fault found while running."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.text())
        self.diagnostic = diagnostic

    @property
    def id(self) -> str:
        """The catalogue id, such as `E0312`."""
        return self.diagnostic.id

    def __reduce__(self) -> tuple[type[KernelError], tuple[Diagnostic]]:
        return (KernelError, (self.diagnostic,))


def error(
    id: str,
    message: str,
    loc: Loc | None = None,
    kernel: str = "",
    notes: tuple[str, ...] = (),
    help: str = "",
) -> KernelError:
    """A `KernelError` ready to raise; `id` must be in the catalogue."""
    if id not in CATALOGUE:
        raise KeyError(f"error id {id} is not in the catalogue")
    return KernelError(Diagnostic(id, message, loc, kernel, notes, help))


CATALOGUE: dict[str, str] = {
    # E01 syntax
    "E0101": "statement or expression outside the language",
    "E0102": "target that cannot be assigned",
    "E0103": "return inside a run-time branch or loop",
    "E0104": "break in a place the language does not allow",
    "E0105": "name is not defined, or is not usable in a kernel",
    "E0106": "loop step is not a constant of at least one",
    "E0107": "mutable global",
    "E0108": "source of the function cannot be found",
    "E0109": "and, or, not and chained comparisons of run-time values",
    "E0110": "a compile-time call failed",
    "E0111": "recursion of an inlined function",
    "E0112": "method that changes a compile-time object in place",
    "E0113": "language function called with wrong arguments",
    "E0114": "declaration of a kernel parameter is wrong",
    # E02 types and shapes
    "E0201": "operand types do not fit the operation",
    "E0202": "literal does not fit the other operand",
    "E0203": "name has no single value here",
    "E0204": "object cannot be used as a run-time value",
    "E0205": "list has a second name",
    "E0206": "condition is not bool or an integer",
    "E0207": "a compile-time integer is needed",
    "E0208": "wrong number of indices, or wrong index",
    "E0209": "slice whose length is not known where it must be",
    "E0210": "vector length",
    "E0211": "constant shift count out of range",
    "E0212": "tile side, or tile shapes that do not meet",
    # E03 uniformity and launch
    "E0301": "threads is not legal for the target",
    "E0302": "launch statement missing or misplaced",
    "E0303": "second launch statement",
    "E0304": "width of a collective",
    "E0305": "collective in an each kernel",
    "E0306": "tiles and threads in one kernel",
    "E0307": "a tile op on a value that differs between threads",
    "E0312": "collective reached by some threads only",
    # E04 memory
    "E0401": "store to a read-only parameter",
    "E0402": "uninitialised element",
    "E0403": "shared memory declared in a run-time region",
    "E0404": "index outside the tensor",
    "E0405": "atomic on a type or memory that has none",
    "E0406": "pipelined loop that writes what it reads early",
    "E0407": "tile that two groups write",
    "E0410": "race between two threads",
    # E05 budget
    "E0501": "shared memory does not fit the target",
    "E0502": "memory of the device is full",
    # E06 target
    "E0601": "operation does not accept this format",
    "E0602": "target lacks a feature",
    "E0603": "backend is not available on this machine",
    # E07 host call
    "E0701": "argument has a wrong dtype, rank, dimension or layout",
    "E0702": "requirement failed",
    "E0703": "argument missing, unknown or given twice",
    "E0704": "arguments overlap in memory",
    "E0705": "arguments live on different devices",
    "E0707": "no way to compute a size or constant from the arguments",
    # E08 tools and files
    "E0801": "file cannot be read as what it claims to be",
    "E0802": "file cannot be written",
    "E0803": "configuration is wrong",
    "E0804": "format cannot be encoded",
    "E0805": "figures would belong to no commit",
    # E09 internal
    "E0901": "internal error",
}
