"""How a row is shared out: the whole of it, in groups that every GPU takes."""

import pytest

from iron.kernels.rows import MOST_HELD, chunk_count, held_chunks, row_threads


@pytest.mark.parametrize("vec", [4, 8])
def test_a_held_row_is_whole_and_its_group_legal(vec: int):
    held = 0
    for n in range(1, 20000):
        threads, chunks = row_threads(n, vec), chunk_count(n, vec)
        assert held_chunks(n, vec, threads) == chunks
        if chunks:
            held += 1
            assert chunks * vec * threads == n
            assert chunks * vec <= MOST_HELD
            assert threads in range(64, 513, 64)
    assert held > 15


@pytest.mark.parametrize("n", [1, 100, 2880, 4095, 4100, 32768])
def test_other_rows_share_a_form(n: int):
    threads = 1024 if n > 16384 else 256
    assert (row_threads(n, 8), held_chunks(n, 8, threads)) == (threads, 0)


def test_given_threads_that_do_not_divide_the_row_hold_nothing():
    assert held_chunks(4096, 8, 96) == 0
    assert held_chunks(4096, 8, 64) == 0  # too much for a thread
    assert held_chunks(4096, 8, 128) == 4
    assert held_chunks(4096, 1, 128) == 0
