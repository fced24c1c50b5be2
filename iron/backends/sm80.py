"""Copies that run beside the threads and loads of matrices as CUDA text: `cp.async`, `ldmatrix`.

Sources: PTX ISA 9.0, "cp.async" and "ldmatrix".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

from iron.backends.clike import memory
from iron.backends.clike.expression import SUM, Expr
from iron.dtypes import u32
from iron.ir.core import Op, Value
from iron.ir.ops.copy import places
from iron.ir.types import Tensor

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
    ends = [_end(r, a, p) for a, p in zip(op.args[:2], places(op.args), strict=True)]
    times, rows, axis, along = op.attr("runs")
    head = ""
    if times > 1:
        run = r.fresh("run")
        head = f"for (i32 {run} = 0; {run} < {times}; ++{run}) "
        to, source = op.args[:2]
        moved = (_moved(r, to, -2, rows), _moved(r, source, axis, along))
        ends = [f"{end} + {run} * {step}" for end, step in zip(ends, moved, strict=True)]
        r.line("#pragma unroll")
    if op in r.wide:
        r.line(f"{head}iron_async_copy({ends[0]}, {ends[1]});")
        return
    i = r.fresh("i")
    one = f"({ends[0]})[{i}] = ({ends[1]})[{memory.neighbour(r, op.args[1], i)}];"
    r.line(f"{head}for (i32 {i} = 0; {i} < {op.attr('count')}; ++{i}) {one}")


def _end(r: Renderer, buffer: Value, place: Sequence[Value]) -> str:
    return f"{r.expr(buffer).text} + {memory.address(r, buffer, place).at(SUM)}"


def _moved(r: Renderer, buffer: Value, axis: int, steps: int) -> str:
    """`steps` along an axis, in elements."""
    t = buffer.type
    assert isinstance(t, Tensor)
    if t.space == "shared":
        return str(steps * prod(t.shape[axis:][1:]))
    last = t.packed and axis == t.rank - 1
    return str(steps) if last else f"{steps} * {r.expr(buffer).text}_stride{axis}"


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
    names = [r.fresh(w.name or f"{base}_word") for w in op.results]
    r.line(f"{u32} {', '.join(names)};")
    name = f"iron_load_matrices_x{count}{'_turned' if turned else ''}"
    r.line(f"{name}({', '.join(names)}, {memory.summed(r, op.args[0], op.args[1:])});")
    for word, text in zip(op.results, names, strict=True):
        r.expressions[word] = Expr(text)


RULES: dict[str, Callable[[Renderer, Op], None]] = {
    rule.__name__: rule for rule in (async_copy, async_commit, async_wait, simd_load)
}
