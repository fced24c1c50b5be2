"""Looks through a weight file: every tensor that can be read, and every fault that stops another.

A file whose header is sound may still lack a scale or hold parts that do not fit; those are faults
of a tensor, and the rest of the file is still told.
"""

from __future__ import annotations

from iron.errors import KernelError
from iron.quant.plan import Tensor, file_tensors, gguf_tensors, plain_tensor
from iron.quant.read_gguf import GgufFile
from iron.quant.read_safetensors import Checkpoint


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
    faults += [fault.diagnostic.message for fault in file.orphans().values()]
    return tensors or [plain_tensor(file, n) for n in file.entries], faults
