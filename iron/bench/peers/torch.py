"""PyTorch, on a CPU or a GPU: each formula eager, and compiled by `torch.compile`.

Eager calls reuse their outputs where torch offers `out=`; compiled ones write into them always.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import numpy as np

from iron.bench.peers.record import PRODUCT, Attempt, Library, Make, Subject
from iron.check.tolerance import Array
from iron.dtypes import bf16
from iron.quant.tensor import QTensor


def _version(device: str) -> str | None:
    """The installed version, where it reaches the device."""
    if importlib.util.find_spec("torch") is None:
        return None
    if device == "cpu":
        return metadata.version("torch")
    usable = device == "cuda" and _torch().cuda.is_available()
    return metadata.version("torch") if usable else None


LIBRARY = Library("torch", _version)


@dataclass(frozen=True, slots=True)
class Formula:
    """`function(*tensors)` gives the outputs in order; `into(outputs)` writes the only one."""

    function: Callable[..., Any]
    tensors: tuple[Any, ...]
    into: Callable[[Any], Any] | None = None


def _torch() -> Any:
    return importlib.import_module("torch")


def tensor(array: Array, device: str) -> Any:
    """The array's memory as a tensor; a copy on a GPU."""
    torch = _torch()
    if array.dtype == bf16.np:
        made = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    elif array.dtype == np.uint32:
        made = torch.from_numpy(array.view(np.int32))
    else:
        made = torch.from_numpy(array)
    return made if device == "cpu" else made.to(device)


def host(found: Any, like: Array) -> Array:
    """A result as an array of the dtype of `like`."""
    torch = _torch()
    made = found.detach().cpu()
    if made.dtype == torch.bfloat16:
        return made.contiguous().view(torch.int16).numpy().view(bf16.np)
    return made.numpy().astype(like.dtype)


def formula(kernel: str) -> Callable[[Callable[[Subject, Any], Formula | None]], Any]:
    """Decorator: the eager and the compiled peer of a kernel, of one formula."""

    def add(make: Callable[[Subject, Any], Formula | None]) -> Any:
        LIBRARY.peer(kernel, "torch eager")(_eager(make))
        LIBRARY.peer(kernel, "torch.compile")(_compiled(make))
        return make

    return add


def _prepared(s: Subject) -> tuple[Any, dict[str, Any]]:
    torch = _torch()
    torch.set_grad_enabled(False)
    if s.device == "cpu":
        torch.set_num_threads(s.threads)
    return torch, {n: tensor(a, s.device) for n, a in s.outputs.items()}


def _eager(make: Callable[[Subject, Any], Formula | None]) -> Make:
    def peer(s: Subject) -> Attempt | None:
        torch, outputs = _prepared(s)
        made = make(s, torch)
        if made is None:
            return None
        into, function, tensors = made.into, made.function, made.tensors
        if into is not None:
            (only,) = outputs.values()
            return Attempt(lambda: into(only), lambda: _hosted(s, tuple(outputs.values())))
        last: list[Any] = [None]

        def call() -> None:
            last[0] = function(*tensors)

        return Attempt(call, lambda: _hosted(s, last[0]))

    return peer


def _compiled(make: Callable[[Subject, Any], Formula | None]) -> Make:
    def peer(s: Subject) -> Attempt | None:
        torch, outputs = _prepared(s)
        made = make(s, torch)
        if made is None:
            return None
        function, tensors = made.function, made.tensors
        given = len(_several(function(*tensors)))  # a peer may leave later outputs alone
        targets = tuple(outputs.values())[:given]

        def whole(targets: tuple[Any, ...], *tensors: Any) -> None:
            found = function(*tensors)
            for target, value in zip(targets, _several(found), strict=True):
                target.copy_(value)

        torch._dynamo.reset()
        fused = torch.compile(whole, dynamic=False, fullgraph=True)
        return Attempt(lambda: fused(targets, *tensors), lambda: _hosted(s, targets))

    return peer


def _several(found: Any) -> tuple[Any, ...]:
    return tuple(found) if isinstance(found, tuple | list) else (found,)


def _hosted(s: Subject, found: Any) -> Mapping[str, Array]:
    pairs = zip(s.outputs.items(), _several(found), strict=False)
    return {name: host(value, like) for (name, like), value in pairs}


def _inputs(s: Subject, *names: str) -> tuple[Any, ...]:
    return tuple(
        tensor(value, s.device) if isinstance(value, np.ndarray) else value
        for value in (s.arguments[name] for name in names)
    )


# --- elementwise ----------------------------------------------------------------------------------

UNARY = (
    "abs",
    "neg",
    "sqrt",
    "rsqrt",
    "exp",
    "exp2",
    "log",
    "sin",
    "cos",
    "tanh",
    "erf",
    "sigmoid",
)
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "max": "maximum", "min": "minimum",
    "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
}  # fmt: skip


@formula("unary")
def _(s: Subject, torch: Any) -> Formula | None:
    op, tensors = s.consts["OP"], _inputs(s, "x")
    (x,) = tensors
    if op in UNARY:
        function = getattr(torch, op)
        return Formula(function, tensors, lambda y: function(x, out=y))
    named = {"silu": "silu", "relu": "relu", "gelu_erf": "gelu", "softplus": "softplus"}
    if op not in named:
        return None
    return Formula(getattr(torch.nn.functional, named[op]), tensors)


@formula("binary")
@formula("binary_integer")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts["OP"] not in BINARY:
        return None
    function, tensors = getattr(torch, BINARY[s.consts["OP"]]), _inputs(s, "a", "b")
    return Formula(function, tensors, lambda z: function(*tensors, out=z))


@formula("compare")
def _(s: Subject, torch: Any) -> Formula | None:
    function = getattr(torch, s.consts["OP"])
    return Formula(lambda a, b: function(a, b).to(torch.uint8), _inputs(s, "a", "b"))


@formula("gated_activation")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("VARIANT", "swiglu") != "swiglu" or s.gate_bias is not None:
        return None
    silu, tensors = torch.nn.functional.silu, _inputs(s, "g", "u")
    g, u = tensors
    return Formula(lambda g, u: silu(g) * u, tensors, lambda y: torch.mul(silu(g), u, out=y))


@formula("gated_activation_packed")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("VARIANT", "swiglu") != "swiglu" or s.consts.get("LAYOUT") == "interleaved":
        return None
    silu, half = torch.nn.functional.silu, s.x.shape[1] // 2
    return Formula(lambda x: silu(x[:, :half]) * x[:, half:], _inputs(s, "x"))


@formula("copy")
def _(s: Subject, torch: Any) -> Formula | None:
    tensors = _inputs(s, "x")
    return Formula(lambda x: x, tensors, lambda y: y.copy_(tensors[0]))


@formula("cast")
def _(s: Subject, torch: Any) -> Formula | None:
    tensors, kind = _inputs(s, "x"), tensor(s.outputs["y"], "cpu").dtype
    return Formula(lambda x: x.to(kind), tensors, lambda y: y.copy_(tensors[0]))


@formula("select")
def _(s: Subject, torch: Any) -> Formula | None:
    c, a, b = _inputs(s, "c", "a", "b")
    held = c.to(torch.bool)
    return Formula(torch.where, (held, a, b), lambda y: torch.where(held, a, b, out=y))


# --- rows -----------------------------------------------------------------------------------------


@formula("softmax_split")
@formula("softmax")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.mask is not None or s.arguments["scale"] != 1.0:
        return None
    function = torch.log_softmax if s.consts.get("LOG") else torch.softmax
    tensors = _inputs(s, "x")
    return Formula(lambda x: function(x, -1), tensors, lambda y: function(tensors[0], -1, out=y))


@formula("rms_norm")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.residual is not None or s.consts.get("L2") or s.consts.get("ONE_PLUS"):
        return None
    norm, eps, size = torch.nn.functional.rms_norm, float(s.eps), (s.x.shape[-1],)
    return Formula(lambda x, w: norm(x, size, w, eps), _inputs(s, "x", "w"))


@formula("add_rms_norm")
def _(s: Subject, torch: Any) -> Formula | None:
    norm, eps, size = torch.nn.functional.rms_norm, float(s.eps), (s.x.shape[-1],)

    def both(x: Any, residual: Any, w: Any) -> Any:
        h = x + residual
        return norm(h, size, w, eps), h

    return Formula(both, _inputs(s, "x", "residual", "w"))


@formula("layer_norm")
def _(s: Subject, torch: Any) -> Formula | None:
    norm, eps, size = torch.nn.functional.layer_norm, float(s.eps), (s.x.shape[-1],)
    return Formula(lambda x, w, b: norm(x, size, w, b, eps), _inputs(s, "x", "w", "b"))


@formula("reduce")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("OP", "sum") != "sum":
        return None
    tensors = _inputs(s, "x")
    return Formula(lambda x: x.sum(-1), tensors, lambda y: torch.sum(tensors[0], -1, out=y))


@formula("reduce_axis")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("OP", "sum") != "sum":
        return None
    tensors = _inputs(s, "x")
    return Formula(lambda x: x.sum(1), tensors, lambda y: torch.sum(tensors[0], 1, out=y))


@formula("arg_reduce")
def _(s: Subject, torch: Any) -> Formula | None:
    function = torch.argmax if s.consts.get("OP", "max") == "max" else torch.argmin
    return Formula(lambda x: function(x, -1), _inputs(s, "x"))


@formula("logsumexp")
def _(s: Subject, torch: Any) -> Formula | None:
    tensors = _inputs(s, "x")
    into = lambda y: torch.logsumexp(tensors[0], -1, out=y)  # noqa: E731
    return Formula(lambda x: torch.logsumexp(x, -1), tensors, into)


@formula("scan")
@formula("scan_rows")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("EXCLUSIVE"):
        return None
    tensors = _inputs(s, "x")
    into = lambda y: torch.cumsum(tensors[0], -1, out=y)  # noqa: E731
    return Formula(lambda x: torch.cumsum(x, -1), tensors, into)


@formula("gather")
def _(s: Subject, torch: Any) -> Formula | None:
    table, idx = _inputs(s, "table", "idx")
    at = idx.to(torch.int64)
    into = lambda y: torch.index_select(table, 0, at, out=y)  # noqa: E731
    return Formula(lambda table, at: table[at], (table, at), into)


# --- products -------------------------------------------------------------------------------------


@formula("gemv")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.bias is not None:
        return None
    x, w = _inputs(s, "x", "w")
    into = lambda y: torch.matmul(x, w.T, out=y)  # noqa: E731
    return Formula(lambda x, w: x @ w.T, (x, w), into)


@LIBRARY.peer("qmv", "torch f32 weights")
def _(s: Subject) -> Attempt | None:
    """What the packed weight saves: the same product with the weight decoded."""
    if s.bias is not None or s.residual is not None or not isinstance(s.w, QTensor):
        return None
    torch, outputs = _prepared(s)
    x = _inputs(s, "x")[0].to(torch.float32)
    w = tensor(s.w.decode(), s.device)
    y = torch.empty(x.shape[0], w.shape[0], device=x.device)
    into = outputs["y"]

    def call() -> None:
        torch.matmul(x, w.T, out=y)
        into.copy_(y)

    return Attempt(call, lambda: _hosted(s, into))


@formula("gemm")
@formula("gemm_splitk")
def _(s: Subject, torch: Any) -> Formula | None:
    extra = (s.bias, s.residual, s.alpha, s.beta)
    if any(e is not None for e in extra) or {"ACT", "MATH"} & s.consts.keys():
        return None
    a, b = _inputs(s, "a", "b")
    x, y = a.T if s.consts["TA"] else a, b.T if s.consts["TB"] else b
    return Formula(torch.matmul, (x, y), lambda c: torch.matmul(x, y, out=c))


@LIBRARY.peer(PRODUCT)
def _(s: Subject) -> Attempt | None:
    """The ceiling of matrix units; the operands are random, since zeros take less power."""
    torch, _ = _prepared(s)
    kind = tensor(np.zeros(1, s.dtypes["T"].np), "cpu").dtype
    side = (s.consts["SIDE"], s.consts["SIDE"])
    x, y, z = (torch.randn(side, device=s.device).to(kind) for _ in range(3))
    return Attempt(lambda: torch.matmul(x, y, out=z), dict)


# --- attention ------------------------------------------------------------------------------------


@formula("sdpa_decode")
@formula("sdpa_decode_two_pass")
def _(s: Subject, torch: Any) -> Formula | None:
    plain = s.mask is None and s.sink is None and not s.softcap and not s.window
    whole = bool((np.asarray(s.used) == s.k.shape[2]).all())
    if not plain or not whole or s.dtypes["T"] is not s.dtypes["C"]:
        return None
    attend, scale = torch.nn.functional.scaled_dot_product_attention, float(s.arguments["scale"])
    grouped = s.q.shape[1] != s.k.shape[1]

    def one(q: Any, k: Any, v: Any) -> Any:
        return attend(q[:, :, None], k, v, scale=scale, enable_gqa=grouped)[:, :, 0]

    return Formula(one, _inputs(s, "q", "k", "v"))


@LIBRARY.peer("sdpa_prefill")
def _(s: Subject) -> Attempt | None:
    """By cuDNN on a GPU, where that can, else by flash attention."""
    plain = all(x is None for x in (s.used, s.mask, s.sink)) and not s.softcap and not s.window
    causal = bool(s.consts.get("CAUSAL"))
    if not plain or (causal and s.q.shape[2] != s.k.shape[2]):
        return None
    torch, _ = _prepared(s)
    attention, given = torch.nn.attention, _inputs(s, "q", "k", "v")
    wanted = [getattr(attention.SDPBackend, f"{n}_ATTENTION") for n in ("CUDNN", "FLASH")]
    how = {"is_causal": causal, "scale": float(s.scale)}
    how["enable_gqa"] = s.q.shape[1] != s.k.shape[1]
    last: list[Any] = [None]

    def call() -> None:
        chosen = attention.sdpa_kernel(wanted, set_priority=True)
        with nullcontext() if s.device == "cpu" else chosen:
            last[0] = torch.nn.functional.scaled_dot_product_attention(*given, **how)

    return Attempt(call, lambda: _hosted(s, last[0]))


@formula("rope")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("PAIRING", "half") != "half" or s.consts.get("INVERSE"):
        return None
    step = s.frequency.astype(np.float64) @ [2.0**-32, 2.0**-64] * 2 * np.pi
    angle = np.outer(np.asarray(s.position, np.float64), step)[:, None]
    scale, pairs = float(s.arguments["scale"]), step.size
    x = _inputs(s, "x")[0]
    both = [
        torch.tensor(f(angle) * scale, dtype=x.dtype, device=x.device) for f in (np.cos, np.sin)
    ]

    def turned(x: Any, c: Any, d: Any) -> Any:
        a, b, rest = x[..., :pairs], x[..., pairs : 2 * pairs], x[..., 2 * pairs :]
        return torch.cat([a * c - b * d, a * d + b * c, rest], -1)

    return Formula(turned, (x, *both))


@formula("kv_append")
def _(s: Subject, torch: Any) -> Formula | None:
    if s.consts.get("RING"):
        return None
    key, value, position = _inputs(s, "key", "value", "position")
    at = position.to(torch.int64)
    caches = tuple(tensor(s.outputs[n], s.device) for n in ("keys", "values"))

    def put(key: Any, value: Any, at: Any) -> Any:
        for cache, new in zip(caches, (key, value), strict=True):
            cache.index_copy_(1, at, new.transpose(0, 1).to(cache.dtype))
        return caches

    return Formula(put, (key, value, at))
