"""The reference page of weight formats, `docs/formats.md`; nothing on it is written by hand.

`python -m iron.report.formats_page` writes it from the table, and a test holds the page to it.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import fill

from iron.errors import KernelError
from iron.quant import write_safetensors
from iron.quant.codec import BODIES
from iron.quant.format import CORE, FORMATS, Algebra, Encode, Format, Outer, Scale, by_name
from iron.quant.repack import plane_form

INTRO = """# Weight formats

This page is generated from the table of formats by `python -m iron.report.formats_page`.

A format stores a weight W[N, K] as planes of rank 2. A code of a few bits becomes a number x, and
neighbours along K, a group, share factors; the weight follows by one of

{algebras}

in f32, every product rounded once, from left to right. A row's codes are one little-endian stream
of bits in u32 words unless the section says otherwise: element j is bits [j b, (j + 1) b).
`bits` are stored bits per weight with the default type of each plane. An encoder marked *exact*
writes the bytes its rule fixes; *quality* promises an error of at most 1.10 times that of the
reference encoder; *none* means that the format is decoded only.

In a kernel, `w: Packed[FMT, N, K]` accepts every format. The stream layout is the one to run:
`iron.quant.repack.to_planes` brings raw blocks and foreign layouts there bit for bit, to the format
in the column *runs as*. `iron quantize` converts files, `iron weights` lists them.

A name stands for a family: `{{b}}` is a width, `{{G}}` a group along K (`row`: the whole row),
`{{s}}` the type of the scales. A name of bitsandbytes without a group means 64.
"""

Section = tuple[str, str, Callable[[Format], bool]]


def _gguf(fmt: Format) -> bool:
    return bool(fmt.block_bytes)


def _foreign(fmt: Format) -> bool:
    return fmt.body in BODIES and not fmt.block_bytes and fmt.body not in ("stream", "dense")


def _named(*prefixes: str) -> Callable[[Format], bool]:
    return lambda fmt: fmt.name.startswith(prefixes) and fmt.body == "stream"


SECTIONS: tuple[Section, ...] = (
    ("Plain floats", "One plane `values`.", lambda fmt: fmt.algebra is Algebra.DENSE),
    ("MLX affine integers", "Factors in the model's float type.", _named("mlx_")),
    (
        "Powers of two for scales",
        "OCP MX elements and integers; E8M0 255 is NaN.",
        lambda fmt: fmt.body == "stream" and fmt.scale.name == "E8M0" and fmt.scale_rows == 1,
    ),
    (
        "Two levels of scales",
        "An E4M3 scale for 16 elements and an f32 factor a row in the plane `outer`.",
        lambda fmt: fmt.outer is not Outer.NONE,
    ),
    ("Small floats with float scales", "", _named("nvfp8", "fp4", "fp8")),
    ("Integers with float scales", "`sym` codes have half their range added.", _named("int")),
    ("Key and value caches", "", _named("kv_", "aura")),
    ("Tables and super-blocks", "Where GGUF and bitsandbytes weights run.",
     _named("nl4", "sign", "ternary", "codebook", "super")),
    (
        "GGUF",
        "One plane `blocks` of bytes as in the file, read without copying. Blocks run along K. "
        "Types 4, 5, 31 to 33 and 36 to 38 were removed and are refused.",
        _gguf,
    ),
    (
        "Checkpoints with a layout of their own",
        "Planes are the arrays of the file.",
        _foreign,
    ),
)  # fmt: skip


def page() -> str:
    """The whole page in Markdown."""
    algebras = "\n".join(f"- **{a.name.lower()}** `{a.value}`" for a in Algebra)
    parts = [INTRO.format(algebras=algebras), _core()]
    left = list(FORMATS.values())
    for title, about, takes in SECTIONS:
        chosen = [f for f in left if takes(f)]
        left = [f for f in left if f not in chosen]
        parts.append(_section(title, about, chosen))
    if left:
        raise ValueError(f"formats in no section: {left}")
    parts.append(_bodies())
    return "\n".join(parts)


def _core() -> str:
    lines = [
        f"## The core: {len(CORE)} symmetric formats",
        "",
        "Eight forms of small floats, six widths of integers with a power of two for a scale, and",
        "the float-scaled ones once with f32 and once with f16 scales.",
        "",
        fill(", ".join(f"`{name}`" for name in CORE), 100, break_on_hyphens=False),
        "",
    ]
    return "\n".join(lines)


def family(name: str) -> str:
    """The name with width, group and scale type replaced by their symbols."""
    head, *rest = name.split("_")
    if head == "bnb":
        rest = [*(w for w in rest if not re.fullmatch(r"b\d+", w)), "b1"]
    return "_".join([re.sub(r"^(mx)?int\d$", r"\1int{b}", head), *map(_symbol, rest)])


def _symbol(word: str) -> str:
    if re.fullmatch(r"g\d+|row|b1", word):
        return "{G}"
    if word in ("f32", "f16", "bf16"):
        return "{s}"
    return re.sub(r"^int\d$", "int{b}", word)


def _title(members: list[Format]) -> str:
    """The family's name, with what all members share filled in."""
    if len(members) == 1:
        return members[0].name
    name = family(members[0].name)
    widths = {f.bits for f in members}
    return name.replace("{b}", str(widths.pop())) if len(widths) == 1 else name


def _section(title: str, about: str, formats: list[Format]) -> str:
    rows: dict[tuple[object, ...], list[Format]] = {}
    for fmt in formats:
        key = (family(fmt.name), fmt.body, fmt.rule, fmt.elem, fmt.tier)
        rows.setdefault(key, []).append(fmt)
    head = ["format", "members", "code", "weight", "factors", "bits", "encoder", "found in"]
    head.append("runs as")
    lines = [f"## {title}", "", *([fill(about, 100, break_on_hyphens=False), ""] if about else [])]
    lines += [_line(head), _line(["---"] * len(head))]
    lines += [_row(members) for members in rows.values()]
    return "\n".join(lines) + "\n"


def _row(members: list[Format]) -> str:
    first = members[0]
    bits = sorted({f.bpw for f in members})
    spread = f"{bits[0]:g}" if len(bits) == 1 else f"{bits[0]:g} to {bits[-1]:g}"
    return _line(
        [
            f"`{_title(members)}`",
            _members(members),
            first.elem.value,
            f"`{first.algebra.value}`",
            _factors(members),
            spread,
            _encoder(first),
            _found(first),
            _runs(members),
        ]
    )


def _members(members: list[Format]) -> str:
    if len(members) == 1:
        return ""
    parts: list[str] = []
    if len({f.bits for f in members}) > 1:
        parts.append("b " + ", ".join(str(b) for b in sorted({f.bits for f in members})))
    sizes = sorted({_size(f) for f in members})
    if len(sizes) > 1:
        mark = "b" if members[0].body.startswith("bnb") else "g"
        parts.append("G " + ", ".join(f"{mark}{g}" if g else "row" for g in sizes))
    kinds = [n.rsplit("_", 1)[-1] for n in (f.name for f in members)]
    kinds = [k for k in dict.fromkeys(kinds) if k in ("f32", "f16", "bf16")]
    if len(kinds) > 1:
        parts.append("s " + ", ".join(kinds))
    return "; ".join(parts)


def _size(fmt: Format) -> int:
    """Columns that share factors, in the order of the file where they are reordered; 0: a row."""
    return fmt.multiple if fmt.reordered else fmt.group


def _factors(members: list[Format]) -> str:
    fmt = members[0]
    if fmt.algebra is Algebra.DENSE:
        return "none"
    several = len({_size(f) for f in members}) > 1
    where = "G along K" if several else f"{fmt.group} along K" if fmt.group else "a row"
    if fmt.scale_rows != 1:
        where = f"a tile of {fmt.scale_rows} by {fmt.group}" if fmt.scale_rows else "the tensor"
    if fmt.block_bytes:
        return f"for {where}, in blocks of {fmt.block} elements and {fmt.block_bytes} bytes"
    if fmt.reordered:
        where = "the columns that `g_idx` names"
    kind = fmt.scale.value
    if fmt.scale is Scale.FLOAT:
        held = next(p for p in fmt.planes if p.name in ("scales", "absmax"))
        one = " or ".join(map(str, held.dtypes))
        kind = "the type in its name" if "{s}" in _title(members) else one
    return f"{kind}, for {where}"


def _encoder(fmt: Format) -> str:
    if fmt.encode is Encode.DECODE_ONLY:
        return f"none: {fmt.reason}"
    return f"{fmt.encode.name.lower()}: {fmt.rule.value}"


def _found(fmt: Format) -> str:
    ids = fmt.ids
    parts = [f"GGUF type {ids.ggml}"] if ids.ggml is not None else []
    parts += [f"MLX {ids.mlx.split(',')[0]}"] if ids.mlx else []
    parts += [f"compressed-tensors {ids.ct.split(',')[0]}"] if ids.ct else []
    parts += [ids.method] if ids.method else []
    if ids.suffixes:
        parts.append(" ".join(f"`{s}`" for s in ids.suffixes))
    elif _written(fmt) and not fmt.block_bytes and fmt.body == "stream":
        parts.append(" ".join(f"`{s}`" for s, *_ in write_safetensors.names(fmt).values()))
    return ", ".join(parts)


def _written(fmt: Format) -> bool:
    try:
        write_safetensors.names(fmt)
    except KernelError:
        return False
    return True


def _runs(members: list[Format]) -> str:
    if members[0].body in ("stream", "dense"):
        return "itself"
    try:
        names = [plane_form(f) for f in members]
        return f"`{_title([by_name(n) for n in dict.fromkeys(names)])}`"
    except KernelError:
        return "its own columns sorted" if members[0].reordered else "raw blocks"


def _bodies() -> str:
    lines = [
        "## Layouts",
        "",
        "What each decoder reads, as its own documentation says: element e of block b, and the",
        "factors of group g.",
        "",
        _line(["layout", "element", "factors"]),
        _line(["---"] * 3),
    ]
    for name, body in BODIES.items():
        cells = [_first_line(part) for part in (body.code, body.factors)]
        lines.append(_line([f"`{name}`", *cells]))
    return "\n".join(lines) + "\n"


def _first_line(function: object) -> str:
    text = getattr(getattr(function, "fn", function), "__doc__", "") or ""
    return " ".join(text.split())


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main(argv: list[str]) -> int:
    """Writes the page to the path given, or to `docs/formats.md`."""
    Path(argv[0] if argv else "docs/formats.md").write_text(page())
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
