"""Writes small safetensors checkpoints with any dtype name, valid or not."""

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

NAMES = {
    "float32": "F32", "float16": "F16", "bfloat16": "BF16", "uint8": "U8", "int8": "I8",
    "uint32": "U32", "int32": "I32", "int64": "I64", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "float8_e8m0fnu": "F8_E8M0",
}  # fmt: skip
E4M3, E5M2, E8M0 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu


def write(
    folder: Path, tensors: dict[str, np.ndarray], config: dict[str, Any] | None = None
) -> Path:
    """`model.safetensors` in a folder, with `config.json` when a quantisation config is given."""
    folder.mkdir(parents=True, exist_ok=True)
    header, at = {}, 0
    for name, held in tensors.items():
        size = held.nbytes
        header[name] = {
            "dtype": NAMES[held.dtype.name],
            "shape": list(held.shape),
            "data_offsets": [at, at + size],
        }
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = folder / "model.safetensors"
    data = b"".join(np.ascontiguousarray(t).tobytes() for t in tensors.values())
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    if config is not None:
        (folder / "config.json").write_text(json.dumps({"quantization_config": config}))
    return path
