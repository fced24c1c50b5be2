"""The C host's launches of grid kernels, against headers that record what the driver would get."""

import ctypes
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iron.check.expand import expand
from iron.check.interpret import read_call
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.dtypes import f32
from iron.emit.build import build
from iron.emit.directory import write
from iron.emit.documents import documents
from iron.emit.expression import evaluate as evaluate_node
from iron.emit.manifest import Specialised, document
from iron.emit.targets import destination
from iron.front.bind import TensorArg, bind
from iron.front.specialise import traced
from iron.ir.host import evaluate
from iron.lang import In, Out, dims, each, kernel, strided
from iron.worker import discover
from tests.unit.backends.large import BYTES, LENGTH, backwards, large

HEADERS = {
    "cuda": (
        "cuda.h",
        """#include <stddef.h>
typedef void *CUmodule;
typedef void *CUfunction;
typedef void *CUstream;
typedef int CUresult;
typedef int CUfunction_attribute;
enum { CUDA_SUCCESS = 0, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
CUresult cuModuleGetFunction(CUfunction *, CUmodule, const char *);
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int);
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
CUresult cuGetErrorString(CUresult, const char **);
""",
    ),
    "hip": (
        "hip/hip_runtime_api.h",
        """#include <stddef.h>
typedef void *hipModule_t;
typedef void *hipFunction_t;
typedef void *hipStream_t;
typedef int hipError_t;
enum { hipSuccess = 0 };
hipError_t hipModuleGetFunction(hipFunction_t *, hipModule_t, const char *);
hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, hipStream_t, void **, void **);
const char *hipGetErrorString(hipError_t);
""",
    ),
}
DRIVER = """
#include <string.h>
long long groups, threads, fails, bytes, loads, asked;
void *function, *on;
int count, sizes[64];
unsigned char taken[64][8];
char entries[4][128];

int LOAD(void **f, void *module, const char *name) {
  if (module != (void *)5) return 1;
  strcpy(entries[loads], name);
  *f = (void *)(7 + loads++);
  return 0;
}
int cuFuncSetAttribute(void *f, int which, int value) {
  if (which != 8) return 1;
  asked = (long long)f * 1000000 + value;
  return 0;
}

int LAUNCH(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
           unsigned shared, void *stream, void **arguments, void **extra) {
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || extra) return 1;
  function = f; on = stream; groups = gx; threads = bx; bytes = shared;
  for (int i = 0; i < count; ++i) memcpy(taken[i], arguments[i], sizes[i]);
  return (int)fails;
}
int cuGetErrorString(int code, const char **text) { (void)code; *text = "it is asleep"; return 0; }
const char *hipGetErrorString(int code) { (void)code; return "it is asleep"; }
"""
LAUNCH = {"cuda": "cuLaunchKernel", "hip": "hipModuleLaunchKernel"}
LOAD = {"cuda": "cuModuleGetFunction", "hip": "hipModuleGetFunction"}


class Tensor(ctypes.Structure):
    """`iron_tensor`."""

    _fields_ = (("data", ctypes.c_void_p), ("strides", ctypes.c_void_p))


def sampled(target: str) -> tuple[Any, Any, dict[str, Any]]:
    """A kernel with two launch axes, its call, and the manifest's entry."""
    kernel = discover.kernels("iron.kernels.ops.scan")["scan_rows"]
    to = destination(target)
    case = next(c for c in expand(kernel) if "R=3" in c.label and "ITEMS=1" in c.label)
    of = specialise(case, prepare(case), to.target)
    assert of is not None
    given = {**prepare(case).arguments, **of.binding.consts}
    return of, read_call(kernel, given, to.target.simd), build(of, to, ()).record


TARGETS = ["cuda:sm_90a", "hip:gfx1100", "hip:gfx942"]


@dataclass(frozen=True, slots=True)
class Launcher:
    """The compiled host of one kernel and family, with a driver that writes down what it gets."""

    entry: dict[str, Any]
    family: str
    library: ctypes.CDLL
    forms: Any

    def told(self, name: str) -> int:
        return ctypes.c_longlong.in_dll(self.library, name).value

    def say(self, name: str, value: int) -> None:
        ctypes.c_longlong.in_dll(self.library, name).value = value

    def run(self, places: list[Tensor], values: dict[str, Any], want: list[bytes]) -> int:
        """The status of a launch of which the driver takes arguments like those in `want`."""
        ctypes.c_int.in_dll(self.library, "count").value = len(want)
        sizes = (ctypes.c_int * 64).in_dll(self.library, "sizes")
        for at, raw in enumerate(want):
            sizes[at] = len(raw)
        self.say("groups", -1)
        numbers = [p for p in self.entry["parameters"] if p["role"] != "tensor"]
        given = [typed(values[p["name"]], p["dtype"]) for p in numbers]
        call = getattr(self.library, function(self.entry, self.family))
        return call(self.forms, ctypes.c_void_p(9), *places, *given)

    def taken(self, want: list[bytes]) -> list[bytes]:
        found = (ctypes.c_ubyte * 8 * 64).in_dll(self.library, "taken")
        return [bytes(found[i])[: len(raw)] for i, raw in enumerate(want)]

    def message(self) -> str:
        self.library.iron_message.restype = ctypes.c_char_p
        return self.library.iron_message().decode()


def typed(value: Any, dtype: str) -> Any:
    if dtype == "f32":
        return ctypes.c_float(value)
    return {"i32": ctypes.c_int32, "u32": ctypes.c_uint32}[dtype](int(value))


def launcher(entry: dict[str, Any], family: str, folder: Path) -> Launcher:
    """The host, its kernel loaded from a module."""
    library = compiled(entry, family, folder)
    forms = (ctypes.c_void_p * 4)()
    load = getattr(library, f"{function(entry, family)}_load")
    assert load(forms, ctypes.c_void_p(5)) == 0
    names = (ctypes.c_char * 128 * 4).in_dll(library, "entries")
    wanted = [entry["symbol"], *(f["entry"] for f in entry["targets"][0]["forms"])]
    assert [names[n].value.decode() for n in range(len(wanted))] == wanted
    assert list(forms)[: len(wanted)] == list(range(7, 7 + len(wanted)))
    return Launcher(entry, family, library, forms)


@pytest.mark.parametrize("target", TARGETS)
def test_the_driver_gets_the_launch_that_the_manifest_describes(target: str, tmp_path: Path):
    of, call, entry = sampled(target)
    host = launcher(entry, target.split(":")[0], tmp_path)
    values = {**call.scalars, **call.binding.dims}
    want = [expected(a, call, of, values) for a in entry["targets"][0]["arguments"]]
    places = [Tensor(call.arrays[p["name"]].ctypes.data, None) for p in tensors_of(entry)]
    assert host.run(places, values, want) == 0
    assert host.taken(want) == want
    extents = np.prod([int(n) for n in call_extents(call)])
    assert (host.told("groups"), host.told("threads")) == (extents, entry["launch"]["threads"])
    assert ctypes.c_void_p.in_dll(host.library, "function").value == 7
    assert ctypes.c_void_p.in_dll(host.library, "on").value == 9
    host.say("fails", 5)
    assert host.run(places, values, want) == 3
    assert host.message() == "scan_rows: it is asleep"


# --- forms ----------------------------------------------------------------------------------------

R, N = dims("R N")


@kernel
def moved(x: In[f32, R, N, strided], y: Out[f32, R, N]):
    """y = x, where x may have any strides."""
    i, r = each(N, R)
    y[r, i] = x[r, i]


PITCH = 32
LAUNCHES = [
    # byte offset of x, strides of x, columns; the form by what its entry ends with, and its groups
    (0, (PITCH, 1), 16, "neighbours", 1),
    (16, (PITCH, 1), 16, "neighbours", 1),
    (4, (PITCH, 1), 16, "unit", 1),
    (0, (PITCH + 1, 1), 16, "unit", 1),
    (0, (PITCH, 1), 15, "unit", 1),
    (0, (PITCH, 2), 16, "", 1),
    (0, (-PITCH, 1), 16, "neighbours", 1),
    (0, (PITCH, 1), 1024, "neighbours", 6),
    (0, (PITCH, 1), 1023, "unit", 12),
]


@pytest.fixture(scope="module")
def forms(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Launcher]:
    """A host with forms, for each target."""
    found = {}
    for target in TARGETS:
        to = destination(target)
        array = TensorArg(f32, (3, 16), (16, 1))
        binding = bind(moved, {"x": array, "y": array}, {})
        of = Specialised(moved, traced(moved, binding, to.target.simd).kernel, binding)
        entry = json.loads(json.dumps(build(of, to, ()).record))
        found[target] = launcher(entry, to.family.name, tmp_path_factory.mktemp("host"))
    return found


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("offset", "strides", "columns", "name", "groups"), LAUNCHES)
def test_a_launch_takes_the_best_form_whose_conditions_hold(
    forms: dict[str, Launcher],
    target: str,
    offset: int,
    strides: tuple[int, int],
    columns: int,
    name: str,
    groups: int,
):
    host, place = forms[target], 1 << 20
    steps = (ctypes.c_int64 * 2)(*strides)
    x = Tensor(place + offset, ctypes.cast(steps, ctypes.c_void_p))
    values = {"R": 3, "N": columns}
    listed = host.entry["targets"][0]
    known = {**values, "address(x)": place + offset, "address(y)": place}
    known |= {"stride(x, 0)": strides[0], "stride(x, 1)": strides[1], "stride(y, 0)": columns}
    form = next((f for f in listed["forms"] if true_of(f, known)), None)
    assert (form["entry"].rsplit("_", 1)[1] if form else "") == name
    form = form or {**listed, **host.entry["launch"]}
    want = [place_of(a, known) for a in form["arguments"]]
    assert host.run([x, Tensor(place, None)], values, want) == 0
    assert host.taken(want) == want
    assert host.told("groups") == groups == int(evaluate_node(form["groups"][0]["tree"], known))
    number = 7 + [*(f["entry"] for f in listed["forms"])].index(form["entry"]) + 1 if name else 7
    assert ctypes.c_void_p.in_dll(host.library, "function").value == number


def true_of(form: dict[str, Any], known: dict[str, int]) -> bool:
    return all(evaluate_node(c["tree"], known) for c in form["requires"])


def place_of(field: dict[str, Any], known: dict[str, int]) -> bytes:
    """The bytes of an argument of `moved`."""
    match field["kind"]:
        case "pointer":
            return known[f"address({field['name']})"].to_bytes(8, "little")
        case "stride":
            text = f"stride({field['name']}, {field['axis']})"
            return known[text].to_bytes(8, "little", signed=True)
        case _:
            return known[field["name"]].to_bytes(4, "little")


@pytest.mark.parametrize("target", TARGETS)
def test_a_launch_of_nothing_reaches_no_driver(forms: dict[str, Launcher], target: str):
    host = forms[target]
    assert host.run([Tensor(None, None), Tensor(None, None)], {"R": 3, "N": 0}, []) == 0
    assert host.told("groups") == -1


def test_group_memory_beyond_what_may_be_declared_is_asked_for(tmp_path: Path):
    """60000 bytes: the function gets the attribute once, each launch the bytes."""

    to = destination("cuda:sm_90a")
    array = TensorArg(f32, (2, LENGTH), (LENGTH, 1))
    of = Specialised(backwards, large(), bind(backwards, {"x": array, "y": array}, {}))
    entry = build(of, to, ()).record
    assert entry["targets"][0]["dynamic_bytes"] == entry["launch"]["shared_bytes"] == BYTES
    host = launcher(entry, "cuda", tmp_path)
    assert host.told("asked") == 7 * 1000000 + BYTES
    want = [(1 << 20).to_bytes(8, "little")] * 2
    assert host.run([Tensor(1 << 20, None)] * 2, {"R": 2}, want) == 0
    assert (host.told("bytes"), host.told("groups")) == (BYTES, 2)


def call_extents(call: Any) -> tuple[int, ...]:
    return evaluate(call.kernel, call.scalars, call.binding.dims)[0]


def tensors_of(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [p for p in entry["parameters"] if p["role"] == "tensor"]


def function(entry: dict[str, Any], family: str) -> str:
    simd = entry["launch"]["simd"]
    return f"{entry['alias']}_{family}" + ("" if simd == 32 else f"_simd{simd}")


def expected(field: dict[str, Any], call: Any, of: Any, values: dict[str, Any]) -> bytes:
    """The bytes of an argument, from the arrays themselves."""
    if field["kind"] == "pointer":
        return int(call.arrays[field["name"]].ctypes.data).to_bytes(8, "little")
    if field["kind"] == "stride":
        array = call.arrays[field["name"]]
        return (array.strides[field["axis"]] // array.itemsize).to_bytes(8, "little")
    if field["kind"] == "extent":
        return call_extents(call)[field["axis"]].to_bytes(8, "little")
    dtype = {"i32": np.int32, "u32": np.uint32, "f32": np.float32}[field["dtype"]]
    return dtype(values[field["name"]]).tobytes()


def compiled(entry: dict[str, Any], family: str, folder: Path) -> ctypes.CDLL:
    for path, text in documents(document([entry]), ("c",)).items():
        write(folder, path, text.encode())
    name, header = HEADERS[family]
    write(folder, name, header.encode())
    write(folder, "driver.c", DRIVER.encode())
    command = ["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{folder}"]
    command += [
        f"-DIRON_{family.upper()}",
        f"-DLAUNCH={LAUNCH[family]}",
        f"-DLOAD={LOAD[family]}",
        "-shared",
        "-fPIC",
    ]
    sources = [folder / "c" / "iron_kernels.c", folder / "driver.c"]
    subprocess.run([*command, *sources, "-o", folder / "host.so"], check=True)
    return ctypes.CDLL(str(folder / "host.so"))
