"""Run by a test in a process whose library path has a stub of AMD's runtime: the HIP driver on the
real hip-python, end to end. Prints what the driver gave and got."""

import ctypes
import sys

import numpy as np

from iron.runtime.drivers.hip import HipDriver
from iron.runtime.drivers.hip_api import Api, bindings
from tests.contract.test_driver_hip import scaled


def architecture_at(binding) -> int:
    """The offset of `gcnArchName` in hipDeviceProp_t, by looking where a letter turns up."""
    held = binding.hipDeviceProp_t()
    for at in range(4096):
        ctypes.memset(int(held), 0, 1472)
        ctypes.memset(int(held) + at, ord("Z"), 1)
        if held.gcnArchName == "Z":
            return at
    raise AssertionError("no gcnArchName")


def main(stub: str) -> None:
    binding = bindings()
    runtime = ctypes.CDLL(stub)
    ctypes.c_int.in_dll(runtime, "architecture_at").value = architecture_at(binding)
    driver = HipDriver(Api(binding))
    x = driver.upload(np.arange(128, dtype=np.float32))
    y = driver.empty((128,), x.dtype)
    run = driver.load(scaled()).bind({"x": x, "y": y}, {"by": 3.0}, {}, (2,))
    run()
    assert (driver.download(y) == 3 * np.arange(128)).all()
    assert all(0 <= t < 1 for t in driver.elapsed([run, run]))
    print(driver.target().name, driver.facts()["gpu"], driver.facts()["runtime"])


if __name__ == "__main__":
    main(sys.argv[1])
