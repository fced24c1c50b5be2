"""Every stream format against a second decoder: bits taken one by one, floats from ml_dtypes."""

import ml_dtypes
import numpy as np
import pytest

from iron.quant.format import FORMATS, Algebra, Elem, Format, Outer, Scale
from iron.quant.tensor import QTensor
from tests.unit.quant.sample import random_planes

FLOATS = {
    Elem.E2M1: ml_dtypes.float4_e2m1fn,
    Elem.E2M3: ml_dtypes.float6_e2m3fn,
    Elem.E3M2: ml_dtypes.float6_e3m2fn,
    Elem.E4M3: ml_dtypes.float8_e4m3fn,
    Elem.E5M2: ml_dtypes.float8_e5m2,
}
STREAMS = [f for f in FORMATS.values() if f.body == "stream"]


def codes(fmt: Format, words: np.ndarray, k: int) -> np.ndarray:
    """Bits [j b, j b + b) of each row, lowest first."""
    bits = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")[:, : k * fmt.bits]
    return bits.reshape(len(words), k, fmt.bits).astype(np.int64) @ (1 << np.arange(fmt.bits))


def elements(fmt: Format, q: np.ndarray, planes: dict[str, np.ndarray]) -> np.ndarray:
    if fmt.elem in FLOATS:
        return q.astype(np.uint8).view(FLOATS[fmt.elem]).astype(np.float32)
    if fmt.elem is Elem.TABLE:
        return np.array(fmt.table, np.float32)[q]
    if fmt.elem is Elem.CODEBOOK:
        return planes["codebook"][0].astype(np.float32)[q]
    half = 1 << (fmt.bits - 1)
    whole = {Elem.UINT: q, Elem.OFFSET: q - half}.get(fmt.elem, (q ^ half) - half)
    return whole.astype(np.float32) / np.float32(half / 2 if fmt.elem is Elem.FIXED else 1)


def wide(
    fmt: Format, plane: np.ndarray, n: int, k: int, rows: int = 1, cols: int = 0
) -> np.ndarray:
    """A plane of factors with one entry for each weight."""
    spread = np.repeat(plane, rows or n, axis=0)[:n]
    return np.repeat(spread, (cols or fmt.group or k) if plane.shape[1] > 1 else k, axis=1)[:, :k]


def scales(fmt: Format, planes: dict[str, np.ndarray], n: int, k: int) -> np.ndarray:
    held = planes["scales"]
    kinds = {Scale.E8M0: ml_dtypes.float8_e8m0fnu, Scale.E4M3: ml_dtypes.float8_e4m3fn}
    if fmt.scale in kinds:
        held = held.view(kinds[fmt.scale])
    s = wide(fmt, held.astype(np.float32), n, k, fmt.scale_rows)
    if fmt.scale is Scale.SUPER:
        s = wide(fmt, planes["supers"].astype(np.float32), n, k, 1, 256) * s
    if fmt.outer is Outer.MULTIPLY:
        s = s * planes["outer"]
    return s / planes["outer"] if fmt.outer is Outer.DIVIDE else s


def decoded(fmt: Format, planes: dict[str, np.ndarray], n: int, k: int) -> np.ndarray:
    x = elements(fmt, codes(fmt, planes["codes"], k), planes)
    s = scales(fmt, planes, n, k)
    if fmt.algebra is Algebra.SCALED:
        return s * x
    if fmt.algebra is Algebra.ZERO:
        return s * (x - wide(fmt, planes["zeros"].astype(np.float32), n, k))
    if fmt.scale is Scale.SUPER:
        supers = wide(fmt, planes["super_mins"].astype(np.float32), n, k, 1, 256)
        return s * x - supers * wide(fmt, planes["mins"].astype(np.float32), n, k)
    return s * x + wide(fmt, planes["biases"].astype(np.float32), n, k)


@pytest.mark.parametrize("fmt", STREAMS, ids=repr)
def test_a_second_decoder_agrees(fmt: Format):
    n, k = 9, 3 * fmt.multiple if fmt.multiple > 1 else 301
    planes = random_planes(fmt, n, k, seed=11)
    want = decoded(fmt, planes, n, k)
    got = QTensor(fmt, planes, (n, k)).decode()
    assert np.isfinite(want).all()
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32))
