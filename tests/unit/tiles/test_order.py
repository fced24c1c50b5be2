"""Orders of groups: each number once, and neighbours together."""

from itertools import product

import pytest

from iron.dtypes import i32
from iron.ir.build import Builder
from iron.ir.core import const_of
from iron.tiles.order import mirrored, numbers

ORDERS = [None, (0, 0, False), (0, 2, False), (1, 2, False), (0, 8, True), (1, 3, True)]


def walk(extents, order):
    """The groups' numbers in the order of their flat numbers, by folding."""
    total = 1
    for e in extents:
        total *= e
    b = Builder()
    with b.block():
        wanted = [b.const(e, i32) for e in extents]
        made = [numbers(b, b.const(f, i32), wanted, order) for f in range(total)]
    return [tuple(int(const_of(v)) for v in found) for found in made]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("extents", [(1, 1), (4, 3), (5, 7), (8, 2), (3, 9), (3, 5, 2)])
def test_every_group_once(extents, order):
    assert sorted(walk(extents, order)) == list(product(*map(range, extents)))


def test_other_ranks():
    assert walk((3,), None) == [(0,), (1,), (2,)]
    assert len(set(walk((2, 3, 4), None))) == 24
    assert walk((2, 3, 4), None)[:3] == [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
    assert walk((2, 3, 2), (1, 2, False))[:3] == [(0, 0, 0), (0, 1, 0), (1, 0, 0)]
    assert walk((3,), (0, 0, True)) == [(2,), (1,), (0,)]


def back_and_forth(round, total):
    b = Builder()
    with b.block():
        values = [b.const(n, i32) for n in (round, total)]
        made = [mirrored(b, b.const(f, i32), *values) for f in range(total)]
    return [int(const_of(v)) for v in made]


def test_every_second_round_goes_backwards():
    assert back_and_forth(3, 8) == [0, 1, 2, 5, 4, 3, 6, 7]
    assert back_and_forth(3, 5) == [0, 1, 2, 3, 4]
    assert back_and_forth(4, 2) == [0, 1]
    for round, total in ((1, 5), (4, 17), (5, 20)):
        made = back_and_forth(round, total)
        assert sorted(made) == list(range(total))
        assert all(f // round == m // round for f, m in enumerate(made))


def test_neighbours_stay_together():
    assert walk((4, 3), None)[:5] == [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
    assert walk((5, 2), (0, 2, False)) == [
        *[(0, 0), (1, 0), (0, 1), (1, 1)],
        *[(2, 0), (3, 0), (2, 1), (3, 1)],
        *[(4, 0), (4, 1)],
    ]
    assert walk((2, 3), (1, 2, False)) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    assert walk((3, 2), (1, 2, True)) == [(2, 0), (2, 1), (1, 0), (1, 1), (0, 0), (0, 1)]
