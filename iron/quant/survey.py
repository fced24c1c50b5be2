"""Looks through a weight file: every tensor that can be read, and every fault that stops another.

A file whose header is sound may still lack a scale or hold parts that do not fit; those are faults
of a tensor, and the rest of the file is still told.
"""

from __future__ import annotations

from iron.errors import KernelError
from iron.quant.dialect import MARKS, lacking
from iron.quant.plan import Tensor, file_tensors, gguf_tensors, plain_tensor
from iron.quant.read_gguf import GgufFile
from iron.quant.read_safetensors import Checkpoint

CODES = ("U32", "I32", "U8", "I8", "F8_E4M3", "F8_E5M2")


def survey(opened: GgufFile | Checkpoint) -> tuple[list[Tensor], list[str]]:
    """The tensors of an open file, and what is wrong with others, each with name and offset."""
    if isinstance(opened, GgufFile):
        return gguf_tensors(opened), []
    return _checkpoint(opened)


def _checkpoint(file: Checkpoint) -> tuple[list[Tensor], list[str]]:
    faults: list[str] = []
    broken: list[str] = []
    for logical, (_, parts) in file.stems.items():
        try:
            file.weight(logical)
        except KernelError as problem:
            faults.append(problem.diagnostic.message)
            broken += parts.names()
    sound = {
        logical: held
        for logical, held in file.stems.items()
        if not set(held[1].names()) & set(broken)
    }
    tensors = file_tensors(Checkpoint(file.path, file.entries, file.metadata, file.config, sound))
    faults += orphans(file)
    return tensors or [plain_tensor(file, n) for n in file.entries], faults


def orphans(file: Checkpoint) -> list[str]:
    """Codes of a weight whose other parts are missing."""
    out: list[str] = []
    used = {name for _, parts in file.stems.values() for name in parts.names()}
    for name, entry in file.entries.items():
        codes = name.endswith(MARKS) and entry.dtype in CODES and len(entry.shape) > 1
        if codes and name not in used:
            fault = entry.fault(
                f"a packed weight without {lacking(name, entry.dtype, file.entries)}"
            )
            out.append(fault.diagnostic.message)
    return out
