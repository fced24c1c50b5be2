"""Kernels made wrong at random get an answer with an id, never an internal error."""

from pathlib import Path
from typing import Any

import pytest

from iron.front import joins
from tests.property.broken_sources import broken, fault


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("seed", range(6))
def test_a_broken_source_gets_an_answer(seed: int, tmp_path: Path):
    module = broken(seed, tmp_path / f"broken_{seed}.py")
    if module is not None:
        assert fault(module) == ""


def test_an_internal_failure_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def failing(*args: Any) -> bool:
        raise KeyError("planted")

    monkeypatch.setattr(joins, "unchanged", failing)
    module = broken(0, tmp_path / "broken_control.py")
    assert module is not None
    assert "E0901" in fault(module)
    assert "planted" in fault(module)
