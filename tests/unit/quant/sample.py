"""Random packed weights: every finite code is possible, factors are of ordinary size."""

import numpy as np

from iron.dtypes import f16
from iron.quant.format import Elem, Format, Scale
from iron.quant.tensor import QTensor

# where the f16 fields of a GGUF block are; -2 counts from its end
HALVES = {
    "gguf_q2_k": (80, 82), "gguf_q3_k": (108,), "gguf_q4_k": (0, 2), "gguf_q5_k": (0, 2),
    "gguf_q6_k": (208,), "gguf_tq1_0": (52,), "gguf_tq2_0": (64,), "gguf_q4_1": (0, 2),
    "gguf_q5_1": (0, 2), "gguf_mxfp4": (), "gguf_nvfp4": (), "gguf_iq1_m": (), "gguf_q8_k": (),
}  # fmt: skip


def random_planes(fmt: Format, n: int, k: int, seed: int) -> dict[str, np.ndarray]:
    """Planes of an n by k weight."""
    rng = np.random.default_rng(seed)
    return {p.name: _plane(fmt, p.name, rng, n, k) for p in fmt.planes}


def _plane(fmt: Format, name: str, rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    plane = fmt.plane(name)
    shape, dtype = plane.shape(n, k), plane.dtypes[0]
    if name == "blocks":
        return random_blocks(fmt, rng, shape)
    if name == "g_idx":
        return rng.integers(0, len(np.arange(0, k, fmt.multiple)), shape, dtype.np)
    if dtype.is_float:
        return np.asarray(dtype(rng.uniform(0.5, 2, shape) * rng.choice([-1, 1], shape)))
    if name == "scales" and fmt.scale is Scale.E8M0:
        return rng.integers(110, 140, shape, dtype.np)
    if name == "scales" and fmt.scale is Scale.E4M3:
        return rng.integers(0, 0x7F, shape, dtype.np)
    if fmt.elem in (Elem.E4M3, Elem.E5M2) and name == "codes":
        limit = 0x7F if fmt.elem is Elem.E4M3 else 0x7C
        code = rng.integers(0, limit, shape, np.uint8)
        return code | rng.choice([0, 128], code.shape).astype(np.uint8)
    return rng.integers(dtype.min, dtype.max, shape, dtype.np, endpoint=True)


def random_blocks(fmt: Format, rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Random bytes whose float fields are finite."""
    blocks = rng.integers(0, 256, shape, np.uint8).reshape(shape[0], -1, fmt.block_bytes)
    for at in HALVES.get(fmt.name, (0,)):
        scale = rng.uniform(-2, 2, blocks.shape[:2]).astype(f16.np)
        blocks[..., at : at + 2] = scale[..., None].view(np.uint8)
    if fmt.name == "gguf_iq1_m":
        blocks[..., 55] = blocks[..., 55] & 0x0F | 0x30
    if fmt.name == "gguf_q8_k":
        scale = rng.uniform(-2, 2, blocks.shape[:2]).astype(np.float32)
        blocks[..., :4] = scale[..., None].view(np.uint8)
    if fmt.name == "gguf_mxfp4":
        blocks[..., 0] = rng.integers(110, 140, blocks.shape[:2])
    return blocks.reshape(shape)


def random_tensor(fmt: Format, n: int, k: int, seed: int) -> QTensor:
    """An n by k weight."""
    return QTensor(fmt, random_planes(fmt, n, k, seed), (n, k))


def sides(fmt: Format) -> tuple[int, int]:
    """A small N and K that every plane of the format can have."""
    period = max(fmt.group, fmt.block, fmt.multiple, 32)
    return 32, 2 * period if period < 512 else period
