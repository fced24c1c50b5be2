"""Formats whose codes are one little-endian bit stream a row with factors in planes beside it."""

from __future__ import annotations

from typing import Any

from iron.dtypes import DType, bf16, f16, f32, u32
from iron.quant.format.record import (
    ROWS,
    Algebra,
    Elem,
    Encode,
    Format,
    Ids,
    Plane,
    Rule,
    Scale,
    per,
    words,
)

FLOATS = (f16, bf16, f32)


def codes(bits: int) -> Plane:
    """The stream of codes: element j of a row is bits [j * bits, (j + 1) * bits) of its words."""
    return Plane("codes", (u32,), ROWS, words(bits))


def factor(name: str, group: int, dtypes: tuple[DType, ...] = FLOATS) -> Plane:
    """One factor for each group of each row."""
    return Plane(name, dtypes, ROWS, per(group))


def chunk(bits: int, group: int) -> int:
    """Elements a kernel takes at once: whole words, at most 32, within one group."""
    natural = 16 if bits == 8 else 32
    return min(natural, group) if group else natural


def stream(name: str, bits: int, group: int, planes: tuple[Plane, ...], **rest: Any) -> Format:
    """A format of the stream layout."""
    vec = chunk(bits, group)
    return Format(
        name=name,
        bits=bits,
        group=group,
        planes=(codes(bits), *planes),
        body="stream",
        block=vec,
        vec=vec,
        multiple=group or 1,
        **rest,
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
            bits,
            group,
            (factor("scales", group), factor("biases", group)),
            tier=1,
            elem=Elem.UINT,
            algebra=Algebra.AFFINE,
            scale=Scale.FLOAT,
            encode=Encode.EXACT,
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
    """Symmetric integers with float scales, named by the scale's dtype.

    `int{b}_g{G}_{scale}` holds two's complement, `int{b}_sym_g{G}_{scale}` the code plus half its
    range.
    """
    return [
        stream(
            f"int{bits}{'_sym' if elem is Elem.OFFSET else ''}_g{group}_{dtype}",
            bits,
            group,
            (factor("scales", group, (dtype,)),),
            tier=1,
            elem=elem,
            algebra=Algebra.SCALED,
            scale=Scale.FLOAT,
            encode=Encode.EXACT,
            rule=Rule.AMAX,
        )
        for bits in (2, 3, 4, 5, 6, 8)
        for group in (32, 64, 128)
        for elem in (Elem.INT, Elem.OFFSET)
        for dtype in (f32, f16, bf16)
    ]
