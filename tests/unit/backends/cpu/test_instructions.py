"""The code of every row: no library call on any instruction-set level, and the instructions that
make it fast on x86-64-v3 and AVX-512."""

import re

import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly
from iron.check.generate import generate
from iron.dtypes import DTYPES, DType, f16, f32, i32, i64, u8, u32, u64
from iron.ir.core import Kernel
from iron.ir.table import OpDef, Trait, elementwise
from iron.passes.elementary import elementary
from iron.targets.cpu import AARCH64, X86_64_V3, X86_64_V4
from iron.targets.target import Target
from tests.unit.backends.cpu.classes import expected, expected_of_cast
from tests.unit.backends.cpu.test_rows import cast_kernel, dtypes_of, row_kernel
from tests.unit.ir.handmade import Handmade

X86 = [X86_64_V3, X86_64_V4]
LEVELS = [*X86, AARCH64]
ROWS = [r for r in elementwise() if not r.has(Trait.EXPANDED) and r.name != "cast"]
CALL = re.compile(r"^\s+(call|callq|bl|blr|jmp\s+[a-z_]\w*@PLT)\b", re.MULTILINE)


def code(kernel: Kernel, target: Target) -> str:
    return assembly(compile_kernel(kernel, target).text, target)


def has(text: str, instruction: str) -> bool:
    """True when a line matches; a space of the pattern stands for white space."""
    return re.search(instruction.replace(" ", r"\s"), text) is not None


def calls(text: str) -> list[str]:
    return CALL.findall(text)


def faults(text: str, wanted: list[str]) -> list[str]:
    """Calls, and classes of instructions that do not appear."""
    missing = [f"no {what}" for what in wanted if not has(text, what)]
    return [*(f"a {call}" for call in calls(text)), *missing]


def wanted_of(row: OpDef, dtype: DType, target: Target) -> list[str]:
    return [expected(row.name, dtype, target.name)] if target in X86 else []


# Rows without a vector instruction: one division or product a lane.
SCALARISED = {
    ("floordiv", "i64"),
    ("floordiv", "u64"),
    ("mod", "i64"),
    ("mod", "u64"),
    ("mulhi", "i64"),
    ("mulhi", "u64"),
}
MANY = 200
"""Instructions of 32 lanes that are done lane by lane."""


@pytest.mark.parametrize("target", LEVELS, ids=lambda t: t.name)
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_rows_call_nothing_and_are_vector_code(row: OpDef, target: Target):
    """No row of AVX-512 is done lane by lane, except where no vector form exists."""
    for dtype in dtypes_of(row):
        assert calls(code(row_kernel(row, dtype, 1), target)) == [], dtype
        text = code(row_kernel(row, dtype, 32), target)
        assert faults(text, wanted_of(row, dtype, target)) == [], dtype
        if target is X86_64_V4:
            count = len(re.findall(r"^\t[a-z]", text, re.MULTILINE))
            assert (count > MANY) == ((row.name, dtype.name) in SCALARISED), (dtype, count)


@pytest.mark.parametrize("target", LEVELS, ids=lambda t: t.name)
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_casts_call_nothing_and_are_vector_code(source: DType, target: Target):
    for to in DTYPES.values():
        assert calls(code(cast_kernel(source, to, 1), target)) == [], to
        text = code(cast_kernel(source, to, 32), target)
        wanted = expected_of_cast(source, to, target.name) if target in X86 else []
        assert faults(text, wanted) == [], to


@pytest.mark.fuzz
@pytest.mark.parametrize("target", LEVELS, ids=lambda t: t.name)
@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 24), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_random_programs_call_nothing(target: Target, seeds: range):
    """Loops, collectives, shared memory and atomics, which no single row has."""
    for seed in seeds:
        program = generate(seed, simd=32)
        assert calls(code(elementary(program.kernel), target)) == [], seed


def test_a_library_call_is_seen():
    text = """
    declare <4 x float> @llvm.exp.v4f32(<4 x float>)
    define void @planted(ptr %p) {
      %x = load <4 x float>, ptr %p, align 4
      %y = call <4 x float> @llvm.exp.v4f32(<4 x float> %x)
      store <4 x float> %y, ptr %p, align 4
      ret void
    }"""
    for target in LEVELS:
        named = f'target triple = "{target.triple}"\n{text}'
        assert calls(assembly(named, target)), target.name


@pytest.mark.parametrize("target", X86, ids=lambda t: t.name)
def test_scalar_code_is_seen(target: Target):
    """The row of one lane is right but has no vector instruction."""
    for name, dtype in (("add", f32), ("max", i32), ("shl", u32), ("lt", i64), ("fma", f32)):
        (row,) = [r for r in ROWS if r.name == name]
        text = code(row_kernel(row, dtype, 1), target)
        assert faults(text, wanted_of(row, dtype, target)), name
    assert faults(code(cast_kernel(f32, i32, 1), target), expected_of_cast(u8, f32, target.name))


@pytest.mark.parametrize("target", X86, ids=lambda t: t.name)
def test_a_row_has_one_class_and_not_anothers(target: Target):
    """Classes tell rows of one dtype apart."""
    texts = {r.name: code(row_kernel(r, i32, 32), target) for r in ROWS if "i" in r.kinds}
    for name, other in (("add", "sub"), ("min", "max"), ("shl", "shr"), ("mul", "mulhi")):
        assert not has(texts[name], expected(other, i32, target.name)), (name, other)


def test_a_row_without_a_class_is_told():
    with pytest.raises(KeyError):
        expected("planted", f32, X86_64_V3.name)


def test_gathers_have_no_branch_a_lane():
    for elem in (f32, u8, f16, u64):
        p = Handmade(threads=32, simd=32)
        x, at, y = p.tensor("x", elem), p.tensor("at", i32), p.tensor("y", elem, "out")
        n = p.dim("N")
        place = p.place()
        inside = p.emit("lt", place, n)
        with p.b.block() as then:
            p.store(y, place, p.load(x, p.load(at, place)))
            p.do("yield")
        with p.b.block() as other:
            p.do("yield")
        p.do("if", inside, regions=(then, other))
        kernel = p.done()
        for target in (X86_64_V3, X86_64_V4):
            text = code(kernel, target)
            assert len(re.findall(r"^\tj[a-z]+ ", text, re.MULTILINE)) < 40, (elem, target.name)
        assert re.search(r"v(gather|pgather)", code(kernel, X86_64_V4))
