"""What a conversion will do: for each tensor of a file, its target format or that it is copied.

The plan holds the complete header of the output, so it is made before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from iron.errors import KernelError, error
from iron.quant import write_gguf, write_safetensors
from iron.quant.format import Encode, Format, by_name
from iron.quant.layout import FileLayout
from iron.quant.read_gguf import GgufFile, read_gguf
from iron.quant.read_safetensors import Checkpoint, read_safetensors
from iron.quant.tensor import QTensor

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]

# general.file_type of a file whose weights are mostly of one format
FILE_TYPES: Final = MappingProxyType(
    {
        "f32": 0, "f16": 1, "gguf_q4_0": 2, "gguf_q4_1": 3, "gguf_q8_0": 7, "gguf_q5_0": 8,
        "gguf_q5_1": 9, "gguf_q2_k": 10, "gguf_q3_k": 11, "gguf_q4_k": 14, "gguf_q5_k": 16,
        "gguf_q6_k": 18, "gguf_iq4_nl": 25, "gguf_iq4_xs": 30, "bf16": 32, "gguf_tq1_0": 36,
        "gguf_tq2_0": 37, "gguf_mxfp4": 38,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Tensor:
    """One tensor of a source: a weight or plain data, and where its bytes stand.

    `parts` are the arrays of the file: name in the file, dtype name, shape, array.
    """

    name: str
    shape: Shape
    before: str
    matrix: bool
    weight: Callable[[], QTensor]
    parts: Callable[[], list[tuple[str, str, Shape, Array]]]
    path: Path
    offset: int
    size: int


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One tensor of the output: `target` None means that its bytes are copied."""

    tensor: Tensor
    target: Format | None
    note: str
    store: Callable[[QTensor, Shape], dict[str, Array]]
    copied: Mapping[str, Callable[[], Array]]

    @property
    def name(self) -> str:
        """The tensor's name."""
        return self.tensor.name

    @property
    def shape(self) -> Shape:
        """The tensor's shape."""
        return self.tensor.shape

    @property
    def before(self) -> str:
        """The format in the source."""
        return self.tensor.before

    @property
    def count(self) -> int:
        """Elements of the tensor."""
        return math.prod(self.tensor.shape)

    def weight(self) -> QTensor:
        """The source's weights."""
        return self.tensor.weight()

    def copy(self, plane: str) -> Array:
        """The bytes to copy to a piece of the output."""
        return self.copied[plane]()

    def where(self, n: int, k: int) -> str:
        """`file: tensor name, byte offset: ` of a weight, for messages."""
        rows, cols = math.prod(self.tensor.shape[:-1]), self.tensor.shape[-1]
        at = (n * cols + k) * self.tensor.size // max(1, rows * cols)
        return f"{self.tensor.path}: tensor {self.name}, byte {self.tensor.offset + at}: "

    @contextmanager
    def named(self) -> Generator[None]:
        """Errors of encoding inside the block name file, tensor and byte offset."""
        try:
            yield
        except KernelError as problem:
            raise error("E0804", self.where(0, 0) + problem.diagnostic.message) from None


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """The jobs in file order, the layout of the output, and what identifies source and request."""

    jobs: tuple[Job, ...]
    layout: FileLayout
    identity: tuple[Any, ...]

    @property
    def count(self) -> int:
        """Elements of all tensors."""
        return sum(job.count for job in self.jobs)


def make_plan(source: Path, out: Path, fmt: Format | str, only: Sequence[str] = ("*",)) -> Plan:
    """What converting the matrices whose names match `only` will do; others are copied.

    The kind of the output follows from its suffix, `.gguf` or `.safetensors`. Raises E0801 for a
    bad source, E0803 for an unknown format, suffix or a pattern that matches nothing, and E0804
    for a format that is not encoded or that the output cannot hold.
    """
    fmt = by_name(fmt) if isinstance(fmt, str) else fmt
    if fmt.encode is Encode.DECODE_ONLY:
        raise error("E0804", f"{fmt} is not encoded: {fmt.reason}")
    opened = open_file(source)
    tensors = gguf_tensors(opened) if isinstance(opened, GgufFile) else whole_tensors(opened, only)
    wanted = [t for t in tensors if t.matrix and any(fnmatchcase(t.name, g) for g in only)]
    if not wanted:
        raise error("E0803", f"{source}: no matrix is called {' or '.join(only)}")
    chosen = {t.name: _fits(t, fmt, out.suffix == ".safetensors") for t in wanted}
    if all(note for note in chosen.values()):
        raise error("E0804", f"{source}: no tensor can be {fmt}: {next(iter(chosen.values()))}")
    files = sorted({t.path for t in tensors})
    identity = (tuple(_stamp(file) for file in files), fmt.name, tuple(only))
    if out.suffix == ".gguf":
        return _to_gguf(opened, tensors, fmt, chosen, identity)
    if out.suffix == ".safetensors":
        return _to_safetensors(opened, tensors, fmt, chosen, identity)
    raise error("E0803", f"{out}: the output is a .gguf or a .safetensors file")


def open_file(path: Path) -> GgufFile | Checkpoint:
    """A GGUF file or a checkpoint, told by suffix; E0803 for another suffix."""
    if path.suffix == ".gguf":
        return read_gguf(path)
    if path.is_dir() or path.suffix in (".safetensors", ".json"):
        return read_safetensors(path)
    raise error("E0803", f"{path}: a .gguf file, a .safetensors file or a checkpoint folder")


def _stamp(path: Path) -> tuple[str, int, int]:
    held = path.stat()
    return str(path.resolve()), held.st_size, held.st_mtime_ns


def _fits(tensor: Tensor, fmt: Format, named: bool) -> str:
    """Why a matrix stays as it is; empty when it is converted."""
    k = tensor.shape[-1]
    if named and fmt.body != "dense" and not tensor.name.endswith(".weight"):
        return "kept: its name does not end in .weight"
    if k % fmt.multiple:
        return f"kept: K = {k} is not a multiple of {fmt.multiple}"
    return ""


def gguf_tensors(file: GgufFile) -> list[Tensor]:
    """The tensors of a GGUF file, in file order."""
    return [
        Tensor(
            e.name, e.shape, e.fmt.name if e.fmt else f"type {e.type_id}",
            e.fmt is not None and len(e.shape) > 1,
            lambda name=e.name: file.weight(name),
            lambda e=e: [(e.name, str(e.type_id), e.shape,
                          file.source.bytes(e.offset, e.size, e.name))],
            file.source.path, e.offset, e.size,
        )
        for e in file.entries.values()
    ]  # fmt: skip


def whole_tensors(file: Checkpoint, only: Sequence[str]) -> list[Tensor]:
    """The tensors of a checkpoint; E0801 when a packed weight that `only` names lacks a part."""
    for name, problem in file.orphans().items():
        if any(fnmatchcase(name, g) for g in only):
            raise problem
    return file_tensors(file)


def file_tensors(file: Checkpoint) -> list[Tensor]:
    """The weights and other tensors of a checkpoint: weights by logical name, first part first."""
    out: list[Tensor] = []
    owner = {n: logical for logical, (_, p) in file.stems.items() for n in p.names()}
    for name, entry in file.entries.items():
        logical = owner.get(name)
        if logical is None:
            out.append(plain_tensor(file, name))
        elif name == file.stems[logical][1].names()[0]:
            weight = file.weight(logical)
            parts = file.stems[logical][1].names()
            out.append(
                Tensor(
                    logical, weight.shape, weight.fmt.name, True,
                    lambda logical=logical: file.weight(logical),
                    lambda parts=parts: [_part(file, n) for n in parts],
                    entry.source.path, entry.offset, entry.size,
                )
            )  # fmt: skip
    return out


def _part(file: Checkpoint, name: str) -> tuple[str, str, Shape, Array]:
    entry = file.entries[name]
    return name, entry.dtype, entry.shape, entry.array()


def plain_tensor(file: Checkpoint, name: str) -> Tensor:
    """A tensor that belongs to no weight."""
    entry = file.entries[name]
    return Tensor(
        name, entry.shape, entry.dtype, False, lambda: file.weight(name),
        lambda: [_part(file, name)], entry.source.path, entry.offset, entry.size,
    )  # fmt: skip


# --- the two kinds of output ----------------------------------------------------------------------

DTYPE_TYPES: Final = MappingProxyType(
    {"F32": 0, "F16": 1, "BF16": 30, "I8": 24, "I16": 25, "I32": 26, "I64": 27, "F64": 28}
)
TYPE_DTYPES: Final = MappingProxyType({str(v): k for k, v in DTYPE_TYPES.items()})


def _to_gguf(
    opened: GgufFile | Checkpoint,
    tensors: list[Tensor],
    fmt: Format,
    chosen: Mapping[str, str],
    identity: tuple[Any, ...],
) -> Plan:
    kind = write_gguf.type_id(fmt)
    jobs: list[Job] = []
    records: list[tuple[str, Shape, int, int]] = []
    for tensor in tensors:
        target = fmt if chosen.get(tensor.name) == "" and tensor.before != fmt.name else None
        if target is None:
            number, size = _gguf_type(tensor)
            records.append((tensor.name, tensor.shape, number, size))
        else:
            rows = math.prod(tensor.shape[:-1])
            size = fmt.planes[0].bits(rows, tensor.shape[-1]) // 8
            records.append((tensor.name, tensor.shape, kind, size))
        copied = {"": lambda t=tensor: t.parts()[0][3]}
        jobs.append(Job(tensor, target, chosen.get(tensor.name, ""), _only_plane, copied))
    entries, alignment = _gguf_metadata(opened, jobs)
    layout = write_gguf.layout(entries, records, alignment)
    return Plan(tuple(jobs), layout, identity)


def _only_plane(weight: QTensor, shape: Shape) -> dict[str, Array]:
    (plane,) = weight.planes.values()
    return {"": plane}


def _gguf_type(tensor: Tensor) -> tuple[int, int]:
    """Type id and bytes of a tensor that is copied into a GGUF file."""
    parts = tensor.parts()
    dtype = parts[0][1]
    number = int(dtype) if dtype.isdigit() else DTYPE_TYPES.get(dtype)
    if len(parts) != 1 or number is None:
        raise error(
            "E0804",
            f"{tensor.path}: tensor {tensor.name}, byte {tensor.offset}: GGUF cannot hold it as "
            f"it is ({tensor.before})",
            help="convert it too, with a wider --only",
        )
    return number, tensor.size


def _most(jobs: Sequence[Job]) -> str:
    """The format that most weights of the output have."""
    counts: dict[str, int] = {}
    for job in jobs:
        after = job.target.name if job.target else job.before
        counts[after] = counts.get(after, 0) + job.count * job.tensor.matrix
    return max(counts, key=lambda name: counts[name])


def _gguf_metadata(opened: GgufFile | Checkpoint, jobs: Sequence[Job]) -> tuple[list[bytes], int]:
    """Metadata entries: those of a GGUF source byte for byte, but for the type of the file."""
    if isinstance(opened, Checkpoint):
        held = (("general.architecture", "unknown"), ("general.quantization_version", 2))
        return [write_gguf.metadata_entry(k, v) for k, v in held], write_gguf.ALIGNMENT
    data = opened.source.data
    entries = {k: data[low:high].tobytes() for k, (low, high) in opened.spans.items()}
    key, most = "general.file_type", _most(jobs)
    if most in FILE_TYPES and key in entries:
        entries[key] = write_gguf.metadata_entry(key, FILE_TYPES[most])
    key = "general.quantization_version"
    if key not in entries and any(job.target and job.target.block_bytes for job in jobs):
        entries[key] = write_gguf.metadata_entry(key, 2)
    return list(entries.values()), opened.alignment


def _to_safetensors(
    opened: GgufFile | Checkpoint,
    tensors: list[Tensor],
    fmt: Format,
    chosen: Mapping[str, str],
    identity: tuple[Any, ...],
) -> Plan:
    jobs: list[Job] = []
    records: list[tuple[str, str, str, str, Shape]] = []
    config: dict[str, Any] = dict(opened.config) if isinstance(opened, Checkpoint) else {}
    for tensor in tensors:
        if chosen.get(tensor.name) == "" and tensor.before != fmt.name:
            stem = write_safetensors.stem_of(tensor.name, fmt)
            for suffix, (dtype, shape) in _shapes(fmt, tensor.shape).items():
                records.append((tensor.name, suffix, stem + suffix, dtype, shape))
            if write_safetensors.settings(fmt):
                config[stem] = write_safetensors.settings(fmt)
            store = _storer(tensor.shape)
            jobs.append(Job(tensor, fmt, "", store, {}))
        else:
            copied: dict[str, Callable[[], Array]] = {}
            for name, dtype, shape, _ in tensor.parts():
                named = TYPE_DTYPES.get(dtype, dtype)
                if named.isdigit():
                    raise error(
                        "E0804",
                        f"{tensor.path}: tensor {tensor.name}, byte {tensor.offset}: safetensors "
                        f"cannot hold it as it is ({tensor.before})",
                        help="convert it too, with a wider --only or a format that divides K",
                    )
                records.append((tensor.name, name, name, named, shape))
                copied[name] = lambda t=tensor, n=name: next(p[3] for p in t.parts() if p[0] == n)
            note = chosen.get(tensor.name, "")
            jobs.append(Job(tensor, None, note, lambda w, s: {}, copied))
    layout = write_safetensors.layout(records, _file_metadata(opened, config))
    return Plan(tuple(jobs), layout, identity)


def _shapes(fmt: Format, shape: Shape) -> dict[str, tuple[str, Shape]]:
    """Dtype and shape of each array of a converted tensor, from planes of zeros without memory."""
    rows = math.prod(shape[:-1])
    made = {
        p.name: np.broadcast_to(np.zeros((), p.dtypes[0].np), p.shape(rows, shape[-1]))
        for p in fmt.planes
    }
    held = write_safetensors.planes(QTensor(fmt, made, shape))
    return {suffix: (dtype, size) for suffix, (dtype, size, _) in held.items()}


def _storer(shape: Shape) -> Callable[[QTensor, Shape], dict[str, Array]]:
    """Arrays by suffix of a range of rows; the stored shape is that of the whole tensor."""

    def store(weight: QTensor, part: Shape) -> dict[str, Array]:
        held = {s: array for s, (_, _, array) in write_safetensors.planes(weight).items()}
        if ".weight_shape" in held:
            held[".weight_shape"] = np.array([math.prod(shape[:-1]), shape[-1]], np.int64)
        return held

    return store


def _file_metadata(opened: GgufFile | Checkpoint, config: dict[str, Any]) -> dict[str, Any]:
    if isinstance(opened, Checkpoint):
        held: dict[str, Any] = dict(opened.metadata)
    else:
        plain = (str, int, float)
        held = {k: v for k, v in opened.metadata.items() if isinstance(v, plain)}
    config.pop("source", None)
    return held | ({"quantization_config": config} if config else {})
