"""The tiles of `gemm` on a CPU, measured on two cores with AVX-512 and AMX."""

from typing import NamedTuple

from iron.lang import bf16, cdiv, f32, next_pow2

CHAIN = 2048
"""Products of f32 whose sum, turn after turn, keeps its class without compensation."""
NARROW = 16384
"""The same of 16-bit floats, whose sums are rounded to as much."""


class Tile(NamedTuple):
    """The Consts of `gemm` that a CPU's schedule gives."""

    BM: int
    BN: int
    BK: int
    CHAIN: int


def tile(m, n, k, T, pairs):
    """The tile of an m x n product over k, with `pairs` for products of AMX.

    The widest tile whose operands are copied least that leaves a dozen groups, or eight that are
    wide: copies of b, by panels, cost less than those of a. As little as can be lies beyond the
    edges. Each turn of BK is summed from 0, so that chains stay short.
    """
    plain = k <= (CHAIN if T is f32 else NARROW)
    most = 256 if plain else 128  # compensation takes more arrays
    side = next((s for s in (256, 128) if s <= most and cdiv(m, s) * cdiv(n, s) >= 12), 64)
    wide = 512 if side == 256 and T is not bf16 and cdiv(m, 256) * cdiv(n, 512) >= 8 else side
    rows, columns = fitted(m, side, 16), fitted(n, wide, 32)
    depth = min(256 if pairs else 128, max(32, next_pow2(k)))
    return Tile(rows, columns, depth, 0 if plain else CHAIN)


def fitted(n, side, step):
    """A side for n elements: as many tiles as of `side`, each a multiple of `step`."""
    parts = max(1, cdiv(n, side))
    return max(1, cdiv(n, parts * step)) * step


def entry(key, amx):
    """The function that a schedule calls for one Const of `tile`."""

    def found(P, Q, R, S, TA, TB, T):
        m, n, k = Q if TA else P, R if TB else S, P if TA else Q
        return getattr(tile(m, n, k, T, amx and T is bf16), key)

    return found


CPU = {key: entry(key, amx=False) for key in Tile._fields}
AMX = {key: entry(key, amx=True) for key in Tile._fields}
