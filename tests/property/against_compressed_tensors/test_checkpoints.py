"""Checkpoints that compressed-tensors compresses are read to what it decompresses.

The bytes of packed codes and zero points are random, so that every code occurs. Scales are f32
where the library computes in their type; it decompresses NVFP4 in bf16, which is compared within
the roundings of that type. Needs the extra `oracles`.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from iron.quant.read_safetensors import read_safetensors
from tests.property.seeds import SEEDS

pytestmark = [pytest.mark.slow, pytest.mark.fuzz, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(autouse=True)
def installed():
    for name in ["torch", "compressed_tensors", "safetensors"]:
        pytest.importorskip(name, reason="the extra is not installed: pip install '.[oracles]'")


N, K = 64, 256
GROUP = {"strategy": "group", "group_size": 32}
KINDS = {
    **{
        f"int{b} {kind} {size['strategy']}": (
            "pack-quantized",
            {"num_bits": b, "type": "int", "symmetric": kind == "sym", **size},
        )
        for b in range(1, 9)
        for kind in ("sym", "asym")
        for size in (GROUP, {"strategy": "channel"})
    },
    **{
        f"w8 {kind} {strategy}": (
            "int-quantized",
            {"num_bits": 8, "type": "int", "symmetric": kind == "sym", "strategy": strategy},
        )
        for kind in ("sym", "asym")
        for strategy in ("channel", "tensor")
    },
    "fp8 channel": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "channel"}),
    "fp8 tensor": ("float-quantized", {"num_bits": 8, "type": "float", "strategy": "tensor"}),
    "fp8 block": (
        "float-quantized",
        {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [32, 128]},
    ),
    "mxfp8": (
        "mxfp8-quantized",
        {"num_bits": 8, "type": "float", "scale_dtype": "torch.uint8", **GROUP},
    ),
    "mxfp6": (
        "mxfp6-pack-quantized",
        {"num_bits": 6, "type": "float", "scale_dtype": "torch.uint8", **GROUP},
    ),
    "mxfp4": (
        "mxfp4-pack-quantized",
        {"num_bits": 4, "type": "float", "scale_dtype": "torch.uint8", **GROUP},
    ),
    "nvfp4": (
        "nvfp4-pack-quantized",
        {
            **{"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16},
            "scale_dtype": "torch.float8_e4m3fn",
        },
    ),
}


def extremes(w, args):
    """Least and greatest weight of each group, row, tile or tensor."""
    if args.strategy == "tensor":
        return w.amin().reshape(1), w.amax().reshape(1)
    if args.strategy == "block":
        rows, cols = args.block_structure
        tiles = w.reshape(N // rows, rows, K // cols, cols)
        return tiles.amin((1, 3)), tiles.amax((1, 3))
    groups = w.reshape(N, -1, args.group_size or K)
    return groups.amin(-1), groups.amax(-1)


def compressed(kind: str, w):
    """The file's tensors of a weight, what they decompress to, and the config."""
    import torch
    from compressed_tensors.compressors.base import BaseCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

    form, settings = KINDS[kind]
    args = QuantizationArgs(**settings)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)
    low, high = extremes(w, args)
    state = {"weight": w}
    if kind == "nvfp4":
        state["weight_global_scale"] = generate_gparam(w.amin(), w.amax()).reshape(1)
    scale, zero = calculate_qparams(low, high, args, state.get("weight_global_scale"))
    state |= {"weight_scale": scale, "weight_zero_point": zero}
    compressor = BaseCompressor.get_value_from_registry(form)
    held = compressor.compress(state, scheme)
    for name in ("weight_packed", "weight_zero_point"):
        if form.endswith("pack-quantized") and name in held:
            whole = torch.iinfo(held[name].dtype)
            held[name].random_(whole.min, whole.max)
    back = compressor.decompress(dict(held), scheme)["weight"].to(torch.float32).numpy()
    weights = json.loads(args.model_dump_json())
    group = {"targets": ["Linear"], "weights": weights, "format": form}
    config = {"quant_method": "compressed-tensors", "format": form}
    return held, back, config | {"config_groups": {"group_0": group}}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_read_as_decompressed(kind: str, seed: int, tmp_path: Path):
    import torch
    from safetensors.torch import save_file

    rng = np.random.default_rng(seed)
    w = rng.normal(size=(N, K)) * np.exp2(rng.integers(-6, 6, (N, 1)))
    torch.manual_seed(seed)
    held, want, config = compressed(kind, torch.from_numpy(w.astype(np.float32)))
    tensors = {f"p.{name}": t.detach().contiguous() for name, t in held.items()}
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps({"quantization_config": config}))
    got = read_safetensors(tmp_path).weight("p.weight").decode()
    if kind == "nvfp4":
        # the scale, the quotient and the product are each rounded to 8 bits
        assert (np.abs(got - want) <= 3 * 2.0**-8 * np.abs(got)).all(), f"seed {seed}"
    else:
        assert np.array_equal(got, want), f"seed {seed}"
    assert len(np.unique(got)) > 30
