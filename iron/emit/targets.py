"""What Iron can emit code for: one row a family of targets.

A target is named `family` or `family:architecture`, as in `cuda:sm_90a`.
"""

from __future__ import annotations

import platform
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, Final

from iron.backends import clang, code_object, cuda_code, hip_code, nvrtc, spirv
from iron.backends.clike import Dialect, Text, render
from iron.backends.clike.module import joined
from iron.backends.cpu import machine
from iron.backends.cpu.entry import compile_kernel
from iron.backends.cuda import CUDA
from iron.backends.hip import HIP
from iron.backends.msl import MSL
from iron.emit import abi
from iron.emit.family import Destination, Family, Made
from iron.emit.forms import PLAIN, Form, forms, note
from iron.errors import error
from iron.ir.core import Kernel
from iron.passes.scalarise import scalarise
from iron.targets import amd, apple, cpu, nvidia, vulkan
from iron.targets.target import Target

# --- CPU ------------------------------------------------------------------------------------------

NATIVE: Final = "native"


def _cpu_target(architecture: str) -> Target | None:
    return machine.native() if architecture == NATIVE else cpu.LEVELS.get(architecture)


def _cpu_level() -> str:
    """What objects are made for unless a level is asked for: what every machine like this runs."""
    arm = platform.machine().lower() in ("aarch64", "arm64")
    return cpu.AARCH64.name if arm else cpu.X86_64_V3.name


def _cpu(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    made = compile_kernel(kernel, target, symbol)
    files = {".ll": made.text.encode()}
    if ".o" in wanted:
        files[".o"] = machine.object_code(made.text, target)
    return Made(files, {"arguments": abi.record(made.fields)})


# --- CUDA -----------------------------------------------------------------------------------------


def _cuda(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    found = forms(kernel, symbol, CUDA)
    text, facts = _module(kernel, found, CUDA)
    files, better = {".cu": text.source.encode()}, found[:-1]
    if not {".ptx", ".cubin"} & set(wanted):
        return Made(files, facts, forms=better)
    made = nvrtc.compile_text(text.source, target.name, symbol, text.lines)
    files |= {".ptx": made.ptx.encode(), ".cubin": made.cubin}
    resources = {name: asdict(entry) for name, entry in made.entries.items()}
    return Made(files, facts, resources, better)


def _module(kernel: Kernel, found: Sequence[Form], dialect: Dialect) -> tuple[Text, dict[str, Any]]:
    """The entries of all forms in one source, and the facts of the plain one, which is the last."""
    *better, plain = found
    text = plain.code.text
    if better:
        notes = [PLAIN, *(note(form, kernel) for form in better)]
        text = joined([f.code.text for f in (plain, *better)], notes, dialect)
    return text, {
        "arguments": abi.record(plain.code.fields),
        "dynamic_bytes": plain.code.dynamic,
    }


def _nvrtc(kinds: Collection[str]) -> None:
    if {"ptx", "cubin"} & set(kinds):
        nvrtc.api()


# --- HIP ------------------------------------------------------------------------------------------


def _hip(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    found = forms(kernel, symbol, HIP[target.simd])
    text, facts = _module(kernel, found, HIP[target.simd])
    files, better = {".hip": text.source.encode()}, found[:-1]
    if ".hsaco" not in wanted:
        return Made(files, facts, forms=better)
    files[".hsaco"] = hip_code.compile_text(text.source, target, symbol)
    resources = {
        entry.symbol: {
            "registers": entry.vector_registers,
            "scalar_registers": entry.scalar_registers,
            "spilled_registers": entry.spilled_registers,
            "shared_bytes": entry.shared_bytes,
        }
        for entry in code_object.resources(files[".hsaco"])
    }
    return Made(files, facts, resources, better)


def _clang(kinds: Collection[str]) -> None:
    if "hsaco" in kinds:
        clang.compiler()


# --- Metal ----------------------------------------------------------------------------------------


def _metal(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    text = render(scalarise(kernel), MSL, symbol)
    fields = cuda_code.fields(kernel)
    size, placed = abi.structure([f for f in fields if f.kind != "pointer"])
    buffers = [f for f in fields if f.kind == "pointer"]
    facts = {"arguments": [*abi.record(buffers), *placed], "value_bytes": size}
    return Made({".metal": text.source.encode()}, facts)


# --- Vulkan ---------------------------------------------------------------------------------------

VULKAN_LEVELS: Final = {"usual": vulkan.USUAL, "least": vulkan.LEAST}


def _vulkan(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    made = spirv.encode(kernel, target)
    files = {".spv": made.words, ".tables": made.tables}
    if ".spvasm" in wanted:
        files[".spvasm"] = spirv.disassemble(made.words).encode()
    facts = {
        "arguments": abi.record(made.block.fields),
        "bindings": list(made.bindings),
        "pushed": made.block.pushed,
        "full_subgroups": made.full,
        "entry": made.entry,
    }
    return Made(files, facts, {symbol: {"shared_bytes": made.shared_bytes}})


# --- the list -------------------------------------------------------------------------------------

_FAMILIES = (
    Family(
        "cpu",
        "LLVM IR",
        ".ll",
        {"llvm": (".ll", ".o")},
        (_cpu_level(), *(n for n in cpu.LEVELS if n != _cpu_level()), NATIVE),
        _cpu_target,
        _cpu,
    ),
    Family(
        "cuda",
        "CUDA C++",
        ".cu",
        {"cuda": (".cu",), "ptx": (".ptx",), "cubin": (".cubin",)},
        tuple(nvidia.LEVELS),
        nvidia.LEVELS.get,
        _cuda,
        _nvrtc,
    ),
    Family(
        "hip",
        "HIP",
        ".hip",
        {"hip": (".hip",), "hsaco": (".hsaco",)},
        ("gfx942", *(n for n in amd.LEVELS if n != "gfx942")),
        amd.LEVELS.get,
        _hip,
        _clang,
    ),
    Family(
        "metal",
        "Metal",
        ".metal",
        {"msl": (".metal",)},
        tuple(apple.LEVELS),
        apple.LEVELS.get,
        _metal,
    ),
    Family(
        "vulkan",
        "SPIR-V",
        ".spvasm",
        {"spirv": (".spv", ".tables")},
        tuple(VULKAN_LEVELS),
        VULKAN_LEVELS.get,
        _vulkan,
    ),
)

FAMILIES: Final = {family.name: family for family in _FAMILIES}
"""Every family by name."""


def destination(name: str) -> Destination:
    """The target called `name`. E0803 when it does not exist."""
    family_name, _, architecture = name.partition(":")
    family = FAMILIES.get(family_name)
    if family is None:
        raise error("E0803", f"there is no target `{name}`", help=f"targets are {_listed()}")
    chosen = architecture or (family.architectures[0] if family.architectures else "")
    target = family.target(chosen)
    if target is None or (architecture and not family.architectures):
        known = ", ".join(family.architectures) or "none"
        message = f"`{family_name}` has no architecture `{architecture}`"
        raise error("E0803", message, help=f"its architectures are {known}")
    return Destination(family, chosen, target)


def _listed() -> str:
    return ", ".join(
        f"{f.name}:{f.architectures[0]}" if f.architectures else f.name for f in FAMILIES.values()
    )
