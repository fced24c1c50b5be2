"""One line of JSON a message, each with the version of the protocol; knows no kernels.

Requests carry `do`. Answers carry `type`: `ready` once at the start, then for each request any
number of messages of its own types, and last either `done` or `error`. `busy` is no answer: it
says that a step of a long task has ended, so that the watchdog counts the silence of one step.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

VERSION: Final = 1

Message = dict[str, Any]

BUSY: Final[Message] = {"type": "busy"}


class ProtocolError(Exception):
    """A line that is no message of this version."""


class DeviceLost(Exception):
    """The device will run nothing more in this process; the text says after what."""


def encode(message: Mapping[str, Any]) -> bytes:
    """The line, newline included."""
    return json.dumps({"v": VERSION, **message}, separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message on a line; raises `ProtocolError`."""
    try:
        message = json.loads(line)
    except ValueError as fault:
        raise ProtocolError(f"not JSON: {line[:80]!r}") from fault
    if not isinstance(message, dict):
        raise ProtocolError(f"not an object: {line[:80]!r}")
    found: Message = message
    if found.get("v") != VERSION:
        raise ProtocolError(f"protocol version {found.get('v')}, expected {VERSION}")
    return found
