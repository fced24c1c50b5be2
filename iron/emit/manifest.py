"""The manifest: for each compiled kernel, all that a foreign host needs to launch it rightly.

Launch geometry and preconditions are expressions that the host evaluates; nothing about a launch
is left to a comment. The form is `manifest.schema.json` beside this file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, Final

from iron import __version__
from iron.analysis.budget import shared_bytes
from iron.dtypes import DType
from iron.emit.expression import Node, dim_node, host_nodes, text
from iron.ir.core import Kernel, Param
from iron.ir.text import digest
from iron.ir.types import Tensor, element
from iron.lang.declare import KernelFunction
from iron.lang.parameter import ConstSpec, ParamSpec

SCHEMA_VERSION: Final = 1
HASH_DIGITS: Final = 8


@dataclass(frozen=True, slots=True)
class Specialised:
    """A kernel function at one binding: what `front` made of it, and what was bound.

    `formats` names the formats of packed weights, `fixed` holds the dims that this code is
    specialised for.
    """

    declared: KernelFunction
    kernel: Kernel
    dtypes: Mapping[str, DType] = field(default_factory=dict[str, DType])
    consts: Mapping[str, Any] = field(default_factory=dict[str, Any])
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    formats: Mapping[str, str] = field(default_factory=dict[str, str])


def manifest(entries: Iterable[Specialised]) -> dict[str, Any]:
    """The document, kernels in order of their symbols, so that equal kernels give equal bytes."""
    listed = sorted((entry(e) for e in entries), key=lambda e: e["symbol"])
    return {"schema": SCHEMA_VERSION, "iron": __version__, "kernels": listed}


def dumps(document: Mapping[str, Any]) -> str:
    """The document as text."""
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema that every manifest satisfies."""
    return json.loads(files("iron.emit").joinpath("manifest.schema.json").read_text("utf-8"))


def entry(of: Specialised) -> dict[str, Any]:
    """The manifest's record of one kernel."""
    kernel = of.kernel
    groups, conditions = host_nodes(kernel)
    identity = digest(kernel)
    alias = symbol_alias(of)
    return {
        "name": of.declared.name,
        "symbol": f"{alias}_{identity[:HASH_DIGITS]}",
        "alias": alias,
        "ir": identity,
        "summary": summary(of.declared.fn.__doc__ or ""),
        "dtypes": {name: dtype.name for name, dtype in of.dtypes.items()},
        "formats": dict(of.formats),
        "consts": {name: _constant(value) for name, value in of.consts.items()},
        "fixed": dict(of.fixed),
        "parameters": [
            _parameter(p, at, of.declared.signature) for at, p in enumerate(kernel.params)
        ],
        "launch": {
            "groups": [_expression(n) for n in groups],
            "threads": kernel.threads,
            "simd": kernel.simd,
            "each": kernel.each,
            "shared_bytes": shared_bytes(kernel),
        },
        "requires": [
            {"condition": _expression(n), "message": r.message}
            for n, r in zip(conditions, kernel.requires, strict=True)
        ],
    }


def symbol_alias(of: Specialised) -> str:
    """`iron_<op>_<dtype>[_<variant>]`: dtypes, formats, then the Consts of variants and choose."""
    parts = ["iron", of.declared.name, *(d.name for d in of.dtypes.values())]
    parts += [_word(name) for name in of.formats.values()]
    for name in (*of.declared.variants, *of.declared.choose):
        if name in of.consts:
            parts.append(f"{name.lower()}{_word(of.consts[name])}")
    return "_".join(parts)


def summary(doc: str) -> str:
    """The first sentence or line of a docstring."""
    first = doc.strip().split("\n\n")[0]
    return " ".join(first.split())


def _parameter(
    param: Param, at: int, signature: Mapping[str, ParamSpec | ConstSpec]
) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": param.name,
        "index": at,
        "role": param.role,
        "dtype": element(param.type).name,
    }
    if isinstance(param.type, Tensor):
        spec = signature.get(param.name)
        record["access"] = param.type.space
        record["rank"] = param.type.rank
        record["contiguous"] = param.type.packed
        if isinstance(spec, ParamSpec) and spec.dims is not None:
            record["shape"] = [_expression(dim_node(size)) for size in spec.dims]
        owner = param.name.split(".")[0]
        if owner != param.name:
            record["plane_of"] = owner
    return record


def _expression(node: Node) -> dict[str, Any]:
    return {"text": text(node), "tree": node}


def _constant(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)


def _word(value: Any) -> str:
    """A Const's value as part of a C identifier."""
    plain = int(value) if isinstance(value, bool) else getattr(value, "name", value)
    return re.sub(r"\W", "_", str(plain).replace("-", "m"))
