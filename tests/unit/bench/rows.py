"""Rows as a worker sends them, for tests that run nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from iron.bench.spread import spread

CEILINGS = {"copy": 40e9, "read": 30e9, "flops": 200e9, "launch": 1e-6}


def times(median: float, noise: float = 0.01, seed: int = 0, n: int = 30) -> list[float]:
    """Timings around a median."""
    return list(median * (1 + noise * np.random.default_rng(seed).standard_normal(n)))


def row(median: float = 1e-3, **changes: Any) -> dict[str, Any]:
    """A row that moves 32 MB in `median` seconds: 32 GB/s at 1 ms."""
    made: dict[str, Any] = {
        "kernel": "twice",
        "tags": "f32",
        "shape": "N=4Mi",
        "cache": "cold",
        "verified": {"cases": 4, "own": True, "worst": 0.5},
        "read": 16e6,
        "written": 16e6,
        "flops": 4e6,
        "time": spread(times(median)).document(),
        "ceilings": dict(CEILINGS),
        "peers": [],
        "host": {"cold bind": 1e-2, "warm bind": 1e-5, "launch": 1e-6},
        "resources": {},
    }
    return {**made, **changes}


def peer(median: float, name: str = "numpy", noise: float = 0.01) -> dict[str, Any]:
    """A peer's part of a row."""
    time = spread(times(median, noise, seed=1)).document()
    return {"name": name, "version": "1.0", "error": 1e-7, "time": time}
