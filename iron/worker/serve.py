"""The child's end of the pipe: answers requests one at a time and keeps the pipe to itself.

What the code under test prints goes to standard error. The child ends when its parent does.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable
from typing import IO

from iron.errors import KernelError
from iron.worker.protocol import DeviceLost, Message, ProtocolError, decode, encode

Handler = Callable[[Message], Iterable[Message]]

PARENT_CHECK_SECONDS = 1.0
FRAMES_SHOWN = 4


def serve(handler: Handler, memory: int = 0) -> None:
    """Answers until the parent closes the pipe; `memory` limits this process in bytes, 0 not."""
    requests, answers = _claim_standard_streams()
    faulthandler.enable()
    _limit_memory(memory)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()

    def send(message: Message) -> None:
        answers.write(encode(message))
        answers.flush()

    send({"type": "ready", "pid": os.getpid()})
    for line in requests:
        for message in _answers(handler, line):
            send(message)


def _answers(handler: Handler, line: bytes) -> Iterable[Message]:
    try:
        yield from handler(decode(line))
    except KernelError as fault:
        yield {"type": "error", "kind": "error", "text": str(fault)}
    except MemoryError:
        yield {"type": "error", "kind": "memory", "text": "out of memory"}
    except DeviceLost as fault:
        yield {"type": "error", "kind": "device", "text": str(fault)}
    except ProtocolError as fault:
        yield {"type": "error", "kind": "protocol", "text": str(fault)}
    except (Exception, SystemExit) as fault:
        yield {"type": "error", "kind": "error", "text": _told(fault)}
    else:
        yield {"type": "done"}


def _told(fault: BaseException) -> str:
    """The exception and its innermost frames: the code under test raised it."""
    lines = traceback.format_exception(fault, limit=-FRAMES_SHOWN)
    return "".join(lines).rstrip()


def _claim_standard_streams() -> tuple[IO[bytes], IO[bytes]]:
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    sys.stdout.flush()
    os.dup2(2, 1)
    return requests, answers


def _limit_memory(limit: int) -> None:
    """Counts heap and private mappings; reserved address space and file mappings are free."""
    if limit <= 0 or os.name != "posix":
        return
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    soft = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _end_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_SECONDS)
    os._exit(1)
