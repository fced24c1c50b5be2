"""MLX decodes the same bits from random planes, and encodes the same codes.

Needs the extra `oracles`; MLX computes in the type of the scales, so they are f32 here.
"""

import numpy as np
import pytest

from iron.quant.encode import Options, encode
from iron.quant.format import FORMATS, Rule
from iron.quant.tensor import QTensor
from tests.property.seeds import SEEDS
from tests.unit.quant.sample import random_planes

pytestmark = [pytest.mark.slow, pytest.mark.fuzz]


@pytest.fixture(autouse=True)
def installed():
    for name in ["mlx.core"]:
        pytest.importorskip(name, reason="the extra is not installed: pip install '.[oracles]'")


AFFINE = [f for f in FORMATS.values() if f.ids.mlx.startswith("affine")]
MODES = {"mxfp4": "mxfp4", "mxfp8_e4m3": "mxfp8", "nvfp4": "nvfp4"}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fmt", AFFINE, ids=repr)
def test_affine_decoding(fmt, seed: int):
    import mlx.core as mx

    n, k = 33, 4 * fmt.group
    planes = random_planes(fmt, n, k, seed)
    planes = {name: p if name == "codes" else p.astype(np.float32) for name, p in planes.items()}
    got = QTensor(fmt, planes, (n, k)).decode()
    planes["codes"] = planes["codes"].view("<u4")
    args = [mx.array(planes[name]) for name in ("codes", "scales", "biases")]
    want = np.array(mx.dequantize(*args, group_size=fmt.group, bits=fmt.bits))
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fmt", AFFINE, ids=repr)
def test_affine_encoding(fmt, seed: int):
    import mlx.core as mx

    from iron.dtypes import f32

    w = np.random.default_rng(seed).normal(size=(33, 4 * fmt.group)).astype(np.float32)
    mine = encode(fmt, w, Options(f32))
    theirs = mx.quantize(mx.array(w), group_size=fmt.group, bits=fmt.bits)
    for name, plane in zip(("codes", "scales", "biases"), theirs, strict=True):
        held = mine[name].view("<u4") if name == "codes" else mine[name]
        assert np.array_equal(held, np.array(plane)), f"{name}, seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MODES)
def test_float_modes_decoding(name: str, seed: int):
    import mlx.core as mx

    fmt = FORMATS[name]
    n, k = 33, 128
    planes = random_planes(fmt, n, k, seed)
    if "outer" in planes:
        planes["outer"][:] = 1
    got = QTensor(fmt, planes, (n, k)).decode()
    want = mx.dequantize(
        mx.array(planes["codes"].view("<u4")), mx.array(planes["scales"]), group_size=fmt.group,
        bits=fmt.bits, mode=MODES[name], dtype=mx.float32,
    )  # fmt: skip
    assert np.array_equal(got.view(np.uint32), np.array(want).view(np.uint32)), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", MODES)
def test_float_modes_encoding(name: str, seed: int):
    import mlx.core as mx

    fmt = FORMATS[name]
    w = np.random.default_rng(seed).normal(size=(33, 128)).astype(np.float32)
    w[0] = 0
    options = Options(rule=Rule.CEIL, signed_zero=name == "mxfp8_e4m3")
    if name == "nvfp4":
        options = Options(outer=1.0, least=0, signed_zero=False)
    mine = encode(fmt, w, options)
    theirs = mx.quantize(mx.array(w), group_size=fmt.group, bits=fmt.bits, mode=MODES[name])
    assert np.array_equal(mine["scales"], np.array(theirs[1])), f"seed {seed}"
    assert np.array_equal(mine["codes"].view("<u4"), np.array(theirs[0])), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_nvfp4_with_a_factor_of_the_tensor(seed: int):
    import mlx.core as mx

    w = np.random.default_rng(seed).normal(size=(33, 128)).astype(np.float32)
    top = np.abs(w).max()
    theirs = mx.quantize(
        mx.array(w), group_size=16, bits=4, mode="nvfp4", global_scale=mx.array(float(top))
    )
    outer = float(top / np.float32(2688))
    options = Options(outer=outer, least=0, signed_zero=False)
    mine = encode(FORMATS["nvfp4"], w, options)
    assert np.array_equal(mine["scales"], np.array(theirs[1])), f"seed {seed}"
    assert np.array_equal(mine["codes"], np.array(theirs[0])), f"seed {seed}"
