"""Everything that only a machine with a GPU can tell, in order of value, in one run.

    python tools/device_run.py OUT --budget 570 [--only cases,bench] [--resume]
    python tools/device_run.py OUT --backend vulkan
    python tools/device_run.py OUT --only bench --baselines OUT/baselines

Each phase is a process of its own with a time limit, so that a kernel that hangs costs its phase
at most. What a phase finds is written to OUT as it is found (JSON, a record a line); `--resume`
skips the phases that a receipt of the same source already has. A table closes the run. The
receipts of `iron bench` go to `baselines/`, or where `--baselines` says; OUT/baselines has what
this run wrote of them, so that OUT is all that need come back from a machine that was lent.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PYTHON = sys.executable
NEEDED = ("numpy", "ml_dtypes", "cuda.bindings.driver", "cuda.bindings.nvrtc", "rich", "typer")


@dataclass(frozen=True)
class Phase:
    """One step: `command` is run with the output folder added; `most` seconds at most."""

    name: str
    most: float
    command: tuple[str, ...]


BACKEND = os.environ.get("DEVICE_BACKEND", "cuda")
BASELINES = Path(os.environ.get("DEVICE_BASELINES", ROOT / "baselines"))
NVIDIA_ICD = "/usr/local/nvidia/share/vulkan/icd.d/nvidia_icd.json"
"""The driver's file in NVIDIA's containers, where the loader does not look."""

PHASES = (
    Phase("device", 60, ("-m", "iron", "device")),
    Phase("conformance", 120, ("tools/device_run.py", "--phase", "conformance")),
    Phase("cases", 300, ("tools/device_run.py", "--phase", "cases")),
    Phase("bench", 600, ("tools/device_run.py", "--phase", "bench")),
    Phase("model", 120, ("tools/device_run.py", "--phase", "model")),
    Phase("sanitizer", 150, ("tools/device_run.py", "--phase", "sanitizer")),
)
ONLY_CUDA = {"sanitizer"}


def source_digest() -> str:
    """A digest of the sources: a receipt of other sources is not resumed."""
    total = hashlib.sha256()
    for file in sorted([*(ROOT / "iron").rglob("*.py"), *(ROOT / "tools").rglob("*.py")]):
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


class Receipt:
    """What was found so far, on disk after every change."""

    def __init__(self, folder: Path, resume: bool) -> None:
        self.path = folder / "receipt.json"
        self.held: dict[str, Any] = {"source": source_digest(), "phases": {}}
        if resume and self.path.exists():
            old = json.loads(self.path.read_text())
            if old["source"] == self.held["source"]:
                self.held = old
        self.held["machine"] = {
            "python": platform.python_version(),
            "system": platform.platform(),
            "missing": missing(),
        }
        self.write()

    def done(self, name: str) -> bool:
        """True when the phase ended by itself in an earlier run."""
        return self.held["phases"].get(name, {}).get("ended") == "done"

    def note(self, name: str, **facts: Any) -> None:
        """Records a phase."""
        self.held["phases"][name] = facts
        self.write()

    def write(self) -> None:
        """The whole receipt anew."""
        self.path.write_text(json.dumps(self.held, indent=1))


def missing() -> list[str]:
    """Modules that the needed path imports and this Python lacks."""
    found = [PYTHON, "-c", "import importlib, sys; importlib.import_module(sys.argv[1])"]
    return [m for m in NEEDED if subprocess.run([*found, m], capture_output=True).returncode]


def parent(out: Path, budget: float, only: set[str], resume: bool) -> int:
    """Runs the phases while there is time and prints what came of them."""
    started = time.monotonic()
    out.mkdir(parents=True, exist_ok=True)
    receipt = Receipt(out, resume)
    lack = receipt.held["machine"]["missing"]
    if lack:
        print(f"missing modules: {', '.join(lack)}; carry their wheels")
    for phase in PHASES:
        if BACKEND != "cuda" and phase.name in ONLY_CUDA:
            continue
        if (only and phase.name not in only) or receipt.done(phase.name):
            continue
        left = budget - (time.monotonic() - started)
        if left < 15:
            receipt.note(phase.name, ended="no time")
            continue
        begun = time.monotonic()
        ended = run(phase, out, min(phase.most, left - 5))
        seconds = round(time.monotonic() - begun, 1)
        receipt.note(phase.name, ended=ended, seconds=seconds)
        print(f"[{phase.name}: {ended} after {seconds} s]", flush=True)
    summary(out, receipt)
    return 0


def run(phase: Phase, out: Path, most: float) -> str:
    """How the phase ended; its output goes to OUT/log.txt."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "IRON_CACHE_DIR": os.environ.get("IRON_CACHE_DIR", "/tmp/iron-cache"),
        "PYTHONUNBUFFERED": "1",
    }
    if Path(NVIDIA_ICD).exists():
        environment.setdefault("VK_DRIVER_FILES", NVIDIA_ICD)
    environment["DEVICE_SECONDS"] = str(most - 5)
    with (out / "log.txt").open("a") as log:
        log.write(f"\n===== {phase.name}\n")
        log.flush()
        last = [] if phase.name == "device" else [str(out)]
        child = subprocess.Popen(
            [PYTHON, *phase.command, *last],
            cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            return "done" if child.wait(most) == 0 else f"exit {child.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            return "time limit"


# --- phases in their own process ------------------------------------------------------------------


def conformance(out: Path) -> int:
    """The driver protocol's suite on the device."""
    command = [PYTHON, "-m", "pytest", "-p", "tools.roads", "-p", "no:cacheprovider", "-n", "0"]
    command += ["-q", "--tb=short", "tests/contract/test_driver.py", "-k", BACKEND]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    (out / "conformance.txt").write_text(done.stdout + done.stderr)
    print(done.stdout[-3000:])
    return done.returncode


def cases(out: Path) -> int:
    """Every kernel's cases, in workers; a line a kernel in cases.jsonl, the faults in full."""
    from iron.worker.campaign import Campaign, Row
    from iron.worker.supervise import Limits

    command = (PYTHON, "-m", "iron.worker", BACKEND, str(32 << 30))
    filters = tuple(filter(None, os.environ.get("DEVICE_FILTER", "").split(",")))
    campaign = Campaign(
        ("iron.kernels",), (BACKEND,), lambda _: command, filters,
        jobs=int(os.environ.get("DEVICE_JOBS", "6")), limits=Limits(60.0, 32 << 30),
    )  # fmt: skip
    until = time.monotonic() + float(os.environ.get("DEVICE_SECONDS", "600"))
    with (out / "cases.jsonl").open("a") as log:
        for said in campaign.run():
            if isinstance(said, Row):
                faults = [{"kind": f.kind, "case": f.case, "text": f.text} for f in said.faults]
                record = {"kernel": said.kernel, "label": said.label, "cases": said.cases}
                record |= {"seconds": round(said.seconds, 3), "faults": faults}
                log.write(json.dumps(record) + "\n")
                log.flush()
            if time.monotonic() > until:
                os._exit(3)
    return 0


def bench(out: Path) -> int:
    """`iron bench` of each kernel by itself, so that a run that is cut keeps what it has."""
    from iron.worker import discover

    begun, until = time.time(), time.monotonic() + float(os.environ.get("DEVICE_SECONDS", "600"))
    wanted = tuple(filter(None, os.environ.get("DEVICE_FILTER", "").split(",")))
    for module in discover.modules(("iron.kernels",)):
        for name in discover.kernels(module):
            left = until - time.monotonic()
            if left < 10 or (wanted and name not in wanted):
                continue
            command = [PYTHON, "-m", "iron", "bench", "-b", BACKEND, "-f", f"{name}["]
            command += [] if BACKEND == "cuda" else ["--beside", "cuda"]
            command += ["--receipt", "--baselines", str(BASELINES)]
            started = time.monotonic()
            try:
                done = subprocess.run(
                    command, cwd=ROOT, capture_output=True, text=True, timeout=left
                )
                ended, said = str(done.returncode), done.stdout + done.stderr
            except subprocess.TimeoutExpired:
                ended, said = "time limit", ""
            line = f"{name:24} exit {ended} after {time.monotonic() - started:.0f} s"
            with (out / "bench.jsonl").open("a") as log:
                log.write(json.dumps({"line": line, "text": said}) + "\n")
            keep(out / "baselines", begun)
    return 0


def keep(folder: Path, begun: float) -> None:
    """Copies the receipts that were written since `begun` (s of the clock) into a folder."""
    if folder.resolve() == BASELINES.resolve():
        return
    for receipt in BASELINES.glob(f"*/{BACKEND}.json"):
        if receipt.stat().st_mtime >= begun:
            (folder / receipt.parent.name).mkdir(parents=True, exist_ok=True)
            shutil.copyfile(receipt, folder / receipt.parent.name / receipt.name)


def sanitizer(out: Path) -> int:
    """compute-sanitizer's memcheck and racecheck over kernels that share memory and that do not."""
    found = []
    for tool in ("memcheck", "racecheck"):
        for kernel in ("rms_norm", "softmax", "scan", "arg_reduce", "qmv", "unary", "rope"):
            command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "9", PYTHON]
            command += ["tools/device_run.py", "--phase", "few", kernel]
            begun = time.monotonic()
            try:
                done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
                ended = {0: "clean", 9: "FOUND"}.get(done.returncode, f"exit {done.returncode}")
                text = (done.stdout + done.stderr)[-1500:]
            except FileNotFoundError:
                print("compute-sanitizer is not installed")
                return 1
            except subprocess.TimeoutExpired:
                ended, text = "time limit", ""
            record = {"tool": tool, "kernel": kernel, "ended": ended}
            record["seconds"] = round(time.monotonic() - begun, 1)
            if ended != "clean":
                record["text"] = text
            found.append(record)
            (out / "sanitizer.json").write_text(json.dumps(found, indent=1))
    return 0


def few(kernel: str) -> int:
    """A dozen cases of one kernel in this process, for the sanitizer."""
    from iron.check.cases import run_case
    from iron.check.expand import expand
    from iron.worker import discover

    for module in discover.modules(("iron.kernels",)):
        found = discover.kernels(module).get(kernel)
        if found is None:
            continue
        every = expand(found)
        for case in every[:: max(1, len(every) // 12)]:
            verdict = run_case(case, "cuda")
            if not verdict.ok:
                print(verdict)
                return 1
    return 0


def model(out: Path) -> int:
    """SmolLM2 on the device: the golden tokens and tokens a second, when the model file is here."""
    command = [PYTHON, "-m", "examples.smollm2.speed", "--backend", BACKEND]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    (out / "model.txt").write_text(done.stdout + done.stderr[-4000:])
    return done.returncode


# --- the closing table ----------------------------------------------------------------------------


def records(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of JSON lines; a last half line is left out."""
    if path.exists():
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:
                return


def summary(out: Path, receipt: Receipt) -> None:
    """A compact table; everything else is in the files."""
    lines: list[str] = []
    put: Callable[[str], None] = lines.append
    for name, facts in receipt.held["phases"].items():
        put(f"{name:12} {facts['ended']:12} {facts.get('seconds', 0):7} s")
    rows = list(records(out / "cases.jsonl"))
    red = [r for r in rows if r["faults"]]
    put(f"cases: {sum(r['cases'] for r in rows)} in {len(rows)} rows, {len(red)} rows with faults")
    by_kernel: dict[str, list[dict[str, Any]]] = {}
    for row in red:
        by_kernel.setdefault(row["kernel"], []).append(row)
    for kernel, mine in by_kernel.items():
        fault = mine[0]["faults"][0]
        text = fault["text"].replace("\n", " | ")[:300]
        put(f"  {kernel}: {len(mine)} rows, {fault['kind']}: {fault['case']}: {text}")
    for row in records(out / "bench.jsonl"):
        put(row.get("line", json.dumps(row)))
    for name in ("conformance.txt", "model.txt"):
        if (out / name).exists():
            put(f"--- {name}")
            lines.extend((out / name).read_text().splitlines()[-8:])
    if (out / "sanitizer.json").exists():
        for row in json.loads((out / "sanitizer.json").read_text()):
            put(f"{row['tool']:10} {row['kernel']:12} {row['ended']}")
    text = "\n".join(lines)
    (out / "summary.txt").write_text(text + "\n")
    print(text[-11500:])


def main() -> int:
    """The whole run, or one phase of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("out", help="folder for everything that is found")
    parser.add_argument("--budget", type=float, default=570.0, help="seconds in all")
    parser.add_argument("--backend", default=BACKEND, choices=("cuda", "vulkan"))
    parser.add_argument(
        "--baselines", default=BASELINES, type=Path, metavar="FOLDER",
        help="where receipts are written, instead of baselines/; OUT/baselines has copies",
    )  # fmt: skip
    parser.add_argument("--only", default="", help="phases, by name")
    parser.add_argument("--resume", action="store_true", help="leave out what a receipt has")
    parser.add_argument("--phase", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    folder = given.baselines.resolve()  # phases run in the project's folder
    if (given.backend, folder) != (BACKEND, BASELINES.resolve()):
        os.environ["DEVICE_BACKEND"], os.environ["DEVICE_BASELINES"] = given.backend, str(folder)
        os.execv(PYTHON, [PYTHON, *sys.argv])
    if given.phase == "few":
        return few(given.out)
    inner = {"conformance": conformance, "cases": cases, "bench": bench, "sanitizer": sanitizer}
    inner["model"] = model
    if given.phase:
        return inner[given.phase](Path(given.out))
    only = {name for name in given.only.split(",") if name}
    return parent(Path(given.out).resolve(), given.budget, only, given.resume)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
