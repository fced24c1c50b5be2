"""The manifest of a kernel satisfies its schema, and its expressions mean what the host means."""

import copy
import json
from typing import Any

import jsonschema
import numpy as np
import pytest

from iron.dtypes import DTYPES, f32, i32
from iron.emit.expression import Node, dim_node, evaluate, host_nodes, text
from iron.emit.manifest import Specialised, dumps, manifest, schema
from iron.front.bind import Binding
from iron.ir import host
from iron.ir.core import Kernel
from iron.ir.parse import parse_kernel
from iron.lang import In, Out, Scalar, cdiv, dims, each, kernel
from iron.lang.dim import Dim

R, N = dims("R N")

TEXT = """
kernel "halve" rank 2 threads 64 simd 32 index i32
tensor "x" in f32[?, ?]
tensor "y" out f32[?, ?]
scalar "eps" f32
dim "R" i32
dim "N" i32
require "N must be even"
require "eps must be positive, or N small"
host(%eps: f32, %R: i32, %N: i32) {
  %0 = const i32 64
  %1 = const i32 63
  %2 = add %N, %1 : i32
  %3 = floordiv %2, %0 : i32
  %4 = const i32 2
  %5 = mod %N, %4 : i32
  %6 = const i32 0
  %7 = eq %5, %6 : bool
  %8 = const f32 0x0.0p+0
  %9 = gt %eps, %8 : bool
  %10 = lt %N, %4 : bool
  %11 = or %9, %10 : bool
  %12 = sub %R, %4 : i32
  %13 = sub %N, %12 : i32
  %14 = max %13, %R : i32
  yield %3, %14, %7, %11
}
body(%x: in f32[?, ?], %y: out f32[?, ?], %eps: f32, %R: i32, %N: i32) {
}
"""

BOUND = Binding(dims={"R": 3, "N": 8}, dtypes={"T": f32})


@kernel
def halve(x: In[f32, R, N], y: Out[f32, R, cdiv(N, 2)], eps: Scalar[f32]):
    """y is every second column of x.

    More text.
    """
    each(N, R)


@pytest.fixture
def document() -> dict[str, Any]:
    return manifest([Specialised(halve, parse_kernel(TEXT), BOUND)])


def valid(document: Any) -> bool:
    jsonschema.Draft202012Validator.check_schema(schema())
    return jsonschema.Draft202012Validator(schema()).is_valid(document)


def test_it_satisfies_the_schema(document: dict[str, Any]):
    jsonschema.validate(json.loads(dumps(document)), schema())
    (entry,) = document["kernels"]
    assert entry["alias"] == "iron_halve_f32"
    assert entry["symbol"] == f"iron_halve_f32_{entry['ir'][:8]}"
    assert entry["summary"] == "y is every second column of x."
    assert [e["text"] for e in entry["launch"]["groups"]] == [
        "(N + 63) // 64",
        "max(N - (R - 2), R)",
    ]
    assert [r["condition"]["text"] for r in entry["requires"]] == [
        "N % 2 == 0",
        "(eps > 0.0) | (N < 2)",
    ]
    assert [e["text"] for e in entry["parameters"][1]["shape"]] == ["R", "-(-N // 2)"]
    assert [p["role"] for p in entry["parameters"]] == ["tensor", "tensor", "scalar", "dim", "dim"]


def test_equal_kernels_give_equal_bytes(document: dict[str, Any]):
    again = manifest([Specialised(halve, parse_kernel(TEXT), BOUND)])
    assert dumps(again) == dumps(document)
    other = parse_kernel(TEXT.replace("const i32 63", "const i32 62"))
    assert manifest([Specialised(halve, other)])["kernels"][0]["ir"] != document["kernels"][0]["ir"]


def broken(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The document with one thing wrong at a time."""
    out = []

    def spoil(path: tuple[Any, ...], value: Any) -> None:
        made = copy.deepcopy(document)
        at = made
        for step in path[:-1]:
            at = at[step]
        if value is None:
            del at[path[-1]]
        else:
            at[path[-1]] = value
        out.append(made)

    first = ("kernels", 0)
    for key in document["kernels"][0]:
        spoil((*first, key), None)
    spoil(("schema",), 1)
    spoil((*first, "symbol"), "rms_norm")
    spoil((*first, "launch", "threads"), 0)
    spoil((*first, "launch", "groups"), [])
    spoil((*first, "launch", "groups", 0), "N // 64")
    spoil((*first, "parameters", 0, "dtype"), "f64")
    spoil((*first, "parameters", 0, "rank"), None)
    spoil((*first, "parameters", 2, "rank"), 1)
    spoil((*first, "requires", 0, "condition", "tree", "type"), None)
    spoil((*first, "requires", 0, "condition", "tree", "args"), [{"parameter": "N"}])
    spoil((*first, "surplus"), 1)
    return out


def test_the_schema_refuses_what_is_wrong(document: dict[str, Any]):
    assert valid(document)
    assert [i for i, wrong in enumerate(broken(document)) if valid(wrong)] == []


def test_the_schema_knows_every_dtype():
    assert schema()["$defs"]["dtype"]["enum"] == list(DTYPES)


def test_expressions_mean_what_the_host_means():
    kernel = parse_kernel(TEXT)
    rng = np.random.default_rng(5)
    groups, conditions = host_nodes(kernel)
    for _ in range(200):
        values: dict[str, Any] = {"R": int(rng.integers(0, 99)), "N": int(rng.integers(0, 9999))}
        values["eps"] = np.float32(rng.normal())
        agree(kernel, values, groups, conditions)


def agree(kernel: Kernel, values: dict[str, Any], groups: list[Node], held: list[Node]) -> None:
    """The trees, read back from JSON and evaluated, against the host block itself."""
    trees = json.loads(json.dumps([groups, held]))
    scalars = {"eps": values["eps"]}
    extents, failed = host.evaluate(kernel, scalars, {k: values[k] for k in "RN"})
    assert tuple(max(0, int(evaluate(n, values))) for n in trees[0]) == extents
    false = [r for n, r in zip(trees[1], kernel.requires, strict=True) if not evaluate(n, values)]
    assert false == failed


def test_a_declared_size_means_what_the_dim_means():
    size = cdiv(Dim("N") * 3 - 1, 8) + Dim("N") % 5
    for n in range(1, 50):
        assert evaluate(dim_node(size, {}, i32), {"N": n}) == size.evaluate({"N": n})
        assert dim_node(size, {"N": n}, i32)["constant"] == size.evaluate({"N": n})


def node(op: str, *args: Any) -> Node:
    return {"op": op, "args": list(args), "type": i32.name}


A, B, C = ({"parameter": name, "type": "i32"} for name in "abc")


@pytest.mark.parametrize(
    ("tree", "shown"),
    [
        (node("sub", A, node("sub", B, C)), "a - (b - c)"),
        (node("sub", node("sub", A, B), C), "a - b - c"),
        (node("mul", node("add", A, B), C), "(a + b) * c"),
        (node("add", A, node("mul", B, C)), "a + b * c"),
        (node("neg", node("add", A, B)), "-(a + b)"),
        (node("eq", node("lt", A, B), C), "(a < b) == c"),
        (node("and", node("eq", A, B), node("or", A, C)), "(a == b) & (a | c)"),
        (node("floordiv", A, node("mod", B, C)), "a // (b % c)"),
        (node("min", A, node("add", B, C)), "min(a, b + c)"),
        ({"op": "cast", "args": [A], "type": "f32"}, "f32(a)"),
    ],
)
def test_the_text_of_an_expression(tree: Node, shown: str):
    assert text(tree) == shown
