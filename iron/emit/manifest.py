"""The manifest: for each compiled kernel, all that a foreign host needs to launch it rightly.

Launch geometry and preconditions are expressions that the host evaluates; nothing about a launch
is left to a comment. The form is `manifest.schema.json` beside this file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial, reduce
from importlib.resources import files
from itertools import accumulate
from typing import Any, Final

from iron import __version__
from iron.analysis.budget import shared_bytes
from iron.dtypes import i32, i64
from iron.emit import naming
from iron.emit.expression import Node, call, comparison, host_nodes, number, written
from iron.emit.shape import shape
from iron.front.bind import Binding
from iron.front.specialise import LIMIT
from iron.ir.core import Kernel, Param
from iron.ir.text import digest
from iron.ir.types import Tensor, element
from iron.lang.declare import KernelFunction

SCHEMA_VERSION: Final = 3


@dataclass(frozen=True, slots=True)
class Specialised:
    """A kernel function at one binding: what `front` made of it, and what was bound.

    `fixed` holds the dims that this code is specialised for, `given` names the Consts that were
    asked for; the others were left to their defaults and to the target.
    """

    declared: KernelFunction
    kernel: Kernel
    binding: Binding = field(default_factory=Binding)
    fixed: Mapping[str, int] = field(default_factory=dict[str, int])
    given: frozenset[str] = frozenset()

    @property
    def alias(self) -> str:
        """The name that stays; see `naming.alias`."""
        return naming.alias(self.declared, self.binding, self.fixed, self.given)

    @property
    def choice_of(self) -> str:
        """The name that this kernel shares with the alternatives of its `choose`."""
        return naming.alias(self.declared, self.binding, self.fixed, self.given, chosen=False)

    @property
    def symbol(self) -> str:
        """The name that no other kernel has."""
        return naming.symbol(self.alias, self.kernel)


def manifest(entries: Iterable[Specialised]) -> dict[str, Any]:
    """The document of kernels without compiled code."""
    return document(entry(e) for e in entries)


def document(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The document, kernels in order of their symbols, so that equal kernels give equal bytes.

    Records of one symbol become one, with the targets of all. Where several kernels of a target
    and simd width would share an alias, each of them is called by its symbol alone.
    """
    merged: dict[str, dict[str, Any]] = {}
    for record in entries:
        known = merged.setdefault(record["symbol"], {**record, "targets": []})
        known["targets"] += [t for t in record["targets"] if t not in known["targets"]]
    listed = [merged[symbol] for symbol in sorted(merged)]
    for record in listed:
        record["targets"].sort(key=lambda t: t["target"])
    bearers = Counter(bearer for record in listed for bearer in _bearers(record))
    shared = {alias for (alias, _, _), count in bearers.items() if count > 1}
    for record in listed:
        if record["alias"] in shared:
            record["alias"] = record["symbol"]
    return {"schema": SCHEMA_VERSION, "iron": __version__, "kernels": listed}


def _bearers(record: Mapping[str, Any]) -> list[tuple[str, int, str]]:
    """Where a record's alias is spoken for; a kernel without compiled code counts once."""
    simd = record["launch"]["simd"]
    targets = [t["target"] for t in record["targets"]] or [""]
    return [(record["alias"], simd, target) for target in targets]


def dumps(document: Mapping[str, Any]) -> str:
    """The document as text."""
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False) + "\n"


def schema() -> dict[str, Any]:
    """The JSON Schema that every manifest satisfies."""
    return json.loads(files("iron.emit").joinpath("manifest.schema.json").read_text("utf-8"))


def entry(of: Specialised, targets: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The manifest's record of one kernel and of the code that was compiled from it."""
    kernel = of.kernel
    groups, conditions = host_nodes(kernel)
    parameters = [_parameter(of, p, at) for at, p in enumerate(kernel.params)]
    return {
        "name": of.declared.name,
        "symbol": of.symbol,
        "alias": of.alias,
        "choice_of": of.choice_of,
        "ir": digest(kernel),
        "summary": summary(of.declared.fn.__doc__ or ""),
        "dtypes": {name: dtype.name for name, dtype in of.binding.dtypes.items()},
        "formats": {name: form.name for name, form in of.binding.formats.items()},
        "consts": {name: _constant(value) for name, value in of.binding.consts.items()},
        "fixed": dict(of.fixed),
        "parameters": parameters,
        "launch": {
            "groups": [written(n) for n in groups],
            "threads": kernel.threads,
            "simd": kernel.simd,
            "each": kernel.each,
            "shared_bytes": shared_bytes(kernel),
        },
        "requires": [
            *(
                {"condition": written(n), "message": r.message}
                for n, r in zip(conditions, kernel.requires, strict=True)
            ),
            *_countable(parameters, kernel),
        ],
        "targets": [dict(t) for t in targets],
    }


def summary(doc: str) -> str:
    """The first sentence or line of a docstring."""
    first = doc.strip().split("\n\n")[0]
    return " ".join(first.split())


def _parameter(of: Specialised, param: Param, at: int) -> dict[str, Any]:
    record: dict[str, Any] = {
        "name": param.name,
        "index": at,
        "role": param.role,
        "dtype": element(param.type).name,
    }
    if isinstance(param.type, Tensor):
        record["access"] = param.type.space
        record["rank"] = param.type.rank
        record["contiguous"] = param.type.packed
        sizes = shape(of.declared, of.kernel, of.binding, of.fixed, param)
        record["shape"] = [written(size) for size in sizes]
        owner = param.name.split(".")[0]
        if owner != param.name:
            record["plane_of"] = owner
    return record


def _countable(parameters: list[dict[str, Any]], kernel: Kernel) -> Iterator[dict[str, Any]]:
    """An `each` kernel counts elements in its index dtype, so no tensor may have more."""
    seen: list[Node] = []
    for record in parameters:
        sizes = [size["tree"] for size in record.get("shape", ())]
        if not kernel.each or kernel.index is not i32 or len(sizes) < 2:
            continue
        wide = [{"op": "cast", "args": [size], "type": i64.name} for size in sizes]
        # Each product on its own: of three or more sizes the last may wrap.
        products = list(accumulate(wide, partial(call, "mul")))[1:]
        if products[-1] not in seen:
            seen.append(products[-1])
            few = [comparison("lt", p, number(LIMIT, i64)) for p in products]
            message = f"`{record['name']}` must have fewer than 2^31 elements"
            yield {"condition": written(reduce(partial(call, "and"), few)), "message": message}


def _constant(value: Any) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
