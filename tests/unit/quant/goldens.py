"""The committed answers of eleven other libraries, as arrays."""

import functools
import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

PATH = Path(__file__).parents[2] / "data" / "format_goldens.json"
DTYPES = {
    "f32": "<f4", "f16": "<f2", "u8": "u1", "i8": "i1", "u32": "<u4", "i32": "<i4", "i64": "<i8",
    "f8_e4m3": "u1", "f8_e8m0": "u1", "bf16": ml_dtypes.bfloat16,
}  # fmt: skip


def array(record: dict[str, Any]) -> np.ndarray:
    """The array of a record {dtype, shape, hex} or {dtype, shape, range}."""
    if "range" in record:
        return np.arange(*record["range"], dtype=DTYPES[record["dtype"]])
    raw = np.frombuffer(bytes.fromhex(record["hex"]), DTYPES[record["dtype"]])
    return raw.reshape(record["shape"])


@dataclass(frozen=True)
class Golden:
    """One case: the foreign bytes, what they decode to, and the input an encoder was given."""

    id: str
    kind: str
    format: str
    params: dict[str, Any]
    tensors: dict[str, np.ndarray]
    dtypes: dict[str, str]
    decoded: dict[str, Any] = field(default_factory=dict)
    input: np.ndarray | None = None
    rmse: float | None = None

    def check(self, got: np.ndarray) -> None:
        """Raises unless the decoded f32 array is the recorded one, by its rule."""
        want = self.decoded
        got = np.ascontiguousarray(got, np.float32).reshape(want["shape"])
        head = np.frombuffer(bytes.fromhex(want["hex"]), "<f4")
        start = got.reshape(-1)[: head.size]
        assert np.array_equal(np.isnan(start), np.isnan(head)), self.id
        start, head = start[~np.isnan(start)], head[~np.isnan(head)]
        if want.get("match", "bits") == "bits":
            assert np.array_equal(start.view(np.uint32), head.view(np.uint32)), self.id
            if "sha256" in want and not np.isnan(got).any():
                assert hashlib.sha256(got.tobytes()).hexdigest() == want["sha256"], self.id
        else:
            bound = 1.01 * want["max_err_over_amax"] * np.abs(head).max()
            assert np.abs(start - head).max() <= bound, self.id


def _input(record: Any, shared: dict[str, Any]) -> np.ndarray | None:
    if record is None or "hex" in record:
        return None if record is None else array(record).astype(np.float32)
    base = array(shared["x2x256"]).astype(np.float32)
    fill = {"x2x256": None, "x2x256_b01": 0.01, "x2x256_b001": 0.001}[record["ref"]]
    if fill is not None:
        base[1, :32] = np.float32(fill)
    return base[:, :64] if record.get("slice") else base


@functools.cache
def goldens() -> dict[str, Golden]:
    """Every case by id."""
    held = json.loads(PATH.read_text())
    return {
        c["id"]: Golden(
            c["id"],
            c["kind"],
            c["format"],
            c["params"],
            {name: array(t) for name, t in c["tensors"].items()},
            {name: t["dtype"] for name, t in c["tensors"].items()},
            c.get("decoded") or {},
            _input(c.get("input"), held["inputs"]),
            c.get("rmse_ref"),
        )
        for c in held["cases"]
    }
