"""bitsandbytes writes and decodes the same NF4 and FP4 bits. Needs the extra `oracles`."""

from pathlib import Path

import numpy as np
import pytest

from iron.quant.encode import quantize
from iron.quant.read_safetensors import read_safetensors
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


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["nf4", "fp4"])
@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("shape", [(32, 256), (24, 40), (300, 96)])
def test_files(kind: str, nested: bool, shape: tuple[int, int], seed: int, tmp_path: Path):
    import torch
    from bitsandbytes import functional
    from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
    from safetensors.torch import save_file

    w = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    held, state = functional.quantize_4bit(
        torch.from_numpy(w), quant_type=kind, compress_statistics=nested
    )
    parts = {f"p.weight.{name}": t for name, t in state.as_dict(packed=True).items()}
    save_file({"p.weight": held, **parts}, tmp_path / "model.safetensors")
    got = read_safetensors(tmp_path / "model.safetensors").weight("p.weight").decode()
    absmax = state.absmax
    if nested:
        absmax = functional.dequantize_blockwise(absmax, state.state2) + state.offset
    # the kernel for CPUs takes the blocks of a row where K is no multiple of them, wrongly
    want = _dequantize_4bit_compute(
        held.reshape(-1), absmax, state.code, state.blocksize, shape, torch.float32
    ).numpy()
    assert np.array_equal(got.view(np.uint32), want.view(np.uint32)), f"seed {seed}"
    assert np.abs(got - w).max() < 0.7
