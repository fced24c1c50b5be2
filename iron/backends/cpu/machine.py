"""Object code from LLVM text, and object code linked into this process, through llvmlite.

llvmlite is imported on first use. Objects carry no absolute addresses, so they can be cached; a
symbol that cannot be resolved raises here and never at a call.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from iron.backends.cpu import tiles
from iron.targets.cpu import cpu_target
from iron.targets.target import Target

PASSES = (
    "sroa",  # the cells of results, carried values and slots become registers
    "simplify_cfg",
    "new_gvn",  # addresses and broadcasts that several accesses share
    "loop_rotate",
    "instruction_combine",
    "simplify_cfg",
    "dead_code_elimination",
)
"""What LLVM is asked for beside its code generator: the text is vectorised, folded and hoisted
already, so its default pipeline costs three to eight times as much and gains nothing measurable."""


@dataclass(frozen=True, slots=True)
class Linked:
    """Code in memory; it stays as long as this record lives."""

    tracker: Any

    def __getitem__(self, symbol: str) -> int:
        """The address of a symbol that was exported."""
        return self.tracker[symbol]


@cache
def llvm() -> Any:
    """llvmlite's binding layer with all targets initialised."""
    from llvmlite import binding

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    binding.initialize_native_asmprinter()
    return binding


@cache
def version() -> str:
    """The code generator's version, for cache keys."""
    import llvmlite

    return f"llvmlite {llvmlite.__version__}, LLVM {llvm().llvm_version_info}"


@cache
def host() -> Target:
    """This machine's CPU as this process may use it. Raises E0603 when it lacks what the backend
    needs."""
    return _host(tiles.allowed())


@cache
def native() -> Target:
    """As `host`, without what a process has to ask the system for."""
    return _host(asked=False)


def _host(asked: bool) -> Target:
    ll = llvm()
    features = ll.get_host_cpu_features()
    have = [n for n, on in features.items() if on and (asked or not n.startswith("amx"))]
    return cpu_target(
        "cpu",
        ll.get_process_triple(),
        ll.get_host_cpu_name(),
        have,
        features.flatten(),
    )


def _machine(target: Target) -> Any:
    ll = llvm()
    return ll.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu,
        features=target.attributes,
        opt=2,
        reloc="pic",
        codemodel="small",
        jit=False,
    )


@dataclass(frozen=True, slots=True)
class _Pipeline:
    """A code generator and the passes before it. A thread keeps its own: LLVM's pass managers
    leave memory behind when they are thrown away, and two threads cannot share one."""

    machine: Any
    builder: Any
    passes: Any


_OWN = threading.local()


def _pipeline(target: Target) -> _Pipeline:
    known: dict[Target, _Pipeline] = _OWN.__dict__.setdefault("known", {})
    if target not in known:
        ll, machine = llvm(), _machine(target)
        options = ll.create_pipeline_tuning_options(speed_level=2)
        passes = ll.create_new_module_pass_manager()
        for name in PASSES:
            getattr(passes, f"add_{name}_pass")()
        known[target] = _Pipeline(machine, ll.create_pass_builder(machine, options), passes)
    return known[target]


def _optimised(text: str, pipeline: _Pipeline) -> Any:
    ll = llvm()
    module = ll.parse_assembly(text, ll.create_context())  # the global one never shrinks
    module.verify()
    pipeline.passes.run(module, pipeline.builder)
    return module


def object_code(text: str, target: Target) -> bytes:
    """The relocatable object of an LLVM module."""
    pipeline = _pipeline(target)
    return pipeline.machine.emit_object(_optimised(text, pipeline))


def assembly(text: str, target: Target) -> str:
    """The assembly of an LLVM module, for tests and inspection."""
    pipeline = _pipeline(target)
    return pipeline.machine.emit_assembly(_optimised(text, pipeline))


_LOCK = threading.Lock()
_NUMBERS = itertools.count()


@cache
def _jit() -> Any:
    return llvm().create_lljit_compiler(use_jit_link=True)


def link(code: bytes, *symbols: str, imports: Mapping[str, int] | None = None) -> Linked:
    """Loads an object into this process and exports `symbols`; `imports` are addresses by name.

    Raises RuntimeError when it cannot be linked.
    """
    ll = llvm()
    with _LOCK:
        library = ll.JITLibraryBuilder().add_object_img(code)
        for symbol in symbols:
            library.export_symbol(symbol)
        for name, address in (imports or {}).items():
            library.import_symbol(name, address)
        return Linked(library.link(_jit(), f"iron{next(_NUMBERS)}"))


ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
"""The C type of a kernel's entry."""
