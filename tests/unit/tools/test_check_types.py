"""Types are checked again wherever they may have changed, and nowhere else."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from tools.check_types import digests, run, sources, surroundings

ROOT = Path(__file__).parents[3]
FILES = {
    "iron/__init__.py": "",
    "iron/low.py": "x: int = 1\n",
    "iron/deep/__init__.py": "from iron.low import x\n",
    "iron/deep/one.py": "def f():\n    from iron import low\n    return low.x\n",
    "iron/deep/two.py": "import iron.deep.one\n",
    "iron/top.py": "from iron.deep.two import iron as other\n",
    "iron/alone.py": "y = 2\n",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def checked(tree: Path, around: str = "", status: int = 0) -> list[str]:
    """The files that one run looks at."""
    seen: list[str] = []

    def look(files: Sequence[str]) -> int:
        seen.extend(files)
        return status

    assert run(digests(tree, around), tree / "cache" / "types", look) == (
        status if seen else 0,
        len(seen),
    )
    return sorted(seen)


def test_a_change_reaches_all_that_import_it(tree: Path):
    assert checked(tree) == sorted(FILES)
    assert checked(tree) == []
    (tree / "iron/low.py").write_text("x: str = 'one'\n")
    assert checked(tree) == [
        *("iron/deep/__init__.py", "iron/deep/one.py", "iron/deep/two.py"),
        *("iron/low.py", "iron/top.py"),
    ]
    (tree / "iron/alone.py").write_text("y = 3\n")
    assert checked(tree) == ["iron/alone.py"]


def test_what_was_wrong_is_looked_at_again(tree: Path):
    assert checked(tree, status=1) == sorted(FILES)
    assert checked(tree) == sorted(FILES)


def test_another_checkout_of_the_same_sources_is_known(tree: Path, tmp_path: Path):
    checked(tree)
    other = tmp_path / "other"
    shutil.copytree(tree, other)
    (other / "iron/alone.py").write_text("y = 3\n")
    assert checked(other) == ["iron/alone.py"]
    assert checked(tree) == []


def test_other_packages_or_settings_are_another_question(tree: Path):
    checked(tree)
    assert checked(tree, around="numpy 3") == sorted(FILES)
    shutil.copy(ROOT / "pyproject.toml", tree)
    before = surroundings(tree)
    settings = (tree / "pyproject.toml").read_text()
    (tree / "pyproject.toml").write_text(settings.replace('"strict"', '"basic"'))
    assert surroundings(tree) != before


def test_a_new_module_is_found_by_who_named_it(tree: Path):
    (tree / "iron/top.py").write_text("from iron import late\n")
    checked(tree)
    (tree / "iron/late.py").write_text("z = 1\n")
    assert checked(tree) == ["iron/late.py", "iron/top.py"]


def test_every_source_is_asked_for():
    found = digests(ROOT, "")
    assert set(found) == {str(p.relative_to(ROOT)) for p in (ROOT / "iron").rglob("*.py")}
    assert len(sources(ROOT)) == len(found)
