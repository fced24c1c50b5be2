"""The text form: an example, exact constants, round trips, digests, refusals with lines."""

import numpy as np
import pytest

from iron.dtypes import bf16, bool_, f16, f32, i8, i64, u64
from iron.errors import KernelError, Loc
from iron.ir.core import Block, Kernel, Param, Require, Value
from iron.ir.text import digest, parse_kernel, print_kernel
from iron.ir.types import tensor
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade

EXAMPLE = """\
kernel "scale" rank 1 threads 32 simd 32 index i32
tensor "x" in f32[?]
tensor "y" out f32[?, ?] strided partial
scalar "s" f32
dim "N" i32
require "N > 0"
host(%s: f32, %N: i32) {
  %0 = const i32 32
  %1 = floordiv %N, %0 : i32
  %2 = const i32 0
  %3 = gt %N, %2 : bool
  yield %1, %3
}
body(%x: in f32[?], %y: out f32[?, ?] strided, %s: f32, %N: i32) {
  %t = thread dtype=i32 : i32
  %0 = load %x, %t count=0 : f32
  %1 = const f32 0x1.8000000000000p+0
  %2 = fma %0, %s, %1 exact : f32
  %3 = gt %2, %1 : bool
  %4 = if %3 {
    %5 = reduce %2 width=0 as "group_sum" (%6: f32, %7: f32) {
      %8 = add %6, %7 : f32
      yield %8
    } : f32
    yield %5
  } {
    yield %1
  } : f32
  store %y, %t, %t, %4
}
"""


def test_example_is_stable():
    kernel = parse_kernel(EXAMPLE)
    verify(kernel)
    again = print_kernel(kernel)
    assert parse_kernel(again).params == kernel.params
    assert print_kernel(parse_kernel(again)) == again
    # numbers follow the order of definition, whatever the source text used
    assert "%8 = if %3 {\n    %7 = reduce" in again
    assert [p.name for p in kernel.body.params] == ["x", "y", "s", "N"]
    reduce = next(op for op in kernel.body.walk() if op.name == "reduce")
    assert reduce.surface == "group_sum"
    assert [op.exact for op in kernel.body.ops if op.name == "fma"] == [True]


VALUES = [
    (f32, "0x1.921fb60000000p+1"),
    (f32, "-0x0.0p+0"),
    (f32, "0x1.0000000000000p-149"),
    (f32, "-inf"),
    (f32, "nan.7fc00000"),
    (f32, "nan.ff800001"),
    (f16, "0x1.ffc0000000000p+15"),
    (f16, "nan.7e01"),
    (bf16, "0x1.fe00000000000p+127"),
    (bf16, "nan.ffc0"),
    (i8, "-128"),
    (i64, "-9223372036854775808"),
    (u64, "18446744073709551615"),
    (bool_, "true"),
    (bool_, "false"),
]


@pytest.mark.parametrize(("dtype", "text"), VALUES, ids=[f"{d}-{t}" for d, t in VALUES])
def test_constants_are_exact(dtype, text):
    head = EXAMPLE.splitlines()[0] + "\nhost() {\n  %0 = const i32 1\n  yield %0\n}\nbody() {\n"
    kernel = parse_kernel(f"{head}  %0 = const {dtype} {text}\n}}\n")
    verify(kernel)
    value, held = kernel.body.ops[0].attrs
    assert held is dtype
    assert value.dtype == dtype.np
    assert f"const {dtype} {text}\n" in print_kernel(kernel)


def test_same_names_and_odd_names_survive():
    p = Handmade()
    p.tensor("w.codes", f32)
    t = p.thread()
    names = ["a", "a", "", "two words", 'q"uote', "a", "7", "add"]
    for i, name in enumerate(names):
        p.emit("add", t, p.const(i + 100)).name = name
    text = print_kernel(p.done())
    kernel = parse_kernel(text)
    assert [op.results[0].name for op in kernel.body.ops if op.name == "add"] == names
    assert print_kernel(kernel) == text
    assert "%a#3 = add %t" not in text
    assert '%"two words" = add' in text


def test_places_are_optional_and_survive():
    p = Handmade()
    caller = Loc("dir/a b.py", 9, 1, 7, Loc("k.py", 20, 0, 3))
    p.b.loc = Loc("s.py", 3, 4, 8, caller)
    p.thread()
    kernel = p.done()
    assert "@" not in print_kernel(kernel)
    text = print_kernel(kernel, locs=True)
    assert '@ "s.py":3:4:8 < "dir/a b.py":9:1:7 < "k.py":20:0:3' in text
    again = parse_kernel(text)
    assert again.body.ops[0].loc == p.b.loc
    assert print_kernel(again, locs=True) == text


def test_header_facts_survive():
    host_n, body_n = Value(i64, None, "N"), Value(i64, None, "N")
    p = Handmade()
    with p.b.block((host_n,)) as host:
        yes = p.const(True, bool_)
        p.do("yield", host_n, yes)
    rule = Require('say "N"', Loc("k.py", 4))
    params = (Param("N", "dim", i64),)
    kernel = Kernel("a b", params, Block((body_n,)), host, 1, 1, 8, (rule,), i64, True)
    again = parse_kernel(print_kernel(kernel, locs=True))
    assert (again.name, again.requires, again.params) == ("a b", (rule,), params)
    assert (again.rank, again.threads, again.simd, again.index, again.each) == (1, 1, 8, i64, True)


def tables(data: bytes) -> Kernel:
    p = Handmade()
    p.do("table", attrs=(tensor(f32, 2, "table", (1, 2)), data))
    return p.done()


def test_table_data_is_exact_and_counts_in_the_digest():
    data = np.array([1.5, np.nan], np.float32).tobytes()
    kernel = tables(data)
    assert parse_kernel(print_kernel(kernel)).body.ops[0].attrs == kernel.body.ops[0].attrs
    assert digest(kernel) != digest(tables(data[::-1]))
    assert digest(kernel) == digest(tables(bytes(data)))


def test_digest_ignores_places_and_names_of_values_only():
    def build(line: int, name: str, value: int, param: str) -> Kernel:
        p = Handmade()
        p.tensor(param, f32)
        p.at(line)
        p.emit("add", p.thread(), p.const(value)).name = name
        return p.done()

    plain = digest(build(1, "", 7, "x"))
    assert len(plain) == 64
    assert digest(build(5, "total", 7, "x")) == plain
    assert digest(build(1, "", 8, "x")) != plain
    assert digest(build(1, "", 7, "y")) != plain


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("%2 = fma", "%2 = fmaa", 18, "no op is called fmaa"),
        ("fma %0, %s", "fma %9, %s", 18, "%9 is not defined"),
        ("fma %0, %s", "fma %0, %t", 18, "operands differ"),
        ("exact : f32", "exact : i32", 18, "gives"),
        ("count=0", "size=0", 16, "expected 'count'"),
        ("const i32 32", "const i32 2x", 8, "expected"),
        ("const i32 0\n", "const u8 256\n", 10, "256 is no u8"),
        ("const i32 0\n", "const f32 0x1p+200\n", 10, "0x1p\\+200 is no f32"),
        ("const i32 0\n", "const bf16 0x1.01p+0\n", 10, "0x1.01p\\+0 is no bf16"),
        ("in f32[?]\ntensor", "in f33[?]\ntensor", 2, "no dtype is called f33"),
        ("%4 = if", "%4, %5 = if", 20, "has 1 results, not 2"),
        ("require", "requires", 6, "unexpected requires"),
        ("store %y, %t, %t, %4\n}\n", "store %y, %t, %t, %4\n", 30, "expected"),
        ("%t = thread", "$t = thread", 15, "unexpected '\\$'"),
        ("rank 1", "rank one", 1, "expected a number"),
        ("dtype=i32 : i32\n", "dtype=i32 : i32 }\n", 15, "expected"),
    ],
)
def test_refusals_name_the_line(old, new, line, message):
    assert old in EXAMPLE
    with pytest.raises(KernelError, match=message) as caught:
        parse_kernel(EXAMPLE.replace(old, new, 1))
    assert caught.value.id == "E0801"
    assert f"line {line} of the kernel text" in str(caught.value)


def test_every_prefix_of_a_text_is_refused_cleanly():
    for end in range(0, len(EXAMPLE) - 2, 3):
        with pytest.raises(KernelError, match="E0801"):
            parse_kernel(EXAMPLE[:end])
