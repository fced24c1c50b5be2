"""`iron device`: the backends of this version, what each found, and what is missing."""

from __future__ import annotations

from typing import Annotated, Any

from iron.cli.output import JsonFlag, bytes_text, console, print_json
from iron.runtime.device import Report, reports


def device(json: Annotated[bool, JsonFlag] = False) -> None:
    """Shows each backend, its limits and features, or what is missing to use it.

    Example: `iron device --json`
    """
    found = reports()
    if json:
        print_json({"backends": [_document(r) for r in found]})
        return
    out = console()
    for report in found:
        state = "ready" if report.ready else "not available"
        out.print(f"{report.name:7} {state}: {report.runs}", markup=False)
        for name, value in _facts(report).items():
            out.print(f"        {name:12}{value}", markup=False)


def _facts(report: Report) -> dict[str, Any]:
    if report.target is None:
        install = {"install": report.install} if report.install else {}
        return {"missing": report.missing, **install}
    target = report.target
    facts = {k: v for k, v in report.facts.items() if v is not None}
    if "memory" in facts:
        facts["memory"] = bytes_text(facts["memory"])
    return {
        **facts,
        "target": " ".join(t for t in (target.name, target.cpu) if t),
        "simd": f"{target.simd} threads",
        "group": f"at most {target.max_threads} threads, {bytes_text(target.shared_bytes)} shared",
        "features": ", ".join(sorted(target.features)) or "none beyond the target's level",
    }


def _document(report: Report) -> dict[str, Any]:
    target = report.target
    return {
        "name": report.name,
        "ready": report.ready,
        "runs": report.runs,
        "missing": report.missing,
        "install": report.install,
        **report.facts,
        "target": target
        and {
            "name": target.name,
            "family": target.family,
            "simd": target.simd,
            "max_threads": target.max_threads,
            "shared_bytes": target.shared_bytes,
            "features": sorted(target.features),
            "cpu": target.cpu,
        },
    }
