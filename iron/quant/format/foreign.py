"""Formats of checkpoints with a layout of their own: GPTQ, AWQ, bitsandbytes, HQQ and others.

Planes keep the file's arrays as they are. Each has a lossless form in the stream layout, which is
what kernels take; `iron.quant.repack` makes it.
"""

from __future__ import annotations

from typing import Any

from iron.dtypes import bf16, f16, f32, i32, u8, u32
from iron.quant.format.record import (
    ONE,
    ROWS,
    Algebra,
    Elem,
    Encode,
    Extent,
    Format,
    Ids,
    Plane,
    Rule,
    Scale,
    per,
    words,
)
from iron.quant.format.regular import codes

FLOATS = (f16, bf16, f32)
COLUMNS = Extent(n=1)


def other(name: str, body: str, elem: Elem, bits: int, group: int, **rest: Any) -> Format:
    """A format of a foreign layout; decode only unless `rest` says otherwise."""
    settings: dict[str, Any] = {
        "tier": 2,
        "algebra": Algebra.ZERO,
        "scale": Scale.FLOAT,
        "multiple": group or 1,
        "reason": "write the stream form instead; only old software needs this layout",
    }
    vec = min(32, rest.get("multiple", group) or 32)
    return Format(
        name=name,
        elem=elem,
        bits=bits,
        group=group,
        body=body,
        block=vec,
        vec=vec,
        **(settings | rest),
    )


def gptq() -> list[Format]:
    """GPTQ: codes packed down the K axis, zero points along N.

    Version 1 stores the zero point less one. `_act` has a group index for each column of K.
    """
    out: list[Format] = []
    for bits in (2, 3, 4, 8):
        for group in (0, 32, 64, 128):
            for version in (1, 2):
                for act in (False, True)[: 2 if group else 1]:
                    out.append(_gptq(bits, group, version, act))
    return out


def _gptq(bits: int, group: int, version: int, act: bool) -> Format:
    groups = per(group)
    planes = (
        Plane("qweight", (u32,), words(bits), COLUMNS),
        Plane("qzeros", (u32,), groups, Extent(n=1, up=bits, down=32)),
        Plane("scales", FLOATS, groups, COLUMNS),
        *((Plane("g_idx", (i32,), ONE, per(1)),) if act else ()),
    )
    size = f"g{group}" if group else "row"
    name = f"gptq_int{bits}_v{version}_{size}{'_act' * act}"
    alias = (f"gptq_int{bits}_v{version}",) if group == 32 and not act else ()
    return other(
        name,
        "gptq_act" if act else "gptq",
        Elem.UINT,
        bits,
        1 if act else group,
        planes=planes,
        multiple=group or 32,
        zero_step=2 - version,
        ids=Ids(
            method=f"gptq, checkpoint_format {'gptq' if version == 1 else 'gptq_v2'}",
            suffixes=(".qweight", ".qzeros", ".scales", ".g_idx"),
        ),
        aliases=alias,
    )


def awq() -> list[Format]:
    """AWQ in its GEMM layout: eight columns of N in a word, in the order 0 2 4 6 1 3 5 7."""
    out: list[Format] = []
    for group in (0, 32, 64, 128):
        groups = per(group)
        eighth = Extent(n=1, down=8)
        planes = (
            Plane("qweight", (u32,), Extent(k=1), eighth),
            Plane("qzeros", (u32,), groups, eighth),
            Plane("scales", FLOATS, groups, COLUMNS),
        )
        ids = Ids(method="awq, version gemm", suffixes=(".qweight", ".qzeros", ".scales"))
        size = f"g{group}" if group else "row"
        out.append(
            other(
                f"awq_int4_{size}", "awq", Elem.UINT, 4, group, planes=planes, ids=ids,
                aliases=("awq_int4",) if group == 128 else (),
            )
        )  # fmt: skip
    return out


def packed_zeros() -> list[Format]:
    """compressed-tensors integers with zero points packed along N."""
    out: list[Format] = []
    for bits in range(1, 9):
        for group in (0, 32, 64, 128):
            planes = (
                codes(bits),
                Plane("scales", FLOATS, ROWS, per(group)),
                Plane("zeros", (u32,), Extent(n=1, up=bits, down=32), per(group)),
            )
            suffixes = (".weight_packed", ".weight_scale", ".weight_zero_point", ".weight_shape")
            size = f"g{group}" if group else "row"
            out.append(
                other(
                    f"ct_pack_int{bits}_asym_{size}", "ct_asym", Elem.UINT, bits, group,
                    planes=planes, aliases=(f"ct_pack_int{bits}_asym",) if group == 32 else (),
                    encode=Encode.EXACT, rule=Rule.ZERO_POINT,
                    ids=Ids(ct=f"pack-quantized, num_bits {bits}", suffixes=suffixes),
                )
            )  # fmt: skip
    return out


def packed_reordered() -> list[Format]:
    """compressed-tensors integers whose columns were reordered: the plain planes and an index."""
    return [
        _reordered(bits, group, asymmetric)
        for bits in range(1, 9)
        for group in (32, 64, 128)
        for asymmetric in (False, True)
    ]


def _reordered(bits: int, group: int, asymmetric: bool) -> Format:
    suffixes = (".weight_packed", ".weight_scale", ".weight_shape", ".weight_g_idx")
    planes = (
        codes(bits),
        Plane("scales", FLOATS, ROWS, per(group)),
        Plane("g_idx", (i32,), ONE, per(1)),
    )
    if asymmetric:
        planes += (Plane("zeros", (u32,), Extent(n=1, up=bits, down=32), per(group)),)
        suffixes += (".weight_zero_point",)
    kind = "asym" if asymmetric else "sym"
    return other(
        f"ct_pack_int{bits}_{kind}_g{group}_act",
        f"ct_{kind}_act",
        Elem.UINT if asymmetric else Elem.OFFSET,
        bits,
        1,
        planes=planes,
        algebra=Algebra.ZERO if asymmetric else Algebra.SCALED,
        multiple=group,
        ids=Ids(ct=f"pack-quantized, num_bits {bits}, actorder group", suffixes=suffixes),
    )


def bitsandbytes() -> list[Format]:
    """bitsandbytes NF4 and FP4: the earlier element in the high nibble, table stored beside."""
    out: list[Format] = []
    for kind in ("nf4", "fp4"):
        for group in (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096):
            for nested in (False, True):
                out.append(_bitsandbytes(kind, group, nested))
    return out


def _bitsandbytes(kind: str, group: int, nested: bool) -> Format:
    once = Plane("absmax", (u8 if nested else f32,), ROWS, per(group))
    planes = (
        Plane("codes", (u8,), ROWS, per(2)),
        once,
        Plane("codebook", (f32,), ONE, Extent(up=16)),
    )
    if nested:
        planes += (
            Plane("nested_absmax", (f32,), ONE, Extent(n=1, k=1, down=256 * group)),
            Plane("nested_codebook", (f32,), ONE, Extent(up=256)),
            Plane("nested_offset", (f32,), ONE, ONE),
        )
    name = f"bnb_{kind}" + ("_dq" if nested else "") + ("" if group == 64 else f"_b{group}")
    return other(
        name,
        "bnb_dq" if nested else "bnb",
        Elem.CODEBOOK,
        4,
        group,
        planes=planes,
        algebra=Algebra.SCALED,
        encode=Encode.DECODE_ONLY if nested else Encode.EXACT,
        rule=Rule.NONE if nested else Rule.NEAREST,
        ids=Ids(method="bitsandbytes", suffixes=(".weight", ".weight.absmax", ".weight.quant_map")),
    )


def hqq() -> list[Format]:
    """HQQ, axis 1: groups as rows of a matrix whose later parts fill the lower bits of each cell.

    Three bits stand ten to a word, the first part in bits 27 to 29.
    """
    out: list[Format] = []
    for bits in (8, 4, 3, 2, 1):
        for group in (8, 16, 32, 64, 128):
            cells = 10 if bits == 3 else 8 // bits
            held = u32 if bits == 3 else u8
            planes = (
                Plane("codes", (held,), Extent(n=1, k=1, down=group * cells), Extent(up=group)),
                Plane("scales", (f32, f16, bf16), ROWS, per(group)),
                Plane("zeros", (f32, f16, bf16), ROWS, per(group)),
            )
            out.append(
                other(
                    f"hqq_int{bits}_g{group}", "hqq", Elem.UINT, bits, group, planes=planes, tier=3,
                    aliases=(f"hqq_int{bits}",) if group == 32 else (),
                    ids=Ids(method="hqq", suffixes=(".W_q", ".scale", ".zero", ".meta")),
                )
            )  # fmt: skip
    return out


def bitnet() -> list[Format]:
    """BitNet: four rows of ternary weights in a byte, N / 4 apart; the stored factor divides."""
    planes = (
        Plane("codes", (u8,), Extent(n=1, down=4), per(1)),
        Plane("scales", FLOATS[::-1], ONE, ONE),
    )
    return [
        other(
            "bitnet", "bitnet", Elem.UINT, 2, 0, planes=planes, tier=3, algebra=Algebra.SCALED,
            ids=Ids(method="bitnet", suffixes=(".weight", ".weight_scale")),
        )
    ]  # fmt: skip


def formats() -> list[Format]:
    """Every foreign layout."""
    families = (gptq, awq, packed_zeros, packed_reordered, bitsandbytes, hqq, bitnet)
    return [f for family in families for f in family()]
