"""What this machine offers to each backend, and what is missing to use one.

It opens drivers and reports; it never launches anything.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from iron.errors import KernelError
from iron.runtime.driver import BACKENDS, Driver, driver
from iron.targets.target import Target

RUNS = {
    "interp": "the meaning of the language in numpy; checks bounds, races, divergence and reads",
    "cpu": "this processor, through LLVM",
    "cuda": "an NVIDIA GPU, through NVRTC",
    "cuda-text": "CUDA text as C++ on this processor; slow, for tests",
    "vulkan": "any Vulkan device, through SPIR-V",
    "hip": "an AMD GPU, through clang",
    "metal": "the GPU of a Mac, through Metal",
    "hip-text-32": "HIP text for waves of 32 lanes, as C++ on this processor",
    "hip-text-64": "HIP text for waves of 64 lanes, as C++ on this processor",
    "msl-text": "Metal text as C++ on this processor",
}
"""What each backend runs on, for people."""

INSTALL = {
    "cpu": "pip install llvmlite",
    "cuda": "pip install 'iron-kernels[cuda]'",
    "hip": "pip install 'iron-kernels[hip]'",
    "metal": "pip install 'iron-kernels[metal]'",
}


@dataclass(frozen=True, slots=True)
class Report:
    """One backend: its target when it is ready, else what is missing and how to get it."""

    name: str
    runs: str
    target: Target | None = None
    missing: str = ""
    install: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ready(self) -> bool:
        """True when kernels can run on it."""
        return self.target is not None


def reports() -> tuple[Report, ...]:
    """Every backend of this version, in the order of their names in the table."""
    return tuple(report(name) for name in BACKENDS)


def report(name: str) -> Report:
    """One backend; a driver that cannot be opened is a report, not an error."""
    runs = RUNS.get(name, "")
    try:
        opened = driver(name)
        target = opened.target()
    except KernelError as refused:
        found = refused.diagnostic
        return Report(name, runs, None, found.message, found.help or INSTALL.get(name, ""))
    except ImportError as absent:
        return Report(name, runs, None, f"no module named {absent.name}", INSTALL.get(name, ""))
    told = processor if name == "cpu" else getattr(opened, "facts", dict)
    return Report(name, runs, target, facts=told())


def device_of(opened: Driver) -> str:
    """The device's own name: the GPU's, the processor's, or the target's."""
    facts = processor() if opened.name == "cpu" else getattr(opened, "facts", dict)()
    return str(facts.get("gpu") or facts.get("processor") or opened.target().name)


def slug(device: str) -> str:
    """A device's name for a file or folder: `amd-epyc-9b14`."""
    text = re.sub(r"\((r|tm|c)\)", "", device.lower())
    return "-".join(re.findall(r"[a-z0-9]+", text)) or "unknown"


def processor() -> dict[str, Any]:
    """The host processor: its name, the cores this process may use, memory in bytes, LLVM."""
    return {
        "processor": _cpu_name(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory": _memory(),
        "llvmlite": metadata.version("llvmlite"),
    }


def _cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return None
