"""`iron config`: every setting, its value, and where the value comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from iron.cli.configuration import SETTINGS, load
from iron.cli.output import JsonFlag, print_json, print_table


def config(json: Annotated[bool, JsonFlag] = False) -> None:
    """Shows every setting, its value and where it comes from.

    Defaults give way to `[tool.iron]` in the nearest pyproject.toml, that to `IRON_*` variables,
    those to flags.

    Example: `IRON_JOBS=1 iron config`
    """
    resolved = load()
    if json:
        print_json(
            {
                "project": resolved.project,
                "settings": {
                    name: {"value": _plain(r.value), "source": r.source}
                    for name, r in resolved.values.items()
                },
            }
        )
        return
    rows = [
        (s.name, _shown(resolved[s.name]), resolved.values[s.name].source, s.doc) for s in SETTINGS
    ]
    print_table(("setting", "value", "from", "meaning"), rows)


def _shown(value: Any) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else value
