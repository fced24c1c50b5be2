"""CUDA text to machine code through NVIDIA's run-time compiler; no GPU and no driver is needed.

Always a cubin: PTX alone is not assembled, so a wrong instruction in it would go unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

from iron.errors import Loc, error

INSTALL = "pip install 'iron-kernels[cuda]'"
OPTIONS = ("--std=c++17", "-default-device", "-fmad=false", "--ptxas-options=-v")
"""`-fmad=false`: a fused product is written as one, by the language's own pass."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the assembler says of an entry: registers a thread, bytes a group or thread.

    `spill_bytes` is what a thread stores because registers ran out.
    """

    registers: int
    spill_bytes: int
    shared_bytes: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """Machine code, and what its entries take by symbol; the totals are the most of any.

    `warnings` are lines of the assembler, as where it waits for products it cannot keep in flight.
    """

    cubin: bytes
    ptx: str
    entries: Mapping[str, Entry]
    warnings: tuple[str, ...] = ()

    @property
    def registers(self) -> int:
        """Registers a thread."""
        return max((e.registers for e in self.entries.values()), default=0)

    @property
    def spill_bytes(self) -> int:
        """Bytes that a thread stores because registers ran out."""
        return max((e.spill_bytes for e in self.entries.values()), default=0)

    @property
    def shared_bytes(self) -> int:
        """Bytes of group memory that are declared."""
        return max((e.shared_bytes for e in self.entries.values()), default=0)


@cache
def api() -> ModuleType:
    """`cuda.bindings.nvrtc`. E0603 with the command that installs what is missing."""
    try:
        nvrtc = import_module("cuda.bindings.nvrtc")
        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as absent:
        raise error(
            "E0603", f"NVRTC, the compiler of CUDA text, is missing: {absent}", help=INSTALL
        ) from None
    return nvrtc


@cache
def version() -> str:
    """NVRTC's version, `13.0`."""
    _, major, minor = api().nvrtcVersion()
    return f"{major}.{minor}"


@cache
def architectures() -> tuple[str, ...]:
    """The targets that this NVRTC assembles for, as `sm_90`."""
    return tuple(f"sm_{number}" for number in api().nvrtcGetSupportedArchs()[1])


def compile_text(
    source: str, target: str, name: str = "kernel", lines: tuple[Loc | None, ...] = ()
) -> Compiled:
    """The machine code of `source` for `target`, `sm_90a` say.

    `lines` gives the user's place for each line, which a message then names. E0901 when NVRTC
    refuses the text, since the compiler wrote it.
    """
    nvrtc = api()
    made, program = nvrtc.nvrtcCreateProgram(source.encode(), f"{name}.cu".encode(), 0, [], [])
    _check(nvrtc, made, "nvrtcCreateProgram")
    try:
        options = [o.encode() for o in (f"--gpu-architecture={target}", *OPTIONS)]
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        log = _bytes(nvrtc, "ProgramLog", program).decode(errors="replace").strip("\0 \n")
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _refused(log or str(result), name, target, lines)
        ptx = _bytes(nvrtc, "PTX", program).decode().rstrip("\0")
        warnings = tuple(w for w in log.splitlines() if re.search(r"warning|\(C7\d+\)", w))
        return Compiled(_bytes(nvrtc, "CUBIN", program), ptx, dict(_entries(log)), warnings)
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _bytes(nvrtc: Any, what: str, program: Any) -> bytes:
    result, size = getattr(nvrtc, f"nvrtcGet{what}Size")(program)
    _check(nvrtc, result, what)
    held = bytes(size)
    (result,) = getattr(nvrtc, f"nvrtcGet{what}")(program, held)
    _check(nvrtc, result, what)
    return held


def _check(nvrtc: Any, result: Any, what: str) -> None:
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise error("E0901", f"NVRTC: {what}: {result}")


def _entries(log: str) -> Iterator[tuple[str, Entry]]:
    """Each entry that `ptxas -v` reports, with registers, spilled bytes and static group memory."""
    parts = re.split(r"Compiling entry function '(\w+)'", log)
    for name, part in zip(parts[1::2], parts[2::2], strict=True):

        def number(pattern: str, part: str = part) -> int:
            return max(map(int, re.findall(pattern, part)), default=0)

        yield (
            name,
            Entry(
                number(r"Used (\d+) registers"),
                number(r"(\d+) bytes spill stores"),
                number(r"(\d+) bytes smem"),
            ),
        )


def _refused(log: str, name: str, target: str, lines: tuple[Loc | None, ...]) -> Exception:
    at = re.search(rf"{re.escape(name)}\.cu\((\d+)\)", log)
    number = int(at.group(1)) - 1 if at else -1
    loc = lines[number] if 0 <= number < len(lines) else None
    first = [line for line in log.splitlines() if "error" in line][:3] or log.splitlines()[:3]
    return error(
        "E0901",
        f"NVRTC refuses the text made for {target}",
        loc,
        name,
        tuple(first),
        "this is a defect of the CUDA backend; `iron inspect` shows the text",
    )
