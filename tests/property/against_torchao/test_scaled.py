"""torchao's int8, FP8 and integers with zero points decode to the same bits and encode alike.

Needs the extra `oracles`. torchao multiplies by the reciprocal of an integer's scale, which may
move a quotient that lies within a rounding of a tie to the other side.
"""

import numpy as np
import pytest

from iron.dtypes import f32
from iron.quant.encode import Options, encode
from iron.quant.format import Rule, by_name
from iron.quant.pack import stream, unpack
from iron.quant.tensor import QTensor
from tests.property.seeds import SEEDS

pytestmark = [pytest.mark.slow, pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def installed():
    for name in ["torch", "torchao"]:
        pytest.importorskip(name, reason="the extra is not installed: pip install '.[oracles]'")


def weights(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(256, 256)) * np.exp2(rng.integers(-9, 9, (256, 1)))
    return w.astype(np.float32)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a.view(np.uint32), b.view(np.uint32))


def same_but_ties(mine: np.ndarray, theirs: np.ndarray, quotient: np.ndarray) -> bool:
    """Equal codes, but for quotients within a few roundings of the middle of two codes."""
    other = mine != theirs
    near = np.abs(quotient - (mine.astype(np.float64) + theirs) / 2)
    return bool((near[other] <= 2.0**-22 * np.abs(quotient[other])).all()) and other.mean() < 0.01


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("group", [0, 32, 128])
def test_int8(group: int, seed: int):
    import torch
    from torchao.quantization import granularity
    from torchao.quantization.quantize_.workflows import Int8Tensor

    w = weights(seed)
    each = granularity.PerGroup(group) if group else granularity.PerRow()
    theirs = Int8Tensor.from_hp(torch.from_numpy(w), each)
    fmt = by_name(f"int8_g{group}_f32" if group else "int8_row_f32")
    mine = encode(fmt, w, Options(rule=Rule.FULL))
    codes, scales = theirs.qdata.numpy(), theirs.scale.numpy()
    assert np.array_equal(mine["scales"], scales), f"seed {seed}"
    quotient = w / np.repeat(scales.astype(np.float64), group or 256, 1)
    assert same_but_ties(mine["codes"].view(np.int8), codes, quotient), f"seed {seed}"
    got = QTensor(fmt, {"codes": codes.view(np.uint8), "scales": scales}, w.shape).decode()
    assert same_bits(got, theirs.dequantize().numpy()), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "name",
    ["fp8_e4m3_row", "fp8_e4m3_tensor", "fp8_e4m3_b128_f32", "fp8_e5m2_row", "fp8_e5m2_tensor"],
)
def test_fp8(name: str, seed: int):
    import torch
    from torchao.quantization import granularity
    from torchao.quantization.quantize_.workflows import Float8Tensor

    w = weights(seed)
    each = {
        "row": granularity.PerRow(),
        "tensor": granularity.PerTensor(),
        "b128": granularity.PerBlock([128, 128]),
    }[name.split("_")[2]]
    kind = torch.float8_e4m3fn if "e4m3" in name else torch.float8_e5m2
    theirs = Float8Tensor.from_hp(torch.from_numpy(w), kind, each)
    mine = encode(by_name(name), w, Options(f32))
    assert np.array_equal(mine["scales"], theirs.scale.numpy()), f"seed {seed}"
    assert np.array_equal(mine["codes"], theirs.qdata.view(torch.uint8).numpy()), f"seed {seed}"
    got = QTensor(by_name(name), mine, w.shape).decode()
    assert same_bits(got, theirs.dequantize().numpy()), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("bits", range(1, 9))
def test_zero_points(bits: int, seed: int):
    import torch
    from torchao.quantization.quant_primitives import MappingType
    from torchao.quantization.quantize_.workflows import IntxUnpackedToInt8Tensor

    w = weights(seed)
    theirs = IntxUnpackedToInt8Tensor.from_hp(
        torch.from_numpy(w), (1, 32), getattr(torch, f"int{bits}"),
        mapping_type=MappingType.ASYMMETRIC,
    )  # fmt: skip
    half = 1 << (bits - 1)
    codes = (theirs.qdata.numpy().astype(np.int64) + half).astype(np.uint8)
    zeros = (theirs.zero_point.numpy().astype(np.int64) + half).astype(np.uint16)
    planes = {"codes": stream(codes, bits), "scales": theirs.scale.numpy(), "zeros": zeros}
    fmt = by_name(f"int{bits}_zp_g32")
    mine = encode(fmt, w, Options(f32))
    assert np.array_equal(mine["scales"], planes["scales"]), f"seed {seed}"
    assert np.array_equal(mine["zeros"], zeros), f"seed {seed}"
    quotient = w / np.repeat(planes["scales"].astype(np.float64), 32, 1) + np.repeat(zeros, 32, 1)
    assert same_but_ties(unpack(mine["codes"], bits, 256), codes, quotient), f"seed {seed}"
    got = QTensor(fmt, planes, w.shape).decode()
    assert same_bits(got, theirs.dequantize().numpy()), f"seed {seed}"
