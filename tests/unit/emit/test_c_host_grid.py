"""The C host's launches of grid kernels, against headers that record what the driver would get."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iron.check.expand import expand
from iron.check.interpret import read_call
from iron.check.prepare import prepare
from iron.check.specialisations import specialise
from iron.emit.build import build
from iron.emit.directory import write
from iron.emit.documents import documents
from iron.emit.manifest import document
from iron.emit.targets import destination
from iron.ir.host import evaluate
from iron.worker import discover

HEADERS = {
    "cuda": (
        "cuda.h",
        """#include <stddef.h>
typedef void *CUfunction;
typedef void *CUstream;
typedef int CUresult;
enum { CUDA_SUCCESS = 0 };
CUresult cuLaunchKernel(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                        unsigned, CUstream, void **, void **);
CUresult cuGetErrorString(CUresult, const char **);
""",
    ),
    "hip": (
        "hip/hip_runtime_api.h",
        """#include <stddef.h>
typedef void *hipFunction_t;
typedef void *hipStream_t;
typedef int hipError_t;
enum { hipSuccess = 0 };
hipError_t hipModuleLaunchKernel(hipFunction_t, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, unsigned, hipStream_t, void **, void **);
const char *hipGetErrorString(hipError_t);
""",
    ),
}
DRIVER = """
#include <string.h>
long long groups, threads, fails;
void *function, *on;
int count, sizes[64];
unsigned char taken[64][8];

int LAUNCH(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
           unsigned shared, void *stream, void **arguments, void **extra) {
  if (gy != 1 || gz != 1 || by != 1 || bz != 1 || shared != 0 || extra) return 1;
  function = f; on = stream; groups = gx; threads = bx;
  for (int i = 0; i < count; ++i) memcpy(taken[i], arguments[i], sizes[i]);
  return (int)fails;
}
int cuGetErrorString(int code, const char **text) { (void)code; *text = "it is asleep"; return 0; }
const char *hipGetErrorString(int code) { (void)code; return "it is asleep"; }
"""
LAUNCH = {"cuda": "cuLaunchKernel", "hip": "hipModuleLaunchKernel"}


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


@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx1100", "hip:gfx942"])
def test_the_driver_gets_the_launch_that_the_manifest_describes(target: str, tmp_path: Path):
    family = target.split(":")[0]
    of, call, entry = sampled(target)
    library = compiled(entry, family, tmp_path)
    arguments = entry["targets"][0]["arguments"]
    values = {**call.scalars, **call.binding.dims}
    want = [expected(a, call, of, values) for a in arguments]
    ctypes.c_int.in_dll(library, "count").value = len(want)
    sizes = (ctypes.c_int * 64).in_dll(library, "sizes")
    for at, raw in enumerate(want):
        sizes[at] = len(raw)
    run = getattr(library, function(entry, family))
    tensors = [Tensor(call.arrays[p["name"]].ctypes.data, None) for p in tensors_of(entry)]
    numbers = [values[p["name"]] for p in entry["parameters"] if p["role"] != "tensor"]
    given = [ctypes.c_void_p(7), ctypes.c_void_p(9), *tensors, *numbers]
    assert run(*given) == 0
    taken = (ctypes.c_ubyte * 8 * 64).in_dll(library, "taken")
    assert [bytes(taken[i])[: len(raw)] for i, raw in enumerate(want)] == want
    extents = np.prod([int(n) for n in call_extents(call)])
    told = {n: ctypes.c_longlong.in_dll(library, n).value for n in ("groups", "threads")}
    assert told == {"groups": extents, "threads": entry["launch"]["threads"]}
    assert ctypes.c_void_p.in_dll(library, "function").value == 7
    assert ctypes.c_void_p.in_dll(library, "on").value == 9
    ctypes.c_longlong.in_dll(library, "fails").value = 5
    assert run(*given) == 3
    library.iron_message.restype = ctypes.c_char_p
    assert library.iron_message() == b"scan_rows: it is asleep"


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
    command += [f"-DIRON_{family.upper()}", f"-DLAUNCH={LAUNCH[family]}", "-shared", "-fPIC"]
    sources = [folder / "c" / "iron_kernels.c", folder / "driver.c"]
    subprocess.run([*command, *sources, "-o", folder / "host.so"], check=True)
    return ctypes.CDLL(str(folder / "host.so"))
