"""The C host, compiled: the CPU objects give through it what the Python road gives, bit for bit.

It is made of the manifest alone, so this also shows that the manifest says all there is to say.
"""

import ctypes
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from iron.check.cases import runner
from iron.check.expand import ConcreteCase, expand
from iron.check.interpret import Interpreted, read_call
from iron.check.prepare import Prepared, prepare
from iron.check.specialisations import specialise
from iron.emit.build import build
from iron.emit.directory import write
from iron.emit.documents import documents
from iron.emit.manifest import Specialised, document, schema
from iron.emit.targets import destination
from iron.worker import discover

STRICT = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O1"]
CPU = destination("cpu")

# Parts of labels: a choice, packed planes, gaps between elements, scalars, several outputs.
SAMPLE = {
    "softmax": ("f32", "R=3", "MASK=True"),
    "rms_norm": ("f16", "VEC=4", "N=4"),
    "layer_norm": ("bf16", "VEC=1", "AFFINE=2"),
    "copy": ("u8", "FORM=transposed"),
    "binary": ("f32", "SHAPE=same"),
    "qmv": ("q8_0",),
    "kv_append": ("f32,f32", "RING=True"),
    "arg_reduce": ("f16", "OP=max"),
    "scan_rows": ("u32", "N=65"),
    "rope": ("bf16", "FAR=1048576"),
    "dequant_gather": ("q4_0",),
    "categorical_sample": ("f32",),
}


class Tensor(ctypes.Structure):
    """`iron_tensor`."""

    _fields_ = (("data", ctypes.c_void_p), ("strides", ctypes.POINTER(ctypes.c_int64)))


def numbers(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for p in entry["parameters"] if p["role"] != "tensor"]


@dataclass(frozen=True, slots=True)
class Host:
    """The compiled host and the manifest it was made of."""

    library: ctypes.CDLL
    manifest: dict[str, Any]

    def entry(self, of: Specialised) -> dict[str, Any]:
        return next(k for k in self.manifest["kernels"] if k["symbol"] == of.symbol)

    def plan(self, name: str, entry: dict[str, Any], arrays: Any, values: Any) -> tuple[int, Any]:
        """The status of `name`, and the block that it filled."""
        block = (ctypes.c_uint64 * 64)()
        held = [self.tensor(arrays[p["name"]]) for p in entry["parameters"] if "rank" in p]
        given = [number(values[p["name"]], p["dtype"]) for p in numbers(entry)]
        return getattr(self.library, f"{name}_cpu")(block, *held, *given), block

    @staticmethod
    def tensor(array: Any) -> Tensor:
        if array is None:
            return Tensor(None, None)
        steps = [s // array.itemsize for s in array.strides]
        strides = (ctypes.c_int64 * max(1, len(steps)))(*steps)
        return Tensor(array.__array_interface__["data"][0], strides)

    def message(self) -> str:
        self.library.iron_message.restype = ctypes.c_char_p
        return self.library.iron_message().decode()


def number(value: Any, dtype: str) -> Any:
    kinds = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64}
    return ctypes.c_float(value) if dtype == "f32" else kinds[dtype](int(value))


@dataclass(frozen=True, slots=True)
class Sampled:
    """A case, its arguments, and what a call of it runs."""

    case: ConcreteCase
    of: Specialised

    def again(self) -> tuple[Prepared, Interpreted]:
        """The case's arguments afresh, and the arrays, scalars and dims of the call."""
        made = prepare(self.case)
        given = {**made.arguments, **self.of.binding.consts}
        return made, read_call(self.case.kernel, given, CPU.target.simd)

    def read(self) -> Interpreted:
        """The arrays, scalars and dims of a call."""
        return self.again()[1]


def sampled() -> dict[str, Sampled]:
    found: dict[str, Sampled] = {}
    for module in discover.modules(("iron.kernels",)):
        for name, kernel in discover.kernels(module).items():
            parts = SAMPLE.get(name)
            if parts is None:
                continue
            fitting = (c for c in expand(kernel) if all(part in c.label for part in parts))
            made = ((c, specialise(c, prepare(c), CPU.target)) for c in fitting)
            # The first that a choice of the CPU serves.
            case, of = next((c, of) for c, of in made if of is not None)
            found[name] = Sampled(case, of)
    return found


@pytest.fixture(scope="module")
def samples() -> dict[str, Sampled]:
    return sampled()


@pytest.fixture(scope="module")
def host(samples: dict[str, Sampled], tmp_path_factory: pytest.TempPathFactory) -> Host:
    folder = tmp_path_factory.mktemp("artefacts")
    # rms_norm with its other choice too, so that there is something to choose from.
    rms = samples["rms_norm"]
    label = rms.case.label.replace("VEC=4", "VEC=1")
    other = next(c for c in expand(rms.case.kernel) if c.label == label)
    again = specialise(other, prepare(other), CPU.target)
    assert again is not None
    return compiled([*(s.of for s in samples.values()), again], folder)


def compiled(kernels: list[Specialised], folder: Path, wrong: str = "") -> Host:
    """The host of some kernels; `wrong` stands in place of every group count."""
    made = [build(of, CPU, ("llvm",)) for of in kernels]
    manifest = json.loads(json.dumps(document(b.record for b in made)))
    jsonschema.validate(manifest, schema())
    for kernel in manifest["kernels"] if wrong else ():
        kernel["launch"]["groups"] = [{"text": wrong, "tree": {"constant": 1, "type": "i32"}}]
    for path, text in documents(manifest, ("c",)).items():
        write(folder, path, text.encode())
    for path, data in (pair for b in made for pair in b.files.items()):
        write(folder, path, data)
    library = folder / "kernels.so"
    objects = sorted(folder.glob("cpu/*.o"))
    command = ["cc", *STRICT, "-shared", "-fPIC", folder / "c/iron_kernels.c", *objects]
    subprocess.run([*command, "-lm", "-o", library], check=True)
    return Host(ctypes.CDLL(str(library)), manifest)


@pytest.mark.parametrize("name", SAMPLE)
def test_it_gives_what_python_gives(host: Host, samples: dict[str, Sampled], name: str):
    assert differing(host, samples[name]) == []


def differing(host: Host, sample: Sampled) -> list[str]:
    """The outputs that the host and the Python road give differently."""
    mine, call = sample.again()
    entry = host.entry(sample.of)
    values = {**call.scalars, **call.binding.dims}
    status, block = host.plan(entry["alias"], entry, call.arrays, values)
    assert status == 0, host.message()
    host.library.iron_run(block)
    want = prepare(sample.case)
    runner("cpu")(sample.case.kernel, want.arguments)
    return [
        name
        for name, output in mine.outputs.items()
        if output.held.array.tobytes() != want.outputs[name].held.array.tobytes()
    ]


def test_a_missing_group_is_seen(samples: dict[str, Sampled], tmp_path: Path):
    softmax = samples["softmax"]
    assert differing(compiled([softmax.of], tmp_path, wrong="1"), softmax) == ["y"]


def test_halves_on_two_threads_are_a_whole(host: Host, samples: dict[str, Sampled]):
    sample = samples["softmax"]
    call = sample.read()
    entry = host.entry(sample.of)
    out = call.arrays["y"]
    status, block = host.plan(
        entry["alias"], entry, call.arrays, {**call.scalars, **call.binding.dims}
    )
    assert status == 0
    host.library.iron_run(block)
    whole = out.copy()
    out[...] = np.nan
    groups = block[1]
    run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(block[0])
    address = ctypes.addressof(block) + 16
    for first, end in ((1, groups), (0, 1)):
        run(address, first, end)
    assert np.array_equal(out, whole, equal_nan=True)


def refusals(sample: Sampled) -> list[tuple[str, dict[str, Any], dict[str, Any], int]]:
    """Message, changed arrays, changed numbers and status."""
    x = np.zeros((3, 12), np.float16)
    return [
        ("the row length N must be a multiple of VEC (N % 4 == 0)", {}, {"N": 6}, 1),
        ("dim R is negative", {}, {"R": -1}, 2),
        ("`x` has no data", {"x": None}, {}, 2),
        ("`x` is not contiguous along its last axis", {"x": x[:, ::3]}, {"R": 3}, 2),
    ]


@pytest.mark.parametrize("number", range(4))
def test_a_violated_precondition_is_a_status_with_a_message(
    host: Host, samples: dict[str, Sampled], number: int
):
    sample = samples["rms_norm"]
    call = sample.read()
    entry = host.entry(sample.of)
    message, arrays, values, expected = refusals(sample)[number]
    given = {**call.scalars, **call.binding.dims, **values}
    status, block = host.plan(entry["alias"], entry, {**call.arrays, **arrays}, given)
    assert status == expected
    assert host.message() == f"rms_norm: {message}"
    assert block[0] == block[1] == 0  # nothing to run


def test_a_choice_takes_the_first_whose_requirements_hold(host: Host, samples: dict[str, Sampled]):
    sample = samples["rms_norm"]
    call = sample.read()
    entry = host.entry(sample.of)
    dims = {**call.scalars, **call.binding.dims}
    taken = {}
    for name in (entry["choice_of"], "iron_rms_norm_f16_vec1_with_w", entry["alias"]):
        status, block = host.plan(name, entry, call.arrays, dims)
        assert status == 0
        taken[name] = block[0]
    # A CPU prefers VEC=1.
    assert len(set(taken.values())) == 2
    assert taken[entry["choice_of"]] == taken["iron_rms_norm_f16_vec1_with_w"]


def test_empty_work_runs_nothing(host: Host, samples: dict[str, Sampled]):
    sample = samples["softmax"]
    call = sample.read()
    arrays = dict.fromkeys(call.arrays)
    status, block = host.plan(
        host.entry(sample.of)["alias"],
        host.entry(sample.of),
        arrays,
        {**call.scalars, **call.binding.dims, "R": 0},
    )
    assert status == 0
    host.library.iron_run(block)
