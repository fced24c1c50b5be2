"""The special values of each dtype, as Python objects: bool, int, or the bits of a float."""

from typing import Any

import numpy as np

from iron.dtypes import DTYPES, DType, bf16, bool_, f16, f32
from tests.unit.ir.truth import convert, is_nan

UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def integers(t: DType) -> list[int]:
    n = t.bits
    pattern = int("01" * (n // 2), 2)
    raw = [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        n - 1,
        n,
        n + 1,
        2 * n,
        100,
        127,
        1 << (n // 2),
        (1 << (n // 2)) - 1,
    ]
    raw += [pattern, pattern << 1, (1 << (n - 1)) - 2, (1 << (n - 1)) - 1, 1 << (n - 1)]
    raw += [-v for v in raw] + [(1 << (n - 1)) + 1, -(1 << (n // 2)) - 1]
    mask = (1 << n) - 1
    wrapped = {v & mask for v in raw}
    return sorted(v - (1 << n) if t.kind == "i" and v >> (n - 1) else v for v in wrapped)


def floats(t: DType) -> list[int]:
    """Zeros, subnormals, the edges, halfway cases, infinities and NaN, of both signs."""
    e, f = {"f32": (8, 23), "f16": (5, 10), "bf16": (8, 7)}[t.name]
    bias, top = (1 << (e - 1)) - 1, ((1 << e) - 1) << f
    one = bias << f
    raw = [0, 1, 2, 3, (1 << f) - 1, 1 << f, (1 << f) + 1, one - 1, one, one + 1, one + 2]
    raw += [one - (1 << f), one + (1 << f), one + (3 << f >> 1), one + (2 << f) + (1 << (f - 2))]
    raw += [top - 1, top - 2, top, top | 1 << (f - 1), top | 1 << (f - 1) | 1]
    for power in (7, 8, 15, 16, 24, 31, 32, 63, 64):  # integers' edges and their neighbours
        if power < bias:
            edge = (bias + power) << f
            raw += [edge, edge - 1, edge + 1]
    # the square of the first is halfway between two f32 values, and the second decides
    raw += [one + (1 << f // 2), (bias * 2 // 5) << f]
    return sorted({v | s << (e + f) for v in raw for s in (0, 1)})


def ties() -> list[int]:
    """f32 values halfway between two values of each storage type, and their neighbours."""
    out: list[int] = []
    for t in (f16, bf16):
        for bits in floats(t):
            low, high = convert(bits, t, f32), convert(bits + 1, t, f32) if bits & 1 else None
            if high is None or is_nan(bits, t) or is_nan(bits + 1, t) or (low ^ high) >> 31:
                continue
            middle = (low + high) // 2
            out += [middle - 1, middle, middle + 1]
    f16_edge = [0x477FEFFF, 0x477FF000, 0x477FF001, 0x33000000, 0x33000001, 0x32FFFFFF]
    bf16_edge = [0x7F7F7FFF, 0x7F7F8000, 0x7F7F8001, 0x00008000, 0x00007FFF, 0x00008001]
    out += f16_edge + bf16_edge
    return sorted({v | s for v in out for s in (0, 1 << 31)})


SPECIALS: dict[str, list[Any]] = {
    t.name: [False, True] if t is bool_ else floats(t) if t.is_float else integers(t)
    for t in DTYPES.values()
}


def array(values: list[Any], t: DType) -> np.ndarray:
    """`values` as a numpy array of `t`; floats are given by their bits."""
    if t.is_float:
        return np.array(values, UNSIGNED[t.bytes]).view(t.np)
    return np.array(values, t.np)


def plain(values: np.ndarray, t: DType) -> list[Any]:
    """The inverse of `array`; every NaN becomes one quiet NaN."""
    if not t.is_float:
        return values.tolist()
    bits = np.ascontiguousarray(values).view(UNSIGNED[t.bytes]).tolist()
    return [canonical(v, t) for v in bits]


def canonical(value: Any, t: DType) -> Any:
    return "nan" if t.is_float and is_nan(value, t) else value
