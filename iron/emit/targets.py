"""What Iron can emit code for: one row a family of targets.

A target is named `family` or `family:architecture`, as in `cuda:sm_90a`.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from typing import Final

from iron.backends import clang, code_object, cuda_code, hip_code, nvrtc, spirv
from iron.backends.clike import render
from iron.backends.cpu import machine
from iron.backends.cpu.entry import compile_kernel
from iron.backends.hip import HIP
from iron.backends.msl import MSL
from iron.emit import abi
from iron.emit.family import Destination, Family, Made
from iron.errors import error
from iron.ir.core import Kernel
from iron.passes.scalarise import scalarise
from iron.passes.unsigned import unsigned
from iron.targets import amd, apple, cpu, nvidia, vulkan
from iron.targets.target import Target

# --- CPU ------------------------------------------------------------------------------------------

NATIVE: Final = "native"


def _cpu_target(architecture: str) -> Target | None:
    return machine.host() if architecture == NATIVE else cpu.LEVELS.get(architecture)


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
    code = cuda_code.code_of(unsigned(kernel), symbol)
    files = {".cu": code.text.source.encode()}
    facts = {"arguments": abi.record(code.fields)}
    if not {".ptx", ".cubin"} & set(wanted):
        return Made(files, facts)
    made = nvrtc.compile_text(code.text.source, target.name, symbol, code.text.lines)
    resources = {
        "registers": made.registers,
        "spill_bytes": made.spill_bytes,
        "shared_bytes": made.shared_bytes,
    }
    return Made({**files, ".ptx": made.ptx.encode(), ".cubin": made.cubin}, facts, resources)


def _nvrtc(kinds: Collection[str]) -> None:
    if {"ptx", "cubin"} & set(kinds):
        nvrtc.api()


# --- HIP ------------------------------------------------------------------------------------------


def _hip(kernel: Kernel, target: Target, symbol: str, wanted: Collection[str]) -> Made:
    text = render(scalarise(kernel), HIP[target.simd], symbol)
    files = {".hip": text.source.encode()}
    facts = {"arguments": abi.record(cuda_code.fields(kernel))}
    if ".hsaco" not in wanted:
        return Made(files, facts)
    files[".hsaco"] = hip_code.compile_text(text.source, target, symbol)
    (found,) = code_object.resources(files[".hsaco"])
    resources = {
        "registers": found.vector_registers,
        "scalar_registers": found.scalar_registers,
        "spilled_registers": found.spilled_registers,
        "shared_bytes": found.shared_bytes,
    }
    return Made(files, facts, resources)


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
    return Made(files, facts, {"shared_bytes": made.shared_bytes})


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
