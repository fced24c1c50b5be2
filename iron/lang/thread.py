"""Thread vocabulary: who this thread is, group memory, and what the threads of a group do together.

Every collective must be reached by all threads of the group (E0312), whatever its width. `width`
is a power of two: aligned runs of that many threads act on their own; None is the whole group.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from iron.dtypes import DType
from iron.lang.place import Sentinel, outside
from iron.lang.value import LaneMask, Shape, Value, View

thread: Final[int] = cast(int, Sentinel("thread"))
"""This thread's number in its group: simdgroup x simd_width + lane."""

simd_width: Final[int] = cast(int, Sentinel("simd_width"))
"""Threads of a simdgroup on the target, a compile-time int: 32 on most devices."""

lane: Final[int] = cast(int, Sentinel("lane"))
"""thread % simd_width; for `kernels/primitives.py` alone."""


def shared(shape: Shape, dtype: DType) -> View:
    """An array of the group, shape known at compile time; its elements start uninitialised.

    Declared outside run-time branches and loops (E0403). Reading an element before a write is
    E0402 in the interpreter. Sum of all arrays is limited by the target (E0501).

    >>> @kernel
    ... def swap(x: In[f32, 64], y: Out[f32, 64]):
    ...     groups(1, threads=64)
    ...     pile = shared((64,), f32)
    ...     pile[thread] = x[thread]
    ...     barrier()
    ...     y[thread] = pile[63 - thread]
    """
    raise outside("shared")


def barrier() -> None:
    """Every thread of the group arrives before any goes on; earlier writes are seen after it.

    >>> @kernel
    ... def nothing(x: In[f32, N], y: Out[f32, N]):
    ...     (i,) = groups(N)
    ...     barrier()
    ...     y[i] = x[i]
    """
    raise outside("barrier")


def group_sum(*xs: Value, width: int | None = None) -> Value:
    """x(0) + x(1) + ... over the threads, each operand on its own, the same for all of them.

    The order is fixed at a given simd width: an exclusive-or butterfly inside a simdgroup, then
    simdgroups from left to right. Several operands share one round of barriers.

    >>> @kernel
    ... def total(x: In[f32, N], y: Out[f32, 1]):
    ...     groups(1, threads=64)
    ...     s = f32(0)
    ...     for i in strided(N):
    ...         s += x[i]
    ...     s = group_sum(s)
    ...     if thread == 0:
    ...         y[0] = s
    """
    raise outside("group_sum")


def group_max(*xs: Value, width: int | None = None) -> Value:
    """The greatest value over the threads; NaN propagates. See `group_sum` for the operands.

    >>> @kernel
    ... def top(x: In[f32, 64], y: Out[f32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = group_max(x[thread])
    """
    raise outside("group_max")


def group_min(*xs: Value, width: int | None = None) -> Value:
    """The least value over the threads; NaN propagates. See `group_sum` for the operands.

    >>> @kernel
    ... def low(x: In[f32, 64], y: Out[f32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = group_min(x[thread], width=8)
    """
    raise outside("group_min")


def group_any(*xs: Value, width: int | None = None) -> Value:
    """True when x holds in at least one thread.

    >>> @kernel
    ... def infected(x: In[f32, 64], y: Out[u32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = u32(group_any(x[thread] != x[thread]))
    """
    raise outside("group_any")


def group_all(*xs: Value, width: int | None = None) -> Value:
    """True when x holds in every thread.

    >>> @kernel
    ... def positive(x: In[f32, 64], y: Out[u32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = u32(group_all(x[thread] > 0))
    """
    raise outside("group_all")


def group_reduce(f: Callable[..., Any], *xs: Value, width: int | None = None) -> Value:
    """f(x(0), f(x(1), ...)) over the threads for an associative `@inline` function f.

    Several operands are combined jointly: f takes the values of two threads, `f(a1, b1, a2, b2)`,
    and returns as many values as one thread gives. Order as in `group_sum`.

    >>> @inline
    ... def later(a, i, b, j):
    ...     return where(b > a, b, a), where(b > a, j, i)
    >>> @kernel
    ... def best(x: In[f32, 64], y: Out[i32, 64]):
    ...     groups(1, threads=64)
    ...     value, at = group_reduce(later, x[thread], thread)
    ...     y[thread] = at
    """
    raise outside("group_reduce")


def group_scan(
    f: Callable[..., Any],
    unit: Value,
    *xs: Value,
    exclusive: bool = False,
    width: int | None = None,
) -> Value:
    """f over the threads up to this one, in thread order; without this one when `exclusive`.

    `unit` is the identity of f: what thread 0 gets when `exclusive` (a tuple for several operands,
    which are combined jointly as by `group_reduce`).

    >>> @kernel
    ... def offsets(x: In[u32, 64], y: Out[u32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = group_scan(add, 0, x[thread], exclusive=True)
    """
    raise outside("group_scan")


def group_xor(x: Value, mask: int) -> Value:
    """The value of thread `thread ^ mask`; `mask` is a compile-time int below the group's size.

    >>> @kernel
    ... def swap_pairs(x: In[f32, 64], y: Out[f32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = group_xor(x[thread], 1)
    """
    raise outside("group_xor")


def simd_ballot(x: Value) -> LaneMask:
    """The lanes of this thread's simdgroup in which x holds; for `kernels/primitives.py` alone.

    >>> @kernel
    ... def rank(x: In[f32, 64], y: Out[u32, 64]):
    ...     groups(1, threads=64)
    ...     y[thread] = simd_ballot(x[thread] > 0).below()
    """
    raise outside("simd_ballot")


def simd_mma(a: list[Value], b: list[Value], sums: list[Value]) -> list[Value]:
    """sums + A B by 32 threads: A is 16 x 32 and B 32 x 8, both of signed bytes; sums are i32.

    With g = thread % 32 // 4 and t = thread % 4 a thread gives, as u32 words of four bytes along
    the inner axis, words t and t + 4 of rows g and g + 8 of A (word t of both rows first), then
    words t and t + 4 of column g of B. It holds columns 2 t and 2 t + 1 of the sums of row g, then
    of row g + 8. For targets with the feature `simd_mma`; elsewhere E0602.

    >>> @kernel
    ... def by_ones(x: In[u32, 16, 8], y: Out[i32, 16]):
    ...     groups(1, threads=32)
    ...     g, t = thread // 4, thread % 4
    ...     a = [x[g + 8 * (i % 2), t + i // 2 * 4] for i in unrolled(4)]
    ...     sums = simd_mma(a, [0x01010101, 0x01010101], [i32(0) for i in unrolled(4)])
    ...     if t == 0:
    ...         y[g], y[g + 8] = sums[0], sums[2]
    """
    raise outside("simd_mma")


def atomic_add(x: View, index: Value, value: Value) -> Value:
    """x[index] += value without interruption; the old element.

    All atomics are relaxed, on u32 or i32 in `shared` or `InOut` memory (E0405); `index` is a
    tuple when x has several axes. No float atomics, so results do not depend on scheduling.

    >>> @kernel
    ... def histogram(x: In[u32, N], bins: InOut[u32, 16]):
    ...     (i,) = each(N)
    ...     atomic_add(bins, x[i] & 15, 1)
    """
    raise outside("atomic_add")


def atomic_min(x: View, index: Value, value: Value) -> Value:
    """x[index] = min(x[index], value) without interruption; the old element. See `atomic_add`.

    >>> @kernel
    ... def lowest(x: In[u32, N], bins: InOut[u32, 1]):
    ...     (i,) = each(N)
    ...     atomic_min(bins, 0, x[i])
    """
    raise outside("atomic_min")


def atomic_max(x: View, index: Value, value: Value) -> Value:
    """x[index] = max(x[index], value) without interruption; the old element. See `atomic_add`.

    >>> @kernel
    ... def highest(x: In[u32, N], bins: InOut[u32, 1]):
    ...     (i,) = each(N)
    ...     atomic_max(bins, 0, x[i])
    """
    raise outside("atomic_max")


def atomic_and(x: View, index: Value, value: Value) -> Value:
    """x[index] &= value without interruption; the old element. See `atomic_add`.

    >>> @kernel
    ... def common(x: In[u32, N], bins: InOut[u32, 1]):
    ...     (i,) = each(N)
    ...     atomic_and(bins, 0, x[i])
    """
    raise outside("atomic_and")


def atomic_or(x: View, index: Value, value: Value) -> Value:
    """x[index] |= value without interruption; the old element. See `atomic_add`.

    >>> @kernel
    ... def used(x: In[u32, N], bins: InOut[u32, 1]):
    ...     (i,) = each(N)
    ...     atomic_or(bins, 0, x[i])
    """
    raise outside("atomic_or")


def atomic_xor(x: View, index: Value, value: Value) -> Value:
    """x[index] ^= value without interruption; the old element. See `atomic_add`.

    >>> @kernel
    ... def parity(x: In[u32, N], bins: InOut[u32, 1]):
    ...     (i,) = each(N)
    ...     atomic_xor(bins, 0, x[i])
    """
    raise outside("atomic_xor")
