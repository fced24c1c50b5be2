"""Rooms stay small and named for what they do: file length, file names, docstrings."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAX_LINES = 450
MAX_KERNEL_LINES = 250
MAX_FUNCTION_LINES = 40
VAGUE = {"utils", "util", "helpers", "helper", "common", "base", "misc", "manager", "managers"}
FILES = sorted(p.relative_to(ROOT) for p in (ROOT / "iron").rglob("*.py"))


def faults(path: Path, text: str) -> list[str]:
    """What breaks the rules of a room in a file of this name and content."""
    out = []
    limit = MAX_KERNEL_LINES if path.parts[:2] == ("iron", "kernels") else MAX_LINES
    lines = text.count("\n")
    if lines > limit:
        out.append(f"{path}: {lines} lines, at most {limit}")
    if path.stem in VAGUE:
        out.append(f"{path}: the name says nothing about what is inside")
    tree = ast.parse(text)
    if text.strip() and not ast.get_docstring(tree):
        out.append(f"{path}: no module docstring")
    for node in statements(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.body[0].lineno + 1
            if ast.get_docstring(node):
                length -= (node.body[0].end_lineno or 0) - node.body[0].lineno + 1
            if length > MAX_FUNCTION_LINES:
                out.append(f"{path}:{node.lineno}: {node.name} has {length} lines")
    return out


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Every statement, at any depth."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += [n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr)]


def test_every_room():
    assert len(FILES) > 300
    assert [fault for path in FILES for fault in faults(path, (ROOT / path).read_text())] == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("iron/ir/long.py", '"""Doc."""\n' + "x = 1\n" * MAX_LINES),
        ("iron/kernels/norm/long.py", '"""Doc."""\n' + "x = 1\n" * MAX_KERNEL_LINES),
        ("iron/ir/utils.py", '"""Doc."""\n'),
        ("iron/ir/silent.py", "x = 1\n"),
        ("iron/ir/tall.py", '"""Doc."""\ndef f():\n' + "    x = 1\n" * (MAX_FUNCTION_LINES + 1)),
    ],
)
def test_a_bad_room_is_seen(path: str, text: str):
    assert len(faults(Path(path), text)) == 1
