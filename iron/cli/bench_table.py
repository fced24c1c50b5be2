"""The tables of `iron bench`: one line a row, its roofline under -v, its tails under -vv."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iron.bench import ceilings as ceilings_of
from iron.bench.metrics import Figures, figures
from iron.bench.snapshot import Document, derived
from iron.cli.output import console, print_table
from iron.report.units import digits, percent, seconds, times

PLAIN = ("kernel", "size", "time", "GB/s", "GFLOP/s", "best peer", "its time", "peer/iron",
         "of limit", "verdict")  # fmt: skip
ROOFLINE = ("at most", "but launch", "op/byte", "% BW", "% FLOP", "held by", "cold bind",
            "warm bind", "launch", "registers", "spilled")  # fmt: skip
TAILS = ("least", "p20", "p80", "p95", "p99", "cv", "n", "error")


def print_rows(found: Document, verbose: int) -> None:
    """The rows, what is doubtful about them, and the ceilings they are held against."""
    rows, whole = found["rows"], derived(found)
    columns = PLAIN + (ROOFLINE if verbose else ()) + (TAILS if verbose > 1 else ())
    lines = [_line(row, of, verbose) for row, (of, _) in zip(rows, whole, strict=True)]
    if rows:
        print_table(columns, lines)
    out = console()
    for row, (_, doubts) in zip(rows, whole, strict=True):
        if doubts:
            name = f"{row['kernel']}[{row['tags']}]({row['shape']})"
            out.print(f"suspect  {name}: {'; '.join(doubts)}", style="yellow", markup=False)
        for peer in row["peers"] if verbose > 1 else ():
            out.print(f"    {_peer(row, peer)}", markup=False)
    for fault in found["faults"]:
        name = f"{fault['kernel']}[{fault['tags']}]({fault['shape']})"
        out.print(f"{fault['kind']}  {name}: {fault['text']}", style="red", markup=False)
    if found["ceilings"]:
        out.print(_machine(found), markup=False)


def _line(row: Mapping[str, Any], of: Figures, verbose: int) -> list[str]:
    best = of.best
    cells = [
        f"{row['kernel']}[{row['tags']}]",
        row["shape"],
        seconds(of.time.median),
        digits(of.rate),
        digits(of.gflops),
        best.name if best else "",
        seconds(best.time.median) if best else "",
        times(of.ratio),
        percent(of.share),
        of.words,
    ]
    host, resources = row["host"], row["resources"]
    if verbose:
        cells += [
            times(of.most),
            percent(of.apart),
            digits(of.intensity),
            percent(of.bandwidth),
            percent(of.arithmetic),
        ]
        cells += [of.bottleneck, *(seconds(host[n]) for n in ("cold bind", "warm bind", "launch"))]
        cells += [str(resources.get(n, "")) for n in ("registers", "spill_bytes")]
    if verbose > 1:
        time = of.time
        cells += [seconds(t) for t in (time.least, time.p20, time.p80, time.p95, time.p99)]
        cells += [f"{100 * time.cv:.1f} %", str(time.n), f"{row['verified']['worst']:.2f}"]
    return cells


def _peer(row: Mapping[str, Any], peer: Mapping[str, Any]) -> str:
    name = f"{row['kernel']}[{row['tags']}]  {peer['name']} {peer['version']}"
    if "fault" in peer:
        return f"{name}  left out: {peer['fault']}"
    time = peer["time"]["median"]
    return (
        f"{name}  {seconds(time)}  {times(time / row['time']['median'])}  off {peer['error']:.1e}"
    )


def _machine(found: Document) -> str:
    top, machine = ceilings_of.read(found["ceilings"]), found["machine"]
    dirty = " (dirty)" if found["dirty"] else ""
    products = f"products of matrices {digits(top.matrix / 1e9)} GFLOP/s, " if top.matrix else ""
    return (
        f"{machine['device']}: copy {digits(top.copy / 1e9)} GB/s, read {digits(top.read / 1e9)} "
        f"GB/s, f32 {digits(top.flops / 1e9)} GFLOP/s, {products}empty launch "
        f"{seconds(top.launch)}; commit {found['commit'][:12]}{dirty}"
    )


def summary(row: Mapping[str, Any]) -> str:
    """A row in a few words, while the others still run."""
    of = figures(row, ceilings_of.read(row["ceilings"]))
    peer = f", {of.best.name} {seconds(of.best.time.median)}" if of.best else ""
    rate = f"{seconds(of.time.median)}, {digits(of.rate)} GB/s, {percent(of.share)} of the limit"
    return f"{rate}{peer}{' ' + of.words if of.words else ''}"


def compare_dtypes(found: Document) -> None:
    """One line a kernel and size, with time and rate for each dtype or format beside each other."""
    table: dict[tuple[str, str], dict[str, str]] = {}
    kinds: dict[str, None] = {}
    for row, (of, _) in zip(found["rows"], derived(found), strict=True):
        tags = row["tags"].split(",")
        kind = ",".join(t for t in tags if "=" not in t) or "-"
        rest = ",".join(t for t in tags if "=" in t)
        name = f"{row['kernel']}[{rest}]" if rest else row["kernel"]
        kinds[kind] = None
        cell = f"{seconds(of.time.median)} ({digits(of.rate)} GB/s)"
        table.setdefault((name, row["shape"]), {})[kind] = cell
    print_table(
        ("kernel", "size", *kinds),
        [[*key, *(cells.get(kind, "") for kind in kinds)] for key, cells in table.items()],
    )
