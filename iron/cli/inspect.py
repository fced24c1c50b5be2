"""`iron inspect`: a kernel's source, its IR before and after each pass, and each target's text."""

from __future__ import annotations

import inspect as introspection
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from iron.analysis.check import check
from iron.analysis.cost import cost
from iron.backends.cpu.entry import symbol_of
from iron.cli.configuration import load
from iron.cli.output import JsonFlag, console, print_json, print_table
from iron.cli.specimen import Specimen, choose, library, named, spelled
from iron.compiler import lower
from iron.emit.family import Destination
from iron.emit.targets import NATIVE, destination
from iron.errors import error
from iron.ir.core import Kernel, tiled
from iron.ir.text import print_kernel
from iron.lang.declare import KernelFunction
from iron.passes import THREAD_PASSES
from iron.passes.fuse import fuse
from iron.tiles import sm90
from iron.tiles.algebra import sink_scale
from iron.tiles.explain import explain
from iron.tiles.lower import threads
from iron.tiles.sm90 import explain as rings

BEFORE = "before"
TILE_STAGES = ("place", "tiles", *(name for name in rings.STAGES if name != "place"))
"""What a tile kernel goes through after `fuse` for the first target, and no other kernel does; all
but the first two where the target has rings alone."""


@dataclass(frozen=True, slots=True)
class Section:
    """One text about a kernel: `file` is its name under `-o`, `title` its heading on a terminal."""

    file: str
    title: str
    text: str


def inspect(
    name: Annotated[
        str | None, typer.Argument(metavar="KERNEL", help="A kernel; left out, they are listed.")
    ] = None,
    after: Annotated[
        str | None,
        typer.Option(
            "--pass",
            help="The IR after this pass, or after `all`; of tiles also `place`, `tiles`, and on "
            "sm_90a `ring`, `skew`, `peel`, `roles`, `await`.",
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option("--target", help="Final text: `cpu`, `cuda:sm_90a`; may be given twice."),
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", help="How many of each operation, pass by pass.")
    ] = False,
    costs: Annotated[
        bool, typer.Option("--cost", help="Arithmetic, bytes and live values of one thread.")
    ] = False,
    dtype: Annotated[str | None, typer.Option("--dtype", help="A dtype of its cases.")] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option("--variant", metavar="K=V", help="A variant or Const; may be given again."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Write files instead.")
    ] = None,
    json: Annotated[bool, JsonFlag] = False,
) -> None:
    """Lists the kernels, or shows what one becomes: source, IR, IR after a pass, final text.

    The sizes are those of the kernel's first case that has the dtype and variant.

    Example: `iron inspect rms_norm --dtype f16 --target cpu`
    """
    found, faults = library(load())
    if name is None:
        _list(found, faults, json)
        return
    declared = named(found, name, faults)
    targets = [_target(name) for name in dict.fromkeys(target or ())]
    known = ["all", *(p for p, _ in THREAD_PASSES), *TILE_STAGES]
    _known("--pass", [after] if after else [], known)
    if not isinstance(declared, KernelFunction):
        _only_source(declared, bool(after or targets or stats or costs))
        sections, facts, counts = [_source(declared)], {"kernel": declared.name}, {}
    else:
        chosen = _pairs(variant or [])
        first = targets[0] if targets else _target("cpu")
        specimen = choose(declared, first.target, dtype, chosen)
        counts = _counts(specimen.kernel) if stats else {}
        if after in TILE_STAGES:
            sections = [_source(declared), *_tiles(specimen.kernel, after, first)]
            targets = []  # the first one was asked for by the stage
        else:
            sections = _sections(specimen, after, bool(targets or stats or costs))
        sections += [_final(choose(declared, t.target, dtype, chosen), t) for t in targets]
        facts = _facts(specimen, costs)
    _show(sections, facts, counts, out, json)


def _list(found: dict[str, Any], faults: list[str], json: bool) -> None:
    rows = [
        {
            "name": name,
            "kind": "kernel" if isinstance(declared, KernelFunction) else "plan",
            "module": declared.fn.__module__,
            "summary": (declared.fn.__doc__ or "").strip().split("\n")[0],
        }
        for name, declared in sorted(found.items())
    ]
    if json:
        print_json({"kernels": rows, "faults": faults})
    else:
        print_table(
            ("kernel", "kind", "module", "what it computes"), [tuple(r.values()) for r in rows]
        )
        for fault in faults:
            console(stderr=True).print(f"cannot be imported: {fault}", markup=False)
    if faults:
        raise typer.Exit(1)


def _known(flag: str, given: Any, names: list[str]) -> None:
    for one in given:
        if one not in names:
            raise error("E0803", f"{flag}: no `{one}`", help=f"it takes {', '.join(names)}")


def _pairs(given: list[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            raise error("E0803", f"--variant: `{one}` is not K=V")
    return {k.strip(): v.strip() for k, _, v in (one.partition("=") for one in given)}


def _only_source(plan: Any, more: bool) -> None:
    if more:
        text = f"`{plan.name}` is a plan: it has no IR or text of its own"
        raise error("E0803", text, help="inspect the kernels that it launches")


def _target(name: str) -> Destination:
    """The target called `name`; `cpu` is this machine's."""
    return destination(f"cpu:{NATIVE}" if name == "cpu" else name)


def _source(declared: Any) -> Section:
    return Section("source.py", "source", introspection.getsource(declared.fn))


def _sections(of: Specimen, after: str | None, other: bool) -> list[Section]:
    """Source and IR, or of the IR what was asked for; nothing where only other things were."""
    if after is None and other:
        return []
    stages = _stages(of.kernel)
    first, last = stages[0], stages[-1]
    chosen = stages if after == "all" else [s for s in stages if s[0] == after]
    if after is None:
        chosen = [first, last]
    texts = [_ir(number, *stage) for number, stage in enumerate(stages) if stage in chosen]
    return texts if after not in (None, "all") else [_source(of.case.kernel), *texts]


def _stages(kernel: Kernel) -> list[tuple[str, Kernel]]:
    """The kernel before any pass, then after each."""
    check(kernel)
    out = [(BEFORE, kernel)]
    for name, run in THREAD_PASSES:
        kernel = run(kernel)
        out.append((name, kernel))
    return out


def _tiles(kernel: Kernel, stage: str, to: Destination) -> list[Section]:
    """Where the target keeps each tile, or what becomes of them; E0803 without tiles."""
    if not tiled(kernel):
        raise error("E0803", f"--pass {stage}: `{kernel.name}` has no tiles")
    if stage == "tiles":
        made = threads(fuse(kernel), to.target)
        return [Section("tiles.ir", f"threads on {to.name}", print_kernel(made))]
    general = Section("place.txt", f"tiles on {to.name}", explain(fuse(kernel), to.target))
    ringed = to.target.has("sm_90")
    if stage == "place" and not (ringed and not sm90.refusal(kernel, to.target)):
        return [general]
    if not ringed:
        raise error("E0803", f"--pass {stage}: {to.name} has no rings", help="name cuda:sm_90a")
    text = rings.stage(fuse(sink_scale(kernel)), to.target, stage)
    title = f"{stage} on {to.name}, where rows are aligned to 16 bytes"
    found = Section(f"sm90-{stage}.txt", title, text)
    return [found, general] if stage == "place" else [found]


def _ir(number: int, stage: str, kernel: Kernel) -> Section:
    title = "IR before passes" if stage == BEFORE else f"IR after pass `{stage}`"
    return Section(f"{number:02}-{stage}.ir", title, print_kernel(kernel))


def _final(of: Specimen, to: Destination) -> Section:
    lowered = lower(of.kernel, to.target)
    made = to.family.make(lowered, to.target, symbol_of(lowered), (to.family.text,))
    default = to.architecture in ("", NATIVE, to.family.architectures[0])
    stem = to.family.name if default else f"{to.family.name}.{to.architecture}"
    title = f"{to.family.language} for {to.name}"
    return Section(f"{stem}{to.family.text}", title, made.files[to.family.text].decode())


def _counts(kernel: Kernel) -> dict[str, dict[str, int]]:
    """For each stage how many of each operation the body has."""
    return {
        stage: dict(sorted(Counter(op.name for op in k.body.walk()).items()))
        for stage, k in _stages(kernel)
    }


def _facts(of: Specimen, costs: bool) -> dict[str, Any]:
    counted = {"cost": asdict(cost(lower(of.kernel)))} if costs else {}
    return {
        "kernel": of.case.kernel.name,
        "case": of.case.label,
        "dtypes": {n: str(t) for n, t in of.case.dtypes.items()},
        "dims": dict(of.dims),
        "consts": {n: spelled(v) for n, v in of.consts.items()},
        "threads": of.kernel.threads,
        "simd": of.kernel.simd,
        **counted,
    }


def _show(
    sections: list[Section],
    facts: dict[str, Any],
    counts: dict[str, dict[str, int]],
    out: Path | None,
    json: bool,
) -> None:
    files = _write(sections, out) if out is not None else []
    if json:
        texts = [{"file": s.file, "title": s.title, "text": s.text} for s in sections]
        print_json({**facts, "sections": texts, "stats": counts, "files": files})
        return
    typer.echo(f"// {facts.get('case', facts['kernel'])}")
    for what, amount in facts.get("cost", {}).items():
        typer.echo(f"{what:8} {amount}")
    for section in sections if out is None else ():
        typer.echo(f"\n// --- {section.title}\n{section.text.rstrip()}")
    for file in files:
        typer.echo(file)
    if counts:
        typer.echo("")
        print_table(("operation", *counts), _table(counts))


def _write(sections: list[Section], out: Path) -> list[str]:
    try:
        out.mkdir(parents=True, exist_ok=True)
        for section in sections:
            (out / section.file).write_text(section.text.rstrip() + "\n", encoding="utf-8")
    except OSError as wrong:
        raise error("E0802", f"{out}: {wrong.strerror}") from None
    return [str(out / section.file) for section in sections]


def _table(counts: dict[str, dict[str, int]]) -> list[tuple[str, ...]]:
    names = sorted({name for stage in counts.values() for name in stage})
    rows = [(n, *(str(stage.get(n, 0)) for stage in counts.values())) for n in names]
    return [*rows, ("all", *(str(sum(stage.values())) for stage in counts.values()))]
