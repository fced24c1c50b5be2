"""Attention of a tile of queries over the keys of a head, in tiles of keys, by the online sum."""

from iron.kernels.primitives import LOG2E
from iron.lang import cdiv, f32, fast_exp2, fast_rcp, full, inf, inline, iota, log2, maximum
from iron.lang import minimum, mma, pipelined, tanh, where, zeros


def room(queries, keys, D, E, T):
    """Bytes of group memory for tiles of q, k, v and the weights; 16 lie after each row."""
    rows = ((queries, D), (keys, D), (keys, E), (queries, keys))
    return sum(count * (size * T.bytes + 16) for count, size in rows)


def tile_side(D, E, T, shared_bytes):
    """Queries and keys of a tile: as many, up to 64, as leave room for q, k, v and the weights."""
    return next((n for n in (64, 32, 16, 8) if room(n, n, D, E, T) <= shared_bytes), 4)


def tall_side(S, D, E, T, shared_bytes):
    """Queries of a tile on GPUs whose simdgroups multiply: 128 where 64 keys have room beside."""
    fits = T.bytes == 2 and max(D, E) <= 128 and S > 64 and room(128, 64, D, E, T) <= shared_bytes
    return 128 if fits else tile_side(D, E, T, shared_bytes)


def hopper_side(D, E, T, shared_bytes):
    """128 where bulk copies of 128 bytes move heads of at most 256 elements of 16 bits."""
    return 128 if T.bytes == 2 and max(D, E) <= 256 else tile_side(D, E, T, shared_bytes)


def hopper_queries(D, E, T, CAUSAL, shared_bytes):
    """Three warpgroups of 64 where heads are short and all queries have as much to do."""
    side = hopper_side(D, E, T, shared_bytes)
    return 192 if side == 128 and max(D, E) <= 64 and not CAUSAL else side


def hopper_keys(D, E, T, shared_bytes):
    """Keys of a tile beside 128 queries: as many as leave room for two tiles of k and of v."""
    if hopper_side(D, E, T, shared_bytes) < 128:
        return tile_side(D, E, T, shared_bytes)
    return 128 if max(D, E) <= 128 else 96 if max(D, E) <= 192 else 64


def hopper_persistent(S, CAUSAL):
    """Groups that take one tile after the other. Long rows of causal scores, whose tiles differ
    most, are dealt out by the hardware: on an H200 that is 9 % faster at 4096 queries, 1 to 3 at
    2048, 12 slower at 1024."""
    return 0 if CAUSAL and S >= 2048 else 132


def hopper_wide(T):
    """Elements of 128 bytes, the width of what a bulk copy moves, for elements of 16 bits."""
    return 64 if T.bytes == 2 else 1


def wide(size, WIDE):
    """The side of a tile that holds a head: a multiple of WIDE, zeros beyond `size`."""
    return cdiv(size, WIDE) * WIDE


CPU = {"BM": 32, "BN": 32}
CUDA = {"BM": tall_side}
HOPPER = {
    "BM": hopper_side,
    "BN": hopper_keys,
    "OVERLAP": 1,
    "PERSISTENT": 132,
    "WIDE": hopper_wide,
}


@inline
def seen(rows, cols, keys, sight):
    """Which of the first `keys` keys the queries at the places `rows` among them see.

    `sight` is (behind, ahead): a query at r sees the places above r - behind and up to r + ahead;
    None is without a limit.
    """
    behind, ahead = sight
    keep = cols < keys
    if ahead is not None:
        keep = keep & (cols <= rows + ahead)
    if behind is not None:
        keep = keep & (cols > rows - behind)
    return keep


@inline
def fresh(BM, E, sink):
    """The state of BM rows that have seen nothing; `sink`, where there is one, is in base 2."""
    norm, acc = zeros((BM,), f32), zeros((BM, E), f32)
    if sink is None:
        return full((BM,), -inf, f32), norm, acc
    return full((BM,), sink * LOG2E, f32), norm + 1.0, acc


@inline
def walked(query, i, heads, rows, tiles, sight, extra, by, state, form):
    """The state (greatest score in base 2, weight sum, weighted values) after some tiles of keys.

    `heads` are the keys and the values as views whose lengths count, `rows` the places among the
    keys of the queries of tile i, `tiles` the first tile of keys and the one after the last,
    `extra` (mask, ids, table) or None for each, `by` (scale, soft cap or None). With `ids` equal
    ones see each other; `table` is (values, zero) and adds values[clamp(zero + key - query)].
    """
    (k, v), (mask, ids, table), (scale, softcap) = heads, extra, by
    BM, BN, STAGES, T, WIDE = form
    (top, norm, acc), keys = state, k.shape[0]
    K, V = k.tiles(BN, wide(k.shape[1], WIDE)), v.tiles(BN, wide(v.shape[1], WIDE))
    for j in pipelined(tiles[0], tiles[1], stages=STAGES):
        score = mma(query, K[j, 0].T, zeros((BM, BN), f32))
        if softcap is not None:
            score = softcap * tanh(score * scale / softcap) * LOG2E
        else:
            score = score * (scale * LOG2E)  # one factor: what follows is one fma a score
        cols = j * BN + iota(BN)[None, :]
        keep = seen(rows, cols, keys, sight)
        if mask is not None:
            keep = keep & (mask.tiles(BM, BN)[i, j] != 0)
        if ids is not None:
            keep = keep & (ids.tiles(BM)[i][:, None] == ids.tiles(BN)[j][None, :])
        if table is not None:
            at = minimum(maximum(cols - rows + table[1], 0), table[0].size - 1)
            score = score + table[0].gather(at) * LOG2E
        score = where(keep, score, -inf)
        peak = maximum(top, score.max(axis=1))
        safe = where(peak == -inf, 0.0, peak)  # a row that sees nothing stays 0, not NaN
        weight = fast_exp2(score - safe[:, None])
        decay = fast_exp2(top - safe)
        norm = norm * decay + weight.sum(axis=1)
        acc = mma(weight.to(T), V[j, 0], acc * decay[:, None])
        top = peak
    return top, norm, acc


@inline
def finished(state, i, o, lse, form):
    """Writes tile i of the outputs and of the log sums of a state."""
    (top, norm, acc), (BM, _, _, T, WIDE) = state, form
    share = where(norm > 0.0, fast_rcp(norm), 0.0)
    o.tiles(BM, wide(o.shape[1], WIDE))[i, 0] = (acc * share[:, None]).to(T)
    lse.tiles(BM)[i] = where(norm > 0.0, (top + log2(norm)) / LOG2E, -inf)


@inline
def attend(i, heads, shift, sight, sink, extra, by, form):
    """BM queries of one head, given as views whose lengths count: writes rows of `o` and `lse`.

    Query 0 has the place `shift` among the keys; the rest as in `walked`.
    """
    (q, k, v, o, lse), (behind, ahead), (BM, BN, _, _, WIDE) = heads, sight, form
    query, keys = q.tiles(BM, wide(q.shape[1], WIDE))[i, 0], k.shape[0]
    first = i * BM + shift
    end = minimum(keys, first + BM + ahead) if ahead is not None else keys
    start = maximum(0, first - behind + 1) // BN if behind is not None else 0
    rows, state = first + iota(BM)[:, None], fresh(BM, wide(v.shape[1], WIDE), sink)
    tiles = (start, cdiv(end, BN))
    state = walked(query, i, (k, v), rows, tiles, sight, extra, by, state, form)
    finished(state, i, o, lse, form)
