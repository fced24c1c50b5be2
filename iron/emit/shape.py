"""The shapes of a kernel's tensors as expressions of its dims: what a foreign host allocates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iron.emit.expression import Node, call, ceil_div, dim_node, number
from iron.front.bind import Binding
from iron.ir.core import Kernel, Param
from iron.ir.types import Tensor
from iron.lang.declare import KernelFunction
from iron.lang.parameter import ParamSpec


def shape(
    declared: KernelFunction,
    kernel: Kernel,
    binding: Binding,
    fixed: Mapping[str, int],
    param: Param,
) -> list[Node]:
    """One expression for each axis of a tensor parameter, a packed weight's plane included."""
    assert isinstance(param.type, Tensor)
    owner, _, plane = param.name.partition(".")
    spec = declared.signature[owner]
    assert isinstance(spec, ParamSpec)
    whole = {n: c for n, c in binding.consts.items() if isinstance(c, int)}
    known = {**whole, **fixed}
    if spec.dims is None:
        dims = [
            {"parameter": f"shape_{axis}", "type": kernel.index.name}
            for axis in range(param.type.rank)
        ]
        return [
            number(known[d["parameter"]], kernel.index) if d["parameter"] in known else d
            for d in dims
        ]
    sizes = [dim_node(size, known, kernel.index) for size in spec.dims]
    if not plane:
        return sizes
    packed = binding.packed[owner]
    assert packed is not None
    held = packed.format.plane(plane)
    return [_extent(extent, sizes) for extent in (held.rows, held.cols)]


def _extent(extent: Any, sizes: list[Node]) -> Node:
    """ceil(n^a k^b up / down) for a weight whose last axis is k and whose others make n."""
    *outer, k = sizes
    n = outer[0]
    for size in outer[1:]:
        n = call("mul", n, size)
    total: Node | None = None
    for factor, power in ((n, extent.n), (k, extent.k)):
        for _ in range(power):
            total = factor if total is None else call("mul", total, factor)
    up = {"constant": extent.up, "type": k["type"]}
    total = up if total is None else total if extent.up == 1 else call("mul", total, up)
    return total if extent.down == 1 else ceil_div(total, {**up, "constant": extent.down})
