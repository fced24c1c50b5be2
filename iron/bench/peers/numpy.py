"""numpy, as one would write it: outputs reused where a function takes `out`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from iron.bench.peers.record import Attempt, Library, Subject
from iron.dtypes import f32

LIBRARY = Library("numpy", lambda device: np.__version__ if device == "cpu" else None)

UNARY: dict[str, Callable[..., Any]] = {
    "exp": np.exp, "abs": np.absolute, "neg": np.negative, "sqrt": np.sqrt, "square": np.square,
    "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "recip": np.reciprocal,
}  # fmt: skip
BINARY: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum,
    "min": np.minimum, "xor": np.bitwise_xor, "and": np.bitwise_and, "or": np.bitwise_or,
}  # fmt: skip


def _written(subject: Subject, call: Callable[[], Any]) -> Attempt:
    return Attempt(call, lambda: subject.outputs)


def _plain(subject: Subject) -> bool:
    """numpy computes in f32 and f16; in bf16 it goes through Python's own speed."""
    return all(t is f32 for t in subject.dtypes.values())


@LIBRARY.peer("unary")
def _(s: Subject) -> Attempt | None:
    function, x, y = UNARY.get(s.consts["OP"]), s.x, s.outputs["y"]
    if s.consts["OP"] == "silu" and _plain(s):
        return _written(s, lambda: np.divide(x, 1 + np.exp(-x), out=y))
    if function is None or not _plain(s):
        return None
    return _written(s, lambda: function(x, out=y))


@LIBRARY.peer("binary")
@LIBRARY.peer("binary_integer")
def _(s: Subject) -> Attempt | None:
    function, a, b, z = BINARY.get(s.consts["OP"]), s.a, s.b, s.outputs["z"]
    if function is None or any(t.is_float and t is not f32 for t in s.dtypes.values()):
        return None
    return _written(s, lambda: function(a, b, out=z))


@LIBRARY.peer("gated_activation")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.consts.get("VARIANT", "swiglu") != "swiglu" or s.gate_bias is not None:
        return None
    g, u, y = s.g, s.u, s.outputs["y"]

    def call() -> None:
        np.exp(-g, out=y)
        np.add(y, 1, out=y)
        np.divide(g, y, out=y)
        np.multiply(y, u, out=y)

    return _written(s, call)


@LIBRARY.peer("copy")
def _(s: Subject) -> Attempt | None:
    x, y = s.x, s.outputs["y"]
    return _written(s, lambda: np.copyto(y, x))


@LIBRARY.peer("cast")
def _(s: Subject) -> Attempt | None:
    x, y = s.x, s.outputs["y"]
    return _written(s, lambda: np.copyto(y, x, casting="unsafe"))


@LIBRARY.peer("select")
def _(s: Subject) -> Attempt | None:
    c, a, b, y = s.c, s.a, s.b, s.outputs["y"]
    held = c.astype(bool)

    def call() -> None:
        np.copyto(y, b)
        np.copyto(y, a, where=held)

    return _written(s, call)


@LIBRARY.peer("softmax")
def _(s: Subject) -> Attempt | None:
    if not _plain(s):
        return None
    x, y = s.x, s.outputs["y"]

    def call() -> None:
        np.subtract(x, x.max(-1, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(-1, keepdims=True), out=y)

    return _written(s, call)


@LIBRARY.peer("rms_norm")
def _(s: Subject) -> Attempt | None:
    if not _plain(s):
        return None
    x, w, eps, y = s.x, s.w, np.float32(s.eps), s.outputs["y"]

    def call() -> None:
        scale = 1 / np.sqrt(np.einsum("ij,ij->i", x, x) / np.float32(x.shape[-1]) + eps)
        np.multiply(x, scale[:, None], out=y)
        np.multiply(y, w, out=y)

    return _written(s, call)


@LIBRARY.peer("reduce")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.consts["OP"] != "sum":
        return None
    x, y = s.x, s.outputs["y"]
    return _written(s, lambda: np.sum(x, -1, out=y))


@LIBRARY.peer("arg_reduce")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.consts["OP"] != "max":
        return None
    x, y = s.x, s.outputs["y"]
    return _written(s, lambda: np.copyto(y, np.argmax(x, -1), casting="unsafe"))


@LIBRARY.peer("scan")
@LIBRARY.peer("scan_rows")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.consts.get("EXCLUSIVE"):
        return None
    x, y = s.x, s.outputs["y"]
    return _written(s, lambda: np.cumsum(x, -1, out=y))


@LIBRARY.peer("gather")
def _(s: Subject) -> Attempt | None:
    parameters = list(s.arguments)
    table, index = s.arguments[parameters[0]], s.arguments[parameters[1]]
    (y,) = s.outputs.values()
    at = np.asarray(index).astype(np.int64)
    return _written(s, lambda: np.take(table, at, axis=0, out=y, mode="clip"))


@LIBRARY.peer("gemv")
def _(s: Subject) -> Attempt | None:
    if not _plain(s) or s.bias is not None:
        return None
    x, w, y = s.x, s.w, s.outputs["y"]
    return _written(s, lambda: np.matmul(x, w.T, out=y))
