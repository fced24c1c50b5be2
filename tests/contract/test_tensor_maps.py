"""Tensor maps of a launch: what is encoded, once, and what is too uneven for that."""

import ctypes

import numpy as np
import pytest

from iron.backends.cuda_code import code_of
from iron.backends.forms import Form
from iron.compiler import lower
from iron.runtime.drivers.choice import Choice, Place
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


def test_ends_of_their_own_are_an_axis_more():
    """Row r of a copy that ends at e is at (L - e + r, e): where r is, and outside from e on."""
    cu, (m, n, k) = FakeCuda(), (130, 72, 64)
    driver = CudaDriver(Api(cu))
    held = arrays(m, n, k) | dict.fromkeys(("first", "used"), np.zeros(3, np.uint32))
    made = lower(kernels.tiles_of(kernels.parts, held), SM_90A)
    assert made.preferred is not None
    lengths = [f.kind for f in code_of(made.preferred).fields].index("length")
    read = []
    cu.program = lambda launch: read.extend(
        launch.read(lengths + i, ctypes.c_int64) for i in range(3)
    )
    placed = {name: driver.upload(a) for name, a in held.items()}
    executable = driver.load(made)
    executable.bind(placed, {}, {"M": m, "N": n, "K": k, "P": 3}, (3, 2, 2))()
    assert read == [m, n, m]
    for name, length, wide, encoded in zip("abc", (m, n, m), (k, k, n), cu.maps, strict=True):
        step, at = 2 * wide, placed[name].seen.pointer
        assert encoded.made.sizes == [wide, length, length + 1]
        assert encoded.made.steps == [step, step]
        assert encoded.made.box == [64, 64, 1]
        for end, row in ((length, 0), (length, length - 1), (5, 4), (5, 5), (0, 0)):
            moved = length - end + row
            assert encoded.made.address + (moved + end) * step == at + row * step
            assert (0 <= moved < length) == (row < end)


@pytest.mark.parametrize(("address", "wanted"), [(4095, "plain"), (4096, "ended")])
def test_a_map_does_not_begin_before_all_addresses(product, address, wanted):
    """128 rows of 32 bytes lie between the begin of the map and the array's."""
    placed = {"a": Place(address, 2, (128, 16), (16, 1))}
    forms = [Form(product, "ended", preceded=(("a", 0),)), Form(product, "plain")]
    found, _ = Choice(iter(forms)).of(placed, {}, {}, (1,))
    assert found.code == wanted


def test_one_row_and_no_depth(product):
    """An axis of one element has any stride; one of none is not read."""
    cu, _, bind = launched(product, 1, 8, 0)
    bind()()
    assert cu.maps[0].made.sizes == [1, 1]
