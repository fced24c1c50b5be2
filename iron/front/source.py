"""Where a function's text is: its syntax tree with the file's own lines, and the names it sees.

The whole file is parsed once, so every node carries its true line and column, whatever the
indentation of the function.
"""

from __future__ import annotations

import ast
import linecache
import types
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from iron.errors import Loc, error

Definition = ast.FunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A function's definition, its file, and the names that are local to it."""

    name: str
    file: str
    tree: Definition
    locals: frozenset[str]

    @property
    def body(self) -> list[ast.stmt]:
        """The statements; a lambda is one `return`."""
        if isinstance(self.tree, ast.FunctionDef):
            return self.tree.body
        leave = ast.Return(self.tree.body)
        return [ast.copy_location(leave, self.tree.body)]


def source_of(fn: types.FunctionType) -> Source:
    """The source of `fn`; E0108 when there is none, or when it changed since it was imported."""
    return _source_of(fn.__code__)


@lru_cache(maxsize=4096)
def _source_of(code: types.CodeType) -> Source:
    file = code.co_filename
    lines = linecache.getlines(file)
    if not lines:
        raise _lost(code, "its file cannot be read", "define kernels in a file")
    found = [d for d in _definitions("".join(lines), file) if _matches(d, code)]
    if not found:
        raise _lost(code, "the file changed since it was imported", "start Python again")
    if len(found) > 1:
        raise _lost(code, "two lambdas on one line look alike", "write `def` functions")
    tree = found[0]
    body = tree.body if isinstance(tree, ast.FunctionDef) else []
    names = {name for statement in body for name in _bound(statement, elements=False)}
    return Source(code.co_name, file, tree, frozenset(names) | set(_arguments(tree)))


def _lost(code: types.CodeType, why: str, help: str) -> Exception:
    loc = Loc(code.co_filename, code.co_firstlineno)
    return error("E0108", f"source of `{code.co_name}` not found: {why}", loc, help=help)


@lru_cache(maxsize=256)
def _definitions(text: str, file: str) -> tuple[Definition, ...]:
    try:
        tree = ast.parse(text, file)
    except (SyntaxError, ValueError):
        return ()
    return tuple(n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.Lambda))


def _matches(tree: Definition, code: types.CodeType) -> bool:
    first = tree.lineno
    if isinstance(tree, ast.FunctionDef):
        if tree.name != code.co_name:
            return False
        first = min([first, *(d.lineno for d in tree.decorator_list)])
    elif code.co_name != "<lambda>":
        return False
    names = _arguments(tree)
    return first == code.co_firstlineno and names == code.co_varnames[: len(names)]


def _arguments(tree: Definition) -> tuple[str, ...]:
    a = tree.args
    rest = [x for x in (a.vararg, a.kwarg) if x is not None]
    return tuple(x.arg for x in [*a.posonlyargs, *a.args, *a.kwonlyargs, *rest])


def names_outside(fn: types.FunctionType) -> tuple[dict[str, Any], dict[str, Any]]:
    """The closure and the globals of `fn`, read now."""
    closure: dict[str, Any] = {}
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:
            continue
    return closure, fn.__globals__


def assigned(body: list[ast.stmt]) -> set[str]:
    """Names that `body` binds, the roots of element assignments included."""
    return {name for statement in body for name in _bound(statement, elements=True)}


def _bound(node: ast.AST, elements: bool) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif elements and isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        root: ast.AST = node
        while isinstance(root, ast.Subscript):
            root = root.value
        if isinstance(root, ast.Name):
            yield root.id
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.comprehension | ast.Lambda):
            yield from _bound(child, elements)
