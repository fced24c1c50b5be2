"""The settings of the command and where each value comes from.

Defaults give way to `[tool.iron]` in the nearest pyproject.toml, that to `IRON_*` variables, those
to flags. Every wrong value is E0803 and names its source.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from iron.errors import KernelError, error
from iron.runtime.cache import default_root

UNITS: Final = {"": 1, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}


@dataclass(frozen=True, slots=True)
class Setting:
    """`parse` takes what TOML, the environment or a flag gives and raises ValueError."""

    name: str
    parse: Callable[[Any], Any]
    default: Callable[[], Any]
    doc: str
    flag: str = ""

    @property
    def option(self) -> str:
        """The flag that sets it."""
        return self.flag or f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable that sets it."""
        return f"IRON_{self.name.upper()}"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A value and where it comes from."""

    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Configuration:
    """Every setting resolved; `project` is the folder whose pyproject.toml has `[tool.iron]`."""

    values: Mapping[str, Resolved]
    project: Path | None

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value


def words(value: Any) -> tuple[str, ...]:
    """A list of strings, or one string with commas."""
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list | tuple) or not all(isinstance(v, str) for v in given):
        raise ValueError("a list of strings is needed")
    found = tuple(v.strip() for v in given if v.strip())
    if not found:
        raise ValueError("at least one is needed")
    return found


def size(value: Any) -> int:
    """Bytes: a number, or a number with KiB, MiB or GiB."""
    found = re.fullmatch(r"\s*(\d+)\s*([KMG]iB)?\s*", str(value), re.IGNORECASE)
    if isinstance(value, bool) or not found:
        raise ValueError("a size such as 4GiB is needed")
    return int(found[1]) * UNITS[(found[2] or "").upper()]


def positive(value: Any) -> int:
    """A whole number of at least one."""
    found = integer(value)
    if found < 1:
        raise ValueError("a number of at least 1 is needed")
    return found


def integer(value: Any) -> int:
    """A whole number."""
    if isinstance(value, bool) or not re.fullmatch(r"\s*-?\d+\s*", str(value)):
        raise ValueError("a whole number is needed")
    return int(value)


def duration(value: Any) -> float:
    """Seconds, more than zero."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = 0.0
    if isinstance(value, bool) or not 0 < found < float("inf"):
        raise ValueError("a number of seconds above 0 is needed")
    return found


def folder(value: Any) -> Path:
    """A path; `~` is the home folder."""
    if not isinstance(value, str) or not value:
        raise ValueError("a path is needed")
    return Path(value).expanduser()


SETTINGS: Final = (
    Setting("kernels", words, lambda: ("iron.kernels",), "packages whose kernels are found"),
    Setting(
        "backends", words, lambda: ("interp", "cpu"), "backends that `iron test` uses", "--backend"
    ),
    Setting("jobs", positive, lambda: os.cpu_count() or 1, "worker processes side by side"),
    Setting("timeout", duration, lambda: 60.0, "seconds after which a silent worker is replaced"),
    Setting("memory", size, lambda: 4 << 30, "bytes that a worker may hold"),
    Setting("seed", integer, lambda: 0, "seed of the random inputs"),
    Setting("cache_dir", folder, lambda: default_root({}), "where compiled code is kept"),
)


def load(
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
    start: Path | None = None,
) -> Configuration:
    """All settings, for a command started in `start`; a flag of None was not given."""
    found = {s.name: Resolved(s.default(), "default") for s in SETTINGS}
    xdg = environ.get("XDG_CACHE_HOME")
    if xdg:
        found["cache_dir"] = Resolved(default_root({"XDG_CACHE_HOME": xdg}), "XDG_CACHE_HOME")
    file, table = project_table(start or Path.cwd())
    for name, value in table.items():
        setting = _known(name, file)
        found[name] = Resolved(_parse(setting, value, str(file)), str(file))
    for setting in SETTINGS:
        text = environ.get(setting.variable)
        if text:
            found[setting.name] = Resolved(
                _parse(setting, text, setting.variable), setting.variable
            )
        given = (flags or {}).get(setting.name)
        if given is not None:
            found[setting.name] = Resolved(_parse(setting, given, setting.option), setting.option)
    return Configuration(found, file.parent if file and table else None)


def project_table(start: Path) -> tuple[Path | None, dict[str, Any]]:
    """The nearest pyproject.toml above `start` and its `[tool.iron]`."""
    for place in (start, *start.parents):
        file = place / "pyproject.toml"
        if file.is_file():
            try:
                table = tomllib.loads(file.read_text(encoding="utf-8"))
            except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as wrong:
                raise error("E0803", f"{file}: {wrong}") from None
            own = table.get("tool", {}).get("iron", {})
            if not isinstance(own, dict):
                raise error("E0803", f"{file}: [tool.iron] must be a table")
            return file, own
    return None, {}


def _known(name: str, file: Path | None) -> Setting:
    for setting in SETTINGS:
        if setting.name == name:
            return setting
    near = difflib.get_close_matches(name, [s.name for s in SETTINGS], 1)
    raise _wrong(
        f"{file}: [tool.iron] has no setting `{name}`",
        f"did you mean `{near[0]}`?" if near else "`iron config` lists the settings",
    )


def _parse(setting: Setting, value: Any, source: str) -> Any:
    try:
        return setting.parse(value)
    except ValueError as wrong:
        raise _wrong(f"{source}: `{setting.name}` is {value!r}; {wrong}", "") from None


def _wrong(message: str, help: str) -> KernelError:
    return error("E0803", message, help=help)
