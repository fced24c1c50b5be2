"""Cases in turns: of roads that run alike each case meets one, each dtype and variant all."""

from collections.abc import Iterable, Sequence

from iron.check.expand import ConcreteCase


def rows(cases: Iterable[ConcreteCase]) -> list[list[ConcreteCase]]:
    """The cases by dtype and variant, which their labels begin with."""
    found: dict[str, list[ConcreteCase]] = {}
    for case in cases:
        found.setdefault(case.label.split("(")[0], []).append(case)
    return [*found.values()]


def turn(cases: Iterable[ConcreteCase], number: int, roads: int) -> list[ConcreteCase]:
    """The cases that fall to one of the roads, of each row at least one."""
    return [case for row in rows(cases) for case in dealt(row, number, roads)]


def dealt(row: Sequence[ConcreteCase], number: int, roads: int) -> list[ConcreteCase]:
    """Every so-many-th case; a row of fewer cases than roads is dealt again."""
    return [row[i % len(row)] for i in range(number, max(len(row), roads), roads)]
