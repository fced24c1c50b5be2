"""The goldens as packed tensors: through the file readers where the format is one of files."""

import json
from pathlib import Path

import numpy as np

from iron.dtypes import bf16, f16, f32
from iron.quant.encode import Options
from iron.quant.encode.aura import hadamard
from iron.quant.format import Rule, by_name
from iron.quant.pack import pack
from iron.quant.read_safetensors import read_safetensors
from iron.quant.tensor import QTensor
from tests.unit.quant.checkpoint import E4M3, E8M0, write
from tests.unit.quant.goldens import Golden


def tensor(golden: Golden, folder: Path) -> QTensor:
    """The golden's bytes as a packed tensor."""
    shape = tuple(golden.decoded.get("shape") or np.shape(golden.input))
    held = golden.tensors
    if golden.format.startswith("gguf_"):
        return QTensor(by_name(golden.format), {"blocks": held["blocks"]}, shape)
    if golden.format.startswith("aura"):
        return _aura(golden)
    if "codes" in held:
        return _torchao(golden, shape)
    named, config = _file(golden)
    logical = next((n for n in ("p.weight", "p") if _logical(n, named)), "p.weight")
    return read_safetensors(write(folder, named, config)).weight(logical)


def _logical(name: str, named: dict[str, np.ndarray]) -> bool:
    return (name == "p") == ("p_blocks" in named)


def _aura(golden: Golden) -> QTensor:
    held = golden.tensors
    planes = {
        "codes": held["packed"][None],
        "scales": held["norm"][None],
        "codebook": held["codebook"][None],
    }
    return QTensor(by_name(golden.format), planes, (1, golden.params["dim"]))


def _torchao(golden: Golden, shape: tuple[int, ...]) -> QTensor:
    fmt, codes = by_name(golden.format), golden.tensors["codes"]
    held = pack(codes, 6) if fmt.bits == 6 else codes if fmt.bits == 8 else codes.copy().view("<u4")
    planes = {"codes": held, "scales": golden.tensors["scales"]}
    if fmt.name == "nvfp4":
        whole = [t for t in golden.tensors.values() if t.dtype == np.float32]
        planes["outer"] = np.full((shape[0], 1), whole[0].item() if whole else 1, np.float32)
    return QTensor(fmt, planes, shape)


def _file(golden: Golden) -> tuple[dict[str, np.ndarray], dict[str, object] | None]:
    """Tensor names with dtypes as a checkpoint has them, and its config."""
    held, params, name = dict(golden.tensors), golden.params, golden.format
    if name.startswith("mlx"):
        mode = params.get("mode", "affine")
        group = params.get("group_size", 16 if mode == "nvfp4" else 32)
        if "global_scale" in held:
            held["global_scale"] = np.asarray(held["global_scale"], np.float32)
        config = {"group_size": group, "mode": mode}
        return {f"p.{key}": t for key, t in held.items()}, config
    if name == "mxfp4_gptoss":
        return {f"p_{key}": t for key, t in held.items()}, {"quant_method": "mxfp4"}
    if name.startswith("gptq"):
        config = {"quant_method": "gptq", "checkpoint_format": params["checkpoint_format"]}
        return {f"p.{key}": t for key, t in held.items()}, config
    if name.startswith("awq"):
        return {f"p.{key}": t for key, t in held.items()}, {"quant_method": "awq"}
    if name.startswith("hqq"):
        held["nbits"] = np.array([int(name[-1])], np.int32)
        held["shape"] = np.array(golden.decoded["shape"], np.int64)
        return {f"p.{key}": t for key, t in held.items()}, {"quant_method": "hqq"}
    if name.startswith("bnb"):
        return _bitsandbytes(golden)
    return _scaled(golden)


def _bitsandbytes(golden: Golden) -> tuple[dict[str, np.ndarray], None]:
    held = dict(golden.tensors)
    named = {"p.weight": held.pop("weight")}
    state = {"blocksize": golden.params["blocksize"], "shape": golden.decoded["shape"]}
    for key in ("nested_offset", "offset"):
        if key in held:
            state["nested_offset"] = float(held.pop(key).reshape(-1)[0])
        elif key in golden.params:
            state["nested_offset"] = golden.params[key]
    named |= {f"p.weight.{key}": t for key, t in held.items()}
    kind = golden.format[4:7]
    raw = np.frombuffer(json.dumps(state).encode(), np.uint8)
    return named | {f"p.weight.quant_state.bitsandbytes__{kind}": raw}, None


def _scaled(golden: Golden) -> tuple[dict[str, np.ndarray], dict[str, object]]:
    named = {f"p.{key}": t for key, t in golden.tensors.items()}
    kinds = {"f8_e4m3": E4M3, "f8_e8m0": E8M0}
    for key, kind in golden.dtypes.items():
        if kind in kinds:
            named[f"p.{key}"] = golden.tensors[key].view(kinds[kind])
    params = golden.params
    config: dict[str, object] = {"quant_method": "compressed-tensors"}
    if "block" in params and isinstance(params["block"], list):
        config = {"quant_method": "fp8", "weight_block_size": params["block"]}
    if golden.format.startswith("ct_pack"):
        config["config_groups"] = {"group_0": {"weights": {"num_bits": int(golden.format[11])}}}
    return named, config


def rotation(golden: Golden) -> np.ndarray:
    """The orthogonal matrix of an AURA golden, f64."""
    return hadamard(golden.tensors["sign"].astype(np.float64))


def options(golden: Golden) -> Options:
    """The encoder's rule for a golden."""
    name, params = golden.id, golden.params
    if name.startswith("mlx_affine"):
        return Options({"float32": f32, "float16": f16, "bfloat16": bf16}[params["T"]])
    if name.startswith("mlx_nvfp4"):
        whole = golden.tensors.get("global_scale", np.float32(2688))
        return Options(outer=float(np.float32(whole.item()) / 2688), least=0, signed_zero=False)
    if name.startswith("mlx"):
        return Options(rule=Rule.CEIL, signed_zero="neg_zero" not in params)
    if name.startswith("nvfp4_torchao"):
        return Options(outer=1.0, least=8, floor_zero=True)
    if "scale_mode" in params:
        return Options(
            rule=Rule.CEIL if params["scale_mode"] == "RCEIL" else Rule[params["scale_mode"]]
        )
    if name.startswith("ct_mx"):
        return Options(rule=Rule.EVEN, kept=None if "mxfp6" in name else 1)
    if name.startswith(("ct_w4", "ct_w8")):
        return Options(rule=Rule.FULL)
    if name.startswith("aura"):
        return Options(f32, rotation=rotation(golden), codebook=golden.tensors["codebook"])
    return Options()
