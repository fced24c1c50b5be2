"""How fast packed weights become f32 on this CPU: in a kernel, and on the host with numpy.

`IRON_CPU_THREADS=1 python benches/decode_weights.py [FORMAT ...]` decodes 100 million weights of
each format on one core. It prints weights and bytes a second beside numpy's copy of f32, which has
one thread; the format f32 is the same kernel as a plain copy, all in one run. A byte is counted
once where it is read and once where it is written.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import numpy as np

from iron.kernels.quant.dequantize import dequantize
from iron.quant.encode import quantize
from iron.quant.format import Format, by_name
from iron.quant.tensor import QTensor
from iron.runtime.driver import driver

ROWS, COLUMNS, MADE = 12208, 8192, 16
REGULAR = (
    "f32 bf16 mlx_int4_g64 mlx_int8_g64 int4_sym_g32_f16 int8_g32_f16 int8_row mxfp4 mxfp8_e4m3 "
    "nvfp4 fp8_e4m3_row fp8_e4m3_b128_f32 super_int4_g32 gguf_q4_0 gguf_q8_0 gguf_q4_k"
)


def weights(fmt: Format) -> QTensor:
    """A weight of 100 million elements: a few encoded rows, repeated."""
    few = np.random.default_rng(0).normal(size=(MADE, COLUMNS)).astype(np.float32)
    source = by_name("gguf_q4_k") if fmt.name == "super_int4_g32" else fmt
    held = quantize(few, source)
    if source is not fmt:
        from iron.quant.repack import to_planes

        held = to_planes(held)
    planes = {
        p.name: np.ascontiguousarray(np.resize(held.planes[p.name], p.shape(ROWS, COLUMNS)))
        for p in fmt.planes
    }
    return QTensor(fmt, planes, (ROWS, COLUMNS))


def fastest(run: Callable[[], object], times: int = 3) -> float:
    """Seconds of the fastest of some runs, after one that warms up."""
    run()
    out = []
    for _ in range(times):
        start = time.perf_counter()
        run()
        out.append(time.perf_counter() - start)
    return min(out)


def main(names: list[str]) -> None:
    """Prints one line a format."""
    y = driver("cpu").upload(np.zeros((ROWS, COLUMNS), np.float32))
    other = np.ones_like(y)
    copy = 2 * y.nbytes / fastest(lambda: np.copyto(y, other)) / 1e9
    print(f"copy {copy:.1f} GB/s")
    print(f"{'format':20} {'kernel M/s':>10} {'GB/s':>6} {'of copy':>8} {'numpy M/s':>10}")
    for name in names or REGULAR.split():
        weight = weights(by_name(name))
        handle = dequantize.bind(w=weight, y=y)
        seconds = fastest(handle)
        moved = (weight.nbytes + y.nbytes) / seconds / 1e9
        host = fastest(weight.decode, 1)
        print(
            f"{name:20} {y.size / seconds / 1e6:10.0f} {moved:6.1f} {moved / copy:8.0%} "
            f"{y.size / host / 1e6:10.0f}"
        )


if __name__ == "__main__":
    main(sys.argv[1:])
