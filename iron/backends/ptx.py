"""Rings, bulk copies and products of warpgroups as CUDA text: a function of inline PTX for each.

Source: PTX ISA 9.0, "mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix
Instructions", "stmatrix", "Async Proxy", "setmaxnreg".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from iron.backends.clike.expression import PRODUCT, SUM, UNARY, Expr
from iron.dtypes import u64
from iron.ir.core import Op, Value
from iron.ir.ops.ring import PANEL_BYTES, WARPGROUP, bytes_of, panel
from iron.ir.types import Tensor
from iron.targets.atoms.nvidia import operand

if TYPE_CHECKING:
    from iron.backends.clike.render import Renderer

ALIGN = 1024
"""Bytes after which the pattern of a swizzle begins anew."""
K_BYTES = 32
"""Bytes along k of one instruction."""

# --- functions ------------------------------------------------------------------------------------

_HEAD = "IRON_DEVICE"
_PLAIN = {
    "iron_tensor_map": "struct alignas(64) iron_tensor_map { u64 opaque[16]; };",
    "iron_shared_address": f"""
{_HEAD} u32 iron_shared_address(const void* at) {{ return (u32)__cvta_generic_to_shared(at); }}""",
    "iron_mbarrier_wait": f"""
{_HEAD} void iron_mbarrier_wait(const u64* barrier, i32 phase) {{
  asm volatile(
      "{{.reg .pred done;\\n"
      "again: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\\n"
      "@done bra through;\\nbra again;\\nthrough: }}"
      :: "r"(iron_shared_address(barrier)), "r"(phase) : "memory");
}}""",
    "iron_mbarrier_arrive": f"""
{_HEAD} void iron_mbarrier_arrive(const u64* barrier) {{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
               :: "r"(iron_shared_address(barrier)) : "memory");
}}""",
    "iron_ring_open": f"""
{_HEAD} void iron_ring_open(u64* ring, i32 slots, u32 readers) {{
  if (threadIdx.x != 0) return;
  for (i32 i = 0; i < 2 * slots; ++i)
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(iron_shared_address(ring + i)), "r"(i < slots ? 1u : readers) : "memory");
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}}""",
    "iron_ring_claim": f"""
{_HEAD} void iron_ring_claim(u64* ring, i32 slots, i32 slot, i32 phase, u32 bytes) {{
  iron_mbarrier_wait(ring + slots + slot, phase ^ 1);
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
               :: "r"(iron_shared_address(ring + slot)), "r"(bytes) : "memory");
}}""",
    "iron_ring_free": f"""
{_HEAD} void iron_ring_free(u64* ring, i32 slots, i32 slot) {{
  if (threadIdx.x % {WARPGROUP} == 0) iron_mbarrier_arrive(ring + slots + slot);
}}""",
    "iron_descriptor": f"""
{_HEAD} u64 iron_descriptor(const void* part, u64 leading, u64 stride) {{
  const u64 at = iron_shared_address(part);
  return at >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1ull << 62;
}}""",
    "iron_wgmma_fence": f"""
{_HEAD} void iron_wgmma_fence() {{ asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }}""",
    "iron_wgmma_commit": f"""
{_HEAD} void iron_wgmma_commit() {{
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}}""",
    "iron_wgmma_wait": f"""
template <int pending> {_HEAD} void iron_wgmma_wait() {{
  asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(pending) : "memory");
}}""",
    "iron_stmatrix": f"""
{_HEAD} void iron_stmatrix(void* part, i32 rows, i32 row, i32 column, u32 a, u32 b, u32 c, u32 d) {{
  const i32 lane = threadIdx.x % 32;
  const i32 y = row + lane % 16, x = column / 8 + lane / 16;
  const u32 at = x / 8 * rows * {PANEL_BYTES} + y * {PANEL_BYTES} + ((x % 8 ^ y % 8) << 4);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {{%1, %2, %3, %4}};"
               :: "r"(iron_shared_address(part) + at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}}""",
    "iron_fence_async": f"""
{_HEAD} void iron_fence_async() {{
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}}""",
    "iron_bulk_commit": f"""
{_HEAD} void iron_bulk_commit() {{ asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }}""",
    "iron_bulk_wait_read": f"""
template <int pending> {_HEAD} void iron_bulk_wait_read() {{
  asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(pending) : "memory");
}}""",
    "iron_bulk_wait": f"""
template <int pending> {_HEAD} void iron_bulk_wait() {{
  asm volatile("cp.async.bulk.wait_group %0;" :: "n"(pending) : "memory");
}}""",
    "iron_part_barrier": f"""
{_HEAD} void iron_part_barrier(i32 number, i32 threads) {{
  asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(threads) : "memory");
}}""",
    "iron_fewer_registers": f"""
template <int count> {_HEAD} void iron_fewer_registers() {{
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count));
}}""",
    "iron_more_registers": f"""
template <int count> {_HEAD} void iron_more_registers() {{
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count));
}}""",
}


def _pair(dtype: str) -> str:
    return f"""
{_HEAD} u32 iron_pair_{dtype}(f32 low, f32 high) {{
  u32 both;
  asm("cvt.rn.{dtype}x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}}"""


def _copies(rank: int) -> dict[str, str]:
    """Loads and stores of a box; coordinates begin with the axis of neighbours."""
    where = [f"c{i}" for i in range(rank)]
    taken = ", ".join(f"i32 {c}" for c in where)
    given = ", ".join(f'"r"({c})' for c in where)

    def braced(first: int) -> str:
        return "{" + ", ".join(f"%{first + i}" for i in range(rank)) + "}"

    name = f"cp.async.bulk.tensor.{rank}d"
    return {
        f"iron_copy_{rank}d": f"""
{_HEAD} void iron_copy_{rank}d(
    void* to, const iron_tensor_map* from, const u64* barrier, {taken}) {{
  asm volatile(
      "{name}.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {braced(3)}], [%2];"
      :: "r"(iron_shared_address(to)), "l"(from), "r"(iron_shared_address(barrier)), {given}
      : "memory");
}}""",
        f"iron_store_{rank}d": f"""
{_HEAD} void iron_store_{rank}d(const iron_tensor_map* to, const void* from, {taken}) {{
  asm volatile("{name}.global.shared::cta.bulk_group [%0, {braced(2)}], [%1];"
               :: "l"(to), "r"(iron_shared_address(from)), {given} : "memory");
}}""",
    }


def _wgmma(n: int, dtype: str) -> str:
    """acc is n / 2 registers; the template's numbers say that an operand is not k-major."""
    held = n // 2
    registers = ", ".join(f"%{i}" for i in range(held))
    bound = ", ".join(f'"+f"(acc[{i}])' for i in range(held))
    a, b, keep, ta, tb = (f"%{held + i}" for i in range(5))
    return f"""
template <int ta, int tb>
{_HEAD} void iron_wgmma_m64n{n}_{dtype}(f32* acc, u64 a, u64 b, i32 keep) {{
  asm volatile(
      "{{.reg .pred keep; setp.ne.b32 keep, {keep}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{dtype}.{dtype} "
      "{{{registers}}}, {a}, {b}, keep, 1, 1, {ta}, {tb};}}"
      : {bound}
      : "l"(a), "l"(b), "r"(keep), "n"(ta), "n"(tb));
}}"""


def _wgmma_a(n: int, dtype: str) -> str:
    """As `_wgmma`, with four words of a."""
    held = n // 2
    registers = ", ".join(f"%{i}" for i in range(held))
    bound = ", ".join(f'"+f"(acc[{i}])' for i in range(held))
    words = ", ".join(f"%{held + i}" for i in range(4))
    b, keep, tb = (f"%{held + i}" for i in range(4, 7))
    return f"""
template <int tb>
{_HEAD} void iron_wgmma_a_m64n{n}_{dtype}(f32* acc, const u32* a, u64 b, i32 keep) {{
  asm volatile(
      "{{.reg .pred keep; setp.ne.b32 keep, {keep}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{dtype}.{dtype} "
      "{{{registers}}}, {{{words}}}, {b}, keep, 1, 1, {tb};}}"
      : {bound}
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keep), "n"(tb));
}}"""


def functions() -> dict[str, str]:
    """Every function by its name."""
    made = dict(_PLAIN)
    for rank in range(2, 6):
        made |= _copies(rank)
    for dtype in ("f16", "bf16"):
        made[f"iron_pair_{dtype}"] = _pair(dtype)
        for n in range(16, 257, 16):
            made[f"iron_wgmma_m64n{n}_{dtype}"] = _wgmma(n, dtype)
            made[f"iron_wgmma_a_m64n{n}_{dtype}"] = _wgmma_a(n, dtype)
    return made


# --- rules ----------------------------------------------------------------------------------------


def _shape(value: Value) -> Tensor:
    assert isinstance(value.type, Tensor)
    return value.type


def _in_slot(r: Renderer, part: Value, slot: Value, more: Sequence[Expr] = ()) -> str:
    """The address of an element of a part in a slot."""
    t, at = _shape(part), r.expr(slot)
    size = int(np.prod(t.shape[1:]))
    terms = [Expr(f"{at.at(PRODUCT)} * {size}", PRODUCT)] if at.text != "0" else []
    terms += [e for e in more if e.text != "0"]
    base = r.expr(part).text
    return " + ".join([base, *(t.at(SUM + 1) for t in terms)])


def registers(r: Renderer, op: Op) -> None:
    """An array of the thread."""
    t = op.attrs[0]
    name = r.fresh(op.results[0].name or "held")
    r.line(f"{t.elem} {name}[{t.shape[0]}];")
    r.expressions[op.results[0]] = Expr(name)


def slots(r: Renderer, op: Op) -> None:
    """Group memory."""
    t, (result,) = op.attrs[0], op.results
    size = int(np.prod(t.shape))
    r.expressions[result] = Expr(r.array(t.elem, result.name or "slots", size, ALIGN))


def ring(r: Renderer, op: Op) -> None:
    """Barriers that tell a slot to be full, then those that tell it to be free."""
    _, count, readers = op.attrs
    for result in op.results[1:]:
        t = _shape(result)
        size = int(np.prod(t.shape))
        r.expressions[result] = Expr(r.array(t.elem, result.name or "part", size, ALIGN))
    name = r.array(u64, op.results[0].name or "ring", 2 * count)
    r.expressions[op.results[0]] = Expr(name)
    r.line(f"iron_ring_open({name}, {count}, {readers});")


def _made(value: Value) -> Op:
    assert value.op is not None
    return value.op


def ring_claim(r: Renderer, op: Op) -> None:
    """Waits, then promises."""
    name, slot, phase = (r.expr(a).text for a in op.args)
    parts, count, _ = _made(op.args[0]).attrs
    bytes = sum(map(bytes_of, parts))
    r.line(f"iron_ring_claim({name}, {count}, {slot}, {phase}, {bytes});")


def _coordinates(r: Renderer, places: Sequence[Value], column: int) -> str:
    """The axis of neighbours first."""
    texts = [r.expr(p) for p in reversed(places)]
    first = texts[0].text if not column else f"{texts[0].at(SUM)} + {column}"
    if column and texts[0].text == "0":
        first = str(column)
    return ", ".join([first, *(t.text for t in texts[1:])])


def ring_copy(r: Renderer, op: Op) -> None:
    """A copy for each panel."""
    part, barriers, slot, _, *place = op.args
    t, name = _shape(part), r.expr(barriers).text
    at = r.expr(slot).at(SUM)
    for first in range(0, t.shape[2], panel(t)):
        to = _in_slot(r, part, slot, [Expr(str(first * t.shape[1]))])
        where = _coordinates(r, place, first)
        r.line(f"iron_copy_{len(place)}d({to}, &{r.map(op)}, {name} + {at}, {where});")


def ring_wait(r: Renderer, op: Op) -> None:
    """The slot's first barrier."""
    name, slot, phase = (r.expr(a) for a in op.args)
    r.line(f"iron_mbarrier_wait({name.text} + {slot.at(SUM)}, {phase.text});")


def ring_free(r: Renderer, op: Op) -> None:
    """One thread of the warpgroup arrives."""
    name, slot = (r.expr(a).text for a in op.args)
    r.line(f"iron_ring_free({name}, {_made(op.args[0]).attrs[1]}, {slot});")


def wgmma(r: Renderer, op: Op) -> None:
    """An instruction for each 32 bytes along k."""
    acc, a, a_slot, a_row, b, b_slot, keep = op.args
    a_k, b_k = op.attrs
    ta, tb = _shape(a), _shape(b)
    row = r.expr(a_row)
    per_row = panel(ta) if a_k else ta.shape[1]
    at = [] if row.text == "0" else [Expr(f"{row.at(PRODUCT)} * {per_row}", PRODUCT)]
    left = _descriptor(r, a, _in_slot(r, a, a_slot, at), a_k)
    right = _descriptor(r, b, _in_slot(r, b, b_slot), b_k)
    n = 2 * _shape(acc).shape[0]
    name = f"iron_wgmma_m64n{n}_{ta.elem}<{int(not a_k)}, {int(not b_k)}>"
    r.line("iron_wgmma_fence();")
    depth = ta.shape[2] if a_k else ta.shape[1]
    held = r.expr(acc).text
    for step in range(depth * ta.elem.bytes // K_BYTES):
        places = [_moved(left, ta, a_k, step), _moved(right, tb, b_k, step)]
        kept = f"(i32){r.expr(keep).at(UNARY)}" if step == 0 else "1"
        r.line(f"{name}({held}, {places[0]}, {places[1]}, {kept});")
    r.line("iron_wgmma_commit();")


def wgmma_a(r: Renderer, op: Op) -> None:
    """An instruction for each four words."""
    acc, words, b, b_slot, keep = op.args
    dtype, b_k = op.attrs
    t = _shape(b)
    right = _descriptor(r, b, _in_slot(r, b, b_slot), b_k)
    name = f"iron_wgmma_a_m64n{2 * _shape(acc).shape[0]}_{dtype}<{int(not b_k)}>"
    r.line("iron_wgmma_fence();")
    for step in range(_shape(words).shape[0] // 4):
        a = r.expr(words).text + (f" + {4 * step}" if step else "")
        kept = f"(i32){r.expr(keep).at(UNARY)}" if step == 0 else "1"
        r.line(f"{name}({r.expr(acc).text}, {a}, {_moved(right, t, b_k, step)}, {kept});")
    r.line("iron_wgmma_commit();")


def _descriptor(r: Renderer, part: Value, at: str, k_major: bool) -> str:
    """A named descriptor of a part's first instruction."""
    t = _shape(part)
    rows, depth = t.shape[1:] if k_major else t.shape[:0:-1]
    walk = operand(k_major, PANEL_BYTES, rows, depth)
    text = f"iron_descriptor({at}, {walk.leading}, {walk.stride})"
    return r.constant("u64", f"{r.expr(part).text}_tile", text)


def _moved(name: str, t: Tensor, k_major: bool, step: int) -> str:
    """The descriptor of the instruction number `step`: addresses count 16 bytes."""
    within = PANEL_BYTES // K_BYTES if k_major else step + 1
    walk = operand(k_major, PANEL_BYTES, t.shape[1], t.shape[1])
    bytes = step // within * t.shape[1] * PANEL_BYTES + step % within * walk.step
    return f"{name} + {bytes // 16}" if bytes else name


def wgmma_wait(r: Renderer, op: Op) -> None:
    """Each product is a group."""
    r.line(f"iron_wgmma_wait<{op.attrs[0]}>();")


def pair(r: Renderer, op: Op) -> None:
    """Packed by one instruction."""
    low, high = (r.expr(a) for a in op.args)
    made = Expr(f"iron_pair_{op.attrs[0]}({low.text}, {high.text})", reads=low.reads | high.reads)
    r.place(op.results[0], made, op)


def stmatrix(r: Renderer, op: Op) -> None:
    """The lanes' addresses are found inside."""
    to, slot, *rest = op.args
    given = ", ".join(r.expr(a).text for a in rest)
    r.line(f"iron_stmatrix({_in_slot(r, to, slot)}, {_shape(to).shape[1]}, {given});")


def bulk_store(r: Renderer, op: Op) -> None:
    """A store for each panel, in one group."""
    part, slot, _, *place = op.args
    t = _shape(part)
    for first in range(0, t.shape[2], panel(t)):
        at = _in_slot(r, part, slot, [Expr(str(first * t.shape[1]))])
        where = _coordinates(r, place, first)
        r.line(f"iron_store_{len(place)}d(&{r.map(op)}, {at}, {where});")
    r.line("iron_bulk_commit();")


def bulk_wait(r: Renderer, op: Op) -> None:
    """Of this thread's groups."""
    pending, read = op.attrs
    r.line(f"iron_bulk_wait{'_read' if read else ''}<{pending}>();")


def fence_async(r: Renderer, op: Op) -> None:
    """Between the two kinds of access."""
    r.line("iron_fence_async();")


def part_barrier(r: Renderer, op: Op) -> None:
    """A named barrier."""
    r.line(f"iron_part_barrier({r.expr(op.args[0]).text}, {op.attrs[0]});")


def register_limit(r: Renderer, op: Op) -> None:
    """The count is part of the instruction."""
    count, grow = op.attrs
    r.line(f"iron_{'more' if grow else 'fewer'}_registers<{count}>();")


RULES: dict[str, Callable[[Renderer, Op], None]] = {
    rule.__name__: rule
    for rule in (
        *(registers, slots, ring, ring_claim, ring_copy, ring_wait, ring_free),
        *(wgmma, wgmma_a, wgmma_wait, pair, stmatrix, fence_async),
        *(bulk_store, bulk_wait, part_barrier, register_limit),
    )
}
