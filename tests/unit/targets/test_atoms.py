"""Atom tables: each covers its tile, and says what the vendor's formulas say."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from iron.dtypes import bf16, f16, f32
from iron.ir.layout import Layout
from iron.ir.linear import compose, identity
from iron.targets.atoms import amd, apple, cpu, nvidia
from iron.targets.atoms.atom import CopyAtom, MatrixAtom
from iron.targets.atoms.opaque import OpaqueAtom, serving
from iron.targets.cpu import X86_64_V3, X86_64_V4

TABLES = {"nvidia": nvidia, "apple": apple, "amd": amd, "cpu": cpu}
MATRIX = [(name, atom) for name, table in TABLES.items() for atom in table.MATRIX_ATOMS]


def named(atoms: list[tuple[str, MatrixAtom]]) -> list[str]:
    return [f"{name}:{atom.name}:{'+'.join(atom.operands)}" for name, atom in atoms]


@pytest.mark.parametrize(("name", "atom"), MATRIX, ids=named(MATRIX))
def test_an_atom_covers_its_tile_exactly_once(name: str, atom: MatrixAtom):
    assert atom.faults() == []


@pytest.mark.parametrize("atom", nvidia.COPY_ATOMS, ids=lambda a: a.name)
def test_a_copy_covers_its_tile_exactly_once(atom: CopyAtom):
    assert atom.faults() == []


@pytest.mark.parametrize("operand", ["a", "b", "acc"])
@pytest.mark.parametrize(("name", "atom"), MATRIX, ids=named(MATRIX))
def test_a_wrong_bit_of_an_atom_is_seen(name: str, atom: MatrixAtom, operand: str):
    """Each image in turn is replaced by its neighbour's: some element is then held nowhere."""
    right: Layout | None = getattr(atom, operand)
    if right is None:
        assert atom.name.startswith(("wgmma", "tile"))
        return
    for part in ("register", "lane", "simd"):
        images = getattr(right, part)
        for i, image in enumerate(images):
            others = [x for x in (*right.register, *right.lane) if any(x) and x != image]
            if not any(image) or not others:
                continue
            wrong = replace(right, **{part: (*images[:i], others[0], *images[i + 1 :])})
            assert replace(atom, **{operand: wrong}).faults() != []


def test_a_wrong_copy_is_seen():
    right = nvidia.STMATRIX_4
    lanes = right.rows.lane
    wrong = replace(right.rows, lane=(lanes[1], *lanes[1:]))
    assert replace(right, rows=wrong).faults() != []
    assert replace(right, data=right.data.repeat(1, 2)).faults() != []


# (atom, operand, element i of lane l to (row, column)), as the vendor writes it down.
FORMULAS: list[tuple[MatrixAtom, str, Callable[[int, int], tuple[int, int]]]] = [
    (
        nvidia.MMA_16,
        "a",
        lambda i, x: (x // 4 + (8 if i in (2, 3, 6, 7) else 0), x % 4 * 2 + i % 2 + 8 * (i >= 4)),
    ),
    (nvidia.MMA_16, "b", lambda i, x: (x % 4 * 2 + i % 2 + 8 * (i >= 2), x // 4)),
    (nvidia.MMA_16, "acc", lambda i, x: (x // 4 + 8 * (i >= 2), x % 4 * 2 + i % 2)),
    (nvidia.MMA_TF32, "a", lambda i, x: (x // 4 + 8 * (i in (1, 3)), x % 4 + 4 * (i >= 2))),
    (nvidia.MMA_TF32, "b", lambda i, x: (x % 4 + 4 * i, x // 4)),
    (
        nvidia.MMA_S8,
        "a",
        lambda i, x: (
            x // 4 + (0 if i < 4 or 8 <= i < 12 else 8),
            x % 4 * 4 + i % 4 + 16 * (i >= 8),
        ),
    ),
    (nvidia.MMA_S8, "b", lambda i, x: (x % 4 * 4 + i % 4 + 16 * (i >= 4), x // 4)),
    (
        apple.SIMDGROUP_8,
        "acc",
        lambda i, x: (x // 4 & 4 | x // 2 % 4, (x // 4 & 2) * 2 + x % 2 * 2 + i),
    ),
    (amd.MFMA_16, "a", lambda i, x: (x % 16, 4 * (x // 16) + i)),
    (amd.MFMA_16, "acc", lambda i, x: (4 * (x // 16) + i, x % 16)),
    (amd.MFMA_32, "b", lambda i, x: (4 * (x // 32) + i, x % 32)),
    (amd.MFMA_32, "acc", lambda i, x: (8 * (i // 4) + 4 * (x // 32) + i % 4, x % 32)),
    (amd.WMMA_16_RDNA3, "a", lambda i, x: (x % 16, i)),
    (amd.WMMA_16_RDNA3, "acc", lambda i, x: (2 * i + x // 16, x % 16)),
    (amd.WMMA_16_RDNA4, "b", lambda i, x: (8 * (x // 16) + i, x % 16)),
    (amd.WMMA_16_RDNA4, "acc", lambda i, x: (8 * (x // 16) + i, x % 16)),
    (cpu.OUTER_8, "acc", lambda i, x: (i, x)),
    (cpu.DOT_BF16, "b", lambda i, x: (i, x)),
    (cpu.TILE_BF16, "acc", lambda i, x: (i, x)),
]  # fmt: skip


@pytest.mark.parametrize(("atom", "operand", "formula"), FORMULAS)
def test_an_atom_says_what_its_vendor_says(
    atom: MatrixAtom, operand: str, formula: Callable[[int, int], tuple[int, int]]
):
    layout: Layout = getattr(atom, operand)
    for lane in range(layout.lanes):
        for i in range(layout.registers):
            assert layout.at(i, lane) == formula(i, lane)


def test_an_accumulator_of_wgmma_is_its_left_operand():
    """What attention lives on: 16 columns of scores are one k step of a, register by register."""
    scores = nvidia.wgmma(128, "bf16").acc
    step = nvidia.wgmma(64, "bf16", a_in_registers=True).a
    assert step is not None
    assert step.repeat(1, 128 // 16) == scores


@pytest.mark.parametrize("span", nvidia.SWIZZLE_BYTES)
def test_a_swizzle_spreads_a_column_over_the_banks(span: int):
    f = nvidia.swizzle(span)
    assert f.exact
    assert compose(f, f) == identity(10)
    rows = [f(r * span) for r in range(8)]
    assert len({at % 128 // nvidia.CHUNK for at in rows}) == 8
    assert all(f(at + byte) == f(at) + byte for at in range(0, 1024, 16) for byte in range(16))
    assert len({r * span % 128 // nvidia.CHUNK for r in range(8)}) < 8  # without it they collide


def test_the_fields_of_a_descriptor_do_not_meet():
    taken: set[int] = set()
    for field in nvidia.DESCRIPTOR:
        bits = set(range(field.low, field.low + field.width))
        assert not taken & bits
        assert max(bits) < 64
        taken |= bits
    mode = next(f for f in nvidia.DESCRIPTOR if f.name == "mode")
    assert sorted(nvidia.MODES.values()) == list(range(1 << mode.width))


def test_operands_of_wgmma_are_walked_as_measured():
    """128 x 64 of 16 bits, a k-major and b n-major with the widest swizzle."""
    a = nvidia.operand(True, 128, 128, 64)
    b = nvidia.operand(False, 128, 256, 64)
    assert (a.stride, a.step, a.transposed) == (1024, 32, False)
    assert (b.leading, b.stride, b.step, b.transposed) == (8192, 1024, 2048, True)
    assert nvidia.operand(True, 0, 128, 64) == nvidia.Operand(2048, 128, 4096, False)
    assert nvidia.operand(False, 0, 128, 64) == nvidia.Operand(128, 1024, 256, True)


def test_the_widest_listed_cooperative_matrix_serves():
    listed = [
        OpaqueAtom(16, 8, 16, f16, f16, f32),
        OpaqueAtom(16, 16, 16, f16, f16, f32),
        OpaqueAtom(32, 32, 16, f16, f16, f32, saturating=True),
    ]
    assert serving(listed, f16, f16, f32) == [listed[1], listed[0]]
    assert serving(listed, bf16, bf16, f32) == []


def test_a_cpu_has_the_rows_its_registers_hold():
    assert cpu.outer(X86_64_V4) is cpu.OUTER_8
    assert cpu.outer(X86_64_V3) is cpu.OUTER_4
