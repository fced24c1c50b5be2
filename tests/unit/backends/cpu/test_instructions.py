"""The code of every row: no library call on any instruction-set level, and the instructions that
make it fast on x86-64-v3 and AVX-512."""

import re

import pytest

from iron.backends.cpu.entry import compile_kernel
from iron.backends.cpu.machine import assembly
from iron.check.generate import generate
from iron.dtypes import DTYPES, DType, bf16, f16, f32, i8, i32, i64, u8, u32, u64
from iron.ir.core import Kernel
from iron.ir.table import OpDef, Trait, elementwise
from iron.passes.elementary import elementary
from iron.targets.cpu import AARCH64, X86_64_V3, X86_64_V4
from iron.targets.target import Target
from tests.unit.backends.cpu.test_rows import cast_kernel, dtypes_of, row_kernel
from tests.unit.ir.handmade import Handmade

LEVELS = [X86_64_V3, X86_64_V4, AARCH64]
ROWS = [r for r in elementwise() if not r.has(Trait.EXPANDED) and r.name != "cast"]
CALL = re.compile(r"^\s+(call|callq|bl|blr|jmp\s+[a-z_]\w*@PLT)\b", re.MULTILINE)


def code(kernel: Kernel, target: Target) -> str:
    return assembly(compile_kernel(kernel, target).text, target)


def has(text: str, instruction: str) -> bool:
    """True when a line matches; a space of the pattern stands for white space."""
    return re.search(instruction.replace(" ", r"\s"), text) is not None


def calls(text: str) -> list[str]:
    return CALL.findall(text)


@pytest.mark.parametrize("target", LEVELS, ids=lambda t: t.name)
@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_rows_call_nothing(row: OpDef, target: Target):
    for dtype in dtypes_of(row):
        for width in (1, 32):
            assert calls(code(row_kernel(row, dtype, width), target)) == [], (dtype, width)


@pytest.mark.parametrize("target", LEVELS, ids=lambda t: t.name)
@pytest.mark.parametrize("source", DTYPES.values(), ids=str)
def test_casts_call_nothing(source: DType, target: Target):
    for to in DTYPES.values():
        for width in (1, 32):
            assert calls(code(cast_kernel(source, to, width), target)) == [], (to, width)


@pytest.mark.fuzz
@pytest.mark.parametrize("target", LEVELS, ids=lambda t: t.name)
def test_random_programs_call_nothing(target: Target):
    """Loops, collectives, shared memory and atomics, which no single row has."""
    for seed in range(12):
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


# (row, dtype, instruction on AVX-512, on x86-64-v3); the vector form must appear.
EXPECTED = [
    ("add", f32, r"vaddps .*zmm", r"vaddps .*ymm"),
    ("sub", f32, r"vsubps .*zmm", r"vsubps .*ymm"),
    ("mul", f32, r"vmulps .*zmm", r"vmulps .*ymm"),
    ("div", f32, r"vdivps .*zmm", r"vdivps .*ymm"),
    ("fma", f32, r"vfmadd\d+ps .*zmm", r"vfmadd\d+ps .*ymm"),
    ("sqrt", f32, r"vsqrtps .*zmm", r"vsqrtps .*ymm"),
    ("rint", f32, r"vrndscaleps .*zmm", r"vroundps .*ymm"),
    ("floor", f32, r"vrndscaleps .*zmm", r"vroundps .*ymm"),
    ("max", f32, r"vcmpunordps .*zmm", r"vcmpunordps .*ymm"),
    ("min", f32, r"vcmpunordps .*zmm", r"vcmpunordps .*ymm"),
    ("max", i32, r"vpmaxsd .*zmm", r"vpmaxsd .*ymm"),
    ("min", u8, r"vpminub .*ymm", r"vpminub .*ymm"),
    ("add", i32, r"vpaddd .*zmm", r"vpaddd .*ymm"),
    ("mul", i32, r"vpmulld .*zmm", r"vpmulld .*ymm"),
    ("mulhi", u32, r"vpmuludq .*zmm", r"vpmuludq .*ymm"),
    ("floordiv", i32, r"vdivpd .*zmm", r"vdivpd .*ymm"),
    ("mod", u8, r"vdivps .*zmm", r"vdivps .*ymm"),
    ("shl", u32, r"vpsllvd .*zmm", r"vpsllvd .*ymm"),
    ("shr", i32, r"vpsravd .*zmm", r"vpsravd .*ymm"),
    ("clz", u32, r"vplzcntd .*zmm", r"vpshufb .*ymm"),
    ("where", f32, r"vmovups .*zmm.*\{%k", r"vblendvps .*ymm|vmaskmovps .*ymm"),
    ("abs", i8, r"vpabsb .*ymm", r"vpabsb .*ymm"),
    ("add", i64, r"vpaddq .*zmm", r"vpaddq .*ymm"),
]


@pytest.mark.parametrize(("name", "dtype", "wide", "narrow"), EXPECTED, ids=str)
def test_rows_become_vector_instructions(name: str, dtype: DType, wide: str, narrow: str):
    (row,) = [r for r in ROWS if r.name == name]
    kernel = row_kernel(row, dtype, 32)
    assert has(code(kernel, X86_64_V4), wide)
    assert has(code(kernel, X86_64_V3), narrow)


CASTS = [
    (f16, f32, r"vcvtph2ps .*zmm", r"vcvtph2ps .*ymm"),
    (f32, f16, r"vcvtps2ph .*zmm", r"vcvtps2ph .*ymm"),
    (bf16, f32, r"vpslld .*zmm", r"vpslld .*ymm"),
    (f32, bf16, r"vpsrld .*zmm", r"vpsrld .*ymm"),
    (f32, i32, r"vcvttps2dq .*zmm", r"vcvttps2dq .*ymm"),
    (i32, f32, r"vcvtdq2ps .*zmm", r"vcvtdq2ps .*ymm"),
    (u8, f32, r"vcvtdq2ps .*zmm", r"vcvtdq2ps .*ymm"),
    (u32, f32, r"vcvtudq2ps .*zmm", r"vcvtdq2ps|vaddps .*ymm"),
]


@pytest.mark.parametrize(("source", "to", "wide", "narrow"), CASTS, ids=str)
def test_casts_become_vector_instructions(source: DType, to: DType, wide: str, narrow: str):
    kernel = cast_kernel(source, to, 32)
    assert has(code(kernel, X86_64_V4), wide)
    assert has(code(kernel, X86_64_V3), narrow)


# Rows without a vector instruction: one division or product a lane.
SCALARISED = {
    ("floordiv", "i64"),
    ("floordiv", "u64"),
    ("mod", "i64"),
    ("mod", "u64"),
    ("mulhi", "i64"),
    ("mulhi", "u64"),
}


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_no_row_is_done_lane_by_lane(row: OpDef):
    """A row of 32 lanes stays below 200 instructions, except where no vector form exists."""
    for dtype in dtypes_of(row):
        text = code(row_kernel(row, dtype, 32), X86_64_V4)
        count = len(re.findall(r"^\t[a-z]", text, re.MULTILINE))
        expected = (row.name, dtype.name) in SCALARISED
        assert (count > 200) == expected, (dtype, count)


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
