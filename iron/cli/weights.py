"""`iron weights`: what a weight file holds, and what is wrong with it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from iron.cli.output import JsonFlag, bytes_text, console, print_json, print_table
from iron.errors import KernelError
from iron.quant.plan import Tensor, open_file
from iron.quant.read_gguf import GgufFile
from iron.quant.survey import survey


def weights(
    file: Annotated[Path, typer.Argument(help=".gguf, .safetensors or a checkpoint folder.")],
    check: Annotated[
        bool, typer.Option("--check", help="Decode every weight and look for NaN and infinity.")
    ] = False,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Lists tensors with format, shape and bits per weight, and says what is wrong.

    Exit status 1 when something is.

    Example: `iron weights model.gguf --check`
    """
    opened = open_file(file)
    tensors, faults = survey(opened)
    if check:
        faults += [f for t in tensors if t.matrix for f in non_finite(t)]
    rows = [_row(t) for t in tensors]
    if json:
        print_json({"tensors": rows, "faults": faults, "metadata": _metadata(opened)})
    else:
        _print(file, rows, faults)
    if faults:
        raise typer.Exit(1)


def _row(tensor: Tensor) -> dict[str, Any]:
    count = math.prod(tensor.shape)
    size = sum(part[3].nbytes for part in tensor.parts())
    return {
        "name": tensor.name,
        "format": tensor.before,
        "shape": list(tensor.shape),
        "bytes": size,
        "bits_per_weight": 8 * size / max(1, count),
    }


def _print(file: Path, rows: list[dict[str, Any]], faults: list[str]) -> None:
    print_table(
        ["tensor", "format", "shape", "bits", "size"],
        [
            [
                r["name"],
                r["format"],
                "x".join(map(str, r["shape"])),
                f"{r['bits_per_weight']:.3f}",
                bytes_text(r["bytes"]),
            ]
            for r in rows
        ],
    )
    count = sum(math.prod(r["shape"]) for r in rows)
    size = sum(r["bytes"] for r in rows)
    said = console()
    bits = 8 * size / max(1, count)
    total = f"{len(rows)} tensors, {count:,} weights, {bytes_text(size)}, {bits:.3f} bits each"
    said.print(total, markup=False)
    for fault in faults:
        said.print(f"wrong: {fault}", markup=False)


def non_finite(tensor: Tensor) -> list[str]:
    """Where a weight is NaN or infinite: the first place and how many."""
    try:
        values = tensor.weight().decode()
    except KernelError as problem:
        return [problem.diagnostic.message]
    bad = ~np.isfinite(values)
    if not bad.any():
        return []
    at = [int(i) for i in np.argwhere(bad)[0]]
    where = f"{tensor.path}: tensor {tensor.name}, byte {tensor.offset}"
    return [f"{where}: {int(bad.sum())} weights are NaN or infinite, the first at {at}"]


def _metadata(opened: Any) -> dict[str, Any]:
    held = dict(opened.metadata)
    if isinstance(opened, GgufFile):
        return {k: v for k, v in held.items() if isinstance(v, str | int | float)}
    return held
