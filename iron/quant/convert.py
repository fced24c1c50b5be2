"""Converts a weight file to a format, tensor by tensor: atomic, resumable, with its error told.

The whole header is made first, so every piece of data has its place. Data go to `OUT.part`, and a
journal beside it says which tensors are done; the part becomes OUT when all are. A tensor that
already has the target format, or a lossless way to it, loses nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from glob import escape
from pathlib import Path
from typing import IO, Any

import numpy as np

from iron.errors import KernelError, error
from iron.quant.atomic import cannot_write, replace
from iron.quant.encode import encode
from iron.quant.format import Format, Outer
from iron.quant.layout import FileLayout, Piece
from iron.quant.plan import Job, Plan
from iron.quant.repack import EDGES, plane_form, repack
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]
Progress = Callable[[str, int], None]
ROWS_AT_ONCE = 1 << 22  # weights in memory as f32 while a tensor is converted


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one tensor: bits per weight, and the error against the source's weights.

    `error` is the root of the summed squared error over the summed squared weights, `worst` the
    greatest absolute error; both are 0 for a tensor that was copied or moved without loss.
    """

    name: str
    shape: tuple[int, ...]
    before: str
    after: str
    bits_per_weight: float
    error: float
    worst: float
    note: str


@dataclass(slots=True)
class Sums:
    """Running sums of squares and the greatest error."""

    lost: float = 0.0
    held: float = 0.0
    worst: float = 0.0

    def add(self, want: Array, got: Array) -> None:
        """Counts decoded weights against the source's."""
        wide = want.astype(np.float64)
        miss = got.astype(np.float64) - wide
        self.lost += float((miss * miss).sum())
        self.held += float((wide * wide).sum())
        self.worst = max(self.worst, float(np.abs(miss).max(initial=0)))

    @property
    def relative(self) -> float:
        """Root of lost over held; 0 where nothing was lost."""
        return float(np.sqrt(self.lost / self.held)) if self.held else float(self.lost > 0)


def convert(plan: Plan, out: Path, progress: Progress | None = None) -> tuple[list[Result], int]:
    """Writes the planned file to `out`; the results, and how many tensors an earlier run had done.

    Raises E0801 for a source that cannot be read, E0802 for an output that cannot be written, and
    E0804 for weights that cannot be encoded, naming file, tensor and byte offset; `out` is then as
    it was. What was done stays in `OUT.part` for the next run, except after E0804.
    """
    part = out.with_name(out.name + ".part")
    journal = Journal.open(out.with_name(out.name + ".part.json"), plan, part)
    resumed = len(journal.done)
    try:
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o666), "r+b") as handle:
            lock(handle, out)
            if not resumed:
                handle.truncate(0)
                handle.write(plan.layout.header)
                handle.truncate(plan.layout.size)
            for job in plan.jobs:
                if job.name not in journal.done:
                    result = _run(job, plan.layout, handle, progress)
                    handle.flush()
                    os.fsync(handle.fileno())
                    journal.add(result)
                elif progress:
                    progress(job.name, job.count)
        part.replace(out)
    except OSError as problem:
        raise cannot_write(out, problem) from None
    except KernelError as problem:
        if problem.id == "E0804":
            part.unlink(missing_ok=True)
            journal.remove()
        raise
    journal.remove()
    return [journal.done[job.name] for job in plan.jobs], resumed


def lock(handle: IO[bytes], out: Path) -> None:
    """Takes the part file for this process; E0802 when another one writes it."""
    try:
        import fcntl
    except ImportError:  # no such lock on this system
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise error("E0802", f"{out}: another process is writing it") from None


@dataclass(slots=True)
class Journal:
    """Which tensors of a part file are done, and for which plan."""

    path: Path
    key: str
    done: dict[str, Result]

    @classmethod
    def open(cls, path: Path, plan: Plan, part: Path) -> Journal:
        """The journal of an interrupted run of the same plan, or an empty one."""
        key = hashlib.sha256(plan.layout.header + repr(plan.identity).encode()).hexdigest()
        try:
            held = json.loads(path.read_text("utf-8"))
            if held["key"] == key and part.stat().st_size == plan.layout.size:
                rows = [_result(r) for r in held["done"]]
                return cls(path, key, {r.name: r for r in rows})
        except (OSError, ValueError, KeyError, TypeError):
            pass
        return cls(path, key, {})

    def add(self, result: Result) -> None:
        """Records a tensor whose data are on the disk."""
        self.done[result.name] = result
        rows = [asdict(r) for r in self.done.values()]
        with replace(self.path) as out:
            out.write(json.dumps({"key": self.key, "done": rows}).encode())

    def remove(self) -> None:
        """Deletes the journal, and what a killed process left while it wrote one."""
        self.path.unlink(missing_ok=True)
        for left in self.path.parent.glob(f"{escape(self.path.name)}.*.part"):
            left.unlink(missing_ok=True)


def _result(held: dict[str, Any]) -> Result:
    shape: Any = tuple(held["shape"])
    return Result(**{**held, "shape": shape})


def _run(job: Job, layout: FileLayout, out: IO[bytes], progress: Progress | None) -> Result:
    pieces = layout.of(job.name)
    size = sum(p.size for p in pieces.values())
    bits = 8 * size / max(1, job.count)
    after = job.target.name if job.target else job.before
    sums = Sums()
    if job.target is None:
        for plane, piece in pieces.items():
            out.seek(piece.offset)
            out.write(np.ascontiguousarray(job.copy(plane)).tobytes())
    else:
        weight = job.weight()
        for low, want, planes, got in _chunks(job, weight, job.target):
            _write(out, pieces, job.store(planes, want.shape), low, weight.rows)
            sums.add(want, got)
            if progress:
                progress(job.name, want.size)
    if progress and job.target is None:
        progress(job.name, job.count)
    return Result(job.name, job.shape, job.before, after, bits, sums.relative, sums.worst, job.note)


def _write(
    out: IO[bytes], pieces: dict[str, Piece], stored: dict[str, Array], low: int, rows: int
) -> None:
    for plane, held in stored.items():
        piece = pieces[plane]
        at = low * (piece.size // rows) if piece.size % rows == 0 and low else 0
        out.seek(piece.offset + at)
        out.write(np.ascontiguousarray(held).tobytes())


def _chunks(
    job: Job, weight: QTensor, target: Format
) -> Iterator[tuple[int, Array, QTensor, Array]]:
    """Row ranges of a tensor: first row, source weights, converted rows, their weights."""
    lossless = lossless_form(weight, target)
    if lossless is not None:
        want = weight.decode().reshape(weight.rows, weight.cols)
        yield 0, want, lossless, want
        return
    whole = target.outer is not Outer.NONE or target.scale_rows != 1 or target.body == "ct_asym"
    step = weight.rows if whole else max(1, ROWS_AT_ONCE // max(1, weight.cols))
    for low in range(0, weight.rows, step):
        want = weight.decode_rows(low, min(weight.rows, low + step))
        refuse_non_finite(job, want, low)
        with job.named():
            made = QTensor(target, encode(target, want), want.shape)
        yield low, want, made, made.decode()


def lossless_form(weight: QTensor, target: Format) -> QTensor | None:
    """The weight in the target format without loss, or None where there is no such way."""
    try:
        if (weight.fmt.name, target.name) in EDGES or plane_form(weight.fmt) == target.name:
            return repack(weight, target.name)
    except KernelError:
        return None
    return None


def refuse_non_finite(job: Job, want: Array, low: int) -> None:
    """E0804 that names file, tensor and byte offset of the first weight that is NaN or infinite."""
    bad = ~np.isfinite(want)
    if bad.any():
        n, k = (int(i) for i in np.argwhere(bad)[0])
        message = f"the weight [{low + n}, {k}] is {want[n, k]}"
        raise error("E0804", job.where(low + n, k) + message)
