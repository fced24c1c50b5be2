"""Mutants through workers: a mutant that takes its worker down is rejected and costs itself."""

import time
from pathlib import Path
from typing import Any

import pytest

from iron.worker.campaign import Campaign, Row
from iron.worker.hunt import Hunt, listed
from iron.worker.mutants import in_time, place
from iron.worker.supervise import Lost

GROUP = {"type": "kernel", "kernel": "k", "label": "f32", "cases": [[0, "N=3", "k"]]}


class Answers:
    """A worker in name: what it says about each mutant; an exception is its loss."""

    def __init__(self, said: list[tuple[str, bool | Lost]]) -> None:
        self.said = said
        self.asked: list[int] = []

    def ask(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        assert request["indices"] == [0]
        if "at" not in request:
            return [{"type": "mutants", "names": [name for name, _ in self.said]}]
        self.asked.append(request["at"])
        answer = self.said[request["at"]][1]
        if isinstance(answer, Lost):
            raise answer
        return [{"type": "mutant", "lives": answer}]


def hunted(said: list[tuple[str, bool | Lost]], survivors: set[str]) -> tuple[Row, list[int]]:
    worker: Any = Answers(said)
    campaign = Campaign((), ("interp",), lambda backend: ())
    hunt = Hunt(campaign, worker, "interp", "m", "k", {"k": survivors})
    assert list(hunt.rows(GROUP)) == []
    (row,) = hunt.unserved()
    return row, worker.asked


def test_a_mutant_that_hangs_is_rejected_and_the_hunt_goes_on():
    hang = Lost("hang", "")
    row, asked = hunted([("a", False), ("b", hang), ("c", True), ("d", True)], {"d"})
    assert asked == [0, 1, 2, 3]
    assert row.cases == 4
    assert [(f.case, f.kind) for f in row.faults] == [("c", "mutant")]


def test_copies_of_a_line_are_one_mutant():
    row, asked = hunted([("a", True), ("a", False), ("a", True)], set())
    assert asked == [0, 1]
    assert (row.cases, row.faults) == (1, ())


def test_repeated_losses_end_the_group():
    row, asked = hunted([(name, Lost("crash", "")) for name in "abcde"], set())
    assert asked == [0, 1, 2]
    assert "repeated losses" in row.faults[0].text


def test_time_is_limited():
    def forever() -> bool:
        while True:
            pass

    started = time.monotonic()
    assert not in_time(forever, 0.1)
    assert time.monotonic() - started < 5
    assert in_time(lambda: True, 5)
    assert in_time(lambda: time.sleep(0.2) is None, 0.1), "a wait is no work"
    assert not in_time(lambda: [][1], 5)
    with pytest.raises(TypeError):
        in_time(lambda: 1 + None, 5)  # pyright: ignore


def test_the_list_of_survivors():
    text = "# why\nk: a in b  |  x: y\n\nk: c\nother: d\n"
    assert listed(text) == {"k": {"a in b  |  x: y", "c"}, "other": {"d"}}


def test_a_place_shows_its_line():
    line = "def test_a_place_shows_its_line():"
    number = Path(__file__).read_text().split("\n").index(line) + 1
    assert place(f"lt -> le at f.py:{number}:5 (2)", {"f.py": __file__}) == f"lt -> le  |  {line}"
    assert place("lt -> le at g.py:1:1", {}) == "lt -> le at g.py:1:1"
