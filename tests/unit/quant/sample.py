"""Random packed weights: every code is possible, factors are finite and of ordinary size."""

import numpy as np

from iron.dtypes import f16
from iron.quant.format import Format
from iron.quant.tensor import QTensor


def random_planes(fmt: Format, n: int, k: int, seed: int) -> dict[str, np.ndarray]:
    """Planes of an n by k weight."""
    rng = np.random.default_rng(seed)
    out = {}
    for plane in fmt.planes:
        shape, dtype = plane.shape(n, k), plane.dtypes[0]
        if plane.name == "blocks":
            out[plane.name] = random_blocks(fmt, rng, shape)
        elif dtype.is_float:
            out[plane.name] = np.asarray(dtype(rng.normal(size=shape).astype(np.float32)))
        else:
            out[plane.name] = rng.integers(0, dtype.max, shape, dtype.np, endpoint=True)
    return out


def random_blocks(fmt: Format, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Random bytes whose f16 fields are finite."""
    blocks = rng.integers(0, 256, shape, np.uint8).reshape(shape[0], -1, fmt.block_bytes)
    for at in HALVES.get(fmt.name, ()):
        scale = rng.normal(size=blocks.shape[:2]).astype(f16.np)
        blocks[..., at : at + 2] = scale[..., None].view(np.uint8)
    return blocks.reshape(shape)


HALVES = {"gguf_q4_0": (0,), "gguf_q4_1": (0, 2), "gguf_q8_0": (0,)}


def random_tensor(fmt: Format, n: int, k: int, seed: int) -> QTensor:
    """An n by k weight."""
    return QTensor(fmt, random_planes(fmt, n, k, seed), (n, k))
