"""Copies that run beside the threads and loads of matrices as CUDA text: `cp.async`, `ldmatrix`.

Sources: PTX ISA 9.0, "cp.async" and "ldmatrix".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from iron.backends.clike import memory
from iron.backends.clike.expression import SUM, Expr
from iron.dtypes import u32
from iron.ir.core import Op
from iron.ir.ops.copy import places

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

COPY = """\
asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
               :: "r"(iron_shared_address(to)), "l"(from) : "memory");"""
COMMIT = 'asm volatile("cp.async.commit_group;" ::: "memory");'
WAIT = 'asm volatile("cp.async.wait_group %0;" :: "n"(pending) : "memory");'


def instruction(count: int, turned: bool) -> str:
    """The PTX that loads `count` matrices as words w0, w1, .. from the address `at`."""
    words = ", ".join(f"%{i}" for i in range(count))
    made = ", ".join(f'"=r"(w{i})' for i in range(count))
    trans = ".trans" if turned else ""
    return f"""\
asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{words}}}, [%{count}];"
               : {made} : "r"(iron_shared_address(at)) : "memory");"""


LOADS = {
    f"iron_load_matrices_x{count}{'_turned' if turned else ''}": (count, turned)
    for count in (2, 4)
    for turned in (False, True)
}


def _load(name: str) -> str:
    count, turned = LOADS[name]
    words = ", ".join(f"u32& w{i}" for i in range(count))
    return f"""
IRON_DEVICE void {name}({words}, const void* at) {{
  {instruction(count, turned)}
}}"""


FUNCTIONS = {
    "iron_async_copy": f"""
IRON_DEVICE void iron_async_copy(void* to, const void* from) {{
  {COPY}
}}""",
    "iron_async_commit": f"IRON_DEVICE void iron_async_commit() {{ {COMMIT} }}",
    "iron_async_wait": f"""
template <int pending> IRON_DEVICE void iron_async_wait() {{
  {WAIT}
}}""",
    **{name: _load(name) for name in LOADS},
}


def async_copy(r: Renderer, op: Op) -> None:
    """One instruction where 16 bytes are aligned, else each element by itself, at once."""
    to, source = (r.expr(a).text for a in op.args[:2])
    ends = [memory.address(r, a, p) for a, p in zip(op.args[:2], places(op.args), strict=True)]
    into, out_of = (f"{b} + {at.at(SUM)}" for b, at in zip((to, source), ends, strict=True))
    if op in r.wide:
        r.line(f"iron_async_copy({into}, {out_of});")
        return
    i = r.fresh("i")
    one = f"({into})[{i}] = ({out_of})[{memory.neighbour(r, op.args[1], i)}];"
    r.line(f"for (i32 {i} = 0; {i} < {op.attr('count')}; ++{i}) {one}")


def async_commit(r: Renderer, op: Op) -> None:
    """Each thread closes its own group."""
    r.line("iron_async_commit();")


def async_wait(r: Renderer, op: Op) -> None:
    """The count is part of the instruction."""
    r.line(f"iron_async_wait<{op.attr('pending')}>();")


def simd_load(r: Renderer, op: Op) -> None:
    """The words are variables that the instruction sets."""
    count, turned = op.attrs
    base = r.expr(op.args[0]).text
    at = memory.address(r, op.args[0], op.args[1:])
    names = [r.fresh(w.name or f"{base}_word") for w in op.results]
    r.line(f"{u32} {', '.join(names)};")
    name = f"iron_load_matrices_x{count}{'_turned' if turned else ''}"
    r.line(f"{name}({', '.join(names)}, {base} + {at.at(SUM)});")
    for word, text in zip(op.results, names, strict=True):
        r.expressions[word] = Expr(text)


RULES: dict[str, Callable[[Renderer, Op], None]] = {
    rule.__name__: rule for rule in (async_copy, async_commit, async_wait, simd_load)
}
