"""Functions of inline PTX that the text of rings, bulk copies and products of warpgroups calls.

Source: PTX ISA 9.0, "mbarrier", "cp.async.bulk.tensor", "Asynchronous Warpgroup Level Matrix
Instructions", "stmatrix", "Async Proxy", "setmaxnreg".
"""

from __future__ import annotations

from itertools import product

from iron.ir.floats8 import FLOATS8
from iron.ir.ops.ring import PANEL_BYTES, WARPGROUP

_HEAD = "IRON_DEVICE"

_PLAIN = {
    "iron_tensor_map": "struct alignas(64) iron_tensor_map { u64 opaque[16]; };",
    "iron_prefetch_map": f"""
{_HEAD} void iron_prefetch_map(const iron_tensor_map* map) {{
  if (threadIdx.x == 0) asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}}""",
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
    "iron_chunk": f"""
{_HEAD} u32 iron_chunk(i32 rows, i32 row, i32 chunk) {{
  return chunk / 8 * rows * {PANEL_BYTES} + row * {PANEL_BYTES} + ((chunk % 8 ^ row % 8) << 4);
}}""",
    "iron_stmatrix": f"""
{_HEAD} void iron_stmatrix(void* part, i32 rows, i32 row, i32 column, u32 a, u32 b, u32 c, u32 d) {{
  const i32 lane = threadIdx.x % 32;
  const u32 at = iron_chunk(rows, row + lane % 16, column / 8 + lane / 16);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {{%1, %2, %3, %4}};"
               :: "r"(iron_shared_address(part) + at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}}""",
    "iron_stmatrix_turned": f"""
{_HEAD} void iron_stmatrix_turned(
    void* part, i32 rows, i32 row, i32 column, u32 a, u32 b, u32 c, u32 d) {{
  const i32 lane = threadIdx.x % 32;
  const u32 at = iron_chunk(rows, row + lane / 16 * 8 + lane % 8, column / 8 + lane / 8 % 2);
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {{%1, %2, %3, %4}};"
               :: "r"(iron_shared_address(part) + at), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}}""",
    "iron_part_store": f"""
template <typename T>
{_HEAD} void iron_part_store(void* part, i32 rows, i32 row, i32 column, T x) {{
  const i32 at = column * (i32)sizeof(T);
  *(T*)((char*)part + iron_chunk(rows, row, at / 16) + at % 16) = x;
}}""",
    "iron_part_store2": f"""
template <typename T>
{_HEAD} void iron_part_store2(void* part, i32 rows, i32 row, i32 column, T x, T y) {{
  struct alignas(2 * sizeof(T)) both {{ T x, y; }};
  const i32 at = column * (i32)sizeof(T);
  *(both*)((char*)part + iron_chunk(rows, row, at / 16) + at % 16) = both{{x, y}};
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
    "iron_part_arrive": f"""
{_HEAD} void iron_part_arrive(i32 number, i32 threads) {{
  asm volatile("bar.arrive %0, %1;" :: "r"(number), "r"(threads) : "memory");
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
    """acc is n / 2 registers; the template's numbers say that a 16-bit operand is not k-major."""
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


def _wgmma_k(n: int, x: str, y: str) -> str:
    """As `_wgmma` for operands of 32 and of 8 bits, which are k-major."""
    held, whole = n // 2, x in ("s8", "u8")
    total, form, depth = ("i32", "r", 32) if whole else ("f32", "f", 8 if x == "tf32" else 32)
    registers = ", ".join(f"%{i}" for i in range(held))
    bound = ", ".join(f'"+{form}"(acc[{i}])' for i in range(held))
    a, b, keep = (f"%{held + i}" for i in range(3))
    sum_type, signs = ("s32", "") if whole else ("f32", ", 1, 1")
    return f"""
{_HEAD} void iron_wgmma_m64n{n}_{x}_{y}({total}* acc, u64 a, u64 b, i32 keep) {{
  asm volatile(
      "{{.reg .pred keep; setp.ne.b32 keep, {keep}, 0;\\n"
      "wgmma.mma_async.sync.aligned.m64n{n}k{depth}.{sum_type}.{x}.{y} "
      "{{{registers}}}, {a}, {b}, keep{signs};}}"
      : {bound}
      : "l"(a), "l"(b), "r"(keep));
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
    pairs = [(x, x) for x in ("tf32", *FLOATS8)]
    for x, y in (*pairs, *product(("s8", "u8"), repeat=2)):
        for n in range(16, 257, 16):
            made[f"iron_wgmma_m64n{n}_{x}_{y}"] = _wgmma_k(n, x, y)
    return made
