"""What Iron takes on this CPU around the work itself: launches, and getting from text to code.

`python benches/latency.py` prints medians of: a launch of 64 elements, inline and through the warm
pool; the way of a kernel of about 300 operations from its source, and from the text of its IR, to
something that can be called; and the load of its cached object code. LLVM is loaded beforehand.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from iron.backends.cpu.entry import compile_kernel, symbol_of
from iron.backends.cpu.launcher import HEADER
from iron.backends.cpu.machine import host
from iron.compiler import lower
from iron.front.bind import TensorArg, bind
from iron.front.specialise import _Known, _read
from iron.ir.core import Kernel
from iron.ir.parse import parse_kernel
from iron.ir.text import digest, print_kernel
from iron.lang import (
    In,
    Out,
    cdiv,
    dims,
    each,
    exp,
    f32,
    groups,
    kernel,
    log,
    sigmoid,
    sin,
    tanh,
    thread,
)
from iron.runtime.cache import Cache
from iron.runtime.drivers.cpu_objects import ObjectStore

(N,) = dims("N")


@kernel
def mixed(x: In[f32, N], y: Out[f32, N]):
    """Elementary functions of each other."""
    (i,) = each(N)
    value = tanh(x[i]) + exp(x[i])
    value = log(value * value + 1.0) + sin(value)
    y[i] = sigmoid(value)


@kernel
def halves(x: In[f32, N], y: Out[f32, N]):
    """y = exp(x) in groups of 32."""
    (group,) = groups(cdiv(N, 32), threads=32)
    i = group * 32 + thread
    if i < N:
        y[i] = exp(x[i])


def median(run: Callable[[], Any], times: int) -> float:
    """Seconds of the middle run."""
    taken: list[float] = []
    for _ in range(times):
        started = time.perf_counter()
        run()
        taken.append(time.perf_counter() - started)
    return statistics.median(taken)


def launch(pooled: bool) -> float:
    """Seconds of one launch of 64 elements, from 1000 in a row."""
    x, y = np.ones(64, np.float32), np.empty(64, np.float32)
    handle = halves.bind(x, y=y)
    if pooled:
        job = handle.launch.__self__[1]  # a built-in function; see `CpuExecutable.bind`
        handle.executables[0].pool.start()
        assert (HEADER, job[1]) == (4, 2)
        job[2] = 1  # groups of a chunk, so that there are two chunks
    call = handle.launch

    def thousand() -> None:
        for _ in range(1000):
            call()

    thousand()
    return median(thousand, 101) / 1000


def operations(made: Kernel) -> int:
    """Ops of a kernel but constants and yields."""
    return sum(op.name not in ("const", "yield") for op in made.body.walk())


def main() -> None:
    """Prints one line a figure."""
    target = host()
    argument = TensorArg(f32, (1 << 20,))
    binding = bind(mixed, {"x": argument, "y": argument}, {}, simd=target.simd)

    def read() -> Kernel:
        return _read(mixed, binding, target.simd, _Known()).kernel

    def code(made: Kernel, store: ObjectStore) -> None:
        lowered = lower(made)
        symbol = symbol_of(lowered)
        store.linked(digest(lowered), "", lambda: compile_kernel(lowered, target).text, symbol)[
            symbol
        ]

    fresh, text = ObjectStore(target, None), print_kernel(read())
    size = operations(lower(read()))
    print(f"launch of 64 elements, inline     {launch(False) * 1e6:8.3f} us   (gate 0.3)")
    print(f"launch of 64 elements, warm pool  {launch(True) * 1e6:8.3f} us   (gate 0.8)")
    taken = median(lambda: code(parse_kernel(text), fresh), 15)
    print(f"IR text to callable, {size} ops    {taken * 1e3:8.2f} ms   (gate 50)")
    taken = median(lambda: code(read(), fresh), 15)
    print(f"source to callable, {size} ops     {taken * 1e3:8.2f} ms   (gate 110)")
    with tempfile.TemporaryDirectory() as folder:
        kept, lowered = ObjectStore(target, Cache(Path(folder) / "cache")), lower(read())
        symbol, source = symbol_of(lowered), digest(lowered)

        def load() -> None:
            kept.linked(source, "", lambda: compile_kernel(lowered, target).text, symbol)[symbol]

        load()
        print(f"cached object load                {median(load, 51) * 1e3:8.2f} ms   (gate 1)")


if __name__ == "__main__":
    main()
