"""`iron snap --code` on the whole library: no kernel and no target is left out."""

import os
from pathlib import Path

import pytest

from iron.check.expand import expand
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.cli.app import run
from iron.cli.configuration import load as configured
from iron.cli.specimen import library
from iron.emit.snapshot import load
from iron.emit.targets import FAMILIES, destination
from iron.lang.declare import KernelFunction


def first(declared: KernelFunction, target: str) -> tuple[str, tuple[str, str]]:
    """The row of the first case that a target serves, and what its text may be called: by the
    alias, or by the symbol where two kernels share the alias."""
    for case in expand(declared):
        found = specialise(case, prepare(case), destination(target).target)
        if found is not None:
            return case.label.split("(")[0], (found.alias, found.symbol)
    raise AssertionError(f"no case of {declared.name} fits {target}")


@pytest.mark.slow
def test_every_kernel_on_every_target_is_in_a_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for name in [n for n in os.environ if n.startswith("IRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("IRON_JOBS", "1")
    kernels = [k for k in library(configured())[0].values() if isinstance(k, KernelFunction)]
    wanted = {(f, first(k, f)) for f in FAMILIES for k in kernels}
    rows = sorted({row for _, (row, _) in wanted})
    file = tmp_path / "code"

    def snap(rows: list[str]) -> int:
        given = [part for row in rows for part in ("-f", row)]
        return run(["snap", "--code", *given, "-o", str(file)])

    assert snap(rows) == 0, capsys.readouterr()
    held = {target.split(":")[0]: set(texts) for target, texts in load(file).texts.items()}
    assert set(held) == set(FAMILIES)
    assert [(f, names) for f, (_, names) in sorted(wanted) if not held[f] & {*names}] == []
    assert len(wanted) == len(FAMILIES) * len(kernels)
    assert snap(rows[::6]) == 0
    assert run(["diff", "--code", str(file)]) == 0
    assert "no difference" in capsys.readouterr().out
