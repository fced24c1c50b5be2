"""Lossless changes of layout: the weights stay the same bit for bit, only their places change.

An edge leads from one format to another and is refused, never approximated, where the values at
hand have no place in the target. `to_planes` takes raw blocks and foreign layouts to a stream of
codes with factors beside it, which kernels read in whole words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.errors import KernelError, error
from iron.quant import columns, tiles
from iron.quant.format import Format, by_name
from iron.quant.format.tiled import BASES, SUFFIX
from iron.quant.pack import stream, unpack
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def to_planes(weight: QTensor) -> QTensor:
    """The same weights as a stream of codes with factors beside it; itself if it is one already.

    Raises E0601 when the format has no such form, or these weights have none in it.
    """
    if weight.fmt.body in ("stream", "dense"):
        return weight
    return repack(weight, plane_form(weight.fmt))


def to_tiles(weight: QTensor) -> QTensor:
    """The same weights with 32 rows side by side, for kernels with a thread for each row.

    Raises E0601 when the format has no such form.
    """
    if weight.fmt.body == "tiles":
        return weight
    direct = [t for s, t in EDGES if s == weight.fmt.name and by_name(t).body == "tiles"]
    if direct:
        return repack(weight, direct[0])
    planes = to_planes(weight)
    if planes.fmt.name == "int8_g32_f16":
        planes = repack(planes, "int8_sym_g32_f16")
    if planes.fmt.name not in BASES:
        raise error("E0601", f"{weight.fmt} has no form with rows side by side")
    return repack(planes, planes.fmt.name + SUFFIX)


def plane_form(fmt: Format) -> str:
    """The name of the stream format with the same weights; E0601 when there is none."""
    if fmt.body in ("stream", "dense"):
        return fmt.name
    found = next((t for s, t in EDGES if s == fmt.name and by_name(t).body == "stream"), "")
    if found:
        return found
    size = fmt.name.rsplit("_", 1)[-1]
    if fmt.body in ("gptq", "awq", "ct_asym", "hqq"):
        return f"int{fmt.bits}_zp_{size}"
    if fmt.body in ("bnb", "bnb_dq"):
        return f"codebook4_g{fmt.group}"
    if fmt.body == "bitnet":
        return "ternary_row_f32"
    hint = "sort its columns first: iron.quant.columns.sort" if fmt.reordered else ""
    raise error("E0601", f"{fmt} has no lossless form as planes", help=hint)


def repack(weight: QTensor, target: str) -> QTensor:
    """The same weights in the format `target`, bit for bit.

    Raises E0601 when no edge leads there, or a value has no place in the target.
    """
    fmt = by_name(target)
    edge = EDGES.get((weight.fmt.name, fmt.name))
    if edge is None and weight.fmt.body in columns.EDGES and fmt.name == plane_form(weight.fmt):
        edge = columns.EDGES[weight.fmt.body]
    if edge is None:
        raise error("E0601", f"no lossless way leads from {weight.fmt} to {fmt}")
    return QTensor(fmt, edge(weight), weight.shape)


def refuse(weight: QTensor, target: str, reason: str) -> KernelError:
    """E0601: these weights have no place in the target."""
    return error("E0601", f"{weight.fmt} has no lossless form as {target} here: {reason}")


# --- raw blocks to planes -------------------------------------------------------------------------


def blocks_of(weight: QTensor) -> Array:
    """The raw blocks as [N, blocks, bytes]."""
    raw = weight.planes["blocks"]
    return raw.reshape(len(raw), -1, weight.fmt.block_bytes)


def stream_of(codes: Array, bits: int) -> Array:
    """[N, blocks, elements] codes as the stream of each row."""
    return stream(codes.reshape(len(codes), -1), bits)


def half(blocks: Array, at: int) -> Array:
    """The f16 at byte `at` of each block, as a plane [N, blocks]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view("<f2")[..., 0]


def nibbles(quants: Array) -> Array:
    """Bytes whose low nibbles are the first half of the elements, as elements."""
    return np.concatenate([quants & 15, quants >> 4], axis=-1)


def fifth_bits(quants: Array) -> Array:
    """Four bytes as 32 elements, bit 0 first, each in bit 4."""
    return np.unpackbits(quants, axis=-1, bitorder="little") << 4


def shifted(quants: Array) -> Array:
    """Bytes of four 2-bit planes as elements: part 0 of all bytes, then part 1."""
    return np.concatenate([(quants >> s) & 3 for s in (0, 2, 4, 6)], axis=-1)


def pairs(quants: Array) -> Array:
    """64 bytes as 256 2-bit codes: two runs of 32 bytes, each with four planes."""
    return np.concatenate([shifted(quants[..., :32]), shifted(quants[..., 32:])], axis=-1)


def halves64(quants: Array) -> Array:
    """128 bytes as 256 nibbles: 32 bytes hold 64 elements."""
    parts = quants.reshape(*quants.shape[:-1], 4, 32)
    return nibbles(parts).reshape(*quants.shape[:-1], 256)


def bit_planes(quants: Array) -> Array:
    """32 bytes as 256 bits: bit j of all bytes is part j."""
    return np.concatenate([(quants >> s) & 1 for s in range(8)], axis=-1)


def _q4_0(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return {"codes": stream_of(nibbles(b[..., 2:]), 4), "scales": half(b, 0)}


def _q4_1(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    codes = stream_of(nibbles(b[..., 4:]), 4)
    return {"codes": codes, "scales": half(b, 0), "biases": half(b, 2)}


def _q5_0(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    codes = nibbles(b[..., 6:]) | fifth_bits(b[..., 2:6])
    return {"codes": stream_of(codes, 5), "scales": half(b, 0)}


def _q5_1(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    codes = nibbles(b[..., 8:]) | fifth_bits(b[..., 4:8])
    return {"codes": stream_of(codes, 5), "scales": half(b, 0), "biases": half(b, 2)}


def _q8_0(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return {"codes": stream_of(b[..., 2:], 8), "scales": half(b, 0)}


def _q8_1(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return {"codes": stream_of(b[..., 4:], 8), "scales": half(b, 0)}


def _q8_k(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    scales = np.ascontiguousarray(b[..., :4]).view("<f4")[..., 0]
    return {"codes": stream_of(b[..., 4:260], 8), "scales": scales}


def _flat(scales: Array) -> Array:
    """[N, blocks, groups] as a plane."""
    return np.ascontiguousarray(scales.reshape(len(scales), -1))


def _q2_k(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return {
        "codes": stream_of(pairs(b[..., 16:80]), 2),
        "scales": _flat(b[..., :16] & 15),
        "supers": half(b, 80),
        "mins": _flat(b[..., :16] >> 4),
        "super_mins": half(b, 82),
    }


def _q3_k(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    codes = pairs(b[..., 32:96]) | (bit_planes(b[..., :32]) << 2)
    low = nibbles(b[..., 96:104])
    scales = (low | (shifted(b[..., 104:108]) << 4)).astype(np.int8) - np.int8(32)
    return {"codes": stream_of(codes, 3), "scales": _flat(scales), "supers": half(b, 108)}


def _six_bits(b: Array) -> tuple[Array, Array]:
    """Eight scales and eight minima from twelve bytes."""
    first, middle, last = b[..., :4], b[..., 4:8], b[..., 8:]
    scales = [first & 63, (last & 15) | ((first >> 6) << 4)]
    mins = [middle & 63, (last >> 4) | ((middle >> 6) << 4)]
    return np.concatenate(scales, -1), np.concatenate(mins, -1)


def _q4_k(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    scales, mins = _six_bits(b[..., 4:16])
    codes = halves64(b[..., 16:])
    return _super(b, stream_of(codes, 4), scales, mins)


def _q5_k(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    scales, mins = _six_bits(b[..., 4:16])
    codes = halves64(b[..., 48:]) | (bit_planes(b[..., 16:48]) << 4)
    return _super(b, stream_of(codes, 5), scales, mins)


def _super(b: Array, codes: Array, scales: Array, mins: Array) -> dict[str, Array]:
    return {
        "codes": codes,
        "scales": _flat(scales),
        "supers": half(b, 0),
        "mins": _flat(mins),
        "super_mins": half(b, 2),
    }


def _q6_k(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    low = [nibbles(b[..., at : at + 64]) for at in (0, 64)]
    codes = np.concatenate(low, -1) | (pairs(b[..., 128:192]) << 4)
    scales = _flat(b[..., 192:208]).view(np.int8)
    return {"codes": stream_of(codes, 6), "scales": scales, "supers": half(b, 208)}


def _iq4_xs(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    codes = nibbles(b[..., 8:].reshape(*b.shape[:-1], 8, 16))
    j = np.arange(8)
    low = (b[..., 4 + j // 2] >> (j % 2 * 4).astype(np.uint8)) & 15
    high = (b[..., 2 + j // 4] >> (j % 4 * 2).astype(np.uint8)) & 3
    scales = (low | (high << 4)).astype(np.int8) - np.int8(32)
    return {"codes": stream_of(codes, 4), "scales": _flat(scales), "supers": half(b, 0)}


def _tq1_0(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    powers = np.array([1, 3, 9, 27, 81], np.uint8)[:, None]
    digits: list[Array] = []
    for low, high, count in ((0, 32, 5), (32, 48, 5), (48, 52, 4)):
        kept = b[..., None, low:high] * powers[:count]
        digits.append(((kept.astype(np.uint16) * 3) >> 8).reshape(*b.shape[:-1], -1))
    codes = np.concatenate(digits, -1).astype(np.uint8)
    return {"codes": stream_of(codes, 2), "scales": half(b, 52)}


def _tq2_0(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return {"codes": stream_of(pairs(b[..., :64]), 2), "scales": half(b, 64)}


def _tiles(codes: Array, bits: int, **factors: Array) -> dict[str, Array]:
    """[N, blocks, elements] codes and planes of factors with rows side by side."""
    words = tiles.words_of(codes.reshape(len(codes), -1), bits)
    held = {name: tiles.beside(plane) for name, plane in factors.items()}
    return {"codes": tiles.beside(words), **held}


def _q4_0_tiles(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return _tiles(nibbles(b[..., 2:]), 4, scales=half(b, 0))


def _q4_1_tiles(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return _tiles(nibbles(b[..., 4:]), 4, scales=half(b, 0), biases=half(b, 2))


def _q8_0_tiles(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    return _tiles(b[..., 2:] ^ np.uint8(0x80), 8, scales=half(b, 0))


def _in_order(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    quants = np.ascontiguousarray(b[..., 2:]).reshape(len(b), -1)
    return {"codes": quants.view("<u4"), "scales": half(b, 0)}


def _positive_zero(codes: Array) -> Array:
    """E2M1 codes with 0 for -0, which ggml's table does not have."""
    return np.where(codes == 8, np.uint8(0), codes)


def _mxfp4(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    scales = np.ascontiguousarray(b[..., 0])
    if (scales == 255).any():
        raise refuse(w, "mxfp4", "the exponent 255 is NaN there")
    return {"codes": stream_of(_positive_zero(nibbles(b[..., 1:])), 4), "scales": scales}


def _nvfp4(w: QTensor) -> dict[str, Array]:
    b = blocks_of(w)
    scales = _flat(b[..., :4])
    if (scales == 255).any():
        raise refuse(w, "nvfp4", "the scale 0xFF (480) is NaN there")
    codes = nibbles(b[..., 4:].reshape(*b.shape[:-1], 4, 8))
    return {
        "codes": stream_of(_positive_zero(codes), 4),
        "scales": np.where(scales == 0x7F, np.uint8(0), scales & np.uint8(0x7F)),
        "outer": np.ones((len(b), 1), np.float32),
    }


# --- planes to raw blocks -------------------------------------------------------------------------


def _raw(codes: Array) -> Array:
    """Elements as bytes whose low nibbles are the first half."""
    middle = codes.shape[-1] // 2
    return codes[..., :middle] | (codes[..., middle:] << 4)


def _groups(w: QTensor, size: int) -> Array:
    """Codes as [N, groups, size]."""
    return unpack(w.planes["codes"], w.fmt.bits, w.cols).reshape(w.rows, -1, size)


def _bytes(w: QTensor, name: str, target: str) -> Array:
    """An f16 plane as [N, groups, 2] bytes."""
    plane = w.planes[name]
    if plane.dtype != np.float16:
        raise refuse(w, target, f"{name} are {plane.dtype}, the blocks hold f16")
    return np.ascontiguousarray(plane)[..., None].view(np.uint8)


def _joined(*parts: Array) -> dict[str, Array]:
    blocks = np.concatenate(parts, -1)
    return {"blocks": blocks.reshape(len(blocks), -1)}


def _to_q4_0(w: QTensor) -> dict[str, Array]:
    return _joined(_bytes(w, "scales", "gguf_q4_0"), _raw(_groups(w, 32)))


def _to_q4_1(w: QTensor) -> dict[str, Array]:
    factors = (_bytes(w, name, "gguf_q4_1") for name in ("scales", "biases"))
    return _joined(*factors, _raw(_groups(w, 32)))


def _to_q8_0(w: QTensor) -> dict[str, Array]:
    return _joined(_bytes(w, "scales", "gguf_q8_0"), _groups(w, 32))


def _to_mxfp4(w: QTensor) -> dict[str, Array]:
    codes, scales = _groups(w, 32), w.planes["scales"]
    if (codes == 8).any():
        raise refuse(w, "gguf_mxfp4", "it has no negative zero")
    if (scales == 255).any():
        raise refuse(w, "gguf_mxfp4", "it has no NaN")
    return _joined(scales[..., None], _raw(codes))


def _to_nvfp4(w: QTensor) -> dict[str, Array]:
    codes, scales = _groups(w, 16), w.planes["scales"]
    if (w.planes["outer"] != 1).any():
        raise refuse(w, "gguf_nvfp4", "the factor of the tensor is not 1")
    if (codes == 8).any() or (scales >= 0x7F).any():
        raise refuse(w, "gguf_nvfp4", "it has no negative zero, negative scale or NaN")
    lead = (w.rows, -1)
    return _joined(scales.reshape(*lead, 4), _raw(codes).reshape(*lead, 32))


Edge = Callable[[QTensor], dict[str, Array]]
EDGES: Final[Mapping[tuple[str, str], Edge]] = MappingProxyType(
    {
        ("gguf_q4_0", "int4_sym_g32_f16"): _q4_0,
        ("gguf_q4_1", "mlx_int4_g32"): _q4_1,
        ("gguf_q5_0", "int5_sym_g32_f16"): _q5_0,
        ("gguf_q5_1", "mlx_int5_g32"): _q5_1,
        ("gguf_q8_0", "int8_g32_f16"): _q8_0,
        ("gguf_q8_1", "int8_g32_f16"): _q8_1,
        ("gguf_q8_k", "int8_g256_f32"): _q8_k,
        ("gguf_q2_k", "super_int2_g16"): _q2_k,
        ("gguf_q3_k", "super_int3_g16"): _q3_k,
        ("gguf_q4_k", "super_int4_g32"): _q4_k,
        ("gguf_q5_k", "super_int5_g32"): _q5_k,
        ("gguf_q6_k", "super_int6_g16"): _q6_k,
        ("gguf_iq4_nl", "nl4_g32_f16"): _q4_0,
        ("gguf_iq4_xs", "super_nl4_g32"): _iq4_xs,
        ("gguf_tq1_0", "ternary_g256_f16"): _tq1_0,
        ("gguf_tq2_0", "ternary_g256_f16"): _tq2_0,
        ("gguf_q1_0", "sign_g128_f16"): _in_order,
        ("gguf_q2_0", "ternary_g64_f16"): _in_order,
        ("gguf_mxfp4", "mxfp4"): _mxfp4,
        ("gguf_nvfp4", "nvfp4"): _nvfp4,
        ("int4_sym_g32_f16", "gguf_q4_0"): _to_q4_0,
        ("mlx_int4_g32", "gguf_q4_1"): _to_q4_1,
        ("int8_g32_f16", "gguf_q8_0"): _to_q8_0,
        ("mxfp4", "gguf_mxfp4"): _to_mxfp4,
        ("nvfp4", "gguf_nvfp4"): _to_nvfp4,
        ("gguf_q4_0", "int4_sym_g32_f16_r32"): _q4_0_tiles,
        ("gguf_q4_1", "mlx_int4_g32_r32"): _q4_1_tiles,
        ("gguf_q8_0", "int8_sym_g32_f16_r32"): _q8_0_tiles,
        **tiles.EDGES,
    }
)
