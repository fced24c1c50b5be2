"""`iron init`: a project with one kernel, its oracle, cases and bench, and a test of them."""

from __future__ import annotations

import keyword
import os
import re
import shlex
import shutil
import tempfile
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Annotated, Final

import typer

from iron.cli.output import JsonFlag, console, print_json
from iron.errors import error

SCAFFOLD: Final = {
    "pyproject.toml": "pyproject.toml.template",
    "$package/__init__.py": "",
    "$package/kernels/__init__.py": "",
    "$package/kernels/scaled_add.py": "kernel.py.template",
    "tests/test_kernels.py": "test_kernels.py.template",
}
"""Files of a new project and the templates they come from; an empty name is a package's marker."""


def init(
    name: Annotated[str, typer.Argument(help="Folder and name of the project.")],
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Makes a project in the folder NAME whose kernel passes `iron test`.

    Example: `iron init my-kernels`, then `cd my-kernels` and `iron test`
    """
    place = Path(name)
    package = package_name(place.name)
    made = write(place, {"name": place.name, "package": package})
    if json:
        print_json({"folder": place, "package": package, "files": made})
        return
    out = console()
    for file in made:
        out.print(f"wrote  {place / file}", markup=False)
    out.print(f"next   cd {shlex.quote(str(place))} && iron test", markup=False)


def package_name(name: str) -> str:
    """The import name of a project: letters, digits and underscores."""
    found = re.sub(r"[-. ]+", "_", name).lower()
    if not re.fullmatch(r"[a-z][a-z0-9_]*", found) or keyword.iskeyword(found) or found == "iron":
        raise typer.BadParameter(
            f"`{name}` cannot be imported as a package; use letters, digits and hyphens"
        )
    return found


def write(place: Path, names: dict[str, str]) -> list[str]:
    """Writes the scaffold beside `place` and renames it, so that it is there whole or not at all.

    Raises E0802.
    """
    if place.exists() and (not place.is_dir() or any(place.iterdir())):
        raise error("E0802", f"{place} is there already", help="choose a name that is free")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{place.name}-", dir=place.parent))
    except OSError as fault:
        raise error("E0802", f"{place}: {fault.strerror}") from None
    try:
        made = _fill(partial, names)
        os.chmod(partial, 0o755)
        os.replace(partial, place)
    except OSError as fault:
        shutil.rmtree(partial, ignore_errors=True)
        raise error("E0802", f"{place}: {fault.strerror}") from None
    return made


def _fill(root: Path, names: dict[str, str]) -> list[str]:
    made: list[str] = []
    for target, template in SCAFFOLD.items():
        file = Template(target).substitute(names)
        text = _template(template) if template else f'"""{_doc(file, names)}"""\n'
        path = root / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(names), encoding="utf-8")
        made.append(file)
    return made


def _template(name: str) -> str:
    return files("iron.cli").joinpath("scaffold", name).read_text("utf-8")


def _doc(file: str, names: dict[str, str]) -> str:
    return "Kernels, one file each." if "kernels/" in file else f"The project {names['name']}."
