"""A program to compare roads on: a kernel, and a setting from which its arguments follow."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from iron.dtypes import DType
from iron.errors import error
from iron.ir import scalar
from iron.ir.core import Kernel, Param
from iron.ir.text import parse_kernel, print_kernel
from iron.ir.types import Tensor

_MARK = "// setting "
_SPECIAL = (
    *(np.inf, -np.inf, np.nan, -0.0, np.inf, -np.inf, np.nan, -0.0, 0.0),
    *(1e-40, 3e38, -1.0, 2.0, 0.5, 1e-45, 7.0, 65520.0),
)

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Setting:
    """What a launch needs besides the kernel; tensor and scalar contents follow from `seed`."""

    seed: int
    grid: tuple[int, ...]
    shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel in its setting."""

    kernel: Kernel
    setting: Setting


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one launch; tensors that the kernel writes are filled with garbage."""

    arrays: dict[str, Array]
    scalars: dict[str, Any]
    dims: dict[str, int]


def arguments(program: Program) -> Arguments:
    """The arguments of a launch, the same for every call."""
    given = Arguments({}, {}, dict(program.setting.dims))
    for number, param in enumerate(program.kernel.params):
        rng = np.random.default_rng((program.setting.seed, number))
        if param.role == "tensor":
            shape = program.setting.shapes[param.name]
            given.arrays[param.name] = _tensor(rng, param, shape)
        elif param.role == "scalar":
            assert isinstance(param.type, DType)
            given.scalars[param.name] = contents(rng, param.type, 5)[4]
    return given


def _tensor(rng: np.random.Generator, param: Param, shape: tuple[int, ...]) -> Array:
    """An array of the parameter's dtype; a strided one is a reversed, gappy, transposed view."""
    t = param.type
    assert isinstance(t, Tensor)
    if t.packed:
        return contents(rng, t.elem, int(np.prod(shape))).reshape(shape)
    wide = tuple(2 * extent + 1 for extent in reversed(shape))
    base = contents(rng, t.elem, int(np.prod(wide))).reshape(wide)
    return base.transpose()[tuple(slice(-2, None, -2) for _ in shape)]


def contents(rng: np.random.Generator, dtype: DType, count: int) -> Array:
    """Values of every magnitude, with special ones between."""
    if dtype.kind == "b":
        return rng.integers(0, 2, count).astype(bool)
    if dtype.is_integer:
        out = rng.integers(dtype.min, dtype.max, count, dtype=dtype.np, endpoint=True)
        out[::3] %= dtype.np.type(9)
        return out
    out = rng.standard_normal(count) * 4
    places = rng.permutation(count)[: count // 3]
    out[places] = rng.choice(np.array(_SPECIAL), len(places))
    with scalar.quiet():
        return out.astype(np.float32).astype(dtype.np)


# --- files ----------------------------------------------------------------------------------------


def save(program: Program, path: Path) -> None:
    """Writes the program as text with its setting in the first line."""
    s = program.setting
    setting = {"seed": s.seed, "grid": s.grid, "shapes": dict(s.shapes), "dims": dict(s.dims)}
    path.write_text(f"{_MARK}{json.dumps(setting)}\n{print_kernel(program.kernel)}")


def load(path: Path) -> Program:
    """Reads what `save` wrote; E0801 when the file is not that."""
    text = path.read_text()
    first = text.partition("\n")[0]
    if not first.startswith(_MARK):
        raise error("E0801", f"{path} does not begin with a {_MARK.strip()!r} line")
    try:
        raw = json.loads(first[len(_MARK) :])
        shapes = {name: tuple(shape) for name, shape in raw["shapes"].items()}
        setting = Setting(raw["seed"], tuple(raw["grid"]), shapes, raw["dims"])
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise error("E0801", f"the setting in {path} cannot be read: {problem}") from problem
    return Program(parse_kernel(text), setting)
