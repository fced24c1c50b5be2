"""The parent's end of the pipe: one child process, a watchdog over it, and the reason it was lost.

A child that dies, stays silent or breaks the protocol is killed with everything it started; the
next request starts a new one.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import IO

from iron.worker.protocol import Message, ProtocolError, decode, encode

START_SECONDS = 120.0
GRACE_SECONDS = 5.0
STDERR_LINES = 12


class Lost(Exception):
    """The child is gone, or cannot do what it is for; `kind` is `crash`, `hang`, `memory`,
    `protocol`, `error`, or `unready` where its backend cannot be used here."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text


@dataclass(frozen=True, slots=True)
class Limits:
    """`seconds` of silence after which a child counts as hung, and its memory in bytes."""

    seconds: float = 60.0
    memory: int = 4 << 30


class Worker:
    """A child process that is started when it is first asked, and again after a loss."""

    def __init__(self, command: tuple[str, ...], limits: Limits, cwd: str | None = None) -> None:
        self.command = command
        self.limits = limits
        self.cwd = cwd
        self.starts = 0
        self._abandoned = False
        self._child: subprocess.Popen[bytes] | None = None
        self._lines: queue.Queue[bytes | None] = queue.Queue()
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        fault: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(fault, KeyboardInterrupt | GeneratorExit):
            self.abandon()
        self.close()

    def ask(self, request: Message, hear: Callable[[Message], None] | None = None) -> list[Message]:
        """All answers to one request, without the closing `done`; raises `Lost`.

        The last answer is an `error` when the request failed in the child. `hear` gets each
        answer when it comes.
        """
        if self._abandoned:
            raise Lost("crash", "the worker was abandoned")
        if self._child is None:
            self._start()
        assert self._child is not None
        assert self._child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._child.stdin.write(encode(request))
            self._child.stdin.flush()
        answers: list[Message] = []
        while True:
            message = self._next(self.limits.seconds)
            if message["type"] == "busy":
                continue
            if message["type"] == "done":
                return answers
            answers.append(message)
            if hear is not None:
                hear(message)
            if message["type"] == "error":
                if message.get("kind") in ("memory", "device"):
                    self.close()
                return answers

    def close(self) -> None:
        """Ends the child: politely, then not."""
        child, self._child = self._child, None
        if child is None:
            return
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        try:
            child.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            pass
        finally:
            _kill(child)
            if self._stderr is not None:
                self._stderr.close()
                self._stderr = None

    def abandon(self) -> None:
        """Kills the child in the middle of its work; whoever waits for it gets `Lost`."""
        self._abandoned = True
        child = self._child
        if child is not None:
            _kill(child)

    def _start(self) -> None:
        self.starts += 1
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the child
        self._lines = queue.Queue()
        self._child = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=self.cwd,
            start_new_session=True,
        )
        assert self._child.stdout is not None
        threading.Thread(target=_pump, args=(self._child.stdout, self._lines), daemon=True).start()
        if self._next(START_SECONDS)["type"] != "ready":
            raise self._lose("protocol", "the worker did not greet")

    def _next(self, seconds: float) -> Message:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            raise self._lose("hang", f"no answer within {seconds:g} seconds") from None
        if line is None:
            raise self._lose("crash", "")
        try:
            return decode(line)
        except ProtocolError as fault:
            raise self._lose("protocol", str(fault)) from None

    def _lose(self, kind: str, text: str) -> Lost:
        """Kills what is left and says what happened, with the end of what the child printed."""
        child, self._child = self._child, None
        assert child is not None
        if kind == "crash":
            # The pipe closes a moment before the process is gone.
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_SECONDS)
        code = child.poll()
        _kill(child)
        assert child.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        if kind == "crash":
            text = _ending(code)
        return Lost(kind, text + self._printed())

    def _printed(self) -> str:
        if self._stderr is None:
            return ""
        self._stderr.seek(0)
        lines = self._stderr.read().decode(errors="replace").splitlines()[-STDERR_LINES:]
        self._stderr.close()
        self._stderr = None
        return "".join(f"\n    {line}" for line in lines)


def _pump(stream: IO[bytes], lines: queue.Queue[bytes | None]) -> None:
    with stream:
        for line in stream:
            lines.put(line)
    lines.put(None)


def _kill(child: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if os.name == "posix":
            os.killpg(child.pid, signal.SIGKILL)
        else:
            child.kill()
    child.wait()


def _ending(code: int | None) -> str:
    if code is None:
        return "the worker closed its pipe"
    if code < 0:
        return f"the worker was killed by {signal.Signals(-code).name}"
    return f"the worker exited with status {code}"
