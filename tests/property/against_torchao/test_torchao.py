"""torchao writes and decodes the same MX and NVFP4 bits. Needs the extra `oracles`."""

import numpy as np
import pytest

from iron.quant.encode import Options, encode
from iron.quant.format import FORMATS, Rule
from iron.quant.pack import pack
from iron.quant.tensor import QTensor
from tests.property.seeds import SEEDS

pytestmark = [pytest.mark.slow, pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def installed():
    for name in ["torch", "torchao"]:
        pytest.importorskip(name, reason="the extra is not installed: pip install '.[oracles]'")


RULES = {"FLOOR": Rule.FLOOR, "EVEN": Rule.EVEN, "RCEIL": Rule.CEIL}
ELEMENTS = {
    "mxfp4": "float4_e2m1fn_x2",
    "mxfp6_e2m3": "fp6_e2m3",
    "mxfp6_e3m2": "fp6_e3m2",
    "mxfp8_e4m3": "float8_e4m3fn",
    "mxfp8_e5m2": "float8_e5m2",
}


def weights(seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    w = rng.normal(size=(32, 256)) * np.exp2(rng.integers(-12, 12, (32, 1)))
    return w.astype(np.float32)


# torchao scales FP6 by FLOOR only
PAIRS = [(n, r) for n in ELEMENTS for r in RULES if r == "FLOOR" or not n.startswith("mxfp6")]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("name", "rule"), PAIRS)
def test_mx(name: str, rule: str, seed: int):
    import torch
    from torchao.prototype.mx_formats import mx_tensor
    from torchao.prototype.mx_formats.config import ScaleCalculationMode

    elem = getattr(torch, ELEMENTS[name], ELEMENTS[name])
    elem = getattr(mx_tensor, f"DTYPE_{ELEMENTS[name].upper()}", elem)
    w = weights(seed)
    mode = ScaleCalculationMode[rule]
    theirs = mx_tensor.MXTensor.to_mx(torch.from_numpy(w), elem, 32, mode)
    raw = theirs.qdata.view(torch.uint8).numpy()
    codes = pack(raw, 6) if "fp6" in name else np.ascontiguousarray(raw)
    codes = codes.view("<u4") if "fp4" in name else codes
    mine = encode(FORMATS[name], w, Options(rule=RULES[rule]))
    scales = theirs.scale.view(torch.uint8).numpy()
    assert np.array_equal(mine["scales"], scales), f"seed {seed}"
    assert np.array_equal(mine["codes"], codes), f"seed {seed}"
    got = QTensor(FORMATS[name], mine, w.shape).decode()
    want = theirs.dequantize(torch.float32).numpy()
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_nvfp4(seed: int):
    import torch
    from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor

    w = np.random.default_rng(seed).normal(size=(32, 256)).astype(np.float32)
    theirs = NVFP4Tensor.to_nvfp4(torch.from_numpy(w), 16)
    mine = encode(FORMATS["nvfp4"], w, Options(outer=1.0, least=8, floor_zero=True))
    codes = np.ascontiguousarray(theirs.qdata.view(torch.uint8).numpy()).view("<u4")
    assert np.array_equal(mine["codes"], codes), f"seed {seed}"
    assert np.array_equal(mine["scales"], theirs.scale.view(torch.uint8).numpy())
    got = QTensor(FORMATS["nvfp4"], mine, w.shape).decode()
    assert np.array_equal(got, theirs.dequantize(torch.float32).numpy())
