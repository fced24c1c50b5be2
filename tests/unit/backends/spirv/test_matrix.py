"""Products of cooperative matrices as modules that the validator takes."""

import pytest

from iron.backends.spirv import disassemble, matrix
from iron.backends.spirv.matrix import Layout, Use
from iron.backends.spirv.module import Module
from iron.backends.spirv.words import Capability, Code, Decoration, Mode, Storage
from iron.dtypes import DType, bf16, f16, f32, i8, i16, i32, u8, u32
from tests.unit.backends.spirv.validator import complaint

ATOMS = [
    (16, 16, 16, f16, f32),
    (16, 8, 16, f16, f16),
    (16, 16, 16, bf16, f32),
    (16, 16, 32, i8, i32),
    (16, 8, 32, u8, u32),
]


def array(m: Module, number: int) -> int:
    """A pointer to the first word of a binding, an array of words."""
    words = m.declare(Code.TypeRuntimeArray, m.u32)
    m.decorate(words, Decoration.ArrayStride, 4)
    layout = m.declare(Code.TypeStruct, words)
    m.decorate(layout, Decoration.Block)
    m.member(layout, 0, 0, "at")
    made = m.variable(Storage.StorageBuffer, layout, f"b{number}")
    m.decorate(made, Decoration.DescriptorSet, 0)
    m.decorate(made, Decoration.Binding, number)
    zero = m.number(0)
    to = m.pointer(Storage.StorageBuffer, m.u32)
    return m.put(Code.AccessChain, to, made, zero, zero)


def product(rows: int, columns: int, inner: int, dtype: DType, total: DType, swap: bool) -> bytes:
    """d = a b + c of one subgroup; with `swap` the factors in the wrong order."""
    m = Module()
    m.need(Capability.Shader)
    main, void = m.fresh(), m.once(Code.TypeVoid)
    m.mode(main, Mode.LocalSize, 32, 1, 1)
    m.do(Code.Function, void, main, 0, m.once(Code.TypeFunction, void))
    m.do(Code.Label, m.fresh())
    kinds = (
        matrix.matrix(m, dtype, rows, inner, Use.A),
        matrix.matrix(m, dtype, inner, columns, Use.B),
        matrix.matrix(m, total, rows, columns, Use.ACCUMULATOR),
    )
    places = [array(m, n) for n in range(3)]
    a, b, c = (
        matrix.load(m, kind, place, layout, m.number(64), matrix.SHARED)
        for kind, place, layout in zip(
            kinds, places, (Layout.ROWS, Layout.COLUMNS, Layout.ROWS), strict=True
        )
    )
    left, right = (b, a) if swap else (a, b)
    made = matrix.muladd(m, left, right, c, signed=dtype.kind == "i")
    matrix.store(m, places[2], made, Layout.ROWS, m.number(64), matrix.SHARED)
    m.do(Code.Return)
    m.do(Code.FunctionEnd)
    return m.binary(main, "product")


@pytest.mark.parametrize(("rows", "columns", "inner", "dtype", "total"), ATOMS)
def test_a_product_is_a_valid_module(
    rows: int, columns: int, inner: int, dtype: DType, total: DType
):
    made = product(rows, columns, inner, dtype, total, swap=False)
    assert "OpMemoryModel 0 3" in disassemble(made)
    assert complaint(made) == ""
    assert complaint(product(rows, columns, inner, dtype, total, swap=True)) != ""  # the control


def test_the_text_of_a_product_names_everything():
    text = disassemble(product(16, 16, 16, bf16, f32, swap=False))
    assert 'OpExtension "SPV_KHR_cooperative_matrix"' in text
    assert "OpCapability BFloat16CooperativeMatrix" in text
    assert text.count("OpCooperativeMatrixLoad ") == 3
    assert text.count("OpCooperativeMatrixMulAdd ") == 1


def test_elements_that_no_device_multiplies_are_refused():
    with pytest.raises(ValueError, match="i16"):
        matrix.matrix(Module(), i16, 16, 16, Use.A)
