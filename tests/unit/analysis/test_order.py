"""Which collectives may take their operands in either order."""

import pytest

from iron.analysis.order import either_order
from iron.dtypes import f32, i32
from iron.ir.build import Builder
from iron.ir.core import Block, Value


def body(*ops: str, crossed: bool = False, dtype=f32) -> Block:
    """Combines one value for each op; `crossed` takes the first left with the last right."""
    values = [Value(dtype) for _ in range(2 * len(ops))]
    left, right = values[: len(ops)], values[len(ops) :]
    b = Builder(fold=False)
    with b.block(values) as made:
        rights = right[::-1] if crossed else right
        b.emit_all(
            "yield", tuple(b.emit(o, x, y) for o, x, y in zip(ops, left, rights, strict=True))
        )
    return made


@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
def test_integers_in_either_order(op: str):
    assert either_order(body(op, dtype=i32), frozenset())


def test_sums_of_two_values():
    assert either_order(body("add", "add"), frozenset())
    assert not either_order(body("add", "add", crossed=True), frozenset())


def test_differences_have_an_order():
    assert not either_order(body("sub"), frozenset())
    assert not either_order(body("add", "sub"), frozenset())


def test_a_maximum_of_floats_only_where_nobody_sees_the_zeros():
    made = body("max")
    assert not either_order(made, frozenset())
    assert either_order(made, frozenset(r for op in made.ops for r in op.results))
