"""What differs between C-style languages, as data; the renderer asks it and nothing else.

In every dialect Iron's dtypes are type names (`f32 x`, `u8 code`), given by typedefs, so the body
of a kernel reads the same everywhere. Storage floats are their bits.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from iron.dtypes import DType
from iron.ir.core import Kernel, Op
from iron.ir.types import Type

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of the entry point: a pointer to `dtype`, a value of it, or a tensor map."""

    name: str
    dtype: DType
    pointer: bool = False
    written: bool = False
    mapped: bool = False


@dataclass(frozen=True, slots=True)
class Dialect:
    """A C-style language.

    `typedefs` names Iron's dtypes. `functions` maps the names that rendered text may call to their
    definitions; only those a kernel reaches are printed, in this order. `entry` prints the opening
    of the kernel from its symbol, arguments and facts. `shared` and `constant` qualify declarations
    of group memory and tables, `barrier` is the statement. `hold` is one past which no load above
    it moves, for assemblers that put loads where their values are used. `thread` and `group` are
    this thread's and this group's number; `{simd}` in `thread` stands for the simd width. `pointer`
    prints the type of a pointer into memory of a space. `counts` is the type in which group numbers
    are divided by launch extents. `most_declared` is the group memory in bytes that a kernel may
    declare, where the launch must be asked for more; 0 where there is no such limit. `spelled`
    names the type of a value. `rules` print the ops that this language alone has.
    """

    name: str
    typedefs: str
    functions: Mapping[str, str]
    entry: Callable[[str, Sequence[Argument], Kernel], list[str]]
    thread: str
    group: str
    shared: str
    constant: str
    barrier: str
    pointer: Callable[[str, DType], str]
    hold: str = ""
    long_suffix: str = "ll"
    counts: str = "i64"
    most_declared: int = 0
    keywords: frozenset[str] = frozenset()
    spelled: Callable[[Type], str] = str
    rules: Mapping[str, Callable[[Renderer, Op], None]] = field(
        default_factory=lambda: MappingProxyType({})
    )

    def prelude(self, text: str) -> str:
        """The typedefs and the functions that `text` calls, directly or not."""
        wanted = self._reached(text)
        chosen = [body for name, body in self.functions.items() if name in wanted]
        return "\n".join([self.typedefs.strip(), *(body.strip() for body in chosen)])

    def _reached(self, text: str) -> set[str]:
        found: set[str] = set()
        waiting = list(_called(text))
        while waiting:
            name = waiting.pop()
            if name in self.functions and name not in found:
                found.add(name)
                waiting += _called(self.functions[name])
        return found


def _called(text: str) -> Iterable[str]:
    return set(re.findall(r"\biron_\w+", text))
