"""The commands put together, and the one place that turns errors into exit status."""

from __future__ import annotations

import traceback
from typing import Annotated

import typer

from iron import __version__
from iron.cli import (
    bench,
    build,
    clean,
    config,
    device,
    diff,
    init,
    inspect,
    quantize,
    snap,
    test,
    weights,
)
from iron.cli.output import console
from iron.errors import KernelError, Loc, error

app = typer.Typer(
    name="iron",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Checks, times, builds, inspects and sets up kernels written in Iron.",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"iron {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Checks, times, builds, inspects and sets up kernels written in Iron."""


app.command("test")(test.run)
app.command("bench")(bench.run)
app.command("snap")(snap.snap)
app.command("diff")(diff.diff)
app.command("build")(build.build)
app.command("emit")(build.emit)
app.command("inspect")(inspect.inspect)
app.command("device")(device.device)
app.command("init")(init.init)
app.command("quantize")(quantize.quantize)
app.command("weights")(weights.weights)
app.command("config")(config.config)
app.command("clean")(clean.clean)


def run(arguments: list[str]) -> int:
    """The exit status: 0, 1 when something failed, 2 for bad usage, 130 when interrupted."""
    try:
        app(arguments, prog_name="iron")
    except SystemExit as left:
        if _interrupted(left):
            console(stderr=True).print("interrupted")
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except KernelError as wrong:
        _complain(wrong)
        return 2 if wrong.id in ("E0803", "E0805") else 1
    except KeyboardInterrupt:
        console(stderr=True).print("interrupted")
        return 130
    except Exception as fault:
        _complain(_internal(fault))
        return 1
    return 0


def _interrupted(left: BaseException | None) -> bool:
    """Whether a command ended by Ctrl-C, which typer turns into a status without a word."""
    return left is not None and (
        isinstance(left, KeyboardInterrupt) or _interrupted(left.__cause__ or left.__context__)
    )


def _complain(wrong: KernelError) -> None:
    console(stderr=True).print(str(wrong), markup=False)


def _internal(fault: Exception) -> KernelError:
    frames = traceback.extract_tb(fault.__traceback__)
    at = frames[-1]
    return error(
        "E0901",
        f"internal error: {type(fault).__name__}: {fault}",
        Loc(at.filename, at.lineno or 0),
        notes=tuple(f"in {f.name}, {f.filename}:{f.lineno}" for f in reversed(frames[-4:])),
        help="this is a fault of Iron; please report it with the lines above",
    )
