"""Values at which arithmetic goes wrong first, for each dtype, and all their combinations."""

from typing import Any

import numpy as np

from iron.dtypes import DType

FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 1e-45, -1e-45, 1e-40, 1.17549435e-38),
    *(3.4028235e38, -3.4028235e38, np.inf, -np.inf, np.nan, 127.5, 128.0, 255.5, -128.5, 32767.5),
    *(32768.0, 65504.0, 65519.0, 65520.0, 65535.5, 2147483520.0, 2147483648.0, -2147483648.0),
    *(-2147483904.0, 4294967040.0, 4294967296.0, 9.2233715e18, 9.223372e18, -9.223372e18),
    *(1.8446743e19, 1.8446744e19, 1.00048828125, 1.00390625, 5.9604645e-8, 2.9802322e-8, 0.1),
    *(1.0000001, 8388608.5, 12582912.0, 8388609.0, 1.0 + 2**-8, 1.0 + 3 * 2**-8, 6.1035156e-5),
]


def specials(dtype: DType) -> Any:
    """The special values of `dtype`."""
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.is_float:
        with np.errstate(all="ignore"):
            return np.unique(np.array(FLOATS, np.float32).astype(dtype.np).view(f"u{dtype.bytes}"))
    low, high = dtype.min, dtype.max
    near = {0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 100, low, low + 1, high, high - 1, high // 2}
    near |= {-v for v in near} | {1 << s for s in range(dtype.bits)}
    return np.array(sorted(v for v in near if low <= v <= high), dtype.np)


def columns(dtypes: list[DType], lanes: int, rng: np.random.Generator) -> list[Any]:
    """Every pair of special values (a sample of triples), padded to a multiple of `lanes`."""
    pools = [specials(d).view(d.np) for d in dtypes]
    grids = np.meshgrid(*[np.arange(len(p)) for p in pools], indexing="ij")
    index = np.stack([g.reshape(-1) for g in grids])
    if index.shape[1] > 6000:
        index = index[:, rng.permutation(index.shape[1])[:6000]]
    size = -(-index.shape[1] // lanes) * lanes
    padded = [np.resize(row, size) for row in index]
    return [np.ascontiguousarray(p[i]) for p, i in zip(pools, padded, strict=True)]
