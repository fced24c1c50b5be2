"""`iron quantize`: a weight file in another format, with what each tensor lost."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from iron.cli.output import JsonFlag, bytes_text, console, print_json, print_table
from iron.errors import error
from iron.quant.convert import Result, convert
from iron.quant.plan import Plan, make_plan


def quantize(
    source: Annotated[Path, typer.Argument(metavar="IN", help=".gguf, .safetensors or a folder.")],
    out: Annotated[Path, typer.Argument(metavar="OUT", help=".gguf or .safetensors.")],
    fmt: Annotated[str, typer.Option("--format", "-F", help="A format of docs/formats.md.")],
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="GLOB", help="Convert only these tensors; repeatable."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace OUT.")] = False,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Converts the matrices of a weight file to a format.

    Works tensor by tensor, so the file may be larger than memory. OUT appears whole or not at all;
    an interrupted run goes on where it stopped. Other tensors are copied byte for byte.

    Example: `iron quantize model.gguf small.gguf --format q4_k --only 'blk.*'`
    """
    if out.exists() and source.exists() and out.samefile(source):
        raise error("E0803", f"{out}: input and output are the same file")
    if out.exists() and not force:
        raise error("E0803", f"{out} exists", help="pass --force to replace it")
    plan = make_plan(source, out, fmt, tuple(only or ("*",)))
    results, resumed = _converted(plan, out, quiet=json)
    if json:
        print_json(
            {
                "tensors": [asdict(r) for r in results],
                "bytes": out.stat().st_size,
                "resumed": resumed,
            }
        )
        return
    _report(results, resumed)
    said = console()
    said.print(f"wrote {out}, {bytes_text(out.stat().st_size)}", markup=False)


def _converted(plan: Plan, out: Path, quiet: bool) -> tuple[list[Result], int]:
    screen = console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen,
        disable=quiet or not screen.is_terminal,
    )
    with bar:
        task = bar.add_task("weights", total=plan.count)

        def advance(name: str, count: int) -> None:
            bar.update(task, description=name, advance=count)

        return convert(plan, out, advance)


def _report(results: list[Result], resumed: int) -> None:
    rows = [
        [
            r.name,
            "x".join(map(str, r.shape)),
            r.before if r.before == r.after else f"{r.before} -> {r.after}",
            f"{r.bits_per_weight:.3f}",
            f"{r.error:.2e}" if r.before != r.after else "-",
            f"{r.worst:.2e}" if r.before != r.after else "-",
            r.note,
        ]
        for r in results
    ]
    print_table(["tensor", "shape", "format", "bits", "error", "worst", ""], rows)
    changed = [r for r in results if r.before != r.after]
    if changed:
        mean = sum(r.error for r in changed) / len(changed)
        said = f"{len(changed)} of {len(results)} tensors converted, mean relative error {mean:.2e}"
        console().print(said, markup=False)
    if resumed:
        console().print(f"{resumed} tensors were done by an earlier run", markup=False)
