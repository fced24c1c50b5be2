"""What Metal's errors mean for the user."""

from __future__ import annotations

import re
from typing import Any

from iron.backends.msl_code import Code
from iron.errors import KernelError, Loc, error

PAGE_FAULT, OUT_OF_MEMORY, TIMEOUT = 3, 8, 2
"""Codes of MTLCommandBufferError: an address that is nobody's, full memory, work without end."""

_MESSAGE = re.compile(r"^(?P<file>[^:\n]+):(?P<line>\d+)(?::\d+)?: error: (?P<what>.*)$", re.M)
SHOWN = 3


def refused(code: Code, fault: Any) -> KernelError:
    """Text that Metal's compiler does not take, at the user's line where it names one."""
    said = str(fault.localizedDescription()) if fault is not None else "it gives no reason"
    found = list(_MESSAGE.finditer(said))
    mine = next((m for m in found if m["file"].endswith(".py")), None)
    return error(
        "E0901",
        "Metal refuses the text made for it",
        Loc(mine["file"], int(mine["line"])) if mine else None,
        code.name,
        tuple(m["what"] for m in found[:SHOWN]) or (said,),
        "this is a defect of the Metal backend; `iron inspect` shows the text",
    )


def failed(kernel: str, fault: Any) -> KernelError:
    """A launch that the GPU gave up."""
    number, said = int(fault.code()), str(fault.localizedDescription())
    if number == OUT_OF_MEMORY:
        return full()
    if number == PAGE_FAULT:
        return error(
            "E0404",
            "a kernel reached outside its memory, and the GPU stopped it",
            kernel=kernel,
            notes=(said,),
            help='run the call under `iron.use("interp")`, which names the line',
        )
    if number == TIMEOUT:
        note = (said, "macOS ends work that keeps the screen waiting")
        return error("E0901", "a launch took too long", kernel=kernel, notes=note)
    return error(
        "E0901", f"Metal gave a launch up with error {number}", kernel=kernel, notes=(said,)
    )


def full() -> KernelError:
    """Memory that there is no more of."""
    return error("E0502", "the GPU's memory is full", help="free arrays, or use smaller ones")
