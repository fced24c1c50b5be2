"""Kernels made wrong at random: whatever comes of one, it is an answer and never a traceback.

Expressions of a file change places, operators and numbers change, statements vanish or move. Each
result is read by the front end, which accepts it or refuses it with an id other than E0901.
"""

from __future__ import annotations

import ast
import copy
import importlib.util
import linecache
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iron.errors import KernelError
from iron.front import TensorArg, bind, specialise
from iron.ir.verify import verify
from iron.lang import KernelFunction, ParamSpec, f32, i32

ROOT = Path(__file__).parents[2]
SOURCES = (
    "tests/unit/front/test_meaning.py",
    "tests/unit/front/test_first_kernels.py",
    "tests/unit/front/test_refusals.py",
)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.BitAnd)
OPERATORS += (ast.BitOr, ast.BitXor, ast.LShift, ast.RShift, ast.MatMult)
COMPARISONS = (ast.Lt, ast.GtE, ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
NUMBERS: tuple[Any, ...] = (0, 1, -1, 2.5, True, None, "s", 2**31, 10**30, float("inf"), 1e300)


def kernels(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module that may be changed: kernels and what they inline."""
    marks = ("kernel", "inline", "refused")
    return [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef)
        and any(m in ast.dump(d) for d in n.decorator_list for m in marks)
    ]


def slots(node: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Every place below `node` that holds an expression: the parent, its field, the position."""
    for parent in ast.walk(node):
        for name, value in ast.iter_fields(parent):
            if name in ("decorator_list", "args", "annotation") and isinstance(
                parent, ast.FunctionDef
            ):
                continue
            if isinstance(value, ast.expr):
                yield parent, name, None
            elif isinstance(value, list):
                for i, item in enumerate(value):
                    if isinstance(item, ast.expr):
                        yield parent, name, i


class Breaker:
    """Changes one function at random."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def change(self, tree: ast.Module) -> None:
        """One to three changes to one function of the module."""
        fn = self.random.choice(kernels(tree))
        for _ in range(self.random.randrange(1, 4)):
            self.random.choice((self.swap, self.swap, self.operator, self.number, self.statement))(
                fn
            )

    def swap(self, fn: ast.FunctionDef) -> None:
        """An expression is replaced by a copy of another one of the function."""
        inside = [s for b in fn.body for s in slots(b)]
        if not inside:
            return
        parent, name, at = self.random.choice(inside)
        donor, field, place = self.random.choice(inside)
        value = getattr(donor, field)
        new = copy.deepcopy(value if place is None else value[place])
        old = getattr(parent, name)
        target = old if at is None else old[at]
        if isinstance(getattr(target, "ctx", None), ast.Store):
            if not hasattr(new, "ctx"):
                return
            for n in ast.walk(new):
                n.ctx = ast.Load()
            new.ctx = ast.Store()
        else:
            for n in ast.walk(new):
                if hasattr(n, "ctx"):
                    n.ctx = ast.Load()
        if at is None:
            setattr(parent, name, new)
        else:
            old[at] = new

    def operator(self, fn: ast.FunctionDef) -> None:
        """An operator or a comparison becomes another one."""
        nodes = [n for n in ast.walk(fn) if isinstance(n, ast.BinOp | ast.AugAssign | ast.Compare)]
        if not nodes:
            return
        node = self.random.choice(nodes)
        if isinstance(node, ast.Compare):
            node.ops[0] = self.random.choice(COMPARISONS)()
        else:
            node.op = self.random.choice(OPERATORS)()

    def number(self, fn: ast.FunctionDef) -> None:
        """A constant becomes another one."""
        nodes = [n for b in fn.body for n in ast.walk(b) if isinstance(n, ast.Constant)]
        if nodes:
            self.random.choice(nodes).value = self.random.choice(NUMBERS)

    def statement(self, fn: ast.FunctionDef) -> None:
        """A statement vanishes, is doubled, or goes under a condition or a loop."""
        bodies = [n.body for n in ast.walk(fn) if isinstance(n, ast.FunctionDef | ast.If | ast.For)]
        body = self.random.choice(bodies)
        at = self.random.randrange(len(body))
        one = body[at]
        kind = self.random.randrange(4)
        if kind == 0 and len(body) > 1:
            del body[at]
        elif kind == 1:
            body.insert(at, copy.deepcopy(one))
        elif kind == 2:
            test = self.expression(fn)
            body[at] = ast.If(test, [one], [])
        else:
            body[at] = ast.For(ast.Name("i", ast.Store()), self.expression(fn), [one], [])

    def expression(self, fn: ast.FunctionDef) -> ast.expr:
        """A copy of some expression of the function."""
        nodes = [n for b in fn.body for n in ast.walk(b) if isinstance(n, ast.expr)]
        nodes = [n for n in nodes if not isinstance(n, ast.Slice | ast.Starred)]
        new = copy.deepcopy(self.random.choice(nodes))
        for n in ast.walk(new):
            if hasattr(n, "ctx"):
                n.ctx = ast.Load()
        return new


def broken(seed: int, path: Path) -> Any:
    """A module with one function changed; None when Python itself refuses it."""
    tree = ast.parse((ROOT / SOURCES[seed % len(SOURCES)]).read_text())
    tree.body = [n for n in tree.body if not getattr(n, "name", "").startswith("test_")]
    Breaker(seed).change(tree)
    try:
        text = ast.unparse(ast.fix_missing_locations(tree))
        compile(text, str(path), "exec")
    except (SyntaxError, ValueError, AttributeError, TypeError, RecursionError):
        return None
    path.write_text(text)
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    except Exception:
        return None
    finally:
        sys.dont_write_bytecode = keep
    return module


def described(fn: KernelFunction) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Arguments that fit a kernel's declaration, as far as binding looks."""
    tensors: dict[str, Any] = {}
    scalars: list[str] = []
    for name, spec in fn.signature.items():
        if not isinstance(spec, ParamSpec) or spec.kind == "packed":
            continue
        if spec.kind == "scalar":
            scalars.append(name)
        elif spec.kind != "out" and spec.dims is not None:
            options = getattr(spec.dtype, "options", (spec.dtype,))
            shape = tuple(d if isinstance(d, int) else 40 for d in spec.dims)
            tensors[name] = TensorArg(options[0], shape)
    return tensors, tuple(scalars)


def fault(module: Any) -> str:
    """What went wrong while reading the module's kernels; empty when all got an answer."""
    for fn in [v for v in vars(module).values() if isinstance(v, KernelFunction)]:
        tensors, scalars = described(fn)
        try:
            binding = bind(fn, tensors, {"CODEC": None}, {"T": f32, "S": i32}, scalars=scalars)
        except KernelError:
            try:
                binding = bind(fn, tensors, {}, {}, scalars=scalars)
            except KernelError:
                continue
        try:
            verify(specialise(fn, binding, 32))
        except KernelError as answer:
            if answer.id == "E0901":
                return f"{fn.name}: {answer}"
    return ""


def main(low: int, high: int, folder: Path) -> None:
    """Breaks sources for a range of seeds; failures stay in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    read = failed = 0
    for seed in range(low, high):
        path = folder / f"broken_{seed}.py"
        module = broken(seed, path)
        if module is None:
            continue
        read += 1
        wrong = fault(module)
        if wrong:
            failed += 1
            print(f"seed {seed}: {wrong}", flush=True)
        else:
            path.unlink()
    print(f"{read} sources read, {failed} without an answer")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
