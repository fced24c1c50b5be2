"""Which backend a call runs on: the one chosen with `iron.use`, else the arguments' device."""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar, Token
from types import TracebackType

from iron.errors import error
from iron.runtime.arrays import Array
from iron.runtime.driver import Driver, driver

_CHOSEN: ContextVar[Driver | None] = ContextVar("iron backend", default=None)


class Use:
    """The choice of a backend, undone at the end of a `with` block if it stands in one."""

    def __init__(self, chosen: Driver | None) -> None:
        self._token: Token[Driver | None] = _CHOSEN.set(chosen)

    def __enter__(self) -> Driver | None:
        return _CHOSEN.get()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _CHOSEN.reset(self._token)


def use(backend: str | Driver | None) -> Use:
    """Sends the calls that follow to `backend`; None returns to the arguments' device.

    As a statement it lasts for the thread or task; in `with iron.use("interp"):` for the block.
    Raises E0603 for a backend that is unknown or not available here.
    """
    if isinstance(backend, str):
        backend = driver(backend)
        backend.target()  # says here what is missing, not at the first call
    return Use(backend)


def device() -> str:
    """The name of the backend that calls on host arrays run on."""
    chosen = _CHOSEN.get()
    return chosen.name if chosen is not None else "cpu"


def for_arrays(arrays: Iterable[tuple[str, Array]], kernel: str) -> Driver:
    """The driver for these arguments. E0705 when they live on different devices.

    A backend in use that stages takes host arrays as well as its own.
    """
    first: tuple[str, str] | None = None
    for name, array in arrays:
        if first is None:
            first = (name, array.device)
        elif first[1] != array.device:
            raise error(
                "E0705",
                f"`{first[0]}` is on {first[1]} but `{name}` is on {array.device}",
                kernel=kernel,
                help="move the arguments to one device",
            )
    where = first[1] if first else "cpu"
    chosen = _CHOSEN.get()
    if chosen is None:
        return driver(where)
    if first and chosen.device != where and not (where == "cpu" and _stages(chosen)):
        raise error(
            "E0705",
            f"the backend in use, {chosen.name}, takes {chosen.device} arrays; "
            f"`{first[0]}` is on {where}",
            kernel=kernel,
            help="move the arguments, or end the `iron.use`",
        )
    return chosen


def _stages(chosen: Driver) -> bool:
    """True for a driver that copies host arrays to its device and back when it is in use."""
    return getattr(chosen, "stages", False)
