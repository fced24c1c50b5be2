"""Host expressions in C mean what they mean in Python: random trees over every row, compiled."""

import ctypes
import random
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iron.backends.clike.expression import SPELLINGS
from iron.dtypes import DTYPES, DType, bool_, by_name, f32, i32, i64, u32
from iron.emit import c_expression
from iron.emit.c_expression import TYPEDEFS, c_text, definitions
from iron.emit.expression import Node, evaluate
from iron.ir.table import TABLE

PARAMETERS = {"R": i32, "N": i32, "K": i64, "seed": u32, "eps": f32}
VALUES: dict[DType, list[Any]] = {
    i32: [0, 1, -1, 2, 7, 31, 4096, 2**31 - 1, -(2**31)],
    i64: [0, 1, -1, 3, 2**33, 2**63 - 1, -(2**63)],
    u32: [0, 1, 5, 2**31, 2**32 - 1],
    f32: [0.0, -0.0, 1.0, -2.5, 1e-5, 3e38, float("inf"), float("nan")],
}
# An expression of the host is a matter of sizes, so these types are the ones that occur.
TYPES = [i32, i64, u32, f32, bool_]
# No approximation: what a size is made of must be the same on the host and on the device.
APPROXIMATIONS = {"fast_exp2", "fast_rcp", "fast_rsqrt"}
ROWS = sorted(set(SPELLINGS) - {"cast", "bitcast", "mulhi", "where", "copysign"} - APPROXIMATIONS)


def tree(rng: random.Random, dtype: DType, depth: int) -> Node:
    """A random expression of type `dtype`."""
    if depth == 0 or rng.random() < 0.1:
        return leaf(rng, dtype)
    choice = rng.random()
    if choice < 0.15:
        source = rng.choice([t for t in TYPES if t is not dtype])
        if not (dtype is bool_ and source is bool_):
            return {"op": "cast", "args": [tree(rng, source, depth - 1)], "type": dtype.name}
    if choice < 0.25:
        sides = [tree(rng, t, depth - 1) for t in (bool_, dtype, dtype)]
        return {"op": "where", "args": sides, "type": dtype.name}
    if dtype is bool_ and choice < 0.8:
        of = rng.choice([i32, i64, u32, f32])
        sides = [tree(rng, of, depth - 1) for _ in range(2)]
        return {
            "op": rng.choice(["eq", "ne", "lt", "le", "gt", "ge"]),
            "args": sides,
            "type": "bool",
        }
    fits = [r for r in ROWS if dtype.kind in TABLE[r].kinds and TABLE[r].sig.endswith("->T")]
    row = TABLE[rng.choice(fits)]
    count = len(row.sig.split("->")[0].split())
    sides = [tree(rng, dtype, depth - 1) for _ in range(count)]
    return {"op": row.name, "args": sides, "type": dtype.name}


def leaf(rng: random.Random, dtype: DType) -> Node:
    names = [n for n, t in PARAMETERS.items() if t is dtype]
    if names and rng.random() < 0.7:
        return {"parameter": rng.choice(names), "type": dtype.name}
    if dtype is bool_:
        return {"constant": rng.random() < 0.5, "type": "bool"}
    value = rng.choice(VALUES[dtype])
    plain = str(value) if dtype is f32 and not np.isfinite(value) else value
    return {"constant": plain, "type": dtype.name}


def library(trees: list[Node], folder: Path) -> ctypes.CDLL:
    """The trees as functions `e0`, `e1`, ... of all parameters."""
    head = ", ".join(f"{t} {n}" for n, t in PARAMETERS.items())
    voids = " ".join(f"(void){n};" for n in PARAMETERS)
    bodies = [
        f"void e{i}({head}, {t['type']} *result) {{ {voids} *result = {c_text(t)}; }}"
        for i, t in enumerate(trees)
    ]
    text = "\n".join(bodies)
    includes = "\n".join(f"#include <{h}.h>" for h in ("math", "stdbool", "stdint", "string"))
    source = folder / "expressions.c"
    source.write_text("\n".join([includes, TYPEDEFS, *definitions(text), text]))
    made = folder / "expressions.so"
    flags = ["-std=c11", "-w", "-O1"]
    subprocess.run(["cc", *flags, "-shared", "-fPIC", source, "-o", made, "-lm"], check=True)
    return ctypes.CDLL(str(made))


def run(lib: ctypes.CDLL, index: int, node: Node, values: dict[str, Any]) -> Any:
    result = np.zeros(1, by_name(node["type"]).np)
    kinds = {i32: ctypes.c_int32, i64: ctypes.c_int64, u32: ctypes.c_uint32, f32: ctypes.c_float}
    given = [kinds[t](values[n]) for n, t in PARAMETERS.items()]
    getattr(lib, f"e{index}")(*given, ctypes.c_void_p(result.ctypes.data))
    return result[0]


def same(a: Any, b: Any) -> bool:
    return a.tobytes() == b.tobytes() or bool(a != a and b != b)


def faults(trees: list[Node], rng: random.Random, folder: Path) -> list[str]:
    """Where C and Python differ."""
    lib = library(trees, folder)
    out: list[str] = []
    for index, node in enumerate(trees):
        for _ in range(8):
            values = {n: rng.choice(VALUES[t]) for n, t in PARAMETERS.items()}
            have, want = run(lib, index, node, values), evaluate(node, values)
            if not same(np.asarray(have), np.asarray(want, have.dtype)):
                out.append(f"{c_text(node)} of {values}: {have}, not {want}")
    return out


def test_random_trees(tmp_path: Path):
    rng = random.Random(11)
    trees = [tree(rng, rng.choice(TYPES), rng.randrange(1, 5)) for _ in range(400)]
    assert faults(trees, rng, tmp_path) == []


def test_a_quotient_of_c_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    body = "static inline i32 iron_floordiv_i32(i32 a, i32 b) { return b ? a / b : 0; }"
    monkeypatch.setitem(c_expression.FUNCTIONS, "iron_floordiv_i32", body)
    node = {"op": "floordiv", "args": [leafed("R"), {"constant": 2, "type": "i32"}], "type": "i32"}
    assert faults([node], random.Random(3), tmp_path) != []


def leafed(name: str) -> Node:
    return {"parameter": name, "type": "i32"}


def test_every_dtype_has_a_c_type():
    assert all(f" {name};" in TYPEDEFS for name in DTYPES if name != "bool")
