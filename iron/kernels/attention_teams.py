"""How the threads of a GPU's group share keys and heads in attention of one query a head."""

from iron.lang import cdiv, next_pow2


MANY = 64
"""Groups of heads from which on heads share reads in one pass; before that, more groups do more."""


def team_of(H, G, D, E, shared_bytes):
    """Threads that share a key on a GPU, 8 to 32: one for each 8 elements.

    One for each 16 where that shares each read among four heads or more, as many as before, and the
    sums of 128 threads find room.
    """
    many = min(32, max(8, next_pow2(cdiv(D, 8))))
    few = max(8, many // 2)
    heads = heads_of(H, G, D, E, few)
    if D % (16 * few) or not 4 <= heads == heads_of(H, G, D, E, many):
        return many
    return few if threads_of(E, heads, few, shared_bytes) == 128 else many


def heads_of(H, G, D, E, TEAM):
    """Query heads that share each read on a GPU: a whole group's, as far as registers allow."""
    return max(1, min(8 // cdiv(max(D, E), 8 * TEAM), H // G))


def keys_of(C, D, E, HEADS, TEAM):
    """Keys of a team at a time on a GPU: more for few heads, as far as registers allow.

    Eight of f32, read ahead, spilled on gfx1201 even for one head.
    """
    room = 512 // (C.bits * HEADS * cdiv(max(D, E), 8 * TEAM))
    return max(1, min(128 // C.bits, room))


def threads_of(E, HEADS, TEAM, shared_bytes):
    """Threads of a group on a GPU: 128 where the sums of its teams find room, else 64.

    Room is half of what a group may have, since that may be all there is, from 28 to 40 KiB.
    """
    room = max(28 << 10, min(40 << 10, shared_bytes // 2))
    return 128 if room >= 128 // TEAM * HEADS * (E + 2) * 4 else 64
