"""`import iron` loads the standard library only, so that a tool may import it for free."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STANDARD = set(sys.stdlib_module_names) | {"iron"}


def foreign_after(statement: str) -> set[str]:
    """Top-level packages that running `statement` loads, standard library and Iron left out."""
    # Names that an interpreter without site-packages hooks would not have are not ours to count.
    code = (
        "import sys, json; before = set(sys.modules)\n"
        f"{statement}\n"
        "print(json.dumps(sorted({m.split('.')[0] for m in set(sys.modules) - before})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout)) - STANDARD


@pytest.mark.parametrize("name", ["iron", "iron.dtypes", "iron.errors"])
def test_import_loads_the_standard_library_only(name: str):
    assert foreign_after(f"import {name}") == set()


def test_a_foreign_import_is_seen():
    assert "numpy" in foreign_after("import iron, numpy")
