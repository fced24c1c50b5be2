"""Launch vocabulary: the geometry of a kernel, its preconditions and its loops."""

from __future__ import annotations

from collections.abc import Iterable

from iron.dtypes import DType
from iron.lang.place import outside
from iron.lang.tile import GroupOrder
from iron.lang.value import Value, View


def groups(
    *extents: int, threads: int | None = None, order: GroupOrder | None = None
) -> tuple[int, ...]:
    """One group of `threads` threads for each index below `extents`; this group's index.

    The first run-time statement of a kernel. The first extent varies fastest. `threads` is a
    compile-time multiple of `simd_width`, or 1 (E0301). Without it the group is one thread, or in
    a kernel that uses tiles as many as the compiler chooses; `order` says in which order such
    groups start. Returns one number an extent.

    >>> @kernel
    ... def first(x: In[f32, R, N], y: Out[f32, R]):
    ...     (row,) = groups(R)
    ...     y[row] = x[row, 0]
    """
    raise outside("groups")


def each(*extents: int) -> tuple[int, ...]:
    """One thread for each index below `extents`; this thread's index.

    The first run-time statement of a kernel; the compiler masks the tail. Collectives and
    `shared` are refused (E0305), since the size of the group is the compiler's choice.

    >>> @kernel
    ... def double(x: In[f32, N], y: Out[f32, N]):
    ...     (i,) = each(N)
    ...     y[i] = 2 * x[i]
    """
    raise outside("each")


def require(condition: bool, message: str = "") -> None:
    """States that `condition` holds for every legal call.

    The condition is made of dims, Consts, Scalars and literals. It is checked on the host before
    the launch (E0702 names it with its values) and is a fact for the optimiser.

    >>> @kernel
    ... def pairs(x: In[f32, N], y: Out[f32, N // 2]):
    ...     (i,) = each(N // 2)
    ...     require(N % 2 == 0, "N must be even")
    ...     y[i] = x[2 * i] + x[2 * i + 1]
    """
    raise outside("require")


def strided(n: int, step: int = 1) -> Iterable[int]:
    """This thread's share of 0 .. n: starts `thread * step`, advances `threads * step`.

    As the last entry of a parameter (`In[f32, R, N, strided]`) the same name accepts a tensor with
    any strides; without it the last axis must be contiguous.

    >>> @kernel
    ... def copy(x: In[f32, R, N], y: Out[f32, R, N]):
    ...     (row,) = groups(R, threads=64)
    ...     for i in strided(N):
    ...         y[row, i] = x[row, i]
    """
    raise outside("strided")


def unrolled(*bounds: int) -> range:
    """`range(*bounds)` whose loop is unrolled: the variable is a compile-time int.

    >>> list(unrolled(1, 4))
    [1, 2, 3]
    """
    return range(*(int(b) for b in bounds))


def scratch(dtype: DType, *shape: int, fill: Value = None) -> View:
    """A temporary tensor of a plan, uninitialised unless `fill` is given.

    The shape is made of dims and Consts. It comes from the stream's pool and lives for the call.

    >>> @plan
    ... def twice(x: In[f32, N], y: Out[f32, N]):
    ...     between = scratch(f32, N)
    ...     double(x, between)
    ...     double(between, y)
    """
    raise outside("scratch", "a plan")
