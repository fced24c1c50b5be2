"""Times of kernels on an NVIDIA GPU against the copy ceiling and PyTorch, all in one run.

    python tools/device_bench.py memory|matvec|launch OUT

Each timed call follows a write of more than the L2 cache; times are those of CUDA events, the
median of the rounds, with contestants in turn. A record a line goes to OUT/bench.jsonl.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import torch

import iron  # noqa: F401 - names the package that is measured
from iron.quant.tensor import QTensor
from iron.runtime.driver import driver

DEVICE = torch.device("cuda")
DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
ELEMENTS = 64 << 20
ROUNDS = 15
Call = Callable[[], Any]


class Bench:
    """Measures and records."""

    def __init__(self, out: Path) -> None:
        self.path = out / "bench.jsonl"
        self.flush = torch.empty(256 << 20, dtype=torch.uint8, device=DEVICE)
        self.until = time.monotonic() + float(os.environ.get("DEVICE_SECONDS", "600"))
        self.ceilings: dict[str, float] = {}

    def times(self, calls: dict[str, Call]) -> dict[str, float]:
        """The median seconds of each call, cold."""
        for call in calls.values():
            for _ in range(3):
                call()
        torch.cuda.synchronize()
        marks: dict[str, list[Any]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, call in calls.items():
                self.flush.fill_(1)
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                call()
                end.record()
                marks[name].append((start, end))
        torch.cuda.synchronize()
        return {n: median(a.elapsed_time(b) for a, b in m) / 1e3 for n, m in marks.items()}

    def copy_ceiling(self) -> float:
        """Bytes a second, read and written, of a copy of 256 MiB."""
        if "copy" not in self.ceilings:
            a = torch.empty(ELEMENTS, device=DEVICE).normal_()
            b = torch.empty_like(a)
            found = self.times({"copy": lambda: b.copy_(a)})["copy"]
            self.ceilings["copy"] = 2 * a.nbytes / found
            total = torch.empty((), device=DEVICE)
            read = self.times({"read": lambda: torch.sum(a, dim=0, out=total)})["read"]
            self.ceilings["read"] = a.nbytes / read
            self.record(
                {
                    "line": f"ceilings TB/s: copy {2 * a.nbytes / found / 1e12:.3f}, "
                    f"sum {a.nbytes / read / 1e12:.3f}"
                }
            )
        return self.ceilings["copy"]

    def record(self, row: dict[str, Any]) -> None:
        """One line of the file."""
        with self.path.open("a") as log:
            log.write(json.dumps(row) + "\n")
        print(row.get("line", row), flush=True)

    def row(self, name: str, moved: int, calls: dict[str, Call]) -> None:
        """Measures contestants of one operation that moves `moved` bytes."""
        if time.monotonic() > self.until:
            return
        ceiling = self.copy_ceiling()
        try:
            found = self.times(calls)
        except Exception as fault:
            self.record({"line": f"{name:32} {type(fault).__name__}: {str(fault)[:300]}"})
            return
        ours = found["iron"]
        peers = {n: t for n, t in found.items() if n != "iron"}
        best = min(peers, key=lambda n: peers[n]) if peers else ""
        text = f"{name:32} {ours * 1e6:9.1f} us {moved / ours / 1e12:6.3f} TB/s"
        text += f" {100 * moved / ours / ceiling:5.1f}% of copy"
        if best:
            text += f"  best {best} {peers[best] * 1e6:9.1f} us, ratio {peers[best] / ours:5.2f}"
        self.record({"line": text, "name": name, "bytes": moved, "seconds": found})


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` through torch.compile."""
    return torch.compile(function, dynamic=False)


def memory_rows(b: Bench, dtype: str) -> None:
    """The memory-bound operations at 64 Mi elements."""
    from iron.kernels.norm.layer_norm import layer_norm
    from iron.kernels.norm.rms_norm import rms_norm
    from iron.kernels.ops.binary import binary
    from iron.kernels.ops.cast import cast
    from iron.kernels.ops.copy import copy
    from iron.kernels.ops.gated_activation import gated_activation
    from iron.kernels.ops.select import select
    from iron.kernels.ops.unary import unary
    from iron.kernels.rope.rope import rope, turns
    from iron.kernels.sampling.softmax import softmax

    T = DTYPES[dtype]
    size, F = torch.empty((), dtype=T).element_size(), torch.nn.functional
    x = torch.empty(ELEMENTS, dtype=T, device=DEVICE).normal_()
    u, y = torch.empty_like(x).normal_(), torch.empty_like(x)
    matrix = lambda t, n: t.view(-1, n)  # noqa: E731

    calls: dict[str, Call] = {"iron": unary.bind(x=x, y=y, OP="silu"), "torch": lambda: F.silu(x)}
    silu = compiled(F.silu)
    calls["compile"] = lambda: silu(x)
    b.row(f"unary silu {dtype}", 2 * size * ELEMENTS, calls)

    a2, b2, y2 = matrix(x, 8192), matrix(u, 8192), matrix(y, 8192)
    calls = {
        "iron": binary.bind(a=a2, b=b2, z=y2, OP="add"),
        "torch": lambda: torch.add(x, u, out=y),
    }
    b.row(f"binary add {dtype}", 3 * size * ELEMENTS, calls)

    c = torch.randint(0, 2, (ELEMENTS,), dtype=torch.uint8, device=DEVICE)
    flag = c.bool()
    calls = {"iron": select.bind(c=c, a=x, b=u, y=y), "torch": lambda: torch.where(flag, x, u)}
    b.row(f"select {dtype}", (3 * size + 1) * ELEMENTS, calls)

    to, other = (torch.float16, "f16") if dtype == "f32" else (torch.float32, "f32")
    z = torch.empty(ELEMENTS, dtype=to, device=DEVICE)
    calls = {"iron": cast.bind(x=x, y=z), "torch": lambda: z.copy_(x)}
    b.row(f"cast {dtype} to {other}", (size + z.element_size()) * ELEMENTS, calls)

    calls = {"iron": copy.bind(x=a2, y=y2), "torch": lambda: y2.copy_(a2)}
    b.row(f"copy {dtype}", 2 * size * ELEMENTS, calls)

    g, v, w = (matrix(t[: 4608 * 14336], 14336) for t in (x, u, y))
    ours = gated_activation.bind(
        g=g, u=v, gate_bias=None, up_bias=None, row_scale=None, y=w, limit=0.0, alpha=0.0
    )
    f = compiled(lambda p, q: F.silu(p) * q)
    b.row(
        f"swiglu 4608x14336 {dtype}",
        3 * size * g.numel(),
        {"iron": ours, "compile": lambda: f(g, v)},
    )

    for n in (4096, 8192):
        X, Y = matrix(x, n), matrix(y, n)
        gain, bias = (torch.empty(n, dtype=T, device=DEVICE).normal_() for _ in range(2))
        norm = compiled(lambda t, s, n=n: F.rms_norm(t, (n,), s, 1e-5))
        calls = {"iron": rms_norm.bind(x=X, w=gain, residual=None, y=Y, eps=1e-5)}
        calls["compile"] = lambda f=norm, X=X, gain=gain: f(X, gain)
        b.row(f"rms_norm {X.shape[0]}x{n} {dtype}", 2 * size * ELEMENTS, calls)
        layer = compiled(lambda t, s, o, n=n: F.layer_norm(t, (n,), s, o, 1e-5))
        calls = {"iron": layer_norm.bind(x=X, w=gain, b=bias, y=Y, eps=1e-5)}
        calls["torch"] = lambda X=X, gain=gain, bias=bias, n=n: F.layer_norm(
            X, (n,), gain, bias, 1e-5
        )
        calls["compile"] = lambda f=layer, X=X, gain=gain, bias=bias: f(X, gain, bias)
        b.row(f"layer_norm {X.shape[0]}x{n} {dtype}", 2 * size * ELEMENTS, calls)
        soft = compiled(lambda t: torch.softmax(t, -1))
        calls = {"iron": softmax.bind(x=X, mask=None, y=Y, scale=1.0)}
        calls["torch"] = lambda X=X: torch.softmax(X, -1)
        calls["compile"] = lambda f=soft, X=X: f(X)
        b.row(f"softmax {X.shape[0]}x{n} {dtype}", 2 * size * ELEMENTS, calls)

    heads = x[: 16384 * 32 * 128].view(16384, 32, 128)
    turned = y[: heads.numel()].view(heads.shape)
    position = torch.arange(16384, device=DEVICE).to(torch.int32).view(torch.uint32)
    steps = torch.from_numpy(turns([1e4 ** (-i / 64) for i in range(64)])).to(DEVICE)
    ours = rope.bind(x=heads, position=position, frequency=steps, y=turned, scale=1.0)
    angle = torch.arange(16384, device=DEVICE)[:, None, None] * (
        1e4 ** (-torch.arange(64, device=DEVICE) / 64)
    )
    cos, sin = angle.cos().to(T), angle.sin().to(T)

    def turn(t: Any) -> Any:
        p, q = t[..., :64], t[..., 64:]
        return torch.cat([p * cos - q * sin, p * sin + q * cos], -1)

    peer = compiled(turn)
    moved = 2 * size * heads.numel()
    b.row(f"rope 16384x32x128 {dtype}", moved, {"iron": ours, "compile": lambda: peer(heads)})


def memory(b: Bench) -> None:
    """Every memory-bound row in every dtype."""
    for dtype in ("bf16", "f32", "f16"):
        memory_rows(b, dtype)


def matvec(b: Bench) -> None:
    """Matrix times vector, packed weights, and attention of one query."""
    import numpy as np

    from iron.kernels.gemm.gemv import gemv
    from iron.kernels.gemm.qmv import qmv
    from iron.kernels.sdpa.decode_split import sdpa_decode_two_pass
    from iron.quant.encode import quantize
    from iron.quant.format import by_name

    n, k = 14336, 4096
    w = torch.empty(n, k, dtype=torch.bfloat16, device=DEVICE).normal_()
    for m in (1, 4):
        x = torch.empty(m, k, dtype=torch.bfloat16, device=DEVICE).normal_()
        y = torch.empty(m, n, dtype=torch.bfloat16, device=DEVICE)
        calls: dict[str, Call] = {"iron": gemv.bind(x=x, w=w, bias=None, y=y)}
        calls["cublas"] = lambda x=x, y=y: torch.mm(x, w.T, out=y)
        b.row(f"gemv bf16 {n}x{k} M={m}", w.nbytes, calls)
    x = torch.empty(1, k, dtype=torch.bfloat16, device=DEVICE).normal_()
    y = torch.empty(1, n, dtype=torch.bfloat16, device=DEVICE)
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((256, k), np.float32)
    for name in ("bf16", "mlx_int4_g64", "gguf_q4_1", "gguf_q4_0", "gguf_q8_0", "mlx_int8_g64"):
        part = quantize(dense, by_name(name))
        planes = {
            key: driver("cuda").upload(np.tile(p, (n // 256, 1))) for key, p in part.planes.items()
        }
        packed = QTensor(part.fmt, planes, (n, k))
        moved = part.nbytes * (n // 256)
        b.row(
            f"qmv {name} {n}x{k}",
            moved,
            {"iron": qmv.bind(x=x, w=packed, bias=None, residual=None, y=y)},
        )
    for batch, length in ((1, 4096), (1, 8192), (1, 32768), (8, 8192)):
        q = torch.empty(batch, 32, 128, dtype=torch.bfloat16, device=DEVICE).normal_()
        keys = torch.empty(batch, 8, length, 128, dtype=torch.bfloat16, device=DEVICE).normal_()
        values = torch.empty_like(keys).normal_()
        used = torch.full((batch,), length, device=DEVICE).to(torch.int32).view(torch.uint32)
        given = dict(q=q, k=keys, v=values, used=used, mask=None, sink=None, scale=0.088,
                     softcap=0.0, window=0, first=0)  # fmt: skip
        splits = max(1, min(64, 2048 // (8 * batch)))
        calls = {"iron": sdpa_decode_two_pass.bind(**given, SPLITS=splits)}
        calls["torch"] = lambda q=q, keys=keys, values=values: (
            torch.nn.functional.scaled_dot_product_attention(
                q[:, :, None], keys, values, scale=0.088, enable_gqa=True
            )
        )
        b.row(f"sdpa_decode two-pass B{batch} {length}", 2 * keys.nbytes, calls)


def launch(b: Bench) -> None:
    """What a launch costs the host, bound and unbound, and inside a graph."""
    from iron.kernels.ops.unary import unary

    x, y = (torch.zeros(1024, device=DEVICE) for _ in range(2))
    handle = unary.bind(x=x, y=y, OP="neg")
    kinds: dict[str, Call] = {"bound handle": handle, "bare launch": handle.launch}
    kinds["unbound call"] = lambda: unary(x=x, y=y, OP="neg")
    kinds["torch.neg out="] = lambda: torch.neg(x, out=y)
    for name, call in kinds.items():
        for _ in range(50):
            call()
        torch.cuda.synchronize()
        best = []
        for _ in range(20):
            begun = time.perf_counter()
            for _ in range(100):
                call()
            best.append((time.perf_counter() - begun) / 100)
            torch.cuda.synchronize()
        b.record({"line": f"host time of {name:16} {min(best) * 1e6:7.2f} us", "name": name})
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    x.fill_(3)
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(32):
            handle()
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    right = bool((y == -3).all())
    begun = time.perf_counter()
    for _ in range(100):
        graph.replay()
    torch.cuda.synchronize()
    took = (time.perf_counter() - begun) / 3200
    b.record({"line": f"graph of 32 launches: right {right}, {took * 1e6:.2f} us a launch"})


def main() -> int:
    """One group of rows."""
    kind, out = sys.argv[1], Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    {"memory": memory, "matvec": matvec, "launch": launch}[kind](Bench(out))
    return 0


if __name__ == "__main__":
    sys.exit(main())
