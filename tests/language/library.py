"""Library kernels that are programs of the language in earnest, with references of their own."""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from iron.kernels.norm import layer_norm
from iron.kernels.ops import copy, scan
from iron.kernels.sampling import categorical_sample
from iron.kernels.sdpa import decode_split

NEAR = 2.0**-20


@dataclass(frozen=True)
class Program:
    """A library module, a check of it, and one operator to make wrong."""

    module: ModuleType
    check: Callable[[Any], None]
    wrong: tuple[str, str]


def check_scan(module: Any) -> None:
    """Three launches for long rows, one for short ones; inclusive and exclusive."""
    rng = np.random.default_rng(2)
    for n in (1, 65, 1001):
        x = rng.normal(size=(2, n)).astype(np.float32)
        for exclusive in (False, True):
            y = module.scan(x=x, y=np.full_like(x, np.nan), BLOCK=700, EXCLUSIVE=exclusive)
            wide = np.cumsum(x.astype(float), 1)
            want = wide - x if exclusive else wide
            assert np.all(np.abs(y - want) <= NEAR * np.cumsum(np.abs(x), 1) + 1e-12)
    x = rng.integers(0, 2**32, (2, 1001), dtype=np.uint32)
    assert np.array_equal(module.scan(x=x, BLOCK=300), np.cumsum(x, 1, dtype=np.uint32))


def check_split_decode(module: Any) -> None:
    """Two splits and a sink over grouped heads, a window, an empty sequence, poisoned rows."""
    rng = np.random.default_rng(3)
    q, k, v = (
        rng.normal(size=s).astype(np.float32) for s in ((2, 6, 72), (2, 2, 50, 72), (2, 2, 50, 72))
    )
    used, window = np.array([0, 37], np.uint32), 20
    k[1, :, 37:] = v[1, :, 37:] = k[0] = v[0] = np.nan
    sink = rng.normal(size=6).astype(np.float32)
    o, _ = module.sdpa_decode_two_pass(
        q=q, k=k, v=v, used=used, sink=sink, scale=0.1, softcap=0.0, window=window, first=0,
        SPLITS=3,
    )  # fmt: skip
    want = np.zeros(o.shape)
    for h in range(6):
        keys, values = (a[1, h // 3, 37 - window : 37].astype(float) for a in (k, v))
        p = np.exp(np.append(keys @ q[1, h] * 0.1, sink[h]))
        want[1, h] = (p[:-1] / p.sum()) @ values
    assert np.abs(o - want).max() < 1e-5


def check_categorical(module: Any) -> None:
    """Draws by the generator's numbers, recomputed with Python integers."""
    rng = np.random.default_rng(12)
    x = (rng.normal(size=(40, 300)) * 3).astype(np.float32)
    x[0] = -np.inf
    x[0, 7] = 0
    key = np.array([1, 2, 3, 4], np.uint32)
    token = module.categorical_sample(x=x, key=key, temperature=1.0, THREADS=64)
    for row in range(40):
        u = (threefry((1, 2), (3, 4 + row)) >> 8) * 2.0**-24
        sums = np.cumsum(np.exp(x[row].astype(float) - x[row].max()))
        goal = u * sums[-1]
        want = int(np.searchsorted(sums, goal, side="right"))
        edge = np.abs(sums - goal).min() < 1e-5 * sums[-1]
        assert token[row] == want or (edge and abs(int(token[row]) - want) <= 1)


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> int:
    """The first word of Threefry-2x32-20 in Python integers."""
    mask = 0xFFFFFFFF
    keys = (*key, key[0] ^ key[1] ^ 0x1BD11BDA)
    a, b = (counter[0] + keys[0]) & mask, (counter[1] + keys[1]) & mask
    for i in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[i % 2]:
            a = (a + b) & mask
            b = (((b << turn) | (b >> (32 - turn))) & mask) ^ a
        a, b = (a + keys[(i + 1) % 3]) & mask, (b + keys[(i + 2) % 3] + i + 1) & mask
    return a


def check_copy(module: Any) -> None:
    """Reversed, stepped, transposed and broadcast axes at once; ranks 0 to 8."""
    rng = np.random.default_rng(13)
    a = rng.normal(size=(4, 5, 6)).astype(np.float32)
    turned = a[::-1, :, ::-2].transpose(2, 0, 1)[:, :, None]
    deep = rng.normal(size=(2, 1, 3, 2, 1, 2, 2, 3)).astype(np.float32)[..., ::-1]
    for x in (np.broadcast_to(turned, (3, 4, 2, 5)), a[0, 0, :1].reshape(()), a[:0], deep):
        y = module.copy(x=x, y=np.full(x.shape, np.nan, np.float32))
        assert y.shape == x.shape
        assert np.array_equal(y, x)


def check_layer_norm(module: Any) -> None:
    """Rows whose mean is 50000 times their spread."""
    rng = np.random.default_rng(17)
    x = (50000 + rng.normal(size=(2, 1004))).astype(np.float32)
    y = module.layer_norm(x=x, y=np.full_like(x, np.nan), eps=1e-5)
    z = x.astype(float)
    want = (z - z.mean(1, keepdims=True)) / np.sqrt(z.var(1, keepdims=True) + 1e-5)
    assert np.abs(y - want).max() < 1e-4


PROGRAMS = {
    "scan": Program(scan, check_scan, ("total += group_sum(mine)", "total += mine")),
    "split_decode": Program(
        decode_split, check_split_decode, ("s * share, seen)", "s * share + 1, seen)")
    ),
    "categorical": Program(
        categorical_sample, check_categorical, ("if run > goal", "if run >= goal * 1.001")
    ),
    "copy": Program(
        copy, check_copy, ("y[at] = x[at]", "y[at] = x[at[:-1] + [0]] if at else x[at]")
    ),
    "layer_norm": Program(
        layer_norm, check_layer_norm, ("squares - sums * rest", "squares + sums * rest")
    ),
}
