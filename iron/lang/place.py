"""Refusal of kernel-only functions on the host: one error, at the caller's line."""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from iron.errors import KernelError, Loc, error


def outside(name: str, where: str = "a kernel") -> KernelError:
    """The E0113 that says `name` means something only inside `where`; names the caller's line."""
    frame = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
    loc = Loc(frame.f_code.co_filename, frame.f_lineno)
    return error(
        "E0113",
        f"`{name}` has a meaning only inside {where}",
        loc,
        help=f"call it from a function marked @{where.split()[-1]}",
    )


class Sentinel:
    """A name the front end replaces by a value when an expression yields it; no host meaning."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name

    def _refuse(self, *_: Any) -> NoReturn:
        raise outside(self.name)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse
    __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse
    __lshift__ = __rlshift__ = __rshift__ = __rrshift__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __index__ = __int__ = __neg__ = _refuse
