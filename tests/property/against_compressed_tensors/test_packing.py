"""compressed-tensors packs the same words and chooses the same MX scales.

Needs the extra `oracles`.
"""

import numpy as np
import pytest

from iron.dtypes import f32
from iron.quant.encode import Options, encode
from iron.quant.encode.minifloat import element
from iron.quant.format import FORMATS, Elem, Rule
from iron.quant.pack import pack, unpack
from iron.quant.tensor import QTensor
from tests.property.seeds import SEEDS

pytestmark = [pytest.mark.slow, pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def installed():
    for name in ["torch", "compressed_tensors"]:
        pytest.importorskip(name, reason="the extra is not installed: pip install '.[oracles]'")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("k", [32, 40, 128])
def test_integers(bits: int, k: int, seed: int):
    import torch
    from compressed_tensors.compressors.pack_quantized import helpers

    half = 1 << (bits - 1)
    q = np.random.default_rng(seed).integers(-half, half, (7, k)).astype(np.int8)
    theirs = helpers.pack_to_int32(torch.from_numpy(q), bits).numpy().view("<u4")
    mine = pack((q.astype(np.int64) + half).astype(np.uint8), bits)
    assert np.array_equal(mine, theirs), f"seed {seed}"
    assert np.array_equal(unpack(theirs, bits, k).astype(np.int64) - half, q)


@pytest.mark.parametrize("seed", SEEDS)
def test_zero_points_run_along_n(seed: int):
    import torch
    from compressed_tensors.compressors.pack_quantized import helpers

    fmt = FORMATS["ct_pack_int3_asym_g32"]
    rng = np.random.default_rng(seed)
    q, z = rng.integers(0, 8, (64, 96), np.uint8), rng.integers(0, 8, (64, 3), np.uint8)
    scales = rng.normal(size=(64, 3)).astype(np.float16)
    packed = helpers.pack_to_int32(torch.from_numpy(z.astype(np.int8) - 4), 3, packed_dim=0)
    zeros = packed.numpy().view("<u4")
    weight = QTensor(fmt, {"codes": pack(q, 3), "scales": scales, "zeros": zeros}, (64, 96))
    less = q.astype(np.float32) - np.repeat(z, 32, 1)
    assert np.array_equal(weight.decode(), np.repeat(scales.astype(np.float32), 32, 1) * less)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "kept"), [("mxfp4", 1), ("mxfp6_e2m3", None), ("mxfp8_e4m3", 1)])
def test_mx_scales(name: str, kept: int | None, seed: int):
    import torch
    from compressed_tensors.quantization.utils.mxfp_utils import generate_mx_scales

    fmt = FORMATS[name]
    rng = np.random.default_rng(seed)
    w = (rng.normal(size=(64, 256)) * np.exp2(rng.integers(-9, 9, (64, 1)))).astype(np.float32)
    amax = torch.from_numpy(np.abs(w.reshape(64, 8, 32)).max(-1))
    theirs = generate_mx_scales(amax, fmt.bits).numpy()
    mine = encode(fmt, w, Options(rule=Rule.EVEN, kept=kept))["scales"]
    assert np.array_equal(mine, theirs), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_six_bit_floats(seed: int):
    import torch
    from compressed_tensors.compressors.mxfp6 import helpers

    codes = np.random.default_rng(seed).integers(0, 64, (5, 64), np.uint8)
    values = helpers.unpack_fp6_from_uint8(torch.from_numpy(pack(codes, 6).view(np.uint8)), 5, 64)
    assert np.array_equal(element(Elem.E2M3, values.to(torch.float32).numpy()), codes)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("symmetric", [True, False])
def test_integer_codes_and_scales(bits: int, symmetric: bool, seed: int):
    import torch
    from compressed_tensors.quantization import QuantizationArgs
    from compressed_tensors.quantization.lifecycle.forward import quantize
    from compressed_tensors.quantization.utils import calculate_qparams

    half = 1 << (bits - 1)
    w = np.random.default_rng(seed).normal(size=(64, 128)).astype(np.float32)
    args = QuantizationArgs(
        num_bits=bits, type="int", symmetric=symmetric, strategy="group", group_size=32
    )
    groups = torch.from_numpy(w.reshape(64, 4, 32))
    scales, zeros = calculate_qparams(groups.amin(-1), groups.amax(-1), args)
    theirs = quantize(torch.from_numpy(w), scales, zeros, args, dtype=torch.int8).numpy()
    name = f"int{bits}_sym_g32_f32" if symmetric else f"ct_pack_int{bits}_asym_g32"
    mine = encode(FORMATS[name], w, Options(f32, rule=Rule.FULL if symmetric else None))
    assert np.array_equal(mine["scales"], scales.numpy()), f"seed {seed}"
    codes = unpack(mine["codes"], bits, 128).astype(np.int64) - half
    assert np.array_equal(codes, theirs), f"seed {seed}"
    if not symmetric:
        down = unpack(np.ascontiguousarray(mine["zeros"].T), bits, 64).T
        assert np.array_equal(down.astype(np.int64) - half, zeros.numpy()), f"seed {seed}"
