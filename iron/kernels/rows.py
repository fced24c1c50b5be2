"""How the threads of a group share a row, and keep it in registers where it fits."""

from iron.lang import inline, thread, unrolled

WORD = 16
"""Bytes that a thread moves at once; two words beside each other leave half of each line idle."""


MOST_HELD = 40
"""Numbers of a row that a thread keeps in registers."""


def chunk_count(N, VEC):
    """Chunks of VEC that a thread holds of a row of N so that 64 to 512 threads hold all of it.

    Four are best where they fit, measured on an H200 with 16-byte chunks. 0 for other lengths,
    which share one form of a kernel and read the row again.
    """
    if VEC == 1 or N % 512 or not 1024 <= N <= 16384:
        return 0
    fit = (c for c in (4, 3, 5, 2, 6, 8) if N % (64 * c * VEC) == 0 and 512 * c * VEC >= N)
    return next((c for c in fit if c * VEC <= MOST_HELD), 0)


def row_threads(N, VEC):
    """Threads of a group for a row of N."""
    chunks = chunk_count(N, VEC)
    return N // (VEC * chunks) if chunks else 1024 if N > 16384 else 256


def held_chunks(N, VEC, THREADS):
    """Chunks of VEC a thread keeps of a row of N; 0 where it reads the row again."""
    chunks = N // (VEC * THREADS)
    fits = chunks * VEC * THREADS == N and chunks * VEC <= MOST_HELD
    return chunks if chunk_count(N, VEC) and fits else 0


@inline
def owned(HELD, VEC, THREADS):
    """Where the chunks of a thread begin, as `strided` deals them out."""
    return [(thread + c * THREADS) * VEC for c in unrolled(HELD)]
