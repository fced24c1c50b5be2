"""Generated code names a source file the same wherever the package lies."""

from pathlib import Path

from iron.ir.places import package_path


def test_a_path_begins_at_the_outermost_package(tmp_path: Path):
    for home in ("one", "two/deep"):
        inner = tmp_path / home / "pkg" / "sub"
        inner.mkdir(parents=True)
        for folder in (inner, inner.parent):
            (folder / "__init__.py").write_text("")
        assert package_path(str(inner / "k.py")) == "pkg/sub/k.py"
        assert package_path(str(tmp_path / home / "script.py")) == "script.py"
    assert package_path("<stdin>") == "<stdin>"
