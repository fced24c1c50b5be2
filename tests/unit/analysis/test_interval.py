"""The arithmetic of ranges holds every result, tried on all members of random ranges."""

import operator
import random

import pytest

from iron.analysis import interval
from iron.analysis.interval import Range, between, everything, exactly, wrapped
from iron.dtypes import bool_, i8, u8

OPS = {
    "add": (interval.add, operator.add),
    "sub": (interval.sub, operator.sub),
    "mul": (interval.mul, operator.mul),
    "floordiv": (interval.floordiv, lambda a, b: a // b if b else 0),
    "mod": (interval.mod, lambda a, b: a % b if b else 0),
    "minimum": (interval.minimum, min),
    "maximum": (interval.maximum, max),
    "bit_and": (interval.bit_and, operator.and_),
    "bit_or": (interval.bit_or, operator.or_),
    "bit_xor": (interval.bit_xor, operator.xor),
    "shift_left": (
        lambda a, b: interval.shift_left(a, b, 8) or Range(-(2**20), 2**20),
        lambda a, b: a << b % 8,
    ),
    "shift_right": (lambda a, b: interval.shift_right(a, b, 8), lambda a, b: a >> b % 8),
}


def members(r: Range) -> list[int]:
    if r.modulus == 0:
        return [r.residue]
    return [n for n in range(r.low, r.high + 1) if (n - r.residue) % r.modulus == 0]


def some_range(rng: random.Random) -> Range:
    kind = rng.randrange(4)
    if kind == 0:
        return exactly(rng.choice([-128, -8, -3, -2, -1, 0, 1, 2, 3, 4, 7, 8, 15, 127]))
    low = rng.randrange(-30, 30) if kind < 3 else rng.randrange(0, 30)
    modulus = rng.choice([1, 1, 2, 3, 4, 8, 12])
    return between(low, low + rng.randrange(0, 25), modulus, rng.randrange(0, modulus))


def lost(name: str, rule, count: int = 1500) -> list:
    """Results that the range does not hold."""
    rng, out = random.Random(name), []
    for _ in range(count):
        a, b = some_range(rng), some_range(rng)
        found = rule(a, b)
        held = found.low, found.high, found.modulus, found.residue
        for x in members(a):
            for y in members(b):
                n = OPS[name][1](x, y)
                inside = found.low <= n <= found.high
                fits = (n - found.residue) % found.modulus == 0 if found.modulus else n == found.low
                if not (inside and fits):
                    out.append((a, b, x, y, n, held))
                    break
    return out


@pytest.mark.parametrize("name", OPS)
def test_every_result_is_held(name):
    assert lost(name, OPS[name][0])[:3] == []


WRONG = {
    "add": lambda a, b: between(a.low + b.low, a.high + b.high, max(a.modulus, b.modulus), 0),
    "mul": lambda a, b: between(a.low * b.low, a.high * b.high),
    "mod": lambda a, b: between(0, max(0, b.high - 1)),
    "floordiv": lambda a, b: interval.floordiv(a, interval.maximum(b, exactly(1))),
    "bit_and": lambda a, b: between(0, max(a.high, b.high, 0)),
    "minimum": lambda a, b: a if a.low < b.low else b,
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_seen(name):
    assert lost(name, WRONG[name])


def test_join_and_meet_hold_what_they_must():
    rng = random.Random(0)
    for _ in range(3000):
        a, b = some_range(rng), some_range(rng)
        both, shared = set(members(a)) | set(members(b)), set(members(a)) & set(members(b))
        assert both <= set(members(interval.join(a, b)))
        assert shared <= set(members(interval.meet(a, b)))
        assert set(members(interval.neg(a))) == {-n for n in members(a)}
        assert {abs(n) for n in members(a)} <= set(members(interval.magnitude(a)))
        if a.apart(b):
            assert not shared
        if a.below(b):
            assert max(members(a)) < min(members(b))


def test_precision_where_the_passes_need_it():
    thread, group = between(0, 31), between(0, 99)
    place = interval.add(interval.mul(group, exactly(32)), thread)
    assert (place.low, place.high) == (0, 3199)
    assert interval.floordiv(place, exactly(3200)).constant == 0
    assert interval.mod(thread, exactly(32)) == thread
    eights = between(0, 64, 8, 0)
    assert interval.mod(interval.add(eights, exactly(3)), exactly(8)).constant == 3
    assert interval.floordiv(interval.add(eights, exactly(3)), exactly(8)) == between(0, 8)
    assert interval.bit_and(between(-5, 100), exactly(7)) == between(0, 7)
    assert interval.bit_and(between(0, 100), exactly(-8)).multiple_of(8)
    assert eights.multiple_of(8)
    assert not eights.multiple_of(16)


def test_what_wraps_keeps_its_congruence():
    r = wrapped(between(0, 1000, 8, 3), i8)
    assert (r.low, r.high, r.modulus, r.residue) == (-125, 123, 8, 3)
    assert wrapped(between(0, 1000, 3, 0), i8).modulus == 1
    assert wrapped(between(-1, 5), u8) == everything(u8)
    assert everything(bool_) == between(0, 1)
