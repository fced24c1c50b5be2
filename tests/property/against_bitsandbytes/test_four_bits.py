"""bitsandbytes writes and decodes the same NF4 and FP4 bits. Needs the extra `oracles`."""

import numpy as np
import pytest

from iron.quant.encode import quantize
from iron.quant.tensor import QTensor
from tests.property.seeds import SEEDS

pytestmark = [pytest.mark.slow, pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def installed():
    for name in ["torch", "bitsandbytes"]:
        pytest.importorskip(name, reason="the extra is not installed: pip install '.[oracles]'")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("block", [64, 128])
def test_same_bytes(kind: str, block: int, seed: int):
    import torch
    from bitsandbytes import functional

    w = np.random.default_rng(seed).normal(size=(32, 256)).astype(np.float32)
    held, state = functional.quantize_4bit(torch.from_numpy(w), blocksize=block, quant_type=kind)
    name = f"bnb_{kind}" + ("" if block == 64 else f"_b{block}")
    mine = quantize(w, name)
    assert np.array_equal(mine.planes["codebook"][0], state.code.numpy())
    assert np.array_equal(mine.planes["absmax"].reshape(-1), state.absmax.numpy())
    theirs = held.numpy().reshape(32, 128)
    assert np.array_equal(mine.planes["codes"], theirs), f"seed {seed}"
    planes = {**mine.planes, "codes": theirs}
    got = QTensor(mine.fmt, planes, w.shape).decode()
    want = functional.dequantize_4bit(held, state).numpy()
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), f"seed {seed}"
