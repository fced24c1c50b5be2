"""What a kernel's suite must contain, decided without running anything."""

from __future__ import annotations

import math
from collections.abc import Iterable

from iron.check.expand import Declared
from iron.lang.dim import Dim
from iron.lang.parameter import ParamSpec


def faults(kernel: Declared) -> list[str]:
    """What is missing: the oracle, a case, a bench, or an odd size of an axis."""
    suite = kernel.suite
    out: list[str] = []
    if suite.oracle is None:
        out.append("no oracle")
    if not suite.cases:
        out.append("no case")
    if not suite.benches:
        out.append("no bench")
    return out + [
        f"axis {name} has no odd size among {sorted(set(sizes))}"
        for name, sizes in sizes_of(kernel).items()
        if not has_odd(sizes)
    ]


def sizes_of(kernel: Declared) -> dict[str, list[int]]:
    """The sizes that the cases try, by dim."""
    specs = [s for s in kernel.signature.values() if isinstance(s, ParamSpec)]
    dims = {d.name for s in specs for d in s.dims or () if isinstance(d, Dim)}
    found: dict[str, list[int]] = {}
    for case in kernel.suite.cases:
        for name, values in case.axes.items():
            if name in dims:
                found.setdefault(name, []).extend(int(v) for v in values)
    return found


def has_odd(sizes: Iterable[int]) -> bool:
    """True for an odd size above 1, or an odd multiple (3 and up) of what all sizes share.

    The second form serves axes that a kernel restricts: a head size of 72 is 9 times 8.
    """
    known = {size for size in sizes if size > 0}
    unit = math.gcd(*known) if known else 1
    return any(size % 2 == 1 and size > 1 for size in known) or any(
        size // unit % 2 == 1 and size > unit for size in known
    )
