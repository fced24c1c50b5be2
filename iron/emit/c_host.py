"""A host in C: launches the kernels of a manifest, and needs no library of Iron.

`iron_kernels.h` declares a function for each kernel and family of targets; `iron_kernels.c` checks
the arguments, evaluates extents and requirements, and launches. CUDA and HIP stand behind
`IRON_CUDA` and `IRON_HIP`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from iron.dtypes import by_name
from iron.emit.c_expression import C_TYPES, TYPEDEFS, c_conditions, c_text, definitions
from iron.emit.c_text import ENTRY, FOOT, GRIDS, HEAD, KERNEL, RUN, SOURCE, Grid
from iron.emit.host import HostKernel, Tensor, choices, described, kernels

SIMD: Final = 32
WIDTH: Final = 98
_RESERVED: Final = frozenset(
    re.findall(
        r"\w+",
        """auto break case char const continue default do double else enum extern float for goto if
        inline int long register restrict return short signed sizeof static struct switch typedef
        union unsigned void volatile while bool true false class private public template this
        operator new delete namespace using plan block kernel stream status arguments message""",
    )
) | set(C_TYPES)


def c_host(manifest: Mapping[str, Any]) -> dict[str, str]:
    """`c/iron_kernels.h` and `c/iron_kernels.c`."""
    held = kernels(manifest, _RESERVED)
    blocks = [k for k in held if k.target("cpu") is not None]
    grids = [(grid, [k for k in held if k.target(grid.family) is not None]) for grid in GRIDS]
    grids = [(grid, some) for grid, some in grids if some]
    return {
        "c/iron_kernels.h": _header(held, blocks, grids),
        "c/iron_kernels.c": _source(held, blocks, grids),
    }


def _header(
    held: Sequence[HostKernel],
    blocks: Sequence[HostKernel],
    grids: Sequence[tuple[Grid, list[HostKernel]]],
) -> str:
    words = max((len(_fields(k, "cpu")) for k in blocks), default=0)
    out = [HEAD]
    if blocks:
        out.append(RUN.replace("WORDS", str(words)))
        out += [f"{_comment(described(k))}\n{_prototype_block(k)};\n" for k in blocks]
        for name, group in choices(held, "cpu"):
            lines = [f"The first of {', '.join(k.alias for k in group)} whose requirements hold."]
            out.append(f"{_comment(lines)}\n{_prototype_first(name, group)};\n")
    for grid, some in grids:
        out.append(f"#ifdef {grid.switch}\n#include <{grid.include}>\n")
        most = 1 + max(len(k.forms(grid.family)) for k in some)
        kernel = KERNEL.replace("FAMILY", grid.family).replace("FUNCTION", grid.function)
        out.append(kernel.replace("COUNT", str(most)))
        for k in some:
            out.append(f"{_comment(described(k))}\n{_prototype_load(k, grid)};")
            out.append(f"{_prototype_grid(k, grid)};\n")
        out.append("#endif\n")
    return "\n".join([*out, FOOT])


def _source(
    held: Sequence[HostKernel],
    blocks: Sequence[HostKernel],
    grids: Sequence[tuple[Grid, list[HostKernel]]],
) -> str:
    used = [k for k in held if k in blocks or any(k in some for _, some in grids)]
    tensors = max((len(k.tensors) for k in used), default=1)
    axes = max((t.rank for k in used for t in k.tensors), default=1)
    body = [_plan(k) for k in blocks]
    if blocks:
        body += [_RUN_ALL, *(_block(k) for k in blocks)]
        body += [_first(name, group) for name, group in choices(held, "cpu")]
    if grids:
        switches = " || ".join(f"defined({grid.switch})" for grid, _ in grids)
        only = [k for k in used if k not in blocks]
        body += [f"#if {switches}\n", ENTRY, *(_plan(k) for k in only), "#endif\n"]
    for grid, some in grids:
        launches = [f"{_load(k, grid)}\n{_grid(k, grid)}" for k in some]
        body += [f"#ifdef {grid.switch}\n", grid.functions, *launches, "#endif\n"]
    text = "\n".join(body)
    head = SOURCE.replace("TENSORS", str(max(1, tensors))).replace("AXES", str(max(1, axes)))
    head = head.replace("/* typedefs */", TYPEDEFS)
    return "\n".join([head, *definitions(text), "", text])


# --- pieces ---------------------------------------------------------------------------------------


def _comment(lines: Sequence[str]) -> str:
    inside = "\n   ".join(line.replace("*/", "* /") for line in lines)
    return f"/* {inside} */"


def _function(name: str, family: str, kernel: HostKernel) -> str:
    simd = kernel.record["launch"]["simd"]
    return f"{name}_{family}" if simd == SIMD else f"{name}_{family}_simd{simd}"


def _signature(name: str, first: str, kernel: HostKernel) -> str:
    parts = [p for p in (first,) if p]
    parts += [f"iron_tensor {t.name}" for t in kernel.tensors]
    parts += [f"{C_TYPES[p['dtype']]} {number}" for number, p in kernel.numbers]
    return _wrapped(f"int {name}(", parts, ")")


def _wrapped(head: str, parts: Sequence[str], tail: str) -> str:
    """A list in brackets, broken into lines as a person would."""
    lines = [head]
    for number, part in enumerate(parts):
        piece = part + (", " if number < len(parts) - 1 else tail)
        if len(lines[-1]) + len(piece) > WIDTH + 1 and lines[-1].strip():
            lines.append(" " * len(head))
        lines[-1] += piece
    return "\n".join(line.rstrip() for line in lines)


def _prototype_first(name: str, group: Sequence[HostKernel]) -> str:
    return _signature(_function(name, "cpu", group[0]), "iron_block *block", group[0])


def _prototype_block(kernel: HostKernel) -> str:
    return _signature(_function(kernel.alias, "cpu", kernel), "iron_block *block", kernel)


def _prototype_load(kernel: HostKernel, grid: Grid) -> str:
    name = _function(kernel.alias, grid.family, kernel)
    return f"int {name}_load(iron_{grid.family}_kernel *kernel, {grid.module} module)"


def _prototype_grid(kernel: HostKernel, grid: Grid) -> str:
    name = _function(kernel.alias, grid.family, kernel)
    first = f"const iron_{grid.family}_kernel *kernel, {grid.stream} stream"
    return _signature(name, first, kernel)


def _fields(kernel: HostKernel, family: str) -> list[Mapping[str, Any]]:
    target = kernel.target(family)
    return target["arguments"] if target is not None else []


def _plan(kernel: HostKernel) -> str:
    """Checks the arguments and fills a plan: group counts, strides and sizes."""
    shown = kernel.record["name"]
    lines: list[str] = []
    for name, record in kernel.numbers:
        if record["role"] == "dim":
            text = f"dim {record['name']} is negative"
            lines.append(f'if ({name} < 0) return refuse(IRON_ARGUMENT, "{shown}", "{text}");')
    for requirement in kernel.record["requires"]:
        condition = requirement["condition"]
        told = f"{requirement['message']} ({condition['text']})"
        held = c_text(condition["tree"], kernel.name)
        lines.append(f"if (!({held}))")
        lines.append(f'  return refuse(IRON_REQUIREMENT, "{shown}", {_quoted(told)});')
    for tensor in kernel.tensors:
        lines += _laid_out(kernel, tensor)
    lines += _extents(kernel, kernel.record["launch"]["groups"], "plan->")
    lines.append("return IRON_OK;")
    body = "\n".join(f"  {line}" for line in lines)
    parts = [f"iron_tensor {t.name}" for t in kernel.tensors]
    parts += [f"{record['dtype']} {name}" for name, record in _read(kernel, body)]
    opening = f"static int plan_{kernel.record['symbol']}("
    return f"{_wrapped(opening, ['iron_plan *plan', *parts], ')')} {{\n{body}\n}}\n"


def _extents(
    kernel: HostKernel, groups: Sequence[Mapping[str, Any]], plan: str = "plan."
) -> list[str]:
    """Fills the counts of a plan."""
    lines = [
        f"{plan}extents[{axis}] = positive({c_text(extent['tree'], kernel.name)});"
        for axis, extent in enumerate(groups)
    ]
    product = " * ".join(f"{plan}extents[{axis}]" for axis in range(len(groups)))
    return [*lines, f"{plan}groups = {product};"]


def _laid_out(kernel: HostKernel, tensor: Tensor) -> list[str]:
    sizes = [_wide(c_text(s["tree"], kernel.name)) for s in tensor.record["shape"]]
    shape = f"iron_shape{tensor.number}"
    last = "true" if tensor.record["contiguous"] else "false"
    shown = f'"{kernel.record["name"]}", "{tensor.record["name"]}"'
    call = f"lay_out(plan, {tensor.number}, {shown}, {tensor.name}, {tensor.rank}, {shape}, {last})"
    return [
        f"const i64 {shape}[] = {{{', '.join(sizes) or '1'}}};",
        f"if ({call} != IRON_OK)",
        "  return IRON_ARGUMENT;",
    ]


def _wide(text: str) -> str:
    """An expression as i64."""
    return text if text.isdigit() else f"(i64){text}" if text.isidentifier() else f"(i64)({text})"


def _read(kernel: HostKernel, text: str) -> list[tuple[str, Mapping[str, Any]]]:
    """The scalars and dims that a text mentions."""
    words = set(re.findall(r"\w+", text))
    return [(name, record) for name, record in kernel.numbers if name in words]


def _planned(kernel: HostKernel) -> list[str]:
    """The statements that make the plan, in a function of all parameters."""
    text = _plan(kernel)
    names = [t.name for t in kernel.tensors]
    names += [name for name, _ in _read(kernel, text[text.index("{") :])]
    return [
        "iron_plan plan;",
        f"const int status = plan_{kernel.record['symbol']}(&plan, {', '.join(names)});",
        "if (status != IRON_OK) return status;",
    ]


def _block(kernel: HostKernel) -> str:
    symbol = kernel.record["symbol"]
    lines = [
        *_planned(kernel),
        f"block->run = {symbol};",
        "block->groups = plan.groups;",
    ]
    for number, field in enumerate(_fields(kernel, "cpu")):
        lines.append(f"block->arguments[{number}] = {_word(kernel, field)};")
    body = "\n".join(f"  {line}" for line in [*lines, "return IRON_OK;"])
    extern = f"void {symbol}(const uint64_t *arguments, int64_t first, int64_t end);"
    return f"{extern}\n\n{_prototype_block(kernel)} {{\n{body}\n}}\n"


def _word(kernel: HostKernel, field: Mapping[str, Any]) -> str:
    """An 8-byte word of the argument block."""
    match field["kind"]:
        case "pointer":
            return f"(u64)(uintptr_t){kernel.name(field['name'])}.data"
        case "stride":
            return f"(u64)plan.strides[{kernel.number(field['name'])}][{field['axis']}]"
        case "extent":
            return f"(u64)plan.extents[{field['axis']}]"
        case "streams":
            sizes = [_bytes(kernel, name) for name in field["names"]]
            return f"{' + '.join(sizes)} >= {field['from_bytes']}"
        case _:
            name = kernel.name(field["name"])
            return f"iron_f32_to_bits({name})" if field["dtype"] == "f32" else f"(u64){name}"


def _bytes(kernel: HostKernel, tensor: str) -> str:
    number = kernel.number(tensor)
    dtype = kernel.tensors[number].record["dtype"]
    return f"plan.elements[{number}] * {by_name(dtype).bytes}"


def _first(name: str, group: Sequence[HostKernel]) -> str:
    """Tries the alternatives of a choice in order."""
    given = ["block", *(t.name for t in group[0].tensors), *(n for n, _ in group[0].numbers)]
    lines = ["int status = IRON_REQUIREMENT;"]
    for kernel in group:
        call = f"{_function(kernel.alias, 'cpu', kernel)}({', '.join(given)})"
        lines.append(f"if (status == IRON_REQUIREMENT) status = {call};")
    body = "\n".join(f"  {line}" for line in [*lines, "return status;"])
    return f"{_prototype_first(name, group)} {{\n{body}\n}}\n"


def _load(kernel: HostKernel, grid: Grid) -> str:
    """Finds the entries of all forms in a module."""
    target, forms = kernel.target(grid.family), kernel.forms(grid.family)
    assert target is not None
    entries = [(kernel.record["symbol"], target["dynamic_bytes"])]
    entries += [(form["entry"], form["dynamic_bytes"]) for form in forms]
    rows = [f'{{"{name}", {size}}}' for name, size in entries]
    shown = kernel.record["name"]
    lines = [
        *_wrapped("static const iron_entry entries[] = {", rows, "};").split("\n"),
        f'return {grid.family}_load("{shown}", kernel->forms, module, entries, {len(rows)});',
    ]
    body = "\n".join(f"  {line}" for line in lines)
    return f"{_prototype_load(kernel, grid)} {{\n{body}\n}}\n"


def _grid(kernel: HostKernel, grid: Grid) -> str:
    """Plans a launch and makes it with the best form."""
    target, launch = kernel.target(grid.family), kernel.record["launch"]
    assert target is not None
    lines = _planned(kernel)
    for number, form in enumerate(kernel.forms(grid.family), 1):
        trees = [condition["tree"] for condition in form["requires"]]
        held = c_conditions(trees, kernel.name, partial(_place, kernel))
        lines += f"if ({' &&~    '.join(held)}) {{".split("~")
        if [g["text"] for g in form["groups"]] != [g["text"] for g in launch["groups"]]:
            lines += [f"  {line}" for line in _extents(kernel, form["groups"])]
        lines += [f"  {line}" for line in _launched(kernel, grid, number, form)]
        lines.append("}")
    lines += _launched(kernel, grid, 0, {**target, "threads": launch["threads"]})
    body = "\n".join(f"  {line}" for line in lines)
    return f"{_prototype_grid(kernel, grid)} {{\n{body}\n}}\n"


def _launched(kernel: HostKernel, grid: Grid, number: int, form: Mapping[str, Any]) -> list[str]:
    addresses = [_address(kernel, field) for field in form["arguments"]]
    given = f"kernel->forms[{number}], stream, plan.groups, {form['threads']}"
    return [
        *_wrapped("void *arguments[] = {", addresses, "};").split("\n"),
        f'return {grid.family}_launch("{kernel.record["name"]}", {given}, '
        f"{form['dynamic_bytes']}, arguments);",
    ]


def _place(kernel: HostKernel, node: Mapping[str, Any]) -> str:
    """Where a tensor lies, or a stride of it."""
    if "address" in node:
        return f"(u64)(uintptr_t){kernel.name(node['address'])}.data"
    return f"plan.strides[{kernel.number(node['stride'])}][{node['axis']}]"


def _address(kernel: HostKernel, field: Mapping[str, Any]) -> str:
    """Where the driver finds an argument."""
    match field["kind"]:
        case "pointer":
            return f"&{kernel.name(field['name'])}.data"
        case "stride":
            return f"&plan.strides[{kernel.number(field['name'])}][{field['axis']}]"
        case "extent":
            return f"&plan.extents[{field['axis']}]"
        case _:
            return f"&{kernel.name(field['name'])}"


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{plain}"'


_RUN_ALL: Final = """void iron_run(const iron_block *block) {
  if (block->groups > 0) block->run(block->arguments, 0, block->groups);
}
"""
