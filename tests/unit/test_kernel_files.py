"""Kernel files read alike: order of parts, whole suites, plain names, tolerance classes."""

import ast
import importlib
import inspect
from pathlib import Path

import pytest

from iron.check.cases import weakness
from iron.check.expand import expand
from iron.check.rules import faults as suite_faults
from iron.lang.declare import InlineFunction, KernelFunction, PlanFunction
from iron.lang.dim import DimExpr
from iron.lang.parameter import ConstSpec, ParamSpec

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path.relative_to(ROOT)
    for path in (ROOT / "iron" / "kernels").glob("*/*.py")
    if path.name != "__init__.py"
)
PARTS = ("docstring", "imports", "dims", "kernels", "suites", "benches")
VARIABLES = {"dims", "dtypes", "formats"}
CLASSES = {"EXACT", "ELT", "RED", "DOT", "DOT8", "SOFT", "ATTN", "RECUR", "CODEC"}
DTYPE_WORDS = {"f32", "f16", "bf16", "fp32", "fp16", "fp8", "int8", "int4", "u8", "i8", "half"}
MODEL_WORDS = {"llama", "qwen", "gemma", "mistral", "mixtral", "whisper", "deepseek", "smollm"}
VENDOR_WORDS = {"cuda", "hip", "metal", "vulkan", "warp", "wave", "wavefront", "threadgroup"}
LANE_NAMES = {"lane", "simd_ballot"}


# --- order ----------------------------------------------------------------------------------------


def part_of(node: ast.stmt) -> str:
    """The part of the file that a top-level statement belongs to; "" when any will do."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return "docstring"
    if isinstance(node, ast.Import | ast.ImportFrom):
        return "imports"
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
        return "dims" if called(node.value) in VARIABLES else ""
    if isinstance(node, ast.FunctionDef):
        decorators = {called(d) for d in node.decorator_list}
        if decorators & {"kernel", "plan"}:
            return "kernels"
        return "suites" if decorators & {"oracle", "case"} else ""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return "benches" if called(node.value) == "bench" else "other"
    return ""


def called(node: ast.expr) -> str:
    """The last name of what a decorator or call applies."""
    target = node.func if isinstance(node, ast.Call) else node
    if isinstance(target, ast.Attribute):
        return target.attr
    return target.id if isinstance(target, ast.Name) else ""


def order_faults(tree: ast.Module) -> list[str]:
    """Statements that stand before a part that should precede them, and kernels out of order."""
    out: list[str] = []
    reached = 0
    for node in tree.body:
        part = part_of(node)
        if part == "other":
            out.append(f"{node.lineno}: a call that is not a bench")
        elif part:
            at = PARTS.index(part)
            if at < reached:
                out.append(f"{node.lineno}: {part} after {PARTS[reached]}")
            reached = max(reached, at)
    return out + _suite_order(tree)


def _suite_order(tree: ast.Module) -> list[str]:
    """A kernel's oracle stands before its cases."""
    out: list[str] = []
    with_oracle: set[str] = set()
    for node in tree.body:
        for decorator in getattr(node, "decorator_list", []):
            target = decorator.func if isinstance(decorator, ast.Call) else decorator
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                owner = target.value.id
                if target.attr == "oracle":
                    with_oracle.add(owner)
                elif owner not in with_oracle:
                    out.append(f"{node.lineno}: a case of {owner} before its oracle")
    return out


# --- words ----------------------------------------------------------------------------------------


def text_faults(tree: ast.Module) -> list[str]:
    """What is wrong with docstrings, tolerances and the oracle's independence."""
    out: list[str] = []
    documented = ast.get_docstring(tree) or ""
    if not documented:
        return ["1: no docstring"]
    if "Source:" not in documented:
        out.append("1: the docstring names no source")
    inlined = {
        n.name
        for n in tree.body
        if isinstance(n, ast.FunctionDef) and "inline" in {called(d) for d in n.decorator_list}
    }
    for node in tree.body:
        if not isinstance(node, ast.FunctionDef):
            continue
        decorators = {called(d): d for d in node.decorator_list}
        if decorators.keys() & {"kernel", "plan"} and not ast.get_docstring(node):
            out.append(f"{node.lineno}: {node.name} has no docstring")
        if "oracle" in decorators:
            used = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
            out += [f"{node.lineno}: the oracle calls {n}" for n in sorted(used & inlined)]
        if "case" in decorators:
            out += _tolerance_faults(decorators["case"])
    lanes = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} & LANE_NAMES
    return out + [f"1: {name} is for primitives alone" for name in sorted(lanes)]


def _tolerance_faults(case: ast.expr) -> list[str]:
    keywords = case.keywords if isinstance(case, ast.Call) else []
    for keyword in keywords:
        if keyword.arg == "tol":
            value = keyword.value
            stated = value.values if isinstance(value, ast.Dict) else [value]
            names = [n.id for s in stated for n in ast.walk(s) if isinstance(n, ast.Name)]
            if len(names) < len(stated) or not set(names) & CLASSES:
                return [f"{case.lineno}: a tolerance is not a class"]
            return []
    return [f"{case.lineno}: a case without a tolerance class"]


def name_faults(kernel: KernelFunction | PlanFunction) -> list[str]:
    """Names of the kernel and its parameters against the house rules."""
    out: list[str] = []
    words = set(kernel.name.split("_"))
    for word in sorted(words & (DTYPE_WORDS | MODEL_WORDS | VENDOR_WORDS)):
        out.append(f"{kernel.name}: a name says the operation, not `{word}`")
    for name, spec in kernel.signature.items():
        if isinstance(spec, ConstSpec) and name != name.upper():
            out.append(f"{kernel.name}: the Const {name} is not upper case")
        if isinstance(spec, ParamSpec):
            if name != name.lower():
                out.append(f"{kernel.name}: the parameter {name} is not lower case")
            for size in spec.dims or ():
                for dim in () if isinstance(size, int) else size.names:
                    if dim != dim.upper():
                        out.append(f"{kernel.name}: the dim {dim} is not upper case")
    return out


# --- the standard library -------------------------------------------------------------------------


def module_of(path: Path) -> object:
    return importlib.import_module(".".join(path.with_suffix("").parts))


def declared(module: object) -> list[KernelFunction | PlanFunction]:
    """The kernels and plans that a module itself defines."""
    values = vars(module).values()
    kinds = KernelFunction | PlanFunction
    here = [v for v in values if isinstance(v, kinds) and v.fn.__module__ == module.__name__]
    return list(dict.fromkeys(here))


def parts_of_plans(module: object) -> set[str]:
    """Kernels that a plan of the same file calls: the plan's suite covers them."""
    plans = [k for k in declared(module) if isinstance(k, PlanFunction)]
    return {name for p in plans for name in inspect.getclosurevars(p.fn).globals}


def whole_suite_faults(module: object) -> list[str]:
    """Missing oracles, cases, benches and odd sizes."""
    covered = parts_of_plans(module)
    out: list[str] = []
    for kernel in declared(module):
        bare = kernel.suite.oracle is None and not kernel.suite.cases
        if not (bare and kernel.name in covered):
            out += [f"{kernel.name}: {fault}" for fault in suite_faults(kernel)]
    return out


@pytest.mark.parametrize("path", FILES, ids=str)
def test_order(path: Path):
    assert order_faults(ast.parse((ROOT / path).read_text())) == []


@pytest.mark.parametrize("path", FILES, ids=str)
def test_words(path: Path):
    assert text_faults(ast.parse((ROOT / path).read_text())) == []


@pytest.mark.parametrize("path", FILES, ids=str)
def test_suites_and_names(path: Path):
    module = module_of(path)
    kernels = declared(module)
    assert kernels, "a kernel file defines a kernel"
    assert whole_suite_faults(module) == []
    assert [fault for kernel in kernels for fault in name_faults(kernel)] == []


@pytest.mark.parametrize("path", FILES, ids=str)
def test_every_case_can_tell_a_broken_kernel(path: Path):
    cases = [case for kernel in declared(module_of(path)) for case in expand(kernel)]
    assert {case.label: found for case in cases if (found := weakness(case))} == {}


def test_kernel_names_are_unique():
    names = [kernel.name for path in FILES for kernel in declared(module_of(path))]
    assert sorted(names) == sorted(set(names))


# --- the checks see what they are for -------------------------------------------------------------

GOOD = '''\
"""Twice each element:  y = 2 x.

Source: arithmetic.
"""

import numpy as np

from iron.lang import ELT, In, Out, dims, each, f32, inline, kernel

(N,) = dims("N")
TWO = 2


@inline
def twice(x):
    return TWO * x


@kernel
def double(x: In[f32, N], y: Out[f32, N]):
    """One thread an element."""
    (i,) = each(N)
    y[i] = twice(x[i])


@double.oracle
def _(x):
    return {"y": 2 * x}


@double.case(N=[1, 33], tol=ELT)
def _(rng, N):
    return {"x": rng.normal(N)}


double.bench(N=1 << 20)
'''


def test_a_good_file_has_no_fault():
    tree = ast.parse(GOOD)
    assert order_faults(tree) == []
    assert text_faults(tree) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("TWO = 2\n", 'TWO = 2\n\n\ndouble.bench(N=1)\n\n(M,) = dims("M")\n'),
        ("(N,) = dims", "print(1)\n(N,) = dims"),
        ("TWO = 2\n", "double.bench(N=1)\nTWO = 2\n"),
        ('@double.oracle\ndef _(x):\n    return {"y": 2 * x}\n\n\n', ""),
        ("double.bench(N=1 << 20)", "double.bench(N=1)\nimport os"),
    ],
)
def test_wrong_order_is_seen(old: str, new: str):
    assert old in GOOD
    assert order_faults(ast.parse(GOOD.replace(old, new))) != []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Source: arithmetic.", "From nowhere."),
        ("tol=ELT", "tol=1e-3"),
        (", tol=ELT", ""),
        ("tol=ELT", 'tol={"y": 1e-3}'),
        ('"y": 2 * x', '"y": twice(x)'),
        ('    """One thread an element."""\n', ""),
        ("twice(x[i])", "twice(x[i]) + lane"),
    ],
)
def test_wrong_words_are_seen(old: str, new: str):
    assert old in GOOD
    assert len(text_faults(ast.parse(GOOD.replace(old, new)))) == 1


def test_wrong_names_are_seen():
    from iron.lang import Const, In, Out, dims, f32, kernel

    n, M = dims("n M")

    @kernel
    def double_f16(X: In[f32, n], y: Out[f32, M], z: In[f32, M], *, flip: Const):
        pass

    assert len(name_faults(double_f16)) == 4
    assert isinstance(M + 1, DimExpr)


def test_a_part_of_a_plan_needs_no_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    text = GOOD.replace("inline, kernel\n", "inline, kernel, plan\n") + (
        '\n\n@kernel\ndef part(x: In[f32, N], y: Out[f32, N]):\n    """Part."""\n'
        '\n\n@plan\ndef whole(x: In[f32, N], y: Out[f32, N]):\n    """Whole."""\n    part(x, y)\n'
    )
    (tmp_path / "planned_kernel.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("planned_kernel")
    found = whole_suite_faults(module)
    assert [fault for fault in found if fault.startswith("part")] == []
    assert len([fault for fault in found if fault.startswith("whole")]) == 3
    assert isinstance(module.twice, InlineFunction)
