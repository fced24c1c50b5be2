"""Every kind of syntax node is read or refused; nothing in a node's fields is dropped."""

import ast
import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from iron.errors import KernelError
from iron.front.grammar import EXPRESSIONS, STATEMENTS
from tests.unit.front.trial import run

HEAD = """\
from iron.lang import *

(N,) = dims("N")
PAIR = (1, 2)


@kernel
def program(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    a = x[thread]
    n = thread
    xs = [a, a]
"""
TAIL = """\
    y[thread] = a
"""

# node class -> (statements, id of the refusal or "" when it is read)
EXAMPLES = {
    "FunctionDef": ("def f(v):\n    return v", "E0101"),
    "AsyncFunctionDef": ("async def f(v):\n    return v", "E0101"),
    "ClassDef": ("class C:\n    pass", "E0101"),
    "Return": ("if False:\n    return", ""),
    "Delete": ("del a", "E0101"),
    "Assign": ("b = c = a", ""),
    "AugAssign": ("a += 1", ""),
    "AnnAssign": ("b: float = 1.0", "E0101"),
    "For": ("for i in range(3):\n    a += 1.0", ""),
    "AsyncFor": ("async for i in range(3):\n    pass", "E0101"),
    "While": ("while n > 0:\n    n -= 1", "E0101"),
    "If": ("if n > 3:\n    a = 1.0", ""),
    "With": ("with open('f'):\n    pass", "E0101"),
    "AsyncWith": ("async with a:\n    pass", "E0101"),
    "Match": ("match n:\n    case 1:\n        pass", "E0101"),
    "Raise": ("raise ValueError", "E0101"),
    "Try": ("try:\n    pass\nfinally:\n    pass", "E0101"),
    "TryStar": ("try:\n    pass\nexcept* ValueError:\n    pass", "E0101"),
    "Assert": ("assert n > 0", "E0101"),
    "Import": ("import math", "E0101"),
    "ImportFrom": ("from math import pi", "E0101"),
    "Global": ("global PAIR", "E0101"),
    "Nonlocal": (None, "E0101"),
    "TypeAlias": ("type A = int", "E0101"),
    "Expr": ("'text'", ""),
    "Pass": ("pass", ""),
    "Break": ("for i in range(3):\n    if i > n:\n        break", ""),
    "Continue": ("for i in range(3):\n    continue", "E0101"),
    "BoolOp": ("if 1 < 2 and 2 < 3:\n    a = a + 1", ""),
    "NamedExpr": ("a = (b := a) + b", "E0101"),
    "BinOp": ("a = a * 2 - 1", ""),
    "UnaryOp": ("a = -a", ""),
    "Lambda": ("f = lambda v: v + a\na = f(a)", ""),
    "IfExp": ("a = 1.0 if n > 3 else a", ""),
    "Dict": ("d = {1: 2}", "E0101"),
    "Set": ("d = {1, 2}", "E0101"),
    "ListComp": ("xs = [v + 1 for v in xs if True]", ""),
    "SetComp": ("d = {v for v in PAIR}", "E0101"),
    "DictComp": ("d = {v: v for v in PAIR}", "E0101"),
    "GeneratorExp": ("a = sum(v for v in xs)", ""),
    "Await": (None, "E0101"),
    "Yield": ("yield a", "E0101"),
    "YieldFrom": ("yield from xs", "E0101"),
    "Compare": ("b = n < 3", ""),
    "Call": ("a = abs(a)", ""),
    "JoinedStr": ("require(N > 0, f'{1 + 1:>3} {PAIR!r}')", ""),
    "FormattedValue": ("require(N > 0, f'{1}')", ""),
    "TemplateStr": (None, "E0101"),
    "Interpolation": (None, "E0101"),
    "Constant": ("a = 1.5", ""),
    "Attribute": ("a = n.to(f32)", ""),
    "Subscript": ("a = xs[0]", ""),
    "Starred": ("xs = [*xs, a]", ""),
    "Name": ("b = a", ""),
    "List": ("ys = [a]", ""),
    "Tuple": ("ys = (a, n)", ""),
    "Slice": ("v = x[0:4].to(f32)", ""),
}

# a field that a reading does not use, filled
UNUSED_FIELDS = {
    "For.orelse": "for i in range(3):\n    a += 1.0\nelse:\n    a = 0.0",
    "For.orelse unrolled": "for i in unrolled(3):\n    a += 1.0\nelse:\n    a = 0.0",
    "comprehension.is_async": "xs = [v async for v in xs]",
    "Constant bytes": "b = b'1'",
    "Constant complex": "b = 1j",
    "MatMult": "a = a @ a",
    "MatMult augmented": "a @= a",
    "Lambda defaults": "f = lambda v, w=1: v\na = f(a)",
    "Lambda vararg": "f = lambda *v: v[0]\na = f(a)",
}

WRONG_TARGETS = {
    "starred": "b, *c = xs",
    "attribute": "a.name = 1",
    "attribute augmented": "a.name += 1",
    "element of a tuple": "p = (a, a)\np[0] = a",
    "element of a call": "list(xs)[0] = a",
    "too many": "b, c, d = xs",
    "element of a global": "PAIR[0] = 1",
    "two counters": "for i, j in range(3):\n    pass",
}


def program(body: str, path: Path):
    """A kernel with `body` among its statements."""
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    path.write_text(HEAD + lines + TAIL)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.program


COUNTER = itertools.count()


def outcome(body: str, folder: Path) -> str:
    """The id with which a kernel is refused; empty when it runs."""
    path = folder / f"syntax_{next(COUNTER)}.py"
    x = np.ones(64, np.float32)
    try:
        run(program(body, path), x=x, y=np.zeros_like(x))
    except KernelError as wrong:
        return wrong.id
    return ""


def test_there_is_an_example_of_every_node():
    known = {n for n, c in vars(ast).items() if isinstance(c, type)}
    nodes = {
        n
        for n in known
        if issubclass(getattr(ast, n), ast.stmt | ast.expr)
        and getattr(ast, n).__module__ == "ast"
        and n not in ("stmt", "expr", "Num", "Str", "Bytes", "NameConstant", "Ellipsis")
    }
    assert nodes <= set(EXAMPLES)
    read = {c.__name__ for c in (*EXPRESSIONS, *STATEMENTS)}
    accepted = {n for n, (_, id) in EXAMPLES.items() if not id}
    assert read == accepted - {"Starred"}


@pytest.mark.parametrize("name", EXAMPLES)
def test_node(name: str, tmp_path: Path):
    body, id = EXAMPLES[name]
    if body is None or not hasattr(ast, name):
        return  # cannot stand in a kernel of this Python
    try:
        ast.parse(f"async def f():\n    {body.replace(chr(10), chr(10) + '    ')}")
    except SyntaxError:
        return
    try:
        assert outcome(body, tmp_path) == id
    except SyntaxError:  # `async` and `await` need a coroutine, which a kernel cannot be
        assert "sync" in name or "wait" in body


@pytest.mark.parametrize("name", UNUSED_FIELDS)
def test_a_field_is_never_dropped(name: str, tmp_path: Path):
    try:
        assert outcome(UNUSED_FIELDS[name], tmp_path) in ("E0101", "E0102")
    except SyntaxError:
        assert "async" in name


@pytest.mark.parametrize("name", WRONG_TARGETS)
def test_target(name: str, tmp_path: Path):
    assert outcome(WRONG_TARGETS[name], tmp_path) == "E0102"


def test_every_used_field_exists():
    for node, rule in (EXPRESSIONS | STATEMENTS).items():
        assert rule.fields - {"ctx"} <= set(node._fields), node


def test_a_dropped_field_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    from iron.front.state import Trace

    monkeypatch.setattr(Trace, "check_fields", lambda *args: None)
    assert outcome(UNUSED_FIELDS["For.orelse"], tmp_path) == ""
