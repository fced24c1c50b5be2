"""Triton, where it and a CUDA device are there: each kernel by hand in the usual form.

The kernels are in `elementwise`, `rows` and `attention`, which import triton; nothing else does.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from iron.bench.peers.record import Attempt, Library, Make, Subject
from iron.bench.peers.torch import host, tensor

LONGEST_ROW = 1 << 15
"""Columns that a program holds in registers."""


def _version(device: str) -> str | None:
    """The installed version, where torch reaches a CUDA device."""
    names = ("triton", "torch")
    if device != "cuda" or any(importlib.util.find_spec(n) is None for n in names):
        return None
    usable = importlib.import_module("torch").cuda.is_available()
    return metadata.version("triton") if usable else None


LIBRARY = Library("triton", _version)


def _module(name: str) -> Any:
    return importlib.import_module(f"{__package__}.{name}")


def _on_device(s: Subject, *names: str) -> list[Any]:
    return [tensor(s.arguments[n], s.device) for n in names]


def _attempt(s: Subject, run: Callable[..., Any], output: str) -> Attempt:
    """`run(y)` computes the only output, which is allocated here."""
    like = s.outputs[output]
    y = tensor(like, s.device)
    return Attempt(lambda: run(y), lambda: {output: host(y, like)})


def _each(kernel: Any, inputs: list[Any], **consts: Any) -> Callable[[Any], None]:
    """A launch of a kernel of elements: inputs, output, count."""
    block = _module("elementwise").BLOCK

    def run(y: Any) -> None:
        n = y.numel()
        kernel[((n + block - 1) // block,)](*inputs, y, n, BLOCK=block, **consts)

    return run


def _rows(
    kernel: Any, before: list[Any], columns: int, *after: Any
) -> Callable[[Any], None] | None:
    """A launch of a kernel of rows: inputs, output, columns, scalars. None for a long row."""
    if columns > LONGEST_ROW:
        return None
    block = 1 << max(0, columns - 1).bit_length()
    warps = min(16, max(4, block // 1024))

    def run(y: Any) -> None:
        grid = (y.numel() // columns,)
        kernel[grid](*before, y, columns, *after, BLOCK=block, num_warps=warps)

    return run


# --- elements -------------------------------------------------------------------------------------


@LIBRARY.peer("unary")
def _(s: Subject) -> Attempt | None:
    if s.consts["OP"] not in ("exp", "silu"):
        return None
    run = _each(_module("elementwise").unary, _on_device(s, "x"), OP=s.consts["OP"])
    return _attempt(s, run, "y")


@LIBRARY.peer("gated_activation")
def _(s: Subject) -> Attempt | None:
    plain = s.gate_bias is None and s.up_bias is None and s.row_scale is None
    if s.consts.get("VARIANT", "swiglu") != "swiglu" or not plain:
        return None
    return _attempt(s, _each(_module("elementwise").gated, _on_device(s, "g", "u")), "y")


@LIBRARY.peer("cast")
@LIBRARY.peer("copy")
def _(s: Subject) -> Attempt | None:
    floats = all(t.is_float for t in s.dtypes.values())
    if not floats or not s.x.flags.c_contiguous:
        return None
    return _attempt(s, _each(_module("elementwise").cast, _on_device(s, "x")), "y")


@LIBRARY.peer("select")
def _(s: Subject) -> Attempt | None:
    return _attempt(s, _each(_module("elementwise").select, _on_device(s, "c", "a", "b")), "y")


@LIBRARY.peer("binary")
def _(s: Subject) -> Attempt | None:
    known = ("add", "sub", "mul", "div")
    op, one_shape = s.consts["OP"], s.a.shape == s.b.shape
    if op not in known or not one_shape or s.consts.get("SWAP"):
        return None
    return _attempt(s, _each(_module("elementwise").binary, _on_device(s, "a", "b"), OP=op), "z")


# --- rows -----------------------------------------------------------------------------------------


@LIBRARY.peer("softmax")
def _(s: Subject) -> Attempt | None:
    plain = s.mask is None and s.sink is None and s.arguments["scale"] == 1.0
    if not plain or s.consts.get("LOG") or s.consts.get("ZERO"):
        return None
    run = _rows(_module("rows").softmax, _on_device(s, "x"), s.x.shape[-1])
    return None if run is None else _attempt(s, run, "y")


@LIBRARY.peer("rms_norm")
def _(s: Subject) -> Attempt | None:
    other = any(s.consts.get(name) for name in ("L2", "ONE_PLUS", "ROUNDED"))
    if s.residual is not None or s.w is None or other:
        return None
    run = _rows(_module("rows").rms_norm, _on_device(s, "x", "w"), s.x.shape[-1], float(s.eps))
    return None if run is None else _attempt(s, run, "y")


@LIBRARY.peer("layer_norm")
def _(s: Subject) -> Attempt | None:
    if s.w is None or s.b is None:
        return None
    inputs = _on_device(s, "x", "w", "b")
    run = _rows(_module("rows").layer_norm, inputs, s.x.shape[-1], float(s.eps))
    return None if run is None else _attempt(s, run, "y")


@LIBRARY.peer("rope")
def _(s: Subject) -> Attempt | None:
    """Cosines and sines come from f32 tables, as the field's kernels take them."""
    pairs, (_, heads, size) = s.frequency.shape[0], s.x.shape
    whole = size == 2 * pairs and pairs & (pairs - 1) == 0
    if s.consts.get("PAIRING", "half") != "half" or s.consts.get("INVERSE") or not whole:
        return None
    step = s.frequency.astype(np.float64) @ [2.0**-32, 2.0**-64] * 2 * np.pi
    angle = np.outer(np.asarray(s.position, np.float64), step)
    scale = float(s.arguments["scale"])
    tables = [tensor((f(angle) * scale).astype(np.float32), s.device) for f in (np.cos, np.sin)]
    (x,) = _on_device(s, "x")
    kernel, padded = _module("rows").rope, 1 << max(0, heads - 1).bit_length()

    def run(y: Any) -> None:
        kernel[(x.shape[0],)](x, *tables, y, heads, HEADS=padded, PAIRS=pairs)

    return _attempt(s, run, "y")


# --- attention ------------------------------------------------------------------------------------


def _decode(block: int) -> Make:
    """Attention of one query a head, the keys of each divided so that 256 programs are at work."""

    def peer(s: Subject) -> Attempt | None:
        q, k, v = (s.arguments[n] for n in ("q", "k", "v"))
        (batch, heads, size), groups, keys = q.shape, k.shape[1], k.shape[2]
        extra = any(s.arguments[n] is not None for n in ("mask", "bias", "sink"))
        plain = not extra and not s.softcap and not s.window and bool((s.used == keys).all())
        fits = size == v.shape[-1] and size & (size - 1) == 0 and heads // groups <= 16
        if not plain or not fits or size < 16 or q.dtype != k.dtype or q.dtype.itemsize != 2:
            return None
        torch, kernels = importlib.import_module("torch"), _module("attention")
        given = _on_device(s, "q", "k", "v")
        splits = max(1, min(64, 256 // (batch * groups), keys // block))
        splits = 1 << (splits.bit_length() - 1)
        part = torch.empty(batch * heads * splits * size, device=s.device)
        stat = torch.empty(batch * heads * splits * 2, device=s.device)
        scale = float(s.scale) * 1.4426950408889634

        def run(o: Any) -> None:
            kernels.share[(splits, groups, batch)](
                *given, part, stat, scale, keys, heads, RATIO=heads // groups, SPLITS=splits,
                D=size, BLOCK=block, num_warps=4, num_stages=3,
            )  # fmt: skip
            kernels.merge[(batch * heads,)](part, stat, o, SPLITS=splits, D=size)

        return _attempt(s, run, "o")

    return peer


for _block in (64, 128):
    for _kernel in ("sdpa_decode", "sdpa_decode_two_pass"):
        LIBRARY.peer(_kernel, f"triton split, {_block} keys")(_decode(_block))
