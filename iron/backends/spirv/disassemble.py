"""A module as text: an instruction a line, ids by their names, the source line in front.

It reads the instructions that `words` lists, which are those that Iron writes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from pathlib import PurePath

from iron.backends.spirv.words import DEFAULT_FORM, ENUMERANTS, FORMS, MAGIC, Code

HEADER = 5
COLUMN = 22


def disassemble(module: bytes) -> str:
    """The text of a module. ValueError for bytes that are none."""
    words = struct.unpack(f"<{len(module) // 4}I", module)
    if not words or words[0] != MAGIC:
        raise ValueError("these bytes are no SPIR-V module")
    names, files = _names(words), _files(words)
    lines: list[str] = []
    for code, operands in _instructions(words):
        if code == Code.Line:
            place = f"{PurePath(files[operands[0]]).name}:{operands[1]}"
            lines.append(f"{'':{COLUMN}}; {place}")
        elif code not in (Code.Name, Code.MemberName):
            lines.append(_spelled(code, operands, names))
    return "\n".join(lines) + "\n"


def _instructions(words: Sequence[int]) -> Iterator[tuple[Code, Sequence[int]]]:
    at = HEADER
    while at < len(words):
        length = words[at] >> 16
        yield Code(words[at] & 0xFFFF), words[at + 1 : at + length]
        at += length


def _text(words: Sequence[int]) -> tuple[str, int]:
    """A literal string and the words it takes."""
    raw = struct.pack(f"<{len(words)}I", *words)
    end = raw.index(0)
    return raw[:end].decode(), end // 4 + 1


def _files(words: Sequence[int]) -> dict[int, str]:
    return {o[0]: _text(o[1:])[0] for code, o in _instructions(words) if code == Code.String}


def _names(words: Sequence[int]) -> dict[int, str]:
    """A name for each id: the author's, that of a type or constant, else its number."""
    out: dict[int, str] = {}
    taken: set[str] = set()
    for code, operands in _instructions(words):
        if code == Code.Name:
            plain = _text(operands[1:])[0]
            out[operands[0]] = plain if plain not in taken else f"{plain}_{operands[0]}"
            taken.add(out[operands[0]])
        elif code in _TYPES:
            kind = "b" if code == Code.TypeFloat and len(operands) == 3 else ""
            out.setdefault(operands[0], kind + _TYPES[code].format(*(operands[1:] or [""])))
        elif code == Code.Constant and len(operands) == 3:
            kind = out.get(operands[0], "")
            out[operands[1]] = f"{kind}_{_constant(operands[2], kind)}"
    return out


_TYPES = {
    Code.TypeVoid: "void",
    Code.TypeBool: "bool",
    Code.TypeInt: "u{0}",
    Code.TypeFloat: "f{0}",
}


def _constant(bits: int, kind: str) -> str:
    if kind == "f32":
        return f"{struct.unpack('<f', struct.pack('<I', bits))[0]:g}"
    return str(bits) if bits < 1 << 16 else f"{bits:#x}"


def _spelled(code: Code, operands: Sequence[int], names: dict[int, str]) -> str:
    """One line; the result stands in front."""
    form = FORMS.get(code, DEFAULT_FORM)
    result, parts, at = "", list[str](), 0

    def named(id: int) -> str:
        return f"%{names.get(id, id)}"

    kinds = iter(form)
    kind = next(kinds, "")
    while at < len(operands):
        word = operands[at]
        at += 1
        match kind:
            case "r":
                result = f"{named(word)} = "
            case "t" | "i":
                parts.append(named(word))
            case "s":
                text, size = _text(operands[at - 1 :])
                at += size - 1
                parts.append(f'"{text}"')
            case "n" | "x":
                parts.append(str(word) if word < 1 << 16 else f"{word:#x}")
            case _:
                parts.append(ENUMERANTS[kind](word).name)
        following = next(kinds, "*")
        kind = kind if following == "*" else following
    return f"{result:>{COLUMN}}Op{code.name} {' '.join(parts)}".rstrip()
