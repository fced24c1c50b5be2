"""One bad kernel is one red row: the campaign goes on, and says what happened."""

import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from iron.worker.campaign import Campaign, Finished, Row
from iron.worker.supervise import Limits, Lost

ROOT = Path(__file__).parents[3]

CHILD = textwrap.dedent("""
    import ctypes, os, sys, time
    from iron.worker.serve import serve

    GOOD = [[n, f"N={n}", f"copy(N={n})"] for n in range(3)]

    def listing(module):
        if module == "p.broken":
            raise ImportError("no such thing")
        if module == "p.dies":
            os._exit(9)
        if module == "p.good":
            yield {"type": "kernel", "kernel": "copy", "label": "f32", "cases": GOOD}
            yield {"type": "kernel", "kernel": "copy", "label": "f16", "cases": GOOD}
        if module == "p.bad":
            for name in ("crash", "hang", "eat", "wrong", "raise"):
                yield {"type": "kernel", "kernel": name, "label": "", "cases": [[7, "N=7", ""]]}
            yield {"type": "suite", "kernel": "bare", "text": "no oracle"}
        if module == "p.narrow":
            for vec in (4, 1):
                cases = [[n, f"N={n}", f"narrow(N={n})"] for n in (4, 5, 6)]
                yield {"type": "kernel", "kernel": "narrow", "label": f"VEC={vec}", "cases": cases}
        if module == "p.always":
            cases = [[n, f"N={n}", ""] for n in range(50)]
            yield {"type": "kernel", "kernel": "always", "label": "", "cases": cases}

    def run(kernel, index):
        if kernel in ("crash", "always"):
            ctypes.string_at(0)
        if kernel == "hang":
            time.sleep(600)
        if kernel == "eat":
            hoard = [bytearray(16 << 20) for _ in range(1000)]
        if kernel == "raise":
            raise ValueError("bad inputs")
        status = "fail" if kernel == "wrong" else "pass"
        if kernel == "narrow" and index == 6:
            status = "inapplicable"
        text = "y[3] is 4, not 5" if status == "fail" else ""
        yield {"type": "case", "status": status, "text": text, "seconds": 0.5}

    def handler(request):
        do = request["do"]
        if do == "modules":
            if "nowhere" in request["packages"]:
                raise ValueError("no package")
            for name in request["packages"]:
                yield {"type": "module", "name": name}
        elif do == "list":
            yield from listing(request["module"])
        else:
            yield from run(request["kernel"], request["index"])

    serve(handler, memory=1 << 29)
""")


@pytest.fixture
def campaign(tmp_path: Path) -> Campaign:
    script = tmp_path / "child.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{CHILD}")
    return Campaign(
        packages=("p.good", "p.bad", "p.broken", "p.dies"),
        backends=("cpu",),
        command=lambda backend: (sys.executable, str(script), backend),
        limits=Limits(seconds=3.0),
    )


def rows_of(campaign: Campaign) -> list[Row]:
    return [r for r in campaign.run() if isinstance(r, Row)]


def test_every_kind_of_fault_is_one_row(campaign: Campaign):
    rows = {row.name: row for row in rows_of(campaign)}
    kinds = {name: [f.kind for f in row.faults] for name, row in rows.items()}
    assert kinds == {
        "copy[f32]": [],
        "copy[f16]": [],
        "crash": ["crash"],
        "hang": ["hang"],
        "eat": ["memory"],
        "wrong": ["wrong"],
        "raise": ["error"],
        "bare": ["error"],
        "p.broken": ["error"],
        "p.dies": ["crash"],
    }
    assert rows["copy[f32]"].cases == 3
    assert rows["copy[f32]"].seconds == 1.5
    texts = {name: row.faults[0].text for name, row in rows.items() if row.faults}
    assert "SIGSEGV" in texts["crash"]
    assert texts["wrong"] == "y[3] is 4, not 5"
    assert "bad inputs" in texts["raise"]
    assert "no oracle" in texts["bare"]
    assert "no such thing" in texts["p.broken"]


def test_two_jobs_and_two_backends_give_every_row(campaign: Campaign):
    wide = replace(campaign, packages=("p.good",) * 3, backends=("interp", "cpu"), jobs=2)
    rows = rows_of(wide)
    assert sorted((r.backend, r.label) for r in rows) == sorted(
        [("interp", "f32"), ("interp", "f16"), ("cpu", "f32"), ("cpu", "f16")] * 3
    )


def test_a_kernel_is_finished_after_its_last_row(campaign: Campaign):
    said = list(replace(campaign, packages=("p.good", "p.broken")).run())
    assert [type(s) for s in said] == [Row, Row, Finished, Row, Finished]
    assert said[2] == Finished("cpu", "copy")


def test_a_kernel_that_always_crashes_is_given_up(campaign: Campaign):
    (row,) = rows_of(replace(campaign, packages=("p.always",)))
    assert [f.kind for f in row.faults] == ["crash"] * 3 + ["error"]
    assert row.faults[-1].text == "47 cases not run after repeated losses"


def test_a_size_that_no_alternative_serves_is_red(campaign: Campaign):
    narrow = replace(campaign, packages=("p.narrow",))
    rows = rows_of(narrow)
    assert [(r.label, bool(r.faults)) for r in rows] == [("VEC=4", 0), ("VEC=1", 0), ("", 1)]
    assert [f.case for f in rows[-1].faults] == ["narrow(N=6)"]
    assert not any(r.faults for r in rows_of(replace(narrow, filters=("VEC=4",))))


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        (("copy",), ["copy[f32]", "copy[f16]"]),
        (("copy[f16]",), ["copy[f16]"]),
        (("c*[f32]",), ["copy[f32]"]),
        (("f16", "wrong"), ["copy[f16]", "wrong"]),
        (("nothing",), []),
    ],
)
def test_filters(campaign: Campaign, filters: tuple[str, ...], kept: list[str]):
    narrow = replace(campaign, packages=("p.good", "p.bad"), filters=filters)
    assert [row.name for row in rows_of(narrow)] == kept


def test_fail_fast_stops_at_the_first_red_row(campaign: Campaign):
    rows = rows_of(replace(campaign, packages=("p.bad", "p.good"), fail_fast=True))
    assert rows[0].name == "crash"
    assert len(rows) < 8


def test_packages_that_cannot_be_walked_are_one_error(campaign: Campaign):
    with pytest.raises(Lost, match="no package"):
        list(replace(campaign, packages=("nowhere",)).run())


def test_the_rows_may_be_left_early(campaign: Campaign):
    rows = replace(campaign, packages=("p.good",) * 5, jobs=2).run()
    assert next(rows).kernel == "copy"
    rows.close()
