"""Metal text against a strict front end and rules of its own; each kind of fault is refused."""

from dataclasses import replace

import pytest

from iron.backends.clike.render import Text, render
from iron.backends.msl import MSL
from iron.backends.msl_check import check, lint
from iron.dtypes import f32, i32
from iron.errors import KernelError
from iron.ir.types import tensor
from iron.shims import metal_text
from iron.shims.driver import TextDriver
from iron.targets.apple import APPLE7
from tests.unit.backends.samples import texts
from tests.unit.ir.handmade import Handmade


def test_every_kernel_is_taken():
    found = list(texts(APPLE7, MSL))
    assert len(found) > 20
    for _, text in found:
        check(text)


def sample() -> Text:
    """Shared memory, a table, a collective, an atomic, a scalar."""
    p = Handmade(threads=64, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    count = p.tensor("count", i32, "inout")
    s = p.scalar("s", f32)
    held = p.emit("shared", attrs=(tensor(f32, 1, "shared", (64,)),))
    t = p.thread()
    p.store(held, t, p.load(x, t))
    p.do("barrier")
    table = p.emit("table", attrs=(tensor(i32, 1, "table", (2,)), b"\1\0\0\0\2\0\0\0"))
    step = p.load(table, p.emit("and", t, p.const(1)))
    p.do("atomic", count, p.const(0), step, attrs=("add",))
    total = p.do("reduce", p.load(held, t), attrs=(0,), regions=(p.function("add", f32),))[0]
    p.store(y, t, p.emit("add", total, s))
    return render(p.done(), MSL, "iron_sample")


def edited(old: str, new: str, line: str = "") -> Text:
    """The sample with a replacement, or with a line before its first barrier."""
    text = sample()
    if line:
        body = text.body.replace("  iron_barrier();", f"{line}\n  iron_barrier();", 1)
        return replace(text, body=body, places=(*text.places, None))
    assert old in text.body
    return replace(text, body=text.body.replace(old, new, 1))


WRONG = {
    "device memory as group memory": ("", "", "  threadgroup f32* other = y;"),
    "group memory as device memory": ("", "", "  device f32* other = shared;"),
    "a store to constant memory": ("", "", "  table[0] = 1;"),
    "a store to an input": ("", "", "  x[0] = 1.0f;"),
    "an attribute that Metal lacks": ("thread_index_in_simdgroup]]", "thread_in_simdgroup]]", ""),
    "a pointer of no address space": ("device const f32* x", "const f32* x", ""),
    "a function that Metal lacks": ("", "", "  y[0] = tanhf(1.0f);"),
    "a pointer to a function": ("", "", "  f32 (*f)(f32) = iron_shuffle_xor_f32;"),
    "shared memory with a value": ("shared[64];", "shared[64] = {0};", ""),
    "shared memory in a block": ("", "", "  { threadgroup f32 inner[2]; inner[0] = 1.0f; }"),
    "double": ("", "", "  double wide = 1.0;"),
    "a long long": ("", "", "  long long wide = 1;"),
    "a literal of C's": ("", "", "  i64 wide = 1ll;"),
    "an object that stays": ("", "", "  static int count = 0;"),
    "goto": ("", "", "  goto end; end:;"),
    "new": ("", "", "  int* p = new int;"),
    "too many buffers": ("[[buffer(1)]]", "[[buffer(31)]]", ""),
    "a missing brace": ("const i32 thread_index", "{ const i32 thread_index", ""),
}


@pytest.mark.parametrize("edit", WRONG.values(), ids=WRONG)
def test_wrong_text_is_refused(edit: tuple[str, str, str]):
    with pytest.raises(KernelError) as wrong:
        check(edited(*edit))
    assert wrong.value.id == "E0901"


def test_the_sample_is_right_and_recursion_is_seen():
    text = sample()
    check(text)
    assert lint(text.source) == []
    turning = text.source.replace("return simd_shuffle_xor(x,", "return iron_shuffle_xor_f32(x,")
    assert lint(turning) == ["iron_shuffle_xor_f32 calls itself"]


@pytest.mark.parametrize(
    "line",
    [
        "  threadgroup f32* other = y;",
        "  device f32* other = shared;",
        "  table[0] = 1;",
        "  x[0] = 1.0f;",
        "  y[0] = (f32)simd_shuffle_xor((u64)1, (ushort)1);",
    ],
)
def test_the_fibres_know_address_spaces_too(line: str):
    driver = TextDriver("msl-text", metal_text.WORDS, APPLE7)
    driver._compiled([sample()], "the sample")
    with pytest.raises(KernelError) as wrong:
        driver._compiled([edited("", "", line)], "the sample")
    assert wrong.value.id == "E0901"
