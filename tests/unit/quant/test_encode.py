"""Encoders: edge cases of weights, promised error, refusals."""

import numpy as np
import pytest

from iron.dtypes import bf16, f16, f32
from iron.errors import KernelError
from iron.quant.encode import Options, encode, quantize
from iron.quant.encode.aura import boundaries, codebook, hadamard
from iron.quant.encode.minifloat import element
from iron.quant.format import FORMATS, Elem, Encode, Rule
from iron.quant.pack import unpack

ENCODED = [f for f in FORMATS.values() if f.encode is not Encode.DECODE_ONLY]
REFUSED = [f for f in FORMATS.values() if f.encode is Encode.DECODE_ONLY]
RNG = np.random.default_rng(51)


def columns(fmt) -> int:
    return max(fmt.multiple, 256)


@pytest.mark.parametrize("fmt", ENCODED, ids=repr)
def test_zeros_stay_zero(fmt):
    w = np.zeros((3, columns(fmt)), np.float32)
    w[1, -1] = 1
    got = quantize(w, fmt).decode()
    assert np.isfinite(got).all()
    if fmt.name.startswith(("bnb_fp4", "gguf_q1_0", "int1_zp", "aura", "mlx_int1")):
        return  # they have no zero, or spread the vector
    assert not got[0].any()
    assert np.abs(got[2]).max() == 0


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q4_k", "q6_k", "q2_k"])
def test_a_block_with_one_weight(name: str):
    w = np.zeros((1, 512), np.float32)
    w[0, 511] = 1
    held = quantize(w, name)
    raw = held.planes["blocks"].reshape(-1, held.fmt.block_bytes)
    got = held.decode()[0]
    at = {"q2_k": 80, "q6_k": 208}.get(name, 0)
    assert raw[0, at : at + 2].view(np.float16)[0] == 0
    step = 0.5 * 2 / (2**held.fmt.bits - 1)
    assert not got[:256].any()
    assert np.abs(got - w[0]).max() <= step


@pytest.mark.parametrize("fmt", ENCODED, ids=repr)
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused(fmt, bad):
    w = np.ones((2, columns(fmt)), np.float32)
    w[1, 3] = bad
    with pytest.raises(KernelError, match=rf"the weight \[1, 3\] is {bad}") as caught:
        quantize(w, fmt)
    assert caught.value.id == "E0804"


@pytest.mark.parametrize("fmt", REFUSED, ids=repr)
def test_what_is_not_encoded_says_why(fmt):
    assert len(fmt.reason) > 20
    with pytest.raises(KernelError, match="is not encoded") as caught:
        quantize(np.ones((1, columns(fmt)), np.float32), fmt)
    assert fmt.reason in str(caught.value)


def test_wrong_shapes():
    with pytest.raises(KernelError, match="K = 33 is not a multiple of 32"):
        quantize(np.ones((2, 33), np.float32), "q4_0")
    with pytest.raises(KernelError, match="at least two axes"):
        quantize(np.ones(32, np.float32), "q4_0")


@pytest.mark.parametrize("name", ["q4_0", "q8_0", "q4_k", "int8_row_f16", "mlx_int4_g64", "f16"])
def test_a_factor_that_overflows_is_refused(name: str):
    w = RNG.normal(size=(2, 256)).astype(np.float32) * np.float32(1e12)
    with pytest.raises(KernelError, match="overflows") as caught:
        quantize(w, name)
    assert caught.value.id == "E0804"


def test_experts_are_rows():
    w = RNG.normal(size=(3, 4, 64)).astype(np.float32)
    whole = quantize(w, "mlx_int4_g64")
    assert whole.shape == (3, 4, 64)
    parts = [quantize(w[e], "mlx_int4_g64").decode() for e in range(3)]
    assert np.array_equal(whole.decode(), np.stack(parts))


SYMMETRIC = [f for f in ENCODED if f.rule is Rule.AMAX and f.body == "stream"]


@pytest.mark.parametrize("fmt", SYMMETRIC, ids=repr)
def test_the_extreme_is_not_clipped(fmt):
    w = RNG.normal(size=(130, columns(fmt))).astype(np.float32) * np.float32(0.037)
    got = quantize(w, fmt).decode()
    shape = (130, -1, fmt.group or w.shape[1]) if fmt.scale_rows == 1 else (1, 1, -1)
    most, reached = (np.abs(v.reshape(shape)).max(-1) for v in (w, got))
    half_step = {Elem.E5M2: 2.0**-3, Elem.E4M3: 2.0**-4, Elem.E2M1: 2.0**-2}
    near = half_step.get(fmt.elem, 1.01 / (2**fmt.bits - 2))
    assert (np.abs(reached - most) <= near * most).all()


@pytest.mark.parametrize("b", [2, 3, 4, 5, 6, 8])
def test_codes_are_nearest_to_the_stored_scale(b: int):
    w = RNG.normal(size=(16, 128)).astype(np.float32)
    held = quantize(w, f"int{b}_g64_f16")
    scale = np.repeat(held.planes["scales"].astype(np.float64), 64, 1)
    half = 1 << (b - 1)
    code = unpack(held.planes["codes"], b, 128).astype(np.int64)
    q = (code ^ half) - half
    assert (np.abs(w / scale - q) <= 0.5 + 1e-6).all()
    assert q.min() >= -half + 1


@pytest.mark.parametrize("dtype", [f32, f16, bf16])
def test_the_type_of_factors(dtype):
    w = RNG.normal(size=(4, 64)).astype(np.float32)
    for name in ("mlx_int4_g64", "kv_int8_g64", "kv_fp8_e4m3_g64", "aura_4"):
        held = encode(FORMATS[name], w, Options(dtype))
        assert held["scales"].dtype == dtype.np


@pytest.mark.parametrize("bits", [8, 4])
def test_cache_rule(bits: int):
    w = RNG.normal(size=(4, 128)).astype(np.float32)
    w[2] = 3
    held = encode(FORMATS[f"kv_int{bits}_g64"], w, Options(f32))
    groups = w.reshape(4, 2, 64)
    low, span = groups.min(-1), groups.max(-1) - groups.min(-1)
    assert np.array_equal(held["biases"], low)
    want = np.where(span == 0, 1, span / np.float32(2**bits - 1)).astype(np.float32)
    assert np.array_equal(held["scales"], want)
    q = np.floor((groups - low[..., None]) / want[..., None] + np.float32(0.5))
    assert np.array_equal(unpack(held["codes"], bits, 128), q.reshape(4, 128))


def test_small_floats_never_write_zero_as_a_subnormal():
    for elem in (Elem.E2M1, Elem.E2M3, Elem.E3M2, Elem.E4M3, Elem.E5M2):
        zero = element(elem, np.array([0.0, -0.0, 1e-30], np.float32))
        sign = 1 << ({Elem.E2M1: 4, Elem.E2M3: 6, Elem.E3M2: 6}.get(elem, 8) - 1)
        assert zero.tolist() == [0, sign, 0]
    assert element(Elem.E5M2, np.array([np.inf, -np.inf], np.float32)).tolist() == [0x7C, 0xFC]


@pytest.mark.parametrize(("bits", "distortion"), [(2, 0.1175), (3, 0.03455), (4, 0.0095)])
def test_aura_has_the_distortion_of_its_codebook(bits: int, distortion: float):
    dim = 512
    x = RNG.standard_t(4, size=(1000, dim)).astype(np.float32)
    rotation = hadamard(RNG.choice([-1.0, 1.0], dim))
    held = quantize(x, f"aura_{bits}", Options(f32, rotation=rotation))
    back = held.decode().astype(np.float64) @ rotation
    lost = ((x - back) ** 2).sum(-1) / (x.astype(np.float64) ** 2).sum(-1)
    assert abs(lost.mean() / distortion - 1) < 0.05
    assert np.allclose(np.linalg.norm(back, axis=1), np.linalg.norm(x, axis=1), rtol=1e-5)


def test_aura_codebooks():
    positive = codebook(4, 1)[8:]
    want = [0.12840, 0.38805, 0.65676, 0.94234, 1.25623, 1.61805, 2.06902, 2.73259]
    assert np.allclose(positive, want, atol=5e-6)
    book = codebook(3, 64)
    assert np.allclose(book, -book[::-1], atol=1e-8)
    assert np.allclose(boundaries(book), (book[1:] + book[:-1]) / 2)
    zero = quantize(np.zeros((1, 64), np.float32), "aura_3")
    assert not zero.decode().any()


def test_two_level_scales_of_a_tensor():
    w = RNG.normal(size=(8, 64)).astype(np.float32)
    w[3, :16] = 0
    w[4, :16] = 1e-6
    for name in ("nvfp4", "nvfp4_ct"):
        held = quantize(w, name)
        outer = held.planes["outer"]
        total = np.float32(np.abs(w).max())
        want = total / 2688 if name == "nvfp4" else 2688 / total
        assert np.allclose(outer, want, rtol=2e-7)
        assert held.planes["scales"][3, 0] == 0
        assert held.planes["scales"][4, 0] == 1
        assert np.abs(held.decode() - w).max() < np.abs(w).max() / 4
