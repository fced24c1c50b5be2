"""What a device is found to do, from results that are right and results that are not."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from iron.dtypes import bf16
from iron.ir import scalar
from iron.ir.core import Kernel
from iron.ir.table import TABLE
from iron.runtime.drivers.vulkan import measure
from iron.targets.target import Target
from iron.targets.vulkan import USUAL

Host = np.ndarray[Any, Any]


def truth(name: str, x: Host) -> Host:
    """The function rounded once."""
    wide = np.abs(x.astype(np.float64)) if name == "fast_rsqrt" else x.astype(np.float64)
    found = TABLE[name].truth
    assert found is not None
    with np.errstate(all="ignore"):
        return found(wide).astype(np.float32)


def device(wrong: str = "") -> measure.Run:
    """A device that computes to the last bit, but for `wrong`, which is 5 ulp off."""

    def run(kernel: Kernel, arrays: dict[str, Any], groups: int) -> None:
        for name in measure.FAST:
            made = truth(name, arrays["x"])
            if name == wrong:
                made[100:] = (made.view(np.int32)[100:] + 5).view(np.float32)
            arrays[name][:] = made

    return run


def kept(run: measure.Run, target: Target = USUAL) -> set[str]:
    return {a.op for a in measure.approximations(target, run)}


def test_functions_within_their_bounds_are_the_devices():
    assert kept(device()) == set(measure.FAST)


@pytest.mark.parametrize("name", measure.FAST)
def test_a_function_beyond_its_bound_is_written_out(name: str):
    assert kept(device(name)) == set(measure.FAST) - {name}


@pytest.mark.parametrize("name", measure.FAST)
def test_infinities_and_nan_must_be_right(name: str):
    x = measure.fast_operands()
    made = truth(name, x)
    assert measure.farthest(name, x, made) <= 0.5
    for place in np.flatnonzero(~np.isfinite(made))[:4]:
        with_other = made.copy()
        with_other[place] = np.float32(1.0)
        assert measure.farthest(name, x, with_other) == np.inf


def test_what_is_tiny_may_be_zero():
    x = np.float32([-126.5, -130.0, 1.0])
    assert measure.farthest("fast_exp2", x, np.float32([0, 0, 2])) == 0.0
    assert measure.farthest("fast_exp2", x, np.float32([0, 1e-30, 2])) == np.inf


def test_an_operand_below_the_normal_numbers_may_count_as_zero():
    x = np.float32([1e-40, -1e-40, 2.0])
    assert measure.farthest("fast_rcp", x, np.float32([np.inf, -np.inf, 0.5])) == 0.0
    with np.errstate(over="ignore"):
        assert measure.farthest("fast_rcp", x, 1 / x) == 0.0
    assert measure.farthest("fast_rcp", x, np.float32([1.0, -np.inf, 0.5])) == np.inf
    assert measure.farthest("fast_rsqrt", x, np.float32([np.inf, np.inf, 0.70710677])) < 0.5
    assert measure.farthest("fast_exp2", x, np.float32([1.0, 1.0, 4.0])) == 0.0


def converting(convert: Any) -> measure.Run:
    """A device that makes the bits of bf16 by `convert`."""

    def run(kernel: Kernel, arrays: dict[str, Any], groups: int) -> None:
        arrays["y"].view(np.uint16)[:] = convert(arrays["x"])

    return run


def to_even(x: Host) -> Host:
    with np.errstate(all="ignore"):
        return x.astype(bf16.np).view(np.uint16)


def truncated(x: Host) -> Host:
    return (x.view(np.uint32) >> 16).astype(np.uint16)


def away(x: Host) -> Host:
    """Ties to the larger one; right everywhere else."""
    up = (x.view(np.uint32).astype(np.uint64) + 0x8000 >> 16).astype(np.uint16)
    return np.where(x != x, to_even(x), up)


def flushed(x: Host) -> Host:
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, 0, to_even(x))


def test_a_conversion_to_nearest_even_is_the_devices():
    assert measure.rounds_bfloat(USUAL, converting(to_even))


@pytest.mark.parametrize("convert", [truncated, away])
def test_another_rounding_is_done_in_integers(convert: Any):
    assert not measure.rounds_bfloat(USUAL, converting(convert))


def test_subnormals_may_be_zero_where_the_device_says_so():
    assert measure.rounds_bfloat(USUAL, converting(flushed))
    keeps = replace(USUAL, features=USUAL.features | {"denorm_preserve32"})
    assert not measure.rounds_bfloat(keeps, converting(flushed))


def split(x: Host) -> Host:
    """By arithmetic, where a NaN does not tell what it became of."""
    with np.errstate(all="ignore"):
        product = x * np.float32(65537)
        return (product - (product - x)).view(np.uint32) >> 16


def halved(x: Host) -> Host:
    """Right but for subnormals, which are cut."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, truncated(x), to_even(x))


@pytest.mark.parametrize(
    ("convert", "works"), [(to_even, True), (split, False), (halved, False), (away, False)]
)
def test_arithmetic_rounds_where_its_failures_are_seen(convert: Any, works: bool):
    seen: list[Target] = []

    def trial(target: Target) -> measure.Run:
        seen.append(target)
        return converting(convert)

    assert measure.splits_bfloat(USUAL, trial) == works
    assert [t.has("split_bfloat") for t in seen] == [True]


def computing(**wrong: Any) -> measure.Run:
    """A device that rounds to even, but for the outputs in `wrong`."""

    def run(kernel: Kernel, arrays: dict[str, Any], groups: int) -> None:
        a, b, c = (arrays[n] for n in "abc")
        with np.errstate(all="ignore"):
            made = {
                "half": a.astype(np.float16),
                "sum": a + b,
                "product": a * b,
                "fused": scalar.fma(a, b, c),
                "number": arrays["whole"].astype(np.float32),
            }
            made |= {name: change(made[name]) for name, change in wrong.items()}
        for name, value in made.items():
            arrays[name][:] = value

    return run


def nearer_zero(x: Host) -> Host:
    return np.nextafter(x, np.zeros_like(x))


def test_a_device_that_rounds_to_even_without_being_asked():
    assert measure.rounds_to_even(USUAL, computing())


@pytest.mark.parametrize("name", ["half", "sum", "product", "fused", "number"])
def test_a_device_that_must_be_asked(name: str):
    assert not measure.rounds_to_even(USUAL, computing(**{name: nearer_zero}))
