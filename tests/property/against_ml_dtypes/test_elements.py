"""Small floats agree with ml_dtypes: every code decoded, random values encoded."""

import ml_dtypes
import numpy as np
import pytest

from iron.lang import u32
from iron.quant.codec import element as bodies
from iron.quant.encode.minifloat import element
from iron.quant.format import Elem
from tests.property.seeds import SEEDS

KINDS = {
    Elem.E2M1: (ml_dtypes.float4_e2m1fn, 4, lambda c: bodies.minifloat(c, 2, 1, 1)),
    Elem.E2M3: (ml_dtypes.float6_e2m3fn, 6, lambda c: bodies.minifloat(c, 2, 3, 1)),
    Elem.E3M2: (ml_dtypes.float6_e3m2fn, 6, lambda c: bodies.minifloat(c, 3, 2, 3)),
    Elem.E4M3: (ml_dtypes.float8_e4m3fn, 8, bodies.e4m3),
    Elem.E5M2: (ml_dtypes.float8_e5m2, 8, bodies.e5m2),
}


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))).all())


@pytest.mark.parametrize("elem", KINDS)
def test_every_code(elem: Elem):
    kind, bits, body = KINDS[elem]
    codes = np.arange(1 << bits, dtype=np.uint8)
    assert same(body(u32(codes)), codes.view(kind).astype(np.float32))


def test_every_power_of_two():
    codes = np.arange(256, dtype=np.uint8)
    want = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    assert same(bodies.e8m0(u32(codes)), want)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("elem", KINDS)
def test_nearest_code_of_random_bits(elem: Elem, seed: int):
    kind, _, _ = KINDS[elem]
    raw = np.random.default_rng(seed).integers(0, 1 << 32, 200_000, np.uint32).view(np.float32)
    x = raw[np.isfinite(raw)]
    x = np.concatenate([x, np.random.default_rng(seed + 9).normal(size=50_000) * 4])
    top = float(ml_dtypes.finfo(kind).max)
    x = np.clip(x.astype(np.float32), -top, top)
    assert np.array_equal(element(elem, x), x.astype(kind).view(np.uint8)), f"seed {seed}"


@pytest.mark.parametrize("elem", KINDS)
def test_ties_and_neighbours(elem: Elem):
    kind, bits, _ = KINDS[elem]
    values = np.arange(1 << (bits - 1), dtype=np.uint8).view(kind).astype(np.float32)
    values = np.sort(values[np.isfinite(values)])
    middles = (values[1:] + values[:-1]) / 2
    x = np.concatenate([middles, np.nextafter(middles, 0), np.nextafter(middles, 1e9), values])
    x = np.concatenate([x, -x]).astype(np.float32)
    assert np.array_equal(element(elem, x), x.astype(kind).view(np.uint8))


@pytest.mark.parametrize("elem", KINDS)
def test_beyond_the_largest(elem: Elem):
    _, bits, body = KINDS[elem]
    x = np.array([1e9, -1e9, 3e38], np.float32)
    top = body(u32(element(elem, x)))
    largest = {4: 6.0, 6: 7.5, 8: 448.0}[bits]
    largest = {Elem.E3M2: 28.0, Elem.E5M2: 57344.0}.get(elem, largest)
    assert top.tolist() == [largest, -largest, largest]
