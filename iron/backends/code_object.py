"""What an AMD code object says about its kernels: registers, spills, group memory, arguments.

A code object is an ELF file; the note `AMDGPU` of type 32 holds a MessagePack map (LLVM's AMDGPU
usage guide, "Code Object V3 and above Metadata").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iron.errors import error

NOTE = 7
"""The section type SHT_NOTE."""
METADATA = 32
"""The note type NT_AMDGPU_METADATA."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What one kernel of a code object takes; bytes of `shared` are a group's."""

    symbol: str
    wave: int
    vector_registers: int
    scalar_registers: int
    spilled_registers: int
    shared_bytes: int
    private_bytes: int
    argument_bytes: int


def resources(code: bytes) -> tuple[Resources, ...]:
    """Every kernel of a code object. Errors: E0801 for a file that is none."""
    try:
        found = next(d for name, kind, d in _notes(code) if name == "AMDGPU" and kind == METADATA)
        kernels = _unpack(memoryview(found), 0)[0]["amdhsa.kernels"]
        return tuple(_resources(k) for k in kernels)
    except (StopIteration, KeyError, IndexError, TypeError, ValueError, struct.error) as wrong:
        raise error("E0801", f"no AMD code object: {wrong or 'it has no metadata'}") from wrong


def _resources(k: Mapping[str, Any]) -> Resources:
    return Resources(
        k[".name"],
        k[".wavefront_size"],
        k[".vgpr_count"] + k.get(".agpr_count", 0),
        k[".sgpr_count"],
        k[".vgpr_spill_count"] + k[".sgpr_spill_count"],
        k[".group_segment_fixed_size"],
        k[".private_segment_fixed_size"],
        k[".kernarg_segment_size"],
    )


def _notes(code: bytes) -> Iterator[tuple[str, int, bytes]]:
    """Name, type and content of each note of a 64-bit little-endian ELF file."""
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("it is no ELF file of 64 bits")
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    for number in range(count):
        at = table + number * size
        kind, _, _, offset, length = struct.unpack_from("<IQQQQ", code, at + 4)
        end = offset + length
        while kind == NOTE and offset < end:
            names, content, note = struct.unpack_from("<III", code, offset)
            start = offset + 12
            body = start + (names + 3 & ~3)
            name = code[start : start + names].rstrip(b"\0").decode()
            yield name, note, code[body : body + content]
            offset = body + (content + 3 & ~3)


# --- MessagePack, as far as metadata needs it -----------------------------------------------------

_NUMBERS = {
    **{0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h"},
    **{0xD2: ">i", 0xD3: ">q", 0xCA: ">f", 0xCB: ">d"},
}
_LENGTHS = {
    **{0xD9: (">B", "text"), 0xDA: (">H", "text"), 0xDB: (">I", "text")},
    **{0xC4: (">B", "bytes"), 0xC5: (">H", "bytes"), 0xC6: (">I", "bytes")},
    **{0xDC: (">H", "list"), 0xDD: (">I", "list"), 0xDE: (">H", "map"), 0xDF: (">I", "map")},
}
_SINGLE: dict[int, Any] = {0xC0: None, 0xC2: False, 0xC3: True}


def _unpack(data: memoryview, at: int) -> tuple[Any, int]:
    """The value at `at`, and where the next one begins."""
    lead, at = data[at], at + 1
    if lead < 0x80:
        return lead, at
    if lead >= 0xE0:
        return lead - 256, at
    if lead in _SINGLE:
        return _SINGLE[lead], at
    if lead in _NUMBERS:
        form = _NUMBERS[lead]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if lead in _LENGTHS:
        form, kind = _LENGTHS[lead]
        (length,) = struct.unpack_from(form, data, at)
        return _contents(data, at + struct.calcsize(form), kind, length)
    if lead < 0xC0:
        kind, mask = ("map", 15) if lead < 0x90 else ("list", 15) if lead < 0xA0 else ("text", 31)
        return _contents(data, at, kind, lead & mask)
    raise ValueError(f"MessagePack byte {lead:#x}")


def _contents(data: memoryview, at: int, kind: str, length: int) -> tuple[Any, int]:
    if kind in ("text", "bytes"):
        raw = bytes(data[at : at + length])
        return raw.decode() if kind == "text" else raw, at + length
    values: list[Any] = []
    for _ in range(length * 2 if kind == "map" else length):
        value, at = _unpack(data, at)
        values.append(value)
    return dict(zip(values[::2], values[1::2], strict=True)) if kind == "map" else values, at
