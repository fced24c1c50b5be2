"""The dependency rule: what each layer of Iron may import, as data, held against every import."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# layer -> layers it may import; "and below" is written out by `reach`.
BELOW: dict[str, tuple[str, ...]] = {
    "errors": (),
    "dtypes": ("errors",),
    "quant.format": ("errors", "dtypes"),
    "lang": ("errors", "dtypes", "quant.format"),
    "quant.codec": ("lang", "quant.format"),
    "ir": ("errors", "dtypes"),
    "targets": ("ir",),
    "analysis": ("ir", "targets"),
    "elementary": ("ir",),
    "passes": ("ir", "targets", "analysis", "elementary"),
    "tiles": ("passes",),
    "backends": ("passes",),
    "front": ("lang", "ir", "quant.format"),
    "compiler": ("front", "tiles", "backends", "iron"),
    "emit": ("compiler",),
    "quant": ("quant.format", "quant.codec"),
    "runtime": ("compiler", "quant"),
    "shims": ("runtime",),
    "check": ("runtime", "emit"),
    "bench": ("check",),
    "report": ("runtime", "emit", "bench"),
    "worker": ("check", "bench"),
    "cli": ("worker", "report", "shims", "interop"),
    "interop": ("runtime",),
    "kernels": ("lang", "quant.format", "quant.codec"),
    "iron": ("errors", "dtypes", "lang"),
}

# Imports against the rule, allowed only inside a function: (importer, imported).
LAZY = {
    ("dtypes", "ir"),
    ("lang", "ir"),
    ("lang", "runtime"),
    ("iron", "runtime"),
    ("quant.format", "quant.codec"),
    ("kernels", "quant"),  # oracles and cases of encoders
}

SPLIT = ("quant.format", "quant.codec")


def layer(module: str) -> str:
    """The layer of a dotted module name below `iron`."""
    parts = module.split(".")[1:]
    if not parts:
        return "iron"
    if parts[0] == "__main__":
        return "cli"
    pair = ".".join(parts[:2])
    return pair if pair in SPLIT else parts[0]


def reach(name: str) -> set[str]:
    """`name` and everything below it."""
    out = {name}
    for lower in BELOW[name]:
        out |= reach(lower)
    return out


@dataclass(frozen=True)
class Import:
    """One imported module, its line, and whether the import runs inside a function."""

    module: str
    line: int
    lazy: bool


def imports(tree: ast.Module, module: str, known: set[str]) -> Iterator[Import]:
    """Every `iron` module that the source imports; relative imports are refused by name."""
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, lazy = waiting.pop()
        inner = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        # Imports are statements, so expressions hold none.
        below = (n for n in ast.iter_child_nodes(node) if not isinstance(n, ast.expr))
        waiting += [(n, inner) for n in below]
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: relative import"
            whole = [f"{node.module}.{a.name}" for a in node.names]
            names = [w if w in known else str(node.module) for w in whole]
        for name in dict.fromkeys(names):
            if name.split(".")[0] == "iron":
                yield Import(name, node.lineno, lazy)


SHARED_BY_KERNELS = {f"iron.kernels.{room}" for room in ("primitives", "activation", "rows")}


def faults(module: str, text: str, known: set[str]) -> list[str]:
    """Imports of `module` that the rule does not allow."""
    here = layer(module)
    if here not in BELOW:
        return [f"{module}: the layer {here} is not in the rule"]
    allowed = reach(here)
    out = []
    for found in imports(ast.parse(text), module, known):
        there = layer(found.module)
        if there in allowed or (found.lazy and (here, there) in LAZY):
            continue
        if here == "kernels" and found.module in SHARED_BY_KERNELS:
            continue
        out.append(f"{module}:{found.line}: {here} may not import {found.module}")
    return out


def name_of(path: Path) -> str:
    """The dotted name of a source file."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = sorted((ROOT / "iron").rglob("*.py"))
MODULES = {name_of(p) for p in PATHS}


def test_imports_follow_the_rule():
    assert len(PATHS) > 300
    assert [f for p in PATHS for f in faults(name_of(p), p.read_text(), MODULES)] == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("iron.ir.core", "from iron.passes import dead"),
        ("iron.ir.core", "import iron.lang"),
        ("iron.lang.declare", "from iron.runtime.launch import call"),
        ("iron.check.cases", "def f():\n    import iron.kernels.norm.rms_norm"),
        ("iron.cli.test", "from iron.kernels.norm import rms_norm"),
        ("iron.kernels.norm.rms_norm", "from iron.ir.scalar import add"),
        ("iron.unheard_of", "x = 1"),
    ],
)
def test_a_bad_import_is_seen(module: str, text: str):
    assert len(faults(module, text, MODULES)) == 1


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("iron.lang.declare", "def f():\n    from iron.runtime.launch import call"),
        ("iron.kernels.norm.softmax", "from iron.kernels.primitives import online_softmax"),
        ("iron.backends.cpu.llvm", "from iron.analysis.uniform import uniformity"),
    ],
)
def test_a_good_import_passes(module: str, text: str):
    assert faults(module, text, MODULES | {"iron.kernels.primitives"}) == []


def test_the_rule_has_no_cycle():
    for name in BELOW:
        assert all(name not in reach(lower) for lower in BELOW[name])
