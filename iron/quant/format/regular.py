"""Formats whose codes are one little-endian bit stream a row with factors in planes beside it."""

from __future__ import annotations

from math import gcd
from typing import Any

from iron.dtypes import DType, bf16, f16, f32, i8, u8, u16, u32
from iron.quant.format.record import (
    ONE,
    ROWS,
    Algebra,
    Elem,
    Encode,
    Extent,
    Format,
    Ids,
    Outer,
    Plane,
    Rule,
    Scale,
    per,
    words,
)

FLOATS = (f16, bf16, f32)
REPACKED = "encode the type of the file and repack it"
NL4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)
WIDTHS = {Elem.E2M1: 4, Elem.E2M3: 6, Elem.E3M2: 6, Elem.E4M3: 8, Elem.E5M2: 8}
LARGEST = {Elem.E2M1: 6.0, Elem.E2M3: 7.5, Elem.E3M2: 28.0, Elem.E4M3: 448.0, Elem.E5M2: 57344.0}


def codes(bits: int) -> Plane:
    """The stream of codes: element j of a row is bits [j * bits, (j + 1) * bits) of its words.

    Codes of 8 bits are bytes, which every target loads as neighbours.
    """
    return Plane("codes", (u8,), ROWS, per(1)) if bits == 8 else _words(bits)


def _words(bits: int) -> Plane:
    return Plane("codes", (u32,), ROWS, words(bits))


def factor(name: str, group: int, dtypes: tuple[DType, ...] = FLOATS) -> Plane:
    """One factor for each group of each row; one a row when group is 0."""
    return Plane(name, dtypes, ROWS, per(group))


def chunk(bits: int, group: int) -> int:
    """Elements a kernel takes at once: whole words, at most 32, a part of a group or whole ones.

    ValueError when there is no such number.
    """
    natural = 16 if bits == 8 else 32
    shared = gcd(natural, group) if group else natural
    if shared * bits % 32 == 0:
        return shared
    if natural % group:
        raise ValueError(f"codes of {bits} bits in groups of {group} have no chunk of whole words")
    return natural


def stream(
    name: str, elem: Elem, bits: int, group: int, planes: tuple[Plane, ...], **rest: Any
) -> Format:
    """A format of the stream layout; scaled by floats and encoded exactly unless `rest` differs."""
    vec = chunk(bits, group)
    settings: dict[str, Any] = {
        "algebra": Algebra.SCALED,
        "scale": Scale.FLOAT,
        "encode": Encode.EXACT,
        "tier": 1,
        "multiple": group or 1,
    }
    return Format(
        name=name,
        elem=elem,
        bits=bits,
        group=group,
        planes=(codes(bits), *planes),
        body="stream",
        block=vec,
        vec=vec,
        **(settings | rest),
    )


def dense() -> list[Format]:
    """Plain floats, so that every operation on weights has one signature."""
    return [
        Format(
            name=dtype.name,
            tier=1,
            elem=Elem.VALUE,
            bits=dtype.bits,
            algebra=Algebra.DENSE,
            group=0,
            planes=(Plane("values", (dtype,), ROWS, per(1)),),
            body="dense",
            block=16,
            vec=16,
            encode=Encode.EXACT,
            ids=Ids(ggml=ggml),
        )
        for dtype, ggml in ((f32, 0), (f16, 1), (bf16, 30))
    ]


def affine() -> list[Format]:
    """MLX affine integers: `mlx_int{b}_g{G}`, scales and biases in the model's float type."""
    return [
        stream(
            f"mlx_int{bits}_g{group}",
            Elem.UINT,
            bits,
            group,
            (factor("scales", group), factor("biases", group)),
            algebra=Algebra.AFFINE,
            rule=Rule.EDGE,
            ids=Ids(
                mlx=f"affine, bits {bits}, group_size {group}",
                suffixes=(".weight", ".scales", ".biases"),
            ),
        )
        for bits in (1, 2, 3, 4, 5, 6, 8)
        for group in (32, 64, 128)
    ]


def integers() -> list[Format]:
    """Symmetric integers with float scales, named by the scale's dtype; `row` is one scale a row.

    `int{b}_g{G}_{scale}` holds two's complement, `int{b}_sym_g{G}_{scale}` the code plus half its
    range, as compressed-tensors packs it.
    """
    return [
        _integer(elem, bits, group, dtype)
        for bits in range(1, 9)
        for group in (0, 32, 64, 128, 256)
        for elem in (Elem.INT, Elem.OFFSET)
        for dtype in (f32, f16, bf16)
        if (bits not in (1, 7) or elem is Elem.OFFSET) and (group != 256 or bits == 8)
    ]


def _integer(elem: Elem, bits: int, group: int, dtype: DType) -> Format:
    offset = elem is Elem.OFFSET
    name = f"int{bits}{'_sym' * offset}_{f'g{group}' if group else 'row'}_{dtype}"
    aliases = {
        "int8_row_f32": ("int8_row",),
        "int8_g32_f32": ("int8_g32",),
        "int4_sym_g32_f32": ("ct_pack_int4_sym",),
        "int2_sym_row_f32": ("gemma_int2",),
        "int4_sym_row_f32": ("gemma_int4",),
    }
    ids = Ids(ct="int-quantized", suffixes=(".weight", ".weight_scale"))
    if offset:
        suffixes = (".weight_packed", ".weight_scale", ".weight_shape")
        ids = Ids(ct=f"pack-quantized, num_bits {bits}", suffixes=suffixes)
    return stream(
        name,
        elem,
        bits,
        group,
        (factor("scales", group, (dtype,)),),
        rule=Rule.FULL if bits == 1 else Rule.AMAX,
        aliases=aliases.get(name, ()),
        ids=ids if offset or bits == 8 else Ids(),
    )


def zeros() -> list[Format]:
    """Integers with a stored zero point: `int{b}_zp_g{G}`; where GPTQ, AWQ and others repack to.

    A zero point may be a float (HQQ) or exceed the range of the codes by one (GPTQ).
    """
    return [
        stream(
            f"int{bits}_zp_{f'g{group}' if group else 'row'}",
            Elem.UINT,
            bits,
            group,
            (factor("scales", group), factor("zeros", group, (u16, f32, f16, bf16))),
            tier=2,
            algebra=Algebra.ZERO,
            rule=Rule.ZERO_POINT,
        )
        for bits in (1, 2, 3, 4, 5, 6, 7, 8)
        for group in (0, 8, 16, 32, 64, 128)
    ]


def powers() -> list[Format]:
    """OCP MX: a power of two for each 32 elements, plus int4 with the same scale."""
    names: tuple[tuple[str, Elem, int, int, dict[str, Any]], ...] = (
        ("mxfp4", Elem.E2M1, 4, 1, {"aliases": ("mlx_mxfp4", "mxfp4_gptoss", "mxfp4_dsv4")}),
        ("mxfp6_e2m3", Elem.E2M3, 6, 2, {}),
        ("mxfp6_e3m2", Elem.E3M2, 6, 2, {}),
        ("mxfp8_e4m3", Elem.E4M3, 8, 1, {"aliases": ("mlx_mxfp8",)}),
        ("mxfp8_e5m2", Elem.E5M2, 8, 1, {}),
        *((f"mxint{b}", Elem.FIXED, b, 1, {}) for b in (2, 3, 4, 5, 6, 8)),
        ("int4_sym_g32_e8m0", Elem.OFFSET, 4, 1, {"rule": Rule.CEIL}),
    )
    out: list[Format] = []
    for name, elem, bits, tier, more in names:
        mlx = {"mxfp4": "mxfp4", "mxfp8_e4m3": "mxfp8"}.get(name, "")
        ct = {"mxfp4": "mxfp4-pack-quantized", "mxfp6_e2m3": "mxfp6-pack-quantized",
              "mxfp8_e4m3": "mxfp8-quantized"}.get(name, "")  # fmt: skip
        rest: dict[str, Any] = {"rule": Rule.FLOOR, "tier": tier, "scale": Scale.E8M0}
        ids = Ids(mlx=mlx, ct=ct)
        planes = (factor("scales", 32, (u8,)),)
        out.append(stream(name, elem, bits, 32, planes, ids=ids, **(rest | more)))
    return out


def nvidia() -> list[Format]:
    """E2M1 in groups of 16 with an E4M3 scale, and a float beside it that multiplies or divides."""
    planes = (factor("scales", 16, (u8,)), Plane("outer", (f32,), ROWS, ONE))
    settings: dict[str, Any] = {"scale": Scale.E4M3, "rule": Rule.TWO_LEVEL}
    modelopt = (".weight", ".weight_scale", ".weight_scale_2")
    packed = (".weight_packed", ".weight_scale", ".weight_global_scale")
    return [
        stream(
            "nvfp4", Elem.E2M1, 4, 16, planes, outer=Outer.MULTIPLY,
            ids=Ids(mlx="nvfp4", method="modelopt NVFP4", suffixes=modelopt),
            aliases=("mlx_nvfp4", "nvfp4_modelopt"), **settings,
        ),
        stream(
            "nvfp4_ct", Elem.E2M1, 4, 16, planes, outer=Outer.DIVIDE,
            ids=Ids(ct="nvfp4-pack-quantized", suffixes=packed), **settings,
        ),
    ]  # fmt: skip


def floats() -> list[Format]:
    """Small floats in groups with float scales, named by the scale's dtype."""
    kinds = (
        ("nvfp8", Elem.E4M3, 16),
        ("fp4_g32", Elem.E2M1, 32),
        ("fp8_e4m3_g32", Elem.E4M3, 32),
        ("fp8_e5m2_g32", Elem.E5M2, 32),
    )
    return [
        stream(
            f"{name}_{dtype}", elem, WIDTHS[elem], group, (factor("scales", group, (dtype,)),),
            rule=Rule.AMAX,
        )
        for name, elem, group in kinds
        for dtype in (f32, f16)
    ]  # fmt: skip


def scaled_fp8() -> list[Format]:
    """FP8 with one scale a row or a tensor, or one for a tile of 128 by 128."""
    row = (factor("scales", 0, (f32, f16, bf16)),)
    tensor = (Plane("scales", (f32, f16, bf16), ONE, ONE),)
    out: list[Format] = []
    for elem in (Elem.E4M3, Elem.E5M2):
        name = f"fp8_{elem.name.lower()}"
        for suffix, planes, rows in (("row", row, 1), ("tensor", tensor, 0)):
            out.append(
                stream(
                    f"{name}_{suffix}", elem, 8, 0, planes, scale_rows=rows, rule=Rule.AMAX,
                    ids=Ids(ct="float-quantized", suffixes=(".weight", ".weight_scale")),
                )
            )  # fmt: skip
    return [*out, fp8_tile(128, 128, "f32"), fp8_tile(128, 128, "e8m0")]


def fp8_tile(rows: int, group: int, kind: str) -> Format:
    """E4M3 with one scale (`f32` or `e8m0`) for each tile of `rows` by `group`; edges partial."""
    power = kind == "e8m0"
    name = f"fp8_e4m3_b{rows}" + ("" if rows == group else f"x{group}") + f"_{kind}"
    dtypes = (u8,) if power else (f32, bf16, f16)
    tiles = Plane("scales", dtypes, Extent(n=1, down=rows), per(group))
    suffix = ".scale" if power else ".weight_scale_inv"
    return stream(
        name, Elem.E4M3, 8, group, (tiles,),
        multiple=1,
        scale=Scale.E8M0 if power else Scale.FLOAT,
        scale_rows=rows,
        rule=Rule.CEIL if power else Rule.AMAX,
        ids=Ids(method="fp8", suffixes=(".weight", suffix)),
        aliases=(f"fp8_e4m3_block_{kind}",) if rows == group == 128 else (),
    )  # fmt: skip


def caches() -> list[Format]:
    """Keys and values of attention: planes as above, an encoder that needs one pass a token."""
    out: list[Format] = []
    for group in (32, 64, 128):
        for bits in (8, 4):
            planes = (factor("scales", group), factor("biases", group))
            alias = (f"kv_int{bits}",) if group == 64 else ()
            out.append(
                stream(
                    f"kv_int{bits}_g{group}", Elem.UINT, bits, group, planes,
                    algebra=Algebra.AFFINE, rule=Rule.MINMAX, aliases=alias,
                )
            )  # fmt: skip
        for elem in (Elem.E4M3, Elem.E5M2):
            name = f"kv_fp8_{elem.name.lower()}"
            alias = (name,) if group == 64 else ()
            planes = (factor("scales", group),)
            out.append(
                stream(f"{name}_g{group}", elem, 8, group, planes, rule=Rule.AMAX, aliases=alias)
            )
    return out


def rotated() -> list[Format]:
    """AURA: a norm for each vector, codes of its rotated direction in a shared codebook."""
    return [
        stream(
            f"aura_{bits}",
            Elem.CODEBOOK,
            bits,
            0,
            (factor("scales", 0), Plane("codebook", FLOATS[::-1], ONE, Extent(up=1 << bits))),
            tier=2 if bits == 6 else 1,
            rule=Rule.LLOYD,
            aliases=(f"aura_int{bits}",),
            note="decodes in rotated space; the norm stands in `scales`",
        )
        for bits in (2, 3, 4, 6, 8)
    ]


def tables() -> list[Format]:
    """Codes that index a table: what the small blocks of GGUF and bitsandbytes repack to."""
    fixed: tuple[tuple[str, int, int, tuple[float, ...]], ...] = (
        ("nl4_g32_f16", 4, 32, NL4),
        ("sign_g128_f16", 1, 128, (-1, 1)),
        ("ternary_g64_f16", 2, 64, (-1, 0, 1, 2)),
        ("ternary_g256_f16", 2, 256, (-1, 0, 1, 2)),
        ("ternary_row_f32", 2, 0, (-1, 0, 1, 2)),
    )
    out: list[Format] = []
    for name, bits, group, table in fixed:
        planes = (factor("scales", group, (f16 if group else f32,)),)
        settings: dict[str, Any] = {"encode": Encode.DECODE_ONLY, "reason": REPACKED}
        out.append(stream(name, Elem.TABLE, bits, group, planes, table=table, tier=2, **settings))
    for group in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
        book = Plane("codebook", (f32,), ONE, Extent(up=16))
        planes = (factor("scales", group, (f32,)), book)
        out.append(
            stream(
                f"codebook4_g{group}", Elem.CODEBOOK, 4, group, planes, tier=2, rule=Rule.NEAREST
            )
        )
    return out


def supers() -> list[Format]:
    """Two levels of scales in super-blocks of 256: what K-quants repack to."""
    kinds: tuple[tuple[str, Elem, int, int, bool], ...] = (
        ("super_int2_g16", Elem.UINT, 2, 16, True),
        ("super_int3_g16", Elem.OFFSET, 3, 16, False),
        ("super_int4_g32", Elem.UINT, 4, 32, True),
        ("super_int5_g32", Elem.UINT, 5, 32, True),
        ("super_int6_g16", Elem.OFFSET, 6, 16, False),
        ("super_nl4_g32", Elem.TABLE, 4, 32, False),
    )
    out: list[Format] = []
    for name, elem, bits, group, has_mins in kinds:
        planes = (factor("scales", group, (u8 if has_mins else i8,)), factor("supers", 256, (f16,)))
        if has_mins:
            planes += (factor("mins", group, (u8,)), factor("super_mins", 256, (f16,)))
        out.append(
            stream(
                name, elem, bits, group, planes, tier=2, multiple=256, supers=256 // group,
                scale=Scale.SUPER, algebra=Algebra.AFFINE if has_mins else Algebra.SCALED,
                table=NL4 if elem is Elem.TABLE else (), encode=Encode.DECODE_ONLY,
                reason=REPACKED,
            )
        )  # fmt: skip
    return out


def formats() -> list[Format]:
    """Every format of the stream layout, and plain floats."""
    families = (dense, affine, integers, zeros, powers, nvidia, floats, scaled_fp8, caches)
    return [f for family in (*families, rotated, tables, supers) for f in family()]
