"""Tensor maps of a launch: what is encoded, once, and what is too uneven for that."""

import ctypes

import numpy as np
import pytest

from iron.compiler import lower
from iron.runtime.drivers.cuda import CudaDriver
from iron.runtime.drivers.cuda_api import Api
from iron.targets.nvidia import SM_90A
from tests.contract.fake_cuda import FakeCuda
from tests.unit.tiles import kernels


def arrays(m, n, k):
    return {"a": kernels.empty(m, k), "b": kernels.empty(n, k), "c": kernels.empty(m, n)}


@pytest.fixture(scope="module")
def product():
    return lower(kernels.tiles_of(kernels.product_nt, arrays(8, 8, 8)), SM_90A)


def launched(product, m, n, k):
    """The fake, and launches of one product of these sizes."""
    cu = FakeCuda()
    driver = CudaDriver(Api(cu))
    held = {name: driver.upload(np.asarray(a)) for name, a in arrays(m, n, k).items()}
    executable = driver.load(product)

    def bind():
        return executable.bind(held, {}, {"M": m, "N": n, "K": k}, product_grid(m, n))

    return cu, held, bind


def product_grid(m, n):
    return -(-m // 64), -(-n // 64)


def test_a_map_for_each_operand(product):
    cu, held, bind = launched(product, 130, 200, 72)
    bind()()
    (launch,) = cu.launches
    assert launch.threads == 256
    assert launch.grid == (3 * 4, 1)
    seen = [(m.made.kind, m.made.sizes, m.made.steps, m.made.box) for m in cu.maps]
    assert seen == [
        ("bf16", [72, 130], [144], [64, 64]),
        ("bf16", [72, 200], [144], [64, 64]),
        ("bf16", [200, 130], [400], [64, 64]),
    ]
    assert [m.made.address for m in cu.maps] == [held[n].seen.pointer for n in "abc"]


def test_the_launch_gets_the_bytes_of_the_maps(product):
    cu, _, bind = launched(product, 64, 64, 64)
    first = len(kernels.tiles_of(kernels.product_nt, arrays(8, 8, 8)).params) + 3  # after strides
    read = []
    cu.program = lambda launch: read.extend(
        launch.read(first + i, ctypes.c_ubyte) for i in range(3)
    )
    run = bind()
    for number, made in enumerate(cu.maps):
        made.bytes[0] = 17 + number
    run()
    assert read == [17, 18, 19]


def test_the_same_arguments_have_the_same_maps(product):
    cu, _, bind = launched(product, 64, 128, 64)
    bind()
    bind()
    assert cu.calls.count("cuTensorMapEncodeTiled") == 3


@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 71), (64, 70, 64)])
def test_uneven_rows_take_the_plain_kernel(product, m, n, k):
    cu, _, bind = launched(product, m, n, k)
    bind()()
    assert not cu.maps
    assert cu.launches[0].grid[0] == -(-m // 64) * -(-n // 64)


def test_one_row_and_no_depth(product):
    """An axis of one element has any stride; one of none is not read."""
    cu, _, bind = launched(product, 1, 8, 0)
    bind()()
    assert cu.maps[0].made.sizes == [1, 1]
