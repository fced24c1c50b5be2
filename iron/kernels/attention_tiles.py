"""Attention of a tile of queries over the keys of a head, in tiles of keys, by the online sum."""

from iron.kernels.primitives import LOG2E
from iron.lang import cdiv, f32, fast_exp2, fast_rcp, full, inf, inline, iota, log2, maximum
from iron.lang import minimum, mma, pipelined, tanh, where, zeros


def tile_side(D, E, T, shared_bytes):
    """Queries and keys of a tile: as many, up to 64, as leave room for q, k, v and the weights.

    Those are side x D, side x D, side x E and side x side elements of T in group memory.
    """
    fits = (n for n in (64, 32, 16, 8) if n * (2 * D + E + n) * T.bytes <= shared_bytes)
    return next(fits, 4)


def hopper_side(D, E, T, shared_bytes):
    """128 where bulk copies of 128 bytes move heads of at most 256 elements of 16 bits."""
    whole = T.bytes == 2 and D % 64 == 0 and E % 64 == 0 and max(D, E) <= 256
    return 128 if whole else tile_side(D, E, T, shared_bytes)


def hopper_keys(D, E, T, shared_bytes):
    """Keys of a tile beside 128 queries: as many as leave room for two tiles of k and of v."""
    if hopper_side(D, E, T, shared_bytes) < 128:
        return tile_side(D, E, T, shared_bytes)
    return 128 if max(D, E) <= 128 else 96 if max(D, E) <= 192 else 64


@inline
def seen(rows, cols, keys, window, CAUSAL, WINDOWED):
    """Which of the keys `cols` the queries at the places `rows` among the keys see."""
    keep = cols < keys
    if CAUSAL:
        keep = keep & (cols <= rows)
    if WINDOWED:
        keep = keep & (cols > rows - window)
    return keep


@inline
def attend(i, q, k, v, o, lse, mask, sink, scale, softcap, window, form):
    """BM queries of one head, given as views whose lengths count: writes rows of `o` and `lse`."""
    CAUSAL, CAPPED, WINDOWED, BM, BN, STAGES, T = form
    S, keys, D, E = q.shape[0], k.shape[0], q.shape[1], v.shape[1]
    query = q.tiles(BM, D)[i, 0]
    K, V = k.tiles(BN, D), v.tiles(BN, E)
    first = i * BM + keys - S  # the place of the first query among the keys
    rows = first + iota(BM)[:, None]

    top, norm, acc = full((BM,), -inf, f32), zeros((BM,), f32), zeros((BM, E), f32)
    if sink is not None:
        top, norm = full((BM,), sink * LOG2E, f32), norm + 1.0
    end = minimum(keys, first + BM) if CAUSAL else keys
    start = maximum(0, first - window + 1) // BN if WINDOWED else 0
    for j in pipelined(start, cdiv(end, BN), stages=STAGES):
        score = mma(query, K[j, 0].T, zeros((BM, BN), f32))
        if CAPPED:
            score = softcap * tanh(score * scale / softcap) * LOG2E
        else:
            score = score * (scale * LOG2E)  # one factor: what follows is one fma a score
        keep = seen(rows, j * BN + iota(BN)[None, :], keys, window, CAUSAL, WINDOWED)
        if mask is not None:
            keep = keep & (mask.tiles(BM, BN)[i, j] != 0)
        score = where(keep, score, -inf)
        peak = maximum(top, score.max(axis=1))
        safe = where(peak == -inf, 0.0, peak)  # a row that sees nothing stays 0, not NaN
        weight = fast_exp2(score - safe[:, None])
        decay = fast_exp2(top - safe)
        norm = norm * decay + weight.sum(axis=1)
        acc = mma(weight.to(T), V[j, 0], acc * decay[:, None])
        top = peak
    share = where(norm > 0.0, fast_rcp(norm), 0.0)
    o.tiles(BM, E)[i, 0] = (acc * share[:, None]).to(T)
    lse.tiles(BM)[i] = where(norm > 0.0, (top + log2(norm)) / LOG2E, -inf)
