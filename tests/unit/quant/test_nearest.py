"""Encoders for kernels agree with the host's, on numpy, the interpreter and the CPU."""

import ml_dtypes
import numpy as np
import pytest

from iron.check.interpret import interpret
from iron.lang import In, Out, dims, each, f32, kernel, u32
from iron.quant.codec import nearest
from iron.quant.encode import Options, encode
from iron.quant.encode.minifloat import element, power_code
from iron.quant.format import FORMATS, Elem, Rule
from iron.quant.pack import unpack
from tests.property.seeds import SEEDS

(N,) = dims("N")
BODIES = {
    Elem.E2M1: nearest.e2m1_code,
    Elem.E4M3: nearest.e4m3_code,
    Elem.E5M2: nearest.e5m2_code,
}


def probes(seed: int) -> np.ndarray:
    """Random bits, ordinary numbers, ties and ends; no NaN."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 1 << 32, 20_000, np.uint32).view(np.float32)
    table = np.arange(127, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn)
    table = np.sort(table.astype(np.float32))
    ends = np.array([0, np.inf, 1e-45, 448, 464, 465, 57344, 61440, 6, 7])
    more = np.concatenate([rng.normal(size=5000) * 3, table, (table[1:] + table[:-1]) / 2, ends])
    x = np.concatenate([raw[~np.isnan(raw)], more.astype(np.float32)])
    return np.concatenate([x, -x])


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("elem", BODIES)
def test_small_floats(elem: Elem, seed: int):
    x = probes(seed)
    assert np.array_equal(BODIES[elem](x), element(elem, x)), f"seed {seed}"


@pytest.mark.parametrize("elem", BODIES)
def test_a_nan_becomes_zero(elem: Elem):
    assert int(BODIES[elem](np.float32("nan"))) & 0x7F == 0


@pytest.mark.parametrize("rule", [Rule.FLOOR, Rule.CEIL])
def test_powers(rule: Rule):
    fmt = FORMATS["mxfp4"]
    x = np.abs(probes(9))
    amax = np.concatenate([x[np.isfinite(x)], np.exp2(np.arange(-149, 128)).astype(np.float32)])
    with np.errstate(all="ignore"):
        want = power_code(fmt, amax, Options(rule=rule))
        body = nearest.power_floor(amax, 2) if rule is Rule.FLOOR else nearest.power_ceil(amax, 6.0)
    assert np.array_equal(body, want)


@pytest.mark.parametrize("bits", [4, 8])
def test_cache_codes(bits: int):
    w = np.random.default_rng(3).normal(size=(16, 64)).astype(np.float32)
    w[3] = 2
    fmt = FORMATS[f"kv_int{bits}_g64"]
    want = encode(fmt, w, Options(f32))
    low, high = w.min(-1, keepdims=True), w.max(-1, keepdims=True)
    scale = nearest.span_scale(low, high, bits)
    assert np.array_equal(scale, want["scales"])
    codes = nearest.span_code(w, scale, low, bits)
    assert np.array_equal(codes, unpack(want["codes"], bits, 64))


def test_symmetric_codes():
    w = np.random.default_rng(4).normal(size=(16, 64)).astype(np.float32)
    held = encode(FORMATS["int8_g64_f32"], w)
    got = nearest.symmetric_code(w, held["scales"], 8)
    assert np.array_equal(got, held["codes"].view(np.int8))


@kernel
def coded(x: In[f32, N], small: Out[u32, N], large: Out[u32, N], power: Out[u32, N]):
    """The codes of each element."""
    (i,) = each(N)
    small[i] = nearest.e2m1_code(x[i])
    large[i] = nearest.e4m3_code(x[i]) | (nearest.e5m2_code(x[i]) << 8)
    power[i] = nearest.power_ceil(abs(x[i]), 448.0) | (nearest.power_floor(abs(x[i]), 8) << 8)


@pytest.mark.parametrize("road", ["interp", "cpu"])
def test_in_kernels(road: str):
    x = probes(2)[::11].copy()
    outs = {n: np.zeros(x.size, np.uint32) for n in ("small", "large", "power")}
    if road == "interp":
        interpret(coded, {"x": x, **outs})
    else:
        coded(x=x, **outs)
    with np.errstate(all="ignore"):
        assert np.array_equal(outs["small"], nearest.e2m1_code(x))
        want = nearest.e4m3_code(x) | (nearest.e5m2_code(x) << 8)
        assert np.array_equal(outs["large"], want)
        powers = nearest.power_floor(np.abs(x), 8) << 8
        assert np.array_equal(outs["power"], nearest.power_ceil(np.abs(x), 448.0) | powers)
