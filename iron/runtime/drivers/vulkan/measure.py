"""What a device does where Vulkan promises less than the language: found out by running it.

The lanes that really execute together, since a software device may report more; whether the
device's own fused multiply-add, quotient and square root round once, also a quotient by a constant,
which compilers make a product with its reciprocal; and whether its compiler takes x + 0, 0 * x,
0 / x, x / 0 and x - x for what they are where x is -0, infinite or NaN.

A result below the normal numbers may be 0 on a device that does not preserve those. Functions of
the `fast_` kind are the device's own where they are within the bounds of their rows. Whether it
converts to bf16, or at least shows which numbers arithmetic did not round to it, is seen likewise.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from iron.dtypes import DType, bf16, f16, f32, i32, u32
from iron.errors import error
from iron.ir import scalar
from iron.ir.build import Builder
from iron.ir.core import Block, Kernel, Param, Value
from iron.ir.table import TABLE
from iron.ir.types import tensor
from iron.targets.target import Approximation, Target

EXACT = frozenset({"fused_fma", "exact_division", "exact_sqrt", "exact_zero"})
MEASURED = EXACT | {"exact_bfloat", "even_by_default"}
FAST = ("fast_exp2", "fast_rcp", "fast_rsqrt")
FAST_COUNT = 1 << 14
COUNT = 1024
GROUPS = 4
EIGHT = 8
ZERO = np.float32(0.0)
TINY = np.finfo(np.float32).tiny
DIVISORS = (np.float32(7.0), np.float32(15.0))

Run = Callable[[Kernel, dict[str, Any], int], None]
"""Loads and launches a kernel over a number of groups, on host arrays."""

Host = np.ndarray[Any, Any]


def measured(offered: Target, trial: Callable[[Target], Run]) -> Target:
    """`offered` with what the device was seen to do. E0603 when its lanes are not as it says.

    `trial` gives what runs kernels that are compiled for a target.
    """
    unable = set[str]() if offered.has("bfloat16") else {"exact_bfloat"}
    tried = replace(offered, features=offered.features | MEASURED - unable)
    run = trial(tried)
    check_lanes(offered, run)
    found = exactness(offered, run)
    if "exact_bfloat" not in unable and rounds_bfloat(offered, run):
        found |= {"exact_bfloat"}
    if "fused_fma" in found and rounds_to_even(offered, run):
        found |= {"even_by_default"}
    if "exact_bfloat" not in found and splits_bfloat(offered, trial):
        found |= {"split_bfloat"}
    made = replace(offered, features=offered.features | found)
    return replace(made, approximations=approximations(made, trial(made)))


def check_lanes(target: Target, run: Run) -> None:
    """Raises E0603 when fewer lanes execute together than the device reports."""
    threads = 2 * target.simd
    found = np.zeros(2 * GROUPS * threads, np.uint32)  # half of it for numbers that go too far
    run(_lane_sums(target.simd, threads), {"found": found}, GROUPS)
    sums = np.arange(threads, dtype=np.uint32).reshape(2, -1).sum(1).repeat(target.simd)
    if not np.array_equal(found[: GROUPS * threads], np.tile(sums, GROUPS).astype(np.uint32)):
        raise error(
            "E0603",
            f"{target.cpu} reports subgroups of {target.simd} lanes and runs others",
            help="on Mesa's software device, unset LP_NATIVE_VECTOR_WIDTH or set 128, 256 or 512",
        )


def _lane_sums(simd: int, threads: int) -> Kernel:
    """found[i]: the sum of thread numbers over the simdgroup."""

    def body(b: Builder, found: Value) -> None:
        thread = b.emit("thread", attrs=(i32,))
        number = b.emit("cast", thread, attrs=(u32,))
        (total,) = b.emit_all("reduce", (number,), (simd,), (_sum(b),))
        b.emit_all("store", (found, _place(b, thread, threads), total))

    return _kernel("lanes", [("found", u32, "out")], body, threads, simd)


def _sum(b: Builder) -> Block:
    left, right = Value(u32), Value(u32)
    with b.block((left, right)) as block:
        b.emit_all("yield", (b.emit("add", left, right),))
    return block


def exactness(target: Target, run: Run) -> frozenset[str]:
    """Which of `MEASURED` hold of the device."""
    a, b, c = operands()
    with scalar.quiet():
        wanted = {
            "fused_fma": [scalar.fma(a, b, c)],
            "exact_division": [a / b, *(a / n for n in DIVISORS)],
            "exact_sqrt": [np.sqrt(np.abs(a))],
            "exact_zero": [a + ZERO, a * ZERO, ZERO / a, a / ZERO, a - a],
        }
    names = [f"{name}.{number}" for name, many in wanted.items() for number in range(len(many))]
    out = {name: np.zeros(COUNT, np.float32) for name in names}
    run(_computing(target.simd, names), {"a": a, "b": b, "c": c, **out}, COUNT // (2 * target.simd))
    return frozenset(
        name
        for name, many in wanted.items()
        if all(
            same(out[f"{name}.{number}"], want, target.has("denorm_preserve32"))
            for number, want in enumerate(many)
        )
    )


def same(got: Host, want: Host, preserved: bool) -> bool:
    """Equal to the bit, all NaNs counting as one; 0 is right for a subnormal not `preserved`."""
    right = (got.view(np.uint32) == want.view(np.uint32)) | ((got != got) & (want != want))
    if not preserved:
        right |= (np.abs(want) < TINY) & (got == 0)
    return bool(right.all())


def operands() -> tuple[Host, Host, Host]:
    """Numbers of all sizes; half of the sums cancel but for what a second rounding loses."""
    rng = np.random.default_rng(7)
    a, b, c = (
        (rng.standard_normal(COUNT) * 2.0 ** rng.integers(-60, 60, COUNT)).astype(np.float32)
        for _ in range(3)
    )
    c[::2] = -(a * b)[::2]
    a[:4] = (-0.0, np.inf, -np.inf, np.nan)
    return a, b, c


def _computing(simd: int, names: list[str]) -> Kernel:
    def body(b: Builder, *tensors: Value) -> None:
        at = _place(b, b.emit("thread", attrs=(i32,)), 2 * simd)
        x, y, z = (b.emit("load", t, at, attrs=(0,)) for t in tensors[:3])
        zero = b.const(0.0, f32)
        pairs = (("div", x, y), ("add", x, zero), ("mul", x, zero))
        quotients = (("div", zero, x), ("div", x, zero), ("sub", x, x))
        first, *rest = (b.emit(*pair) for pair in (*pairs, *quotients))
        parts = (b.emit("div", x, b.const(float(n), f32)) for n in DIVISORS)
        made = (b.emit("fma", x, y, z), first, *parts, b.emit("sqrt", b.emit("abs", x)), *rest)
        for tensor_, value in zip(tensors[3:], made, strict=True):
            b.emit_all("store", (tensor_, at, value))

    sides = [(n, f32, "in" if n in "abc" else "out") for n in ("a", "b", "c", *names)]
    return _kernel("exactness", sides, body, 2 * simd, simd)


def _place(b: Builder, thread: Value, threads: int) -> Value:
    start = b.emit("mul", b.emit("group", attrs=(0, i32)), b.const(threads, i32))
    return b.emit("add", start, thread)


def rounds_to_even(target: Target, run: Run) -> bool:
    """Whether sums, products and conversions round to even where a module does not ask for it."""
    a, b, c = operands()
    whole = a.view(np.int32)
    with scalar.quiet():
        wanted = {
            "sum": a + b,
            "product": a * b,
            "fused": scalar.fma(a, b, c),
            "number": whole.astype(np.float32),
        }
        half = a.astype(np.float16)
    got = {name: np.zeros(COUNT, np.float32) for name in (*wanted, "reciprocal")}
    halves = np.zeros(COUNT, np.float16)
    arrays = {"a": a, "b": b, "c": c, "whole": whole, "half": halves, **got}
    run(_by_default(target.simd, list(got)), arrays, COUNT // (2 * target.simd))
    preserved = target.has("denorm_preserve32")
    right = halves.view(np.uint16) == half.view(np.uint16)
    right |= (half != half) & (halves != halves) | (np.abs(half) < 2.0**-14) & (halves == 0)
    same_all = all(same(got[name], want, preserved) for name, want in wanted.items())
    return same_all and bool(right.all())


def _by_default(simd: int, names: list[str]) -> Kernel:
    """A fast reciprocal among the rest: the reason not to ask."""

    def body(b: Builder, *tensors: Value) -> None:
        at = _place(b, b.emit("thread", attrs=(i32,)), 2 * simd)
        x, y, z, whole = (b.emit("load", t, at, attrs=(0,)) for t in tensors[:4])
        made = (
            b.emit("cast", x, attrs=(f16,)),
            b.emit("add", x, y),
            b.emit("mul", x, y),
            b.emit("fma", x, y, z),
            b.emit("cast", whole, attrs=(f32,)),
            b.emit("fast_rcp", x),
        )
        for tensor_, value in zip(tensors[4:], made, strict=True):
            b.emit_all("store", (tensor_, at, value))

    sides = [("a", f32, "in"), ("b", f32, "in"), ("c", f32, "in"), ("whole", i32, "in")]
    sides += [("half", f16, "out"), *((name, f32, "out") for name in names)]
    return _kernel("by_default", sides, body, 2 * simd, simd)


# --- functions that may be approximate ------------------------------------------------------------


def approximations(target: Target, run: Run) -> tuple[Approximation, ...]:
    """The `fast_` functions that the device computes within the bounds of their rows."""
    x = fast_operands()
    out = {name: np.zeros(FAST_COUNT, np.float32) for name in FAST}
    run(_approximating(target.simd), {"x": x, **out}, FAST_COUNT // (2 * target.simd))
    worst = {name: farthest(name, x, out[name]) for name in FAST}
    return tuple(Approximation(n, ulp) for n, ulp in worst.items() if ulp <= TABLE[n].ulp)


def fast_operands() -> Host:
    """Numbers of all normal sizes and the special ones, a half of them small enough for 2^x."""
    rng = np.random.default_rng(11)
    x = rng.standard_normal(FAST_COUNT) * 2.0 ** rng.integers(-124, 124, FAST_COUNT)
    x[::2] = rng.uniform(-130, 128, FAST_COUNT // 2)
    x[:8] = (0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 128.0, -1e30)
    return x.astype(np.float32)


def farthest(name: str, x: Host, got: Host) -> float:
    """The largest error in ulp. 0 is right for what is below 2^-125, and what is right for 0 where
    x is below the normal numbers.
    """
    with scalar.quiet():
        wide = np.abs(x.astype(np.float64)) if name == "fast_rsqrt" else x.astype(np.float64)
        truth = TABLE[name].truth
        assert truth is not None
        want = truth(wide)
        near = want.astype(np.float32)
        error = np.abs(got.astype(np.float64) - want) / np.spacing(np.abs(near))
        of_zero = truth(np.copysign(0.0, wide)).astype(np.float32)
    tiny = np.abs(x) < TINY
    plain = np.isfinite(near) & (np.abs(want) >= 2.0**-125) & ~tiny
    special = np.where(np.isfinite(near), np.abs(got) <= 2.0**-125, same_kind(got, near))
    special |= tiny & (same_kind(got, of_zero) | (error <= TABLE[name].ulp))
    if not special[~plain].all() or not np.isfinite(got[plain]).all():
        return float("inf")
    return float(error[plain].max())


def same_kind(got: Host, want: Host) -> Host:
    """Equal infinities, or both NaN."""
    return (got == want) | ((got != got) & (want != want))


def _approximating(simd: int) -> Kernel:
    def body(b: Builder, x: Value, *outs: Value) -> None:
        at = _place(b, b.emit("thread", attrs=(i32,)), 2 * simd)
        value = b.emit("load", x, at, attrs=(0,))
        size = b.emit("abs", value)
        for name, out in zip(FAST, outs, strict=True):
            made = b.emit(name, size if name == "fast_rsqrt" else value)
            b.emit_all("store", (out, at, made))

    sides = [("x", f32, "in"), *((name, f32, "out") for name in FAST)]
    return _kernel("approximations", sides, body, 2 * simd, simd)


def rounds_bfloat(target: Target, run: Run) -> bool:
    """Whether the device's conversion to bf16 rounds to nearest even and keeps NaN one.

    A subnormal may become 0 where the device does not preserve those.
    """
    x, got = bfloat_operands(), np.zeros(COUNT, bf16.np)
    run(_converting(target.simd, 1), {"x": x, "y": got}, COUNT // (2 * target.simd))
    return bfloats_right(target, x, got)


def bfloats_right(target: Target, x: Host, got: Host) -> bool:
    """The bf16 of x to nearest even, all NaNs counting as one."""
    with scalar.quiet():
        want = x.astype(bf16.np)
        right = (got.view(np.uint16) == want.view(np.uint16)) | ((x != x) & (got != got))
        if not target.has("denorm_preserve32"):
            right |= (np.abs(x) < TINY) & (got == 0)
    return bool(right.all())


def splits_bfloat(target: Target, trial: Callable[[Target], Run]) -> bool:
    """Whether numbers rounded to bf16 eight at a time by `split_bfloat` are right, also where one
    among the eight is none."""
    x = among_others()
    got, groups = np.zeros(x.size, bf16.np), x.size // (2 * EIGHT * target.simd)
    run = trial(replace(target, features=target.features | {"split_bfloat"}))
    run(_converting(target.simd, EIGHT), {"x": x, "y": got}, groups)
    return bfloats_right(target, x, got)


def among_others() -> Host:
    """`bfloat_operands`, each among seven numbers that have nothing about them but many ties."""
    some = np.random.default_rng(17).standard_normal((COUNT, EIGHT)).astype(np.float32)
    bits = some.view(np.uint32)
    bits[::2] = bits[::2] & 0xFFFF0000 | 0x8000
    places = np.arange(COUNT)
    some[places, places % EIGHT] = bfloat_operands()
    return some.ravel()


def _converting(simd: int, each: int) -> Kernel:
    def body(b: Builder, x: Value, y: Value) -> None:
        at = _place(b, b.emit("thread", attrs=(i32,)), 2 * simd)
        if each > 1:
            at = b.emit("mul", at, b.const(each, i32))
        count = each if each > 1 else 0
        made = b.emit("cast", b.emit("load", x, at, attrs=(count,)), attrs=(bf16,))
        b.emit_all("store", (y, at, made))

    return _kernel("bfloat", [("x", f32, "in"), ("y", bf16, "out")], body, 2 * simd, simd)


def bfloat_operands() -> Host:
    """Bits of all kinds: ties, subnormals, what overflows when it is rounded, NaN."""
    rng = np.random.default_rng(13)
    bits = rng.integers(0, 1 << 32, COUNT, np.uint32)
    bits[::4] = bits[::4] & 0xFFFF0000 | 0x8000  # ties
    bits[1::8] &= 0x807FFFFF  # subnormal
    bits[:6] = (0x7F7FFFFF, 0xFF7FFFFF, 0x7F800001, 0x7F800000, 0xFFFFFFFF, 0x80000000)
    return bits.view(np.float32)


def _kernel(
    name: str,
    sides: list[tuple[str, DType, str]],
    body: Callable[..., None],
    threads: int,
    simd: int,
) -> Kernel:
    """A kernel over one launch axis, whose extent the caller gives."""
    params = tuple(Param(n, "tensor", tensor(t, 1, space)) for n, t, space in sides)
    values = [Value(p.type, None, p.name) for p in params]
    b = Builder(fold=False)
    with b.block(values) as block:
        body(b, *values)
    with b.block(()) as host:
        b.emit_all("yield", (b.const(1, i32),))
    return Kernel(name, params, block, host, 1, threads, simd, (), i32)
