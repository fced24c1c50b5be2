"""A manifest is written for every first kernel, satisfies the schema, and its expressions are true.

Extents and preconditions are read back from the JSON and evaluated for the sizes of a case; they
must equal what the runtime computes. Declared shapes must equal the shapes of the arrays.
"""

import json
from functools import cache
from typing import Any

import jsonschema
import pytest

from iron.check.cases import expand
from iron.check.expand import ConcreteCase
from iron.check.interpret import Interpreted, read_call
from iron.check.prepare import prepare
from iron.emit.expression import evaluate
from iron.emit.manifest import Specialised, dumps, manifest, schema
from iron.errors import KernelError
from iron.ir import host
from iron.lang.declare import KernelFunction
from iron.worker import discover

SAMPLES = 4  # labels (dtype, format, variant, alternative) a kernel, spread over all it has


def library() -> dict[str, KernelFunction]:
    """Every kernel of the standard library; a plan is its kernels."""
    found = {}
    for module in discover.modules(("iron.kernels",)):
        for name, declared in discover.kernels(module).items():
            if isinstance(declared, KernelFunction):
                found[name] = declared
    return found


KERNELS = library()


def sample(kernel: KernelFunction, most: int) -> list[ConcreteCase]:
    """A case of so many different labels, the first and the last among them."""
    first: dict[str, ConcreteCase] = {}
    for case in expand(kernel):
        first.setdefault(case.label.split("(")[0], case)
    every = list(first.values())
    steps = min(most, len(every))
    return [every[i * (len(every) - 1) // max(1, steps - 1)] for i in range(steps)]


@cache
def read(name: str) -> list[tuple[Specialised, Interpreted]]:
    """The specialisations of a kernel's sample, with the calls they were read for."""
    out = []
    for case in sample(KERNELS[name], SAMPLES):
        try:
            call = read_call(case.kernel, prepare(case).arguments)
        except KernelError as refused:
            # An alternative of `choose` that these sizes refuse while the kernel is read.
            if refused.id != "E0702":
                raise
            continue
        binding = call.binding
        fixed = {d: binding.dims[d] for d in sorted(call.fixed)}
        of = Specialised(KERNELS[name], call.kernel, binding, fixed)
        out.append((of, call))
    return out


def written(name: str) -> tuple[list[dict[str, Any]], list[Interpreted]]:
    """The entries of a kernel's sample, each manifest read back from its text and validated."""
    entries = []
    for of, _ in read(name):
        document = json.loads(dumps(manifest([of])))
        jsonschema.validate(document, schema())
        entries += document["kernels"]
    return entries, [call for _, call in read(name)]


def test_there_are_kernels():
    assert len(KERNELS) >= 14


@pytest.mark.parametrize("name", KERNELS)
def test_parameters_geometry_preconditions_and_shapes_are_true(name: str):
    assert read(name)
    for entry, call in zip(*written(name), strict=True):
        parameters(entry, call)
        scalars = {k: v for k, v in call.scalars.items() if v is not None}
        env = {**entry["consts"], **call.binding.dims, **scalars}
        extents, failed = host.evaluate(call.kernel, call.scalars, call.binding.dims)
        trees = [e["tree"] for e in entry["launch"]["groups"]]
        assert tuple(max(0, int(evaluate(t, env))) for t in trees) == extents
        held = [bool(evaluate(r["condition"]["tree"], env)) for r in entry["requires"]]
        own = [r not in failed for r in call.kernel.requires]
        assert held == own + [True] * (len(held) - len(own))
        for parameter in entry["parameters"]:
            if "shape" in parameter:
                shape = tuple(int(evaluate(e["tree"], env)) for e in parameter["shape"])
                assert shape == call.arrays[parameter["name"]].shape


def parameters(entry: dict[str, Any], call: Interpreted) -> None:
    """The parameters are those of the kernel."""
    assert [p["name"] for p in entry["parameters"]] == [p.name for p in call.kernel.params]
    assert entry["launch"]["threads"] == call.kernel.threads
    assert entry["launch"]["simd"] == call.kernel.simd
    planes = {p["plane_of"] for p in entry["parameters"] if "plane_of" in p}
    assert planes == {n for n, w in call.binding.packed.items() if w is not None}


def test_symbols_are_unique_and_the_document_is_stable():
    entries = [of for name in KERNELS for of, _ in read(name)]
    document = manifest(entries)
    jsonschema.validate(json.loads(dumps(document)), schema())
    symbols = [e["symbol"] for e in document["kernels"]]
    assert len(set(symbols)) == len(symbols)
    assert dumps(manifest(reversed(entries))) == dumps(document)


def test_an_each_kernel_refuses_more_elements_than_its_index_counts():
    (entry, *_), _ = written("copy")
    sizes = [p for p in entry["parameters"] if p["role"] == "dim"]
    limits = [r for r in entry["requires"] if "2^31" in r["message"]]
    assert limits
    for size, held in ((1 << 15, True), (1 << 16, False)):
        env = {p["name"]: 1 if at > 1 else size for at, p in enumerate(sizes)}
        assert {bool(evaluate(r["condition"]["tree"], env)) for r in limits} == {held}


def test_a_wrong_extent_is_seen():
    (entry, *_), (call, *_) = written("softmax")
    tree = entry["launch"]["groups"][0]["tree"]
    extents, _ = host.evaluate(call.kernel, call.scalars, call.binding.dims)
    wrong = {
        "op": "add",
        "args": [tree, {"constant": 1, "type": tree["type"]}],
        "type": tree["type"],
    }
    assert int(evaluate(wrong, call.binding.dims)) != extents[0]
