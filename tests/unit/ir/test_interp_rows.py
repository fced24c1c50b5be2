"""Every elementwise row on every dtype: lanes, uniform scalars and vectors mean the same."""

import itertools

import numpy as np
import pytest

from iron.dtypes import DTYPES, DType, bool_, f32
from iron.ir import scalar
from iron.ir.interp import run
from iron.ir.table import OpDef, Trait, elementwise
from iron.ir.types import vector
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade

_FLOATS = (0.0, -0.0, 1.0, -2.5, np.inf, -np.inf, np.nan, 1e-40, 65504.0, 3e38)


def specials(t: DType) -> np.ndarray:
    """Values at the edges of a type."""
    if t is bool_:
        return np.array([False, True])
    if t.is_integer:
        edges = {0, 1, 2, 7, t.bits - 1, t.bits, t.max, t.max - 1, t.min, t.min + 1}
        edges |= {-1, -3} if t.kind == "i" else set()
        return np.array(sorted(edges), t.np)
    with scalar.quiet():
        return np.array(_FLOATS, np.float32).astype(t.np)


def forms() -> list:
    out = []
    for row in elementwise():
        if row.has(Trait.EXPANDED):
            continue
        for t in DTYPES.values():
            if t.kind not in row.kinds:
                continue
            targets = DTYPES.values() if row.attrs else [None]
            for to in targets:
                name = f"{row.name}-{t}" + (f"-{to}" if to else "")
                out.append(pytest.param(row, t, to, id=name))
    return out


def same(a: np.ndarray, b: np.ndarray) -> bool:
    bits = f"u{a.dtype.itemsize}"
    return bool(((a.view(bits) == b.view(bits)) | ((a != a) & (b != b))).all())


def operands(row: OpDef, t: DType) -> tuple[list[DType], list[np.ndarray]]:
    """The dtypes of the operands, and every combination of special values as columns."""
    types = [bool_ if w == "b" else t for w in row.sig.split("->")[0].split()]
    pools = [specials(x) if len(types) < 3 or x is bool_ else specials(x)[:6] for x in types]
    columns = list(zip(*itertools.product(*pools), strict=True))
    return types, [np.array(c, x.np) for c, x in zip(columns, types, strict=True)]


@pytest.mark.parametrize(("row", "t", "to"), forms())
def test_row(row, t, to):
    types, columns = operands(row, t)
    attrs = () if to is None else (to,)
    with scalar.quiet():
        want = [row.ref(*values, *attrs) for values in zip(*columns, strict=True)]
    result = to or (bool_ if row.sig.endswith("b") else t)
    want = np.array(want, result.np)
    assert same(_lanes(row, types, columns, attrs, result), want)
    assert same(_vectors(row, types, columns, attrs, result), want)
    some = range(0, len(want), max(1, len(want) // 5))
    for i in some:
        have = _uniform(row, types, [c[i] for c in columns], attrs, result)
        assert same(have, want[i : i + 1])


def _lanes(row, types, columns, attrs, result) -> np.ndarray:
    p = Handmade(threads=1, fold=False)
    buffers = [p.tensor(f"x{k}", x) for k, x in enumerate(types)]
    y = p.tensor("y", result, "out")
    at = p.group()
    p.store(y, at, p.emit(row.name, *(p.load(x, at) for x in buffers), attrs=attrs))
    return _run(p, columns, result, len(columns[0]), {})


def _vectors(row, types, columns, attrs, result) -> np.ndarray:
    """Four neighbours at once; the last ones overlap."""
    size = len(columns[0])
    if size < 4:
        columns = [np.tile(c, 4) for c in columns]
    p = Handmade(threads=1, fold=False)
    buffers = [p.tensor(f"x{k}", x) for k, x in enumerate(types)]
    y = p.tensor("y", result, "out")
    at = p.emit("mul", p.group(), p.const(4))
    v = p.emit(row.name, *(p.load(x, at, count=4) for x in buffers), attrs=attrs)
    assert v.type is vector(result, 4)
    p.store(y, at, v)
    columns = [np.resize(c, -(-len(c) // 4) * 4) for c in columns]
    return _run(p, columns, result, len(columns[0]), {}, len(columns[0]) // 4)[:size]


def _uniform(row, types, values, attrs, result) -> np.ndarray:
    p = Handmade(threads=1, fold=False)
    y = p.tensor("y", result, "out")
    scalars = [p.scalar(f"s{k}", x) for k, x in enumerate(types)]
    p.store(y, p.const(0), p.emit(row.name, *scalars, attrs=attrs))
    return _run(p, [], result, 1, {f"s{k}": v for k, v in enumerate(values)})


def _run(p, columns, result, size, scalars, groups=None) -> np.ndarray:
    out = np.ones(size, f32.np).astype(result.np)
    arrays = {f"x{k}": c for k, c in enumerate(columns)} | {"y": out}
    kernel = p.done()
    verify(kernel)
    run(kernel, arrays, scalars, {}, (groups or size,))
    return out
