"""Which launches get a barrier before them."""

from collections.abc import Sequence

import pytest

from iron.runtime.drivers.vulkan.hazards import Hazards, Span, Touched

A, B, C = (1, 0, 64), (1, 64, 128), (2, 0, 64)
"""Two parts of a buffer and a part of another."""


def step(reads: Sequence[Span] = (), writes: Sequence[Span] = ()) -> Touched:
    return Touched(tuple(reads), tuple(writes))


def barriers(*steps: Touched | None) -> list[bool]:
    """What each step but the first waits for; the first always does."""
    hazards = Hazards()
    first, *rest = [hazards.waits(s) for s in steps]
    assert first
    return rest


@pytest.mark.parametrize(
    ("before", "after", "waits"),
    [
        (step(writes=[A]), step(reads=[A]), True),
        (step(reads=[A]), step(writes=[A]), True),
        (step(writes=[A]), step(writes=[A]), True),
        (step(reads=[A]), step(reads=[A]), False),
        (step([A], [B]), step([A], [C]), False),
        (step(writes=[A]), step(writes=[B]), False),  # beside each other
        (step(writes=[A]), step(writes=[C]), False),  # of another buffer
        (step(writes=[(1, 0, 65)]), step(reads=[B]), True),  # a byte in common
    ],
)
def test_a_launch_waits_for_what_it_touches(before: Touched, after: Touched, waits: bool):
    assert barriers(before, after) == [waits]


def test_a_launch_waits_for_all_since_the_last_barrier():
    assert barriers(step(writes=[A]), step(writes=[C]), step(reads=[A])) == [False, True]


def test_what_a_barrier_ended_is_forgotten():
    write, read = step(writes=[A]), step(reads=[A])
    assert barriers(write, read, read, write, read) == [True, False, True, True]


def test_nobody_passes_what_may_touch_anything():
    assert barriers(step(writes=[A]), None, step(writes=[C]), step(writes=[A])) == [
        True,
        True,
        False,
    ]
