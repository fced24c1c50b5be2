"""Looks through a weight file: every tensor that can be read, and every fault that stops another.

A file whose header is sound may still lack a scale or hold parts that do not fit; those are faults
of a tensor, and the rest of the file is still told.
"""

from __future__ import annotations

from iron.errors import KernelError
from iron.quant.dialect import DIALECTS
from iron.quant.plan import Tensor, file_tensors, gguf_tensors, plain_tensor
from iron.quant.read_gguf import GgufFile
from iron.quant.read_safetensors import Checkpoint

CODES = ("U32", "I32", "U8", "I8", "F8_E4M3", "F8_E5M2")
MARKS = (".qweight", ".weight_packed", ".W_q", "_blocks", ".weight")


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
        mark = next((m for m in MARKS if name.endswith(m)), "")
        if name in used or not mark or entry.dtype not in CODES or len(entry.shape) < 2:
            continue
        stem = name.removesuffix(mark)
        wanted = [d.needs for d in DIALECTS if d.needs[0] == mark and len(d.needs) > 1]
        missing = min(
            ([s for s in needs if stem + s not in file.entries] for needs in wanted), key=len
        )
        lacks = " and ".join(stem + s for s in missing) or "scales that fit it"
        out.append(entry.fault(f"a packed weight without {lacks}").diagnostic.message)
    return out
