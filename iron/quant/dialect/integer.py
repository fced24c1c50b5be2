"""Checkpoints with a layout of their own: GPTQ, AWQ, bitsandbytes, HQQ, BitNet and Gemma."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from iron.dtypes import of_numpy
from iron.quant.dialect.parts import Dialect, Parts
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]


def size_of(groups: int, k: int) -> str:
    """The part of a format's name that says how many columns share factors."""
    return "row" if groups == 1 else f"g{-(-k // groups)}"


# --- GPTQ and AWQ ---------------------------------------------------------------------------------

LAYERS = (".qweight", ".qzeros", ".scales")


def is_gptq(parts: Parts) -> bool:
    """Words packed down K: as many columns as the scales have."""
    return parts.shape(".qweight")[-1] == parts.shape(".scales")[-1]


def gptq(parts: Parts) -> QTensor:
    """Version by `checkpoint_format` (1 without one); bits and group by the shapes."""
    layout = str(parts.setting("checkpoint_format", parts.setting("format", "gptq")))
    if layout not in ("gptq", "gptq_v2"):
        raise parts.fault(".qweight", f"the GPTQ layout {layout} is a repack for one kernel")
    qweight = parts.array(".qweight").view("<u4")
    qzeros, scales = parts.array(".qzeros").view("<u4"), parts.array(".scales")
    n = qweight.shape[1]
    bits = qzeros.shape[1] * 32 // n
    k = qweight.shape[0] * 32 // bits
    groups = len(scales)
    planes = {"qweight": qweight, "qzeros": qzeros, "scales": scales}
    act = parts.has(".g_idx") and reordered(parts, ".g_idx", k, groups)
    if act:
        planes["g_idx"] = parts.array(".g_idx").astype(np.int32).reshape(1, -1)
    version = 2 if layout == "gptq_v2" else 1
    name = f"gptq_int{bits}_v{version}_{size_of(groups, k)}{'_act' * act}"
    return QTensor(parts.format(name), planes, (n, k))


def reordered(parts: Parts, suffix: str, k: int, groups: int) -> bool:
    """Whether the group index differs from the plain order; E0801 for an index out of range."""
    index = parts.array(suffix).reshape(-1)
    if index.size != k or index.min(initial=0) < 0 or index.max(initial=0) >= groups:
        raise parts.fault(suffix, f"{index.size} indices for {k} columns in {groups} groups")
    return not np.array_equal(index, np.arange(k) // -(-k // groups))


def is_awq(parts: Parts) -> bool:
    """Words packed along N: an eighth of the columns of the scales."""
    return parts.shape(".qweight")[-1] * 8 == parts.shape(".scales")[-1]


def awq(parts: Parts) -> QTensor:
    """The GEMM layout."""
    version = str(parts.setting("version", "gemm")).lower()
    if version != "gemm":
        raise parts.fault(".qweight", f"the AWQ layout {version}; only gemm is read")
    scales = parts.array(".scales")
    qweight, qzeros = parts.array(".qweight").view("<u4"), parts.array(".qzeros").view("<u4")
    k, n = len(qweight), scales.shape[1]
    planes = {"qweight": qweight, "qzeros": qzeros, "scales": scales}
    return QTensor(parts.format(f"awq_int4_{size_of(len(scales), k)}"), planes, (n, k))


# --- bitsandbytes ---------------------------------------------------------------------------------

STATE = ".weight.quant_state.bitsandbytes__"


def state_suffix(parts: Parts) -> str:
    """The suffix of the quantisation state; empty when it is missing."""
    return next((s for s in (STATE + "nf4", STATE + "fp4") if parts.has(s)), "")


def bitsandbytes(parts: Parts) -> QTensor:
    """NF4 or FP4, also with the block maxima in 8 bits; blocks run across the ends of rows.

    Where K is no multiple of the block, maxima are repeated for smaller blocks that are.
    """
    suffix = state_suffix(parts)
    if not suffix:
        raise parts.fault(".weight", "the quantisation state (.weight.quant_state...) is missing")
    try:
        state = json.loads(parts.array(suffix).tobytes())
        shape = tuple(int(s) for s in state["shape"])
        block = int(state["blocksize"])
    except (ValueError, KeyError, TypeError) as problem:
        raise parts.fault(suffix, f"not a quantisation state ({problem})") from None
    n, k = int(np.prod(shape[:-1])), shape[-1]
    kind = suffix[-3:]
    nested = parts.has(".weight.nested_absmax")
    absmax = parts.array(".weight.absmax").reshape(-1)
    codebook = parts.array(".weight.quant_map").astype(np.float32).reshape(1, -1)
    if nested and k % block:
        absmax, nested = whole_maxima(parts, state, absmax), False
    if k % block:
        small = int(np.gcd(k, block))
        absmax = np.repeat(absmax, block // small)[: n * k // small]
        block = small
    codes = parts.array(".weight").reshape(n, k // 2)
    planes = {"codes": codes, "absmax": absmax.reshape(n, k // block), "codebook": codebook}
    if nested:
        planes |= nested_planes(parts, state)
    name = f"bnb_{kind}{'_dq' * nested}{'' if block == 64 else f'_b{block}'}"
    return QTensor(parts.format(name), planes, shape)


def nested_planes(parts: Parts, state: dict[str, Any]) -> dict[str, Array]:
    """The second level: maxima of 256 blocks, their table and the offset of all."""
    return {
        "nested_absmax": parts.array(".weight.nested_absmax").reshape(1, -1),
        "nested_codebook": parts.array(".weight.nested_quant_map").reshape(1, -1),
        "nested_offset": np.array([[state["nested_offset"]]], np.float32),
    }


def whole_maxima(parts: Parts, state: dict[str, Any], absmax: Array) -> Array:
    """The block maxima in f32, by the same arithmetic as the codec."""
    planes = nested_planes(parts, state)
    level = planes["nested_codebook"][0, absmax]
    each = planes["nested_absmax"][0, np.arange(absmax.size) // 256]
    return level * each + planes["nested_offset"][0, 0]


# --- HQQ, BitNet, Gemma ---------------------------------------------------------------------------


def hqq_setting(parts: Parts, name: str) -> Any:
    """A number stored beside the codes, else from the config; None when it is nowhere."""
    if parts.has(f".{name}"):
        return parts.array(f".{name}").reshape(-1).tolist()
    inner = parts.config.get("quant_config", parts.config)
    inner = inner.get("weight_quant_params", inner) if isinstance(inner, dict) else {}
    found = inner.get(name)
    return found if found is None or isinstance(found, list) else [found]


def hqq(parts: Parts) -> QTensor:
    """Groups along K; bits, group and shape from beside the codes or the config."""
    bits, shape = hqq_setting(parts, "nbits"), hqq_setting(parts, "shape")
    axis = hqq_setting(parts, "axis")
    if axis and axis[0] != 1:
        raise parts.fault(".W_q", f"axis {axis[0]}; only groups along K (axis 1) are read")
    if not bits or not shape:
        raise parts.fault(".W_q", "the number of bits or the shape is stored nowhere")
    codes = parts.array(".W_q")
    codes = codes.view("<u4") if codes.dtype.itemsize == 4 else codes
    n, k = int(np.prod(shape[:-1])), int(shape[-1])
    scales, zeros = (parts.array(s).reshape(n, -1) for s in (".scale", ".zero"))
    group = k // scales.shape[1]
    fmt = parts.format(f"hqq_int{int(bits[0])}_g{group}")
    planes = {"codes": codes, "scales": scales, "zeros": zeros}
    return QTensor(fmt, planes, tuple(int(s) for s in shape))


def is_bitnet(parts: Parts) -> bool:
    """Bytes, and the config says so."""
    return parts.method == "bitnet" and parts.dtype(".weight") == "U8"


def bitnet(parts: Parts) -> QTensor:
    """Four ternary rows in a byte; the factor divides."""
    codes = parts.array(".weight")
    planes = {"codes": codes, "scales": parts.array(".weight_scale").reshape(1, 1)}
    return QTensor(parts.format("bitnet"), planes, (codes.shape[0] * 4, codes.shape[1]))


def is_gemma(parts: Parts) -> bool:
    """Bytes, and the config says so."""
    return parts.method == "gemma" and parts.dtype(".weight") in ("U8", "I8")


def gemma(parts: Parts) -> QTensor:
    """2 or 4 bits in bytes, or signed bytes, with one f32 scale a row."""
    held, scales = parts.shape(".weight"), parts.rows(".weight_scale")
    dtype = of_numpy(scales.dtype)
    bits = 8 if parts.dtype(".weight") == "I8" else int(parts.setting("bits", 4))
    planes = {"codes": parts.stream(".weight", bits), "scales": scales.reshape(-1, 1)}
    if parts.dtype(".weight") == "I8":
        return QTensor(parts.format(f"int8_row_{dtype}"), planes, held)
    shape = (*held[:-1], held[-1] * 8 // bits)
    return QTensor(parts.format(f"int{bits}_sym_row_{dtype}"), planes, shape)


DIALECTS = (
    Dialect("GPTQ", LAYERS, (".g_idx",), is_gptq, gptq),
    Dialect("AWQ", LAYERS, (), is_awq, awq),
    Dialect(
        "bitsandbytes",
        (".weight", ".weight.absmax", ".weight.quant_map"),
        (
            ".weight.nested_absmax",
            ".weight.nested_quant_map",
            STATE + "nf4",
            STATE + "fp4",
        ),
        lambda parts: parts.dtype(".weight") in ("U8", "I8"),
        bitsandbytes,
    ),
    Dialect(
        "HQQ",
        (".W_q", ".scale", ".zero"),
        (".nbits", ".shape", ".axis", ".group_size"),
        lambda parts: parts.dtype(".W_q") in ("U8", "I32", "U32"),
        hqq,
    ),
    Dialect("BitNet", (".weight", ".weight_scale"), (), is_bitnet, bitnet),
    Dialect("Gemma", (".weight", ".weight_scale"), (), is_gemma, gemma),
)
