"""A project of its own for each test, and an environment without the caller's settings."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting but a cache of the test's own; workers find this checkout's Iron."""
    for name in [n for n in os.environ if n.startswith("IRON_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("IRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def project(tmp_path: Path, settings: None, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without kernels, and the test in its folder."""
    folder = tmp_path / "mine"
    (folder / "mine").mkdir(parents=True)
    (folder / "mine" / "__init__.py").write_text("")
    (folder / "pyproject.toml").write_text('[tool.iron]\nkernels = ["mine"]\n')
    monkeypatch.chdir(folder)
    return folder
