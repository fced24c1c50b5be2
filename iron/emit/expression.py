"""Host expressions as JSON: a kernel's launch extents and preconditions for a foreign host.

A node is `{"parameter": name, "type": t}`, `{"constant": value, "type": t}` or
`{"op": row, "args": [...], "type": t}`, where `op` is a row of the op table and means what
`docs/ops.md` says. `evaluate` is that meaning in Python. What a launch is given of a tensor is
`{"address": name, "type": "u64"}`, where its first element lies, and
`{"stride": name, "axis": n, "type": "i64"}`, the elements between neighbours along an axis.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from iron.dtypes import DType, bool_, by_name, i64, u64
from iron.errors import error
from iron.ir import scalar
from iron.ir.core import Kernel, Op, Value
from iron.ir.table import TABLE
from iron.lang.dim import Dim, DimExpr

Node = dict[str, Any]

# (precedence, spelling); a higher number binds tighter.
INFIX: Final[dict[str, tuple[int, str]]] = {
    **{
        name: (1, sign)
        for name, sign in zip(
            ("eq", "ne", "lt", "le", "gt", "ge"), ("==", "!=", "<", "<=", ">", ">="), strict=True
        )
    },
    "or": (2, "|"),
    "xor": (3, "^"),
    "and": (4, "&"),
    "shl": (5, "<<"),
    "shr": (5, ">>"),
    "add": (6, "+"),
    "sub": (6, "-"),
    "mul": (7, "*"),
    "div": (7, "/"),
    "floordiv": (7, "//"),
    "mod": (7, "%"),
}
ATOM: Final = 9
DIM_OPS: Final = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}


def host_nodes(kernel: Kernel) -> tuple[list[Node], list[Node]]:
    """The launch extents, first axis fastest, and the condition of each requirement."""
    nodes: dict[Value, Node] = {
        value: {"parameter": p.name, "type": str(p.type)}
        for p, value in zip(kernel.host_params, kernel.host.params, strict=True)
    }
    for op in kernel.host.ops[:-1]:
        nodes[op.results[0]] = _node(op, nodes)
    out = [nodes[v] for v in kernel.host.yielded]
    return out[: kernel.rank], out[kernel.rank :]


def _node(op: Op, nodes: Mapping[Value, Node]) -> Node:
    kind = str(op.results[0].type)
    if op.name == "const":
        return {"constant": _plain(op.attrs[0]), "type": kind}
    if op.row.ref is None:
        raise error("E0901", f"`{op.name}` cannot be evaluated on the host", op.loc)
    return {"op": op.name, "args": [nodes[a] for a in op.args], "type": kind}


def dim_node(size: int | Dim | DimExpr, known: Mapping[str, Any], index: DType) -> Node:
    """A declared size as an expression of dims in `index`; names in `known` are numbers."""
    if isinstance(size, int):
        return number(size, index)
    if isinstance(size, Dim):
        if size.name in known:
            return number(known[size.name], index)
        return {"parameter": size.name, "type": index.name}
    a, b = dim_node(size.a, known, index), dim_node(size.b, known, index)
    return ceil_div(a, b) if size.op == "cdiv" else call(DIM_OPS[size.op], a, b)


def number(value: int, dtype: DType) -> Node:
    """A constant."""
    return {"constant": value, "type": dtype.name}


def address(tensor: str) -> Node:
    """Where the first element of a tensor lies."""
    return {"address": tensor, "type": u64.name}


def stride(tensor: str, axis: int) -> Node:
    """Elements between neighbours along an axis."""
    return {"stride": tensor, "axis": axis, "type": i64.name}


def comparison(op: str, a: Node, b: Node) -> Node:
    """A row of the op table that gives a bool."""
    return {"op": op, "args": [a, b], "type": bool_.name}


def written(node: Node) -> dict[str, Any]:
    """The expression as the manifest holds it."""
    return {"text": text(node), "tree": node}


def call(op: str, *args: Node) -> Node:
    """A row of the op table on operands of one type; of constants it is a constant."""
    made: Node = {"op": op, "args": list(args), "type": args[0]["type"]}
    if all("constant" in a for a in args):
        return {"constant": _plain(evaluate(made, {})), "type": made["type"]}
    return made


def ceil_div(a: Node, b: Node) -> Node:
    """The quotient rounded up."""
    return call("neg", call("floordiv", call("neg", a), b))


def _plain(value: Any) -> bool | int | float | str:
    """A JSON value; what JSON lacks is a word."""
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return str(plain)
    return plain


def text(node: Node) -> str:
    """The expression as a person writes it, with Python's operators and no needless brackets."""
    return _text(node)[1]


def _text(node: Node) -> tuple[int, str]:
    if "op" not in node and "constant" not in node:
        return ATOM, leaf(node)
    if "constant" in node:
        return ATOM, str(node["constant"])
    args = [_text(a) for a in node["args"]]
    if node["op"] in INFIX:
        level, sign = INFIX[node["op"]]
        # Comparisons do not chain, the others associate to the left.
        left = _bracketed(args[0], level + (level == INFIX["eq"][0]))
        return level, f"{left} {sign} {_bracketed(args[1], level + 1)}"
    if node["op"] == "neg":
        return 8, f"-{_bracketed(args[0], ATOM)}"
    name = node["type"] if node["op"] == "cast" else node["op"]
    return ATOM, f"{name}({', '.join(t for _, t in args)})"


def leaf(node: Node) -> str:
    """A parameter's name, `address(x)` or `stride(x, 0)`: what `evaluate` is given values for."""
    if "address" in node:
        return f"address({node['address']})"
    return f"stride({node['stride']}, {node['axis']})" if "stride" in node else node["parameter"]


def _bracketed(side: tuple[int, str], least: int) -> str:
    return side[1] if side[0] >= least else f"({side[1]})"


def evaluate(node: Node, values: Mapping[str, Any]) -> Any:
    """The numpy scalar that a node stands for, given what `leaf` names."""
    with scalar.quiet():
        return _evaluate(node, values)


def _evaluate(node: Node, values: Mapping[str, Any]) -> Any:
    dtype: DType = by_name(node["type"])
    if "op" not in node and "constant" not in node:
        return scalar.cast(values[leaf(node)], dtype)
    if "constant" in node:
        constant = node["constant"]
        return dtype.np.type(float(constant) if isinstance(constant, str) else constant)
    args = [_evaluate(a, values) for a in node["args"]]
    if node["op"] in ("cast", "bitcast"):
        args.append(dtype)
    ref = TABLE[node["op"]].ref
    assert ref is not None
    return ref(*args)
