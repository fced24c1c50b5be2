"""The driver of every text backend: renders a kernel, compiles the text for fibres, launches it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iron.backends import clang
from iron.backends.clike.render import Text, render
from iron.backends.cpu.entry import symbol_of
from iron.backends.cuda_code import Field, fields
from iron.dtypes import DType
from iron.errors import KernelError, Loc, error
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.ir.text import digest
from iron.ir.types import Tensor
from iron.passes.scalarise import scalarise
from iron.runtime.cache import Cache
from iron.runtime.drivers.host import HostDriver
from iron.shims import build
from iron.shims.fibres import Fault, Order, fibres
from iron.shims.guarded import Guarded, guard
from iron.shims.lines import line_of
from iron.shims.unit import Vocabulary, unit
from iron.targets.target import Target

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Unit:
    """Kernels compiled together; `source` is kept to find the line of a fault."""

    source: str
    library: ctypes.CDLL

    def kernel(self, number: int) -> int:
        """The address of a kernel's record."""
        record = ctypes.c_char.in_dll(self.library, f"fibre_kernel_{number}")
        return ctypes.addressof(record)


@dataclass(frozen=True, slots=True)
class Choice:
    """A text of a kernel, its number in the unit, and what a launch must give it.

    `aligned`, `unit` and `regrouped` are those of a form of the CUDA backend.
    """

    kernel: Kernel
    text: Text
    number: int = 0
    aligned: Mapping[str, int] = field(default_factory=dict[str, int])
    unit: frozenset[str] = frozenset()
    regrouped: bool = False

    def fits(self, copies: Mapping[str, Guarded]) -> bool:
        """True when the arrays lie as the text needs them."""
        return all(copies[n].aligned(size) for n, size in self.aligned.items()) and all(
            copies[n].straight for n in self.unit
        )


@dataclass(frozen=True, slots=True)
class TextExecutable:
    """A kernel's texts, compiled; each launch runs one on guarded copies of its arrays."""

    kernel: Kernel
    choices: tuple[Choice, ...]
    unit: Unit
    order: Order

    def bind(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> Callable[[], None]:
        """A launch. Errors, when it runs: E0312 where threads part, E0404 outside an array."""
        groups = math.prod(grid)

        def launch() -> None:
            if groups > 0:
                self._launch(arrays, scalars, dims, grid)

        return launch

    def _launch(
        self,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> None:
        runtime = fibres()
        copies = {name: guard(runtime, array) for name, array in arrays.items()}
        try:
            chosen, grid = self.chosen(copies, scalars, dims, grid)
            words = argument_words(chosen.kernel, copies, scalars, dims, grid)
            fault = runtime.run(
                self.unit.kernel(chosen.number),
                words.ctypes.data,
                math.prod(grid),
                chosen.kernel.simd,
                chosen.kernel.threads,
                self.order,
            )
            if fault is not None:
                raise self.error(fault, copies)
            for name, copy in copies.items():
                spoilt = copy.spoilt()
                if spoilt is not None:
                    raise self._beside(name, copy, spoilt)
            for param in self.kernel.params:
                if isinstance(param.type, Tensor) and param.type.space != "in":
                    copies[param.name].back()
        finally:
            mappings = [copy.mapping for copy in copies.values()]
            copies.clear()
            for mapping in mappings:
                runtime.unmap(*mapping)

    def chosen(
        self,
        copies: Mapping[str, Guarded],
        scalars: Mapping[str, Any],
        dims: Mapping[str, int],
        grid: tuple[int, ...],
    ) -> tuple[Choice, tuple[int, ...]]:
        """The first text that these arguments allow, and its grid."""
        for choice in self.choices:
            if not choice.fits(copies):
                continue
            if not choice.regrouped:
                return choice, grid
            extents, failed = evaluate(choice.kernel, scalars, dims)
            if not failed:
                return choice, extents
        raise AssertionError("the last text takes everything")

    def error(self, fault: Fault, copies: Mapping[str, Guarded]) -> KernelError:
        """What a fault means to the author of the kernel."""
        if fault.kind == "parted":
            return self._parted(fault)
        name = self.kernel.name
        loc = line_of(self.unit.source, fault.code)
        who = f"thread {fault.threads[0]} of group {fault.group}"
        if fault.kind == "outside":
            near = next((n for n, c in copies.items() if c.near(fault.address)), None)
            where = f"outside `{near}`" if near else "in memory that no argument has"
            if near:
                where += f", {_distance(copies[near], fault.address)}"
            return error("E0404", f"{who} touches memory {where}", loc, name)
        if fault.kind == "stack":
            return error("E0901", f"{who} ran out of stack", loc, name)
        return error(
            "E0404",
            f"{who} left a shared array, or did what C leaves undefined",
            loc,
            name,
            help="the index of the array on this line is outside it",
        )

    def _parted(self, fault: Fault) -> KernelError:
        first, other = (
            f"thread {t} waits {s}" + (f" ({_line(p)})" if p and "waits" else "")
            if s != "at the end"
            else f"thread {t} has returned"
            for t, s, p in zip(fault.threads, fault.states, fault.places, strict=True)
        )
        return error(
            "E0312",
            f"threads of group {fault.group} wait for each other in different places",
            fault.places[0] or fault.places[1],
            self.kernel.name,
            (first, other),
            "every thread must reach the same barrier or collective",
        )

    def _beside(self, name: str, copy: Guarded, spoilt: int) -> KernelError:
        at = _distance(copy, copy.address + spoilt)
        return error("E0404", f"a thread wrote outside `{name}`, {at}", None, self.kernel.name)


def _renamed(text: Text, number: int) -> Text:
    """The forms of a kernel have one symbol, and a unit holds them all."""
    symbol = f"{text.symbol}_{number}"
    return replace(text, symbol=symbol, body=text.body.replace(text.symbol, symbol))


def _line(place: Loc) -> str:
    return f"{place.file.rpartition('/')[2]}:{place.line}"


def _distance(copy: Guarded, address: int) -> str:
    return f"{address - copy.address} bytes from its first element"


def argument_words(
    kernel: Kernel,
    copies: Mapping[str, Guarded],
    scalars: Mapping[str, Any],
    dims: Mapping[str, int],
    grid: tuple[int, ...],
) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """The arguments in the order of the text's, each in the low bytes of a word."""

    def word(field: Field) -> int:
        match field.kind:
            case "pointer":
                return copies[field.name].address
            case "stride":
                view = copies[field.name].view
                return view.strides[field.axis] // view.itemsize
            case "extent":
                return grid[field.axis]
            case "dim":
                return _word(dims[field.name], field.dtype)
            case _:
                return _word(scalars[field.name], field.dtype)

    return np.array([word(f) & (1 << 64) - 1 for f in fields(kernel)], np.uint64)


def _word(value: Any, dtype: DType) -> int:
    raw = np.asarray(value).astype(dtype.np).tobytes()
    return int.from_bytes(raw.ljust(8, b"\0"), "little")


class TextDriver(HostDriver):
    """Renders for one dialect and runs the text on fibres.

    `order` fixes the order in which threads get their turns; without it groups take all of them by
    turns, the first one chosen by the kernel.
    """

    device = "cpu"

    def __init__(
        self,
        name: str,
        words: Vocabulary,
        target: Target,
        cache: Cache | None = None,
        order: str = "",
    ) -> None:
        self.name = name
        self._words, self._target, self._cache, self._order = words, target, cache, order
        self._ready: dict[str, TextExecutable] = {}

    def target(self) -> Target:
        """The machine the text is written for. Raises E0603 without clang."""
        clang.compiler()
        return self._target

    def load(self, kernel: Kernel) -> TextExecutable:
        """The kernel's text, compiled, or what `prepare` compiled."""
        key = digest(kernel)
        if key not in self._ready:
            self.prepare([kernel])
        return self._ready.pop(key)

    def prepare(self, kernels: Iterable[Kernel]) -> None:
        """Compiles kernels in one unit, which costs less than one at a time; `load` gets them."""
        kept = {digest(k): k for k in kernels}
        choices: dict[str, list[Choice]] = {}
        texts: list[Text] = []
        for key, kernel in kept.items():
            found = self.choices(kernel, key)
            choices[key] = [replace(c, number=len(texts) + n) for n, c in enumerate(found)]
            texts += [c.text for c in found]
        made = self._compiled(texts, ", ".join(k.name for k in kept.values()))
        for key, kernel in kept.items():
            order = Order(self._order, int(key[:8], 16))
            self._ready[key] = TextExecutable(kernel, tuple(choices[key]), made, order)

    def choices(self, kernel: Kernel, key: str) -> list[Choice]:
        """The kernel's texts, best first; the last needs nothing of the arguments."""
        symbol = f"{symbol_of(kernel)}_{key[:8]}"
        found = [
            Choice(f.kernel, _renamed(f.code.text, n), 0, f.aligned, f.unit, f.regrouped)
            for n, f in enumerate(self._words.forms(kernel, symbol))
        ]
        return [*found[:-1], Choice(kernel, self.text(kernel, key))]

    def text(self, kernel: Kernel, key: str) -> Text:
        """The kernel's plain text; its symbol carries the digest `key`."""
        symbol = f"{symbol_of(kernel)}_{key[:8]}"
        return render(scalarise(kernel), self._words.dialect, symbol)

    def _compiled(self, texts: Sequence[Text], names: str) -> Unit:
        runtime = fibres()
        source = unit(texts, self._words)
        code = build.built(source, build.unit_flags(), self._cache, names)
        return Unit(source, runtime.load(code))
