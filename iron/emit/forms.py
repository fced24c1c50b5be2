"""The forms of a kernel that a host chooses among: what each needs, as expressions and as a line.

A form reads and writes what the kernel's plain code does, in fewer and wider accesses. The first
whose conditions hold is best; the plain code takes every launch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from iron.backends import cuda_forms
from iron.backends import forms as general
from iron.backends.clike import Dialect
from iron.backends.cuda import CUDA
from iron.backends.cuda_code import Code, Field, code_of
from iron.dtypes import DType, bool_, by_name, i64, u64
from iron.emit import abi
from iron.emit.expression import (
    Node,
    address,
    call,
    comparison,
    host_nodes,
    number,
    stride,
    written,
)
from iron.ir.core import Kernel
from iron.ir.ops.ring import PANEL_BYTES

PLAIN = "takes any arguments"

Form = general.Form[Code]


def forms(kernel: Kernel, symbol: str, dialect: Dialect) -> tuple[Form, ...]:
    """The forms of a lowered kernel, best first. The entry of the last is `symbol`; the others have
    what they gain at its end."""
    found = general.forms(kernel, lambda body, words: (body, frozenset(words)))
    made: list[Form] = []
    if dialect is CUDA and (ringed := kernel.preferred) is not None:
        made.append(cuda_forms.ringed(ringed, f"{symbol}_rings"))
    for form in found:
        body, wide = form.code
        code = code_of(body, _entry(symbol, form), wide, dialect)
        made.append(general.Form(form.kernel, code, form.aligned, form.unit, form.regrouped))
    return tuple(made)


def _entry(symbol: str, form: general.Form[Any]) -> str:
    gained = "neighbours" if form.regrouped else "words" if form.aligned else "unit"
    return f"{symbol}_{gained}" if form.aligned or form.unit else symbol


def record(
    form: Form,
    kernel: Kernel,
    parameters: Sequence[Mapping[str, Any]],
    resources: Mapping[str, int],
) -> dict[str, Any]:
    """The manifest's record of a form of `kernel`, whose parameters the manifest has."""
    groups, conditions = host_nodes(form.kernel)
    sizes = {p["name"]: [extent["tree"] for extent in p.get("shape", ())] for p in parameters}
    held = {p["name"]: p for p in parameters}
    needs = [
        *(need for name, size in form.aligned.items() for need in _aligned(held[name], size)),
        *(_straight(held[name]) for name in sorted(form.unit)),
        *(_preceded(held[name], axis) for name, axis in form.preceded),
        # Those before are the kernel's own.
        *conditions[len(kernel.requires) :],
    ]
    return {
        "entry": form.code.symbol,
        "requires": [written(need) for need in needs],
        "groups": [written(extent) for extent in groups],
        "threads": form.kernel.threads,
        "dynamic_bytes": form.code.dynamic,
        "arguments": [_argument(f, sizes, kernel.index) for f in form.code.fields],
        "resources": dict(resources),
    }


def _argument(field: Field, sizes: Mapping[str, Sequence[Node]], index: DType) -> dict[str, Any]:
    """The manifest's record of an argument; a tensor map with all that encodes it."""
    if (held := field.map) is None:
        return abi.record([field])[0]

    def extent(size: str | int, own: Node) -> Node:
        if isinstance(size, int):
            return number(size, index)
        return {"parameter": size, "type": index.name} if size else own

    extents = map(extent, held.extents, sizes[field.name])
    return {
        "kind": "map",
        "name": field.name,
        "dtype": held.dtype.name,
        "box": list(held.box),
        "sizes": [written(size) for size in extents],
        "swizzle_bytes": PANEL_BYTES,
        "ended": held.ended,
    }


def note(form: Form, kernel: Kernel) -> str:
    """What a form needs, for who reads the code."""
    parts = [f"rows of {name} at multiples of {size} bytes" for name, size in form.aligned.items()]
    parts += [f"neighbours in the last axis of {name}" for name in sorted(form.unit)]
    parts += dict.fromkeys(r.message for r in form.kernel.requires[len(kernel.requires) :])
    return f"needs {', '.join(parts)}"


def _aligned(parameter: Mapping[str, Any], size: int) -> Iterator[Node]:
    """The first element and every row begin at a multiple of `size` bytes."""
    name, bytes = parameter["name"], by_name(parameter["dtype"]).bytes
    yield _multiple(address(name), size)
    for axis, extent in enumerate(parameter["shape"][:-1]):
        step = call("mul", stride(name, axis), number(bytes, i64))
        yield _alone(extent["tree"], _multiple(step, size))


def _straight(parameter: Mapping[str, Any]) -> Node:
    """Neighbours along the last axis are neighbours in memory."""
    last = parameter["rank"] - 1
    step = comparison("eq", stride(parameter["name"], last), number(1, i64))
    return _alone(parameter["shape"][last]["tree"], step)


def _preceded(parameter: Mapping[str, Any], axis: int) -> Node:
    """There are addresses before the tensor, as many as its axis is long."""
    name, bytes = parameter["name"], by_name(parameter["dtype"]).bytes
    length = {"op": "cast", "args": [parameter["shape"][axis]["tree"]], "type": i64.name}
    span = call("mul", call("mul", length, stride(name, axis)), number(bytes, i64))
    place = {"op": "cast", "args": [span], "type": u64.name}
    return comparison("ge", address(name), place)


def _alone(extent: Node, otherwise: Node) -> Node:
    """True of an axis with one element; there its stride is never used."""
    one = {"constant": 1, "type": extent["type"]}
    return {
        "op": "or",
        "args": [comparison("eq", extent, one), otherwise],
        "type": bool_.name,
    }


def _multiple(value: Node, size: int) -> Node:
    kind = by_name(value["type"])
    assert kind in (i64, u64)
    return comparison("eq", call("mod", value, number(size, kind)), number(0, kind))
