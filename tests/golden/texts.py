"""The golden texts: which kernels on which targets, and what the compiler writes for them.

`python -m tests.golden` writes them anew; what changes is read before it is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from iron.check.expand import expand
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.emit.build import build, text
from iron.emit.directory import MANIFEST
from iron.emit.documents import documents
from iron.emit.manifest import Specialised, document
from iron.emit.targets import destination
from iron.lang.declare import KernelFunction
from iron.worker import discover

HERE = Path(__file__).parent

# Kernel, and parts of the label of the case that it is bound to.
KERNELS = {
    "copy": ("f32", "FORM=transposed"),
    "unary": ("bf16", "OP=silu", "MATH=fast"),
    "select": ("f16",),
    "cast": ("f32,f16",),
    "softmax": ("f32", "LOG=False", "MASK=False"),
    "rms_norm": ("f16", "VEC=4", "N=4"),
    "arg_reduce": ("f32", "OP=max"),
    "scan_rows": ("f32,f32", "EXCLUSIVE=False", "ITEMS=1"),
    "gather": ("bf16",),
    "dequant_gather": ("q4_0",),
}
TARGETS = {
    "cpu:x86-64-v3": ("unary", "gather"),  # longer than the others
    "cuda:sm_90a": tuple(KERNELS),
    "hip:gfx942": ("unary", "softmax", "arg_reduce", "scan_rows"),
    "hip:gfx1100": ("softmax", "scan_rows"),
    "metal": ("copy", "unary", "softmax", "rms_norm", "arg_reduce", "dequant_gather"),
    "vulkan": ("select", "cast", "gather"),
}


@cache
def library() -> dict[str, KernelFunction]:
    """The kernels by name."""
    found: dict[str, KernelFunction] = {}
    for module in discover.modules(("iron.kernels",)):
        for name, kernel in discover.kernels(module).items():
            if name in KERNELS:
                assert isinstance(kernel, KernelFunction)
                found[name] = kernel
    return found


def of(name: str, target: str) -> Specialised:
    """The kernel as a call of its case would run on the target."""
    parts = KERNELS[name]
    fitting = (c for c in expand(library()[name]) if all(part in c.label for part in parts))
    for case in fitting:
        found = specialise(case, prepare(case), destination(target).target)
        if found is not None:
            return found
    raise AssertionError(f"no case of {name} has {parts}")


def pairs() -> Iterator[tuple[str, str]]:
    """Every target and kernel."""
    for target, names in TARGETS.items():
        for name in names:
            yield target, name


def written(target: str, name: str) -> tuple[Path, str]:
    """The file of a golden text, and what the compiler writes now."""
    to, found = destination(target), of(name, target)
    folder = HERE / to.name.replace(":", "_")
    return folder / f"{found.alias}{to.family.text}", text(found, to)


def hosts() -> dict[Path, str]:
    """The Swift and C hosts of three kernels, by file."""
    records = []
    for name in ("copy", "softmax", "rms_norm"):
        for target in HOSTS:
            records.append(build(of(name, target), destination(target), ()).record)
    made = documents(document(records), ("c", "swift"))
    return {HERE / path: content for path, content in made.items() if path != MANIFEST}


HOSTS = ("cpu:x86-64-v3", "cuda:sm_90a", "metal")
