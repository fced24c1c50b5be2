"""Which Consts were found fastest for a kernel, by device and about its sizes.

`iron bench --tune` searches and writes; a launch only looks up. Results lie in one JSON file a
device: below `iron/kernels/tuned` of a source checkout, where they are reviewed like code, or in
the user's cache, which comes first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any, Final

from iron.errors import error
from iron.front.bind import PackedArg, TensorArg
from iron.lang.declare import KernelFunction
from iron.lang.parameter import MISSING, ConstSpec, ParamSpec
from iron.quant.atomic import replace
from iron.runtime.cache import default_root
from iron.runtime.device import device_of, slug
from iron.runtime.driver import Driver

SCHEMA: Final = 1
MODES: Final = ("off", "cached", "on")
PACKAGE: Final = Path(__file__).parents[1] / "kernels" / "tuned"

Entry = dict[str, Any]
"""What was found at a place: `consts` (none: as the kernel is), `seconds` and `default` seconds."""

Results = dict[str, dict[str, dict[str, Entry]]]
"""Entries by backend, kernel and place."""


def mode(environ: Mapping[str, str] = os.environ) -> str:
    """`IRON_TUNE`: `off` uses no results, `cached` (the default) those there are, `on` lets
    `iron bench` search for the missing ones too. Errors: E0803."""
    chosen = environ.get("IRON_TUNE") or "cached"
    if chosen not in MODES:
        raise error("E0803", f"IRON_TUNE={chosen}", help=f"it is one of {', '.join(MODES)}")
    return chosen


# --- where a call stands --------------------------------------------------------------------------


def full_name(fn: KernelFunction) -> str:
    """The kernel's module and name."""
    return f"{fn.fn.__module__}.{fn.name}"


def place(fn: KernelFunction, described: Mapping[str, Any], consts: Mapping[str, Any]) -> str:
    """Where a call stands: dtypes and sizes of what it reads, each up to the next power of two,
    and the variants it asks for: `x:f32[4096,128] OP=exp`."""
    words = [
        f"{name}:{_kind(value)}[{','.join(str(bucket(s)) for s in value.shape)}]"
        for name, value in described.items()
        if value is not None and not _written(fn, name)
    ]
    for name in sorted({*fn.variants, *consts} - {*fn.tune}):
        spec = fn.signature.get(name)
        default = spec.default if isinstance(spec, ConstSpec) else MISSING
        value = consts.get(name, default)
        if value is not MISSING and not callable(value):
            words.append(f"{name}={getattr(value, 'name', value)}")
    return " ".join(words)


def bucket(size: int) -> int:
    """The next power of two."""
    return 1 << (size - 1).bit_length() if size > 1 else size


def _kind(value: TensorArg | PackedArg) -> str:
    return value.format.name if isinstance(value, PackedArg) else value.dtype.name


def _written(fn: KernelFunction, name: str) -> bool:
    spec = fn.signature[name]
    return isinstance(spec, ParamSpec) and spec.kind == "out"


# --- what is known --------------------------------------------------------------------------------


def known(
    fn: KernelFunction, driver: Driver, described: Mapping[str, Any], consts: Mapping[str, Any]
) -> dict[str, Any]:
    """The Consts found fastest for such a call; none where nobody searched, or nothing won.

    A result of other values than the kernel's `tune` lists is left alone.
    """
    if not fn.tune or mode() == "off" or _IGNORED.get():
        return {}
    found = _loaded(driver).get(driver.name, {}).get(full_name(fn))
    if not found:
        return {}
    entry = found.get(place(fn, described, consts))
    chosen = dict(entry["consts"]) if entry else {}
    allowed = all(n in fn.tune and v in fn.tune[n] for n, v in chosen.items())
    return chosen if allowed else {}


_IGNORED: ContextVar[bool] = ContextVar("ignored", default=False)


@contextmanager
def ignored() -> Generator[None]:
    """Calls inside are as if nobody had searched."""
    token = _IGNORED.set(True)
    try:
        yield
    finally:
        _IGNORED.reset(token)


def forget() -> None:
    """Reads the files again at the next call that is new."""
    _loaded.cache_clear()


@cache
def _loaded(driver: Driver) -> Results:
    """The package's results under the user's; the device is asked for only where there are any."""
    folders = [f for f in (PACKAGE, user_folder()) if any(f.glob("*.json"))]
    out: Results = {}
    for folder in folders:
        found = read(folder / f"{slug(device_of(driver))}.json")
        for backend, name, where, entry in _entries(found):
            out.setdefault(backend, {}).setdefault(name, {})[where] = entry
    return out


def _entries(found: Results) -> Iterator[tuple[str, str, str, Entry]]:
    for backend, kernels in found.items():
        for name, places in kernels.items():
            for where, entry in places.items():
                yield backend, name, where, entry


# --- files ----------------------------------------------------------------------------------------


def user_folder() -> Path:
    """Where results lie in the user's cache."""
    return default_root() / "tuned"


def folder_for(name: str) -> Path:
    """Where results of the kernel called `name`, with its module, go: beside Iron's own kernels
    in a source checkout, else in the user's cache."""
    checkout = (PACKAGE.parents[2] / ".git").exists() and os.access(PACKAGE.parent, os.W_OK)
    return PACKAGE if checkout and name.startswith("iron.") else user_folder()


def path_for(name: str, device: str) -> Path:
    """The file of the kernel called `name` on a device."""
    return folder_for(name) / f"{slug(device)}.json"


def found_before(driver: Driver, name: str, where: str) -> Entry | None:
    """What an earlier search found; None where there was none."""
    held = read(path_for(name, device_of(driver)))
    return held.get(driver.name, {}).get(name, {}).get(where)


def read(path: Path) -> Results:
    """The results in a file; none where there is none, it cannot be read or is of another
    version."""
    try:
        found = json.loads(path.read_text("utf-8"))
        return found["backends"] if found["schema"] == SCHEMA else {}
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def write(device: str, backend: str, name: str, where: str, entry: Entry) -> Path:
    """Adds an entry to its file, which is replaced as a whole. Errors: E0802."""
    path = path_for(name, device)
    held = read(path)
    held.setdefault(backend, {}).setdefault(name, {})[where] = entry
    document = {"schema": SCHEMA, "device": device, "backends": held}
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as problem:
        raise error("E0802", f"{path}: {problem.strerror or problem}") from None
    with replace(path) as file:
        file.write((json.dumps(document, indent=1, sort_keys=True) + "\n").encode())
    return path
