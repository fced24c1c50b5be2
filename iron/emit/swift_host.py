"""A host in Swift for Metal: encodes the kernels of a manifest into a compute command encoder.

`IronKernels.swift` has a function for each Metal kernel. It checks its arguments, evaluates extents
and requirements, sets buffers and values, and dispatches.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from iron.emit.expression import Node
from iron.emit.host import HostKernel, Tensor, described, kernels
from iron.emit.swift_expression import SWIFT_TYPES, swift_text
from iron.emit.swift_text import HEAD

_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        """associatedtype class deinit enum extension fileprivate func import init inout internal
        let open operator private protocol public rethrows static struct subscript typealias var
        break case continue default defer do else fallthrough for guard if in repeat return
        switch where while as Any catch false is nil super self Self throw throws true try
        encoder pipeline extents groups values IronError IronTensor IronValues""",
    )
)
FAMILY: Final = "metal"


def swift_host(manifest: Mapping[str, Any]) -> dict[str, str]:
    """`swift/IronKernels.swift`; nothing when no kernel was made for Metal."""
    held = [k for k in kernels(manifest, _RESERVED) if k.target(FAMILY) is not None]
    if not held:
        return {}
    body = "\n".join(_function(k) for k in held)
    return {"swift/IronKernels.swift": f"{HEAD}\npublic enum IronKernels {{\n{body}}}\n"}


def _function(kernel: HostKernel) -> str:
    name = kernel.alias.removeprefix("iron_")
    parts = [f"{t.name}: IronTensor" for t in kernel.tensors]
    parts += [f"{n}: {SWIFT_TYPES[p['dtype']]}" for n, p in kernel.numbers]
    first = ["_ encoder: MTLComputeCommandEncoder", "_ pipeline: MTLComputePipelineState"]
    lines = [f"/// {line}" for line in described(kernel)]
    lines.append(f'public static let {name}_symbol = "{kernel.record["symbol"]}"')
    lines.append("")
    lines.append(f"public static func {name}(")
    lines += [f"  {part}," for part in [*first, *parts][:-1]] + [f"  {[*first, *parts][-1]}"]
    lines.append(") throws {")
    lines += [f"  {line}" for line in _body(kernel)]
    lines.append("}")
    return "\n".join(f"  {line}".rstrip() for line in lines) + "\n"


def _body(kernel: HostKernel) -> list[str]:
    shown = kernel.record["name"]
    lines: list[str] = []
    for name, record in kernel.numbers:
        if record["role"] == "dim":
            told = f"{shown}: dim {record['name']} is negative"
            lines.append(f'guard {name} >= 0 else {{ throw IronError.argument("{told}") }}')
    for requirement in kernel.record["requires"]:
        condition = requirement["condition"]
        told = _escaped(f"{shown}: {requirement['message']} ({condition['text']})")
        held = [swift_text(part, kernel.name) for part in _parts(condition["tree"])]
        lines.append("guard " + ",\n        ".join(held) + " else {")
        lines.append(f'  throw IronError.requirement("{told}")')
        lines.append("}")
    for tensor in kernel.tensors:
        lines += _laid_out(kernel, tensor)
    groups = [
        f"Int({swift_text(extent['tree'], kernel.name)})"
        for extent in kernel.record["launch"]["groups"]
    ]
    lines.append(f"let extents = [{', '.join(groups)}].map {{ max(0, $0) }}")
    lines.append("let groups = extents.reduce(1, *)")
    lines.append("if groups == 0 { return }")
    lines.append("encoder.setComputePipelineState(pipeline)")
    lines += _arguments(kernel)
    threads = kernel.record["launch"]["threads"]
    lines.append("encoder.dispatchThreadgroups(")
    lines.append("  MTLSize(width: groups, height: 1, depth: 1),")
    lines.append(f"  threadsPerThreadgroup: MTLSize(width: {threads}, height: 1, depth: 1))")
    return lines


def _parts(condition: Node) -> list[Node]:
    """The conditions that must all be true."""
    if condition.get("op") != "and":
        return [condition]
    return [part for side in condition["args"] for part in _parts(side)]


def _laid_out(kernel: HostKernel, tensor: Tensor) -> list[str]:
    target = kernel.target(FAMILY)
    assert target is not None
    read = any(
        (f["kind"], f.get("name")) == ("stride", tensor.record["name"]) for f in target["arguments"]
    )
    made = f"let strides{tensor.number}" if read else "_"
    sizes = [f"Int({swift_text(s['tree'], kernel.name)})" for s in tensor.record["shape"]]
    last = "true" if tensor.record["contiguous"] else "false"
    told = f'"{kernel.record["name"]}: `{tensor.record["name"]}`"'
    return [
        f"{made} = try {tensor.name}.layOut(",
        f"  [{', '.join(sizes)}], contiguous: {last}, {told})",
    ]


def _arguments(kernel: HostKernel) -> list[str]:
    """The buffers, then the structure of everything else in the buffer after them."""
    target = kernel.target(FAMILY)
    assert target is not None
    lines: list[str] = []
    for at, field in enumerate(f for f in target["arguments"] if f["kind"] == "pointer"):
        name = kernel.name(field["name"])
        lines.append(f"encoder.setBuffer({name}.buffer, offset: {name}.offset, index: {at})")
    values = [f for f in target["arguments"] if f["kind"] != "pointer"]
    if values:
        lines.append(f"var values = IronValues(bytes: {target['value_bytes']})")
        lines += [f"values.put({_value(kernel, f)}, at: {f['offset']})" for f in values]
        lines.append(f"values.set(encoder, index: {len(kernel.tensors)})")
    return lines


def _value(kernel: HostKernel, field: Mapping[str, Any]) -> str:
    match field["kind"]:
        case "stride":
            return f"strides{kernel.number(field['name'])}[{field['axis']}]"
        case "extent":
            return f"Int64(extents[{field['axis']}])"
        case _:
            return kernel.name(field["name"])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
