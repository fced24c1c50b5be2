"""Discovery walks folders and imports strings; what is not there is one clear error."""

import sys
from pathlib import Path

import pytest

from iron.errors import KernelError
from iron.worker import discover

KERNEL = """
from iron.lang import In, Out, dims, each, f32, kernel, plan
(N,) = dims("N")
@kernel
def second(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i]
@kernel
def first(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = x[i]
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    top = tmp_path / "discovered"
    (top / "deep").mkdir(parents=True)
    for folder in (top, top / "deep"):
        (folder / "__init__.py").write_text("")
    (top / "copies.py").write_text(KERNEL)
    (top / "deep" / "borrows.py").write_text("from discovered.copies import first")
    (top / "deep" / "broken.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield top
    for name in [m for m in sys.modules if m.split(".")[0] == "discovered"]:
        del sys.modules[name]


def test_modules_are_found_without_importing_them(package: Path):
    assert list(discover.modules(("discovered",))) == [
        "discovered",
        "discovered.copies",
        "discovered.deep",
        "discovered.deep.borrows",
        "discovered.deep.broken",
    ]
    assert "discovered.copies" not in sys.modules


def test_a_module_owns_the_kernels_it_defines(package: Path):
    assert list(discover.kernels("discovered.copies")) == ["second", "first"]
    assert discover.kernels("discovered.deep.borrows") == {}
    with pytest.raises(ModuleNotFoundError):
        discover.kernels("discovered.deep.broken")


@pytest.mark.parametrize("name", ["nowhere", "nowhere.kernels", "discovered.nowhere"])
def test_a_package_that_is_not_there(package: Path, name: str):
    with pytest.raises(KernelError, match=f"no package `{name}`") as wrong:
        list(discover.modules((name,)))
    assert wrong.value.id == "E0803"
