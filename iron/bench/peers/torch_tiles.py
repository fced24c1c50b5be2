"""PyTorch's attention, convolutions and products of bytes, by the ways that it has for them.

Inputs lie as Iron's do; cuDNN may try its ways before it is timed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from iron.bench.peers.record import Attempt, Library, Subject
from iron.bench.peers.torch import LIBRARY as TORCH
from iron.bench.peers.torch import host, tensor

LIBRARY = Library("torch", TORCH.version)
WAYS = ("CUDNN", "FLASH")


def _torch(s: Subject) -> Any:
    torch: Any = importlib.import_module("torch")
    torch.set_grad_enabled(False)
    torch.backends.cudnn.benchmark = True
    if s.device == "cpu":
        torch.set_num_threads(s.threads)
    return torch


def _given(s: Subject, *names: str) -> list[Any]:
    return [tensor(s.arguments[n], s.device) for n in names]


def _attempt(s: Subject, name: str, run: Callable[[], Any]) -> Attempt:
    """`run` gives the output `name`."""
    like, last = s.outputs[name], list[Any]([None])

    def call() -> None:
        last[0] = run()

    return Attempt(call, lambda: {name: host(last[0], like)})


# --- attention ------------------------------------------------------------------------------------


def _attention(s: Subject, way: str, mask: Callable[[Any], Any]) -> Attempt | None:
    """`mask(torch)` is what the queries see, None for everything; a CPU takes its own way."""
    torch = _torch(s)
    backend = getattr(torch.nn.attention.SDPBackend, f"{way}_ATTENTION")
    how = {"scale": float(s.arguments["scale"]), "attn_mask": mask(torch)}
    how["enable_gqa"] = s.q.shape[1] != s.k.shape[1]
    given = _given(s, "q", "k", "v")

    def run() -> Any:
        chosen = nullcontext() if s.device == "cpu" else torch.nn.attention.sdpa_kernel([backend])
        with chosen:
            return torch.nn.functional.scaled_dot_product_attention(*given, **how)

    return _attempt(s, "o", run)


def _bidirectional(s: Subject, way: str) -> Attempt | None:
    plain = all(x is None for x in (s.used, s.ids, s.table)) and s.band < 0
    return _attention(s, way, lambda torch: None) if plain else None


def _batched(s: Subject, way: str) -> Attempt | None:
    """cuDNN is given a mask, flash attention that queries and keys are aligned at their ends."""
    whole = bool((np.asarray(s.used) == s.k.shape[2]).all())
    if s.sink is not None or s.softcap or s.window or not whole:
        return None
    queries, keys = s.q.shape[2], s.k.shape[2]

    def mask(torch: Any) -> Any:
        if way == "FLASH":
            bias: Any = importlib.import_module("torch.nn.attention.bias")
            return bias.causal_lower_right(queries, keys)
        every = torch.ones(queries, keys, dtype=torch.bool, device=s.device)
        return every.tril(keys - queries)

    return _attention(s, way, mask)


for _way in WAYS:
    _called = f"torch {_way.lower()}"
    LIBRARY.peer("sdpa_bidirectional", _called)(lambda s, way=_way: _bidirectional(s, way))
    LIBRARY.peer("sdpa_decode_batched", _called)(lambda s, way=_way: _batched(s, way))


# --- products -------------------------------------------------------------------------------------


@LIBRARY.peer("gemm_scaled", "torch scaled")
def _(s: Subject) -> Attempt | None:
    """With the sums that its units are fast with, and a scale of 1 for each matrix."""
    given = (s.a_scale, s.b_scale, s.bias, s.alpha)
    if any(x is not None for x in given):
        return None
    torch = _torch(s)
    kinds = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    kind = kinds[str(s.consts.get("FORMAT", "e4m3"))]
    a, b = (x.view(kind) for x in _given(s, "a", "b"))
    one = torch.ones((), device=s.device)
    to = tensor(np.zeros(1, s.dtypes["T"].np), "cpu").dtype
    how = {"out_dtype": to, "use_fast_accum": True}
    return _attempt(s, "c", lambda: torch._scaled_mm(a, b.T, one, one, **how))


# --- convolutions ---------------------------------------------------------------------------------


def _sizes(s: Subject) -> dict[str, int] | None:
    """Stride, padding, dilation and groups of a convolution; None where more follows it."""
    consts = s.consts
    if s.bias is not None or s.residual is not None or consts.get("ACT", "none") != "none":
        return None
    names = {"stride": ("STRIDE", 1), "padding": ("PAD", 0), "dilation": ("DIL", 1)}
    return {n: int(consts.get(key, usual)) for n, (key, usual) in names.items()}


@LIBRARY.peer("conv2d")
def _(s: Subject) -> Attempt | None:
    """Channels last, which is how the arrays lie."""
    how, torch = _sizes(s), _torch(s)
    if how is None:
        return None
    x, w = (a.permute(0, 3, 1, 2) for a in _given(s, "x", "w"))
    how["groups"] = x.shape[1] // w.shape[1]
    run = lambda: torch.nn.functional.conv2d(x, w, **how).permute(0, 2, 3, 1)  # noqa: E731
    return _attempt(s, "y", run)


@LIBRARY.peer("conv2d_planar")
def _(s: Subject) -> Attempt | None:
    how, torch = _sizes(s), _torch(s)
    if how is None:
        return None
    x, w = _given(s, "x", "w")
    how["groups"] = x.shape[1] // w.shape[1]
    return _attempt(s, "y", lambda: torch.nn.functional.conv2d(x, w, **how))


@LIBRARY.peer("patch_embed")
def _(s: Subject) -> Attempt | None:
    if s.bias is not None or s.place is not None or s.consts.get("ORDER", "cyx") != "cyx":
        return None
    torch, side = _torch(s), int(s.consts["SIDE"])
    x, w = _given(s, "x", "w")
    filters = w.reshape(w.shape[0], x.shape[1], side, side)

    def run() -> Any:
        found = torch.nn.functional.conv2d(x, filters, stride=side)
        return found.flatten(2).transpose(1, 2)

    return _attempt(s, "y", run)
