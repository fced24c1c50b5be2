"""Larger shapes: which cases are taken, how they grow, and what is found there only."""

import numpy as np

from iron.check.sanitize import enlarged, largest, sanitize
from iron.errors import error
from tests.unit.check.scaled import declare, right


def test_the_largest_sizes_of_every_dtype_variant_and_alternative():
    cases = list(largest(declare()))
    assert len(cases) == 2 * 2 * 2
    assert {(c.axes["R"], c.axes["N"]) for c in cases} == {(3, 33)}
    assert dict(enlarged(cases[0], 3).axes) == {"R": 9, "N": 99}


def test_a_faithful_backend_passes():
    verdicts = sanitize(declare(sizes=(1, 36)), right)
    assert {v.status for v in verdicts} == {"pass"}
    assert all("N=108" in v.label for v in verdicts)


def test_a_fault_beyond_the_cases_is_found():
    def backend(kernel, arguments):
        if arguments["x"].shape[1] > 64:
            raise error("E0410", "race on `pile`")
        right(kernel, arguments)

    assert all("E0410" in v.message for v in sanitize(declare(sizes=(1, 36)), backend))


def test_a_refused_size_falls_back_to_the_case():
    def backend(kernel, arguments):
        if arguments["x"].shape[1] != 36:
            raise error("E0702", "N must be 36")
        right(kernel, arguments)

    verdicts = sanitize(declare(sizes=(1, 36)), backend)
    assert {v.status for v in verdicts} == {"pass"}
    assert all("N=36" in v.label for v in verdicts)
    assert max(v.worst for v in verdicts) < np.inf
