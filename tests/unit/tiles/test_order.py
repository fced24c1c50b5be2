"""Orders of groups: each number once, and neighbours together."""

from itertools import product

import pytest

from iron.dtypes import i32
from iron.ir.build import Builder
from iron.ir.core import const_of
from iron.tiles.order import mirrored, numbers, round_of

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


@pytest.mark.parametrize(
    ("extents", "order", "wanted"),
    [
        ((40, 9), None, 132),
        ((40, 9), (1, 4, False), 132),
        ((5, 9), None, 45),
        ((8, 64), (1, 4, True), 128),  # four blocks of 32
        ((64, 64), (1, 4, True), 128),  # half a block of 256
        ((34, 64), (1, 4, True), 34 * 64),  # a block of 136 has no such part
        ((128, 3), (1, 4, True), 128),
        ((2, 3), (1, 4, True), 6),
        ((132, 4), (0, 0, True), 132),
        ((0, 4), (1, 4, True), 0),
    ],
)
def test_rounds_and_blocks_begin_alike(extents, order, wanted):
    b = Builder()
    with b.block():
        values = [b.const(e, i32) for e in extents]
        total = b.const(extents[0] * extents[1], i32)
        made = round_of(b, values, total, order, 132)
    assert const_of(made) == wanted


def test_groups_have_as_much_to_do():
    """Turns of causal attention: rounds of 128 of 132 groups, for 32 tiles of each of 64 heads."""
    extents, order = (32, 64), (1, 4, True)
    weights = [i + 1 for i, _ in walk(extents, order)]
    flat = back_and_forth(128, len(weights))
    turns = [sum(weights[f] for f in flat[g::128]) for g in range(128)]
    assert max(turns) == min(turns) == sum(weights) // 128


def test_neighbours_stay_together():
    assert walk((4, 3), None)[:5] == [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1)]
    assert walk((5, 2), (0, 2, False)) == [
        *[(0, 0), (1, 0), (0, 1), (1, 1)],
        *[(2, 0), (3, 0), (2, 1), (3, 1)],
        *[(4, 0), (4, 1)],
    ]
    assert walk((2, 3), (1, 2, False)) == [(0, 0), (0, 1), (1, 0), (1, 1), (0, 2), (1, 2)]
    assert walk((3, 2), (1, 2, True)) == [(2, 0), (2, 1), (1, 0), (1, 1), (0, 0), (0, 1)]
