"""The numpy meaning of an op-table row, by name; the compiler is imported inside the functions.

Python numbers are weak: they take the dtype of the numpy operand they meet, and a call with
nothing but Python numbers returns a Python number.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from iron.dtypes import DType, f32, i32, of_numpy, u32
from iron.errors import error
from iron.lang.value import Value


def apply(name: str, *args: Value) -> Value:
    """The row `name` on numpy operands of one dtype; elementary rows are f64 rounded to f32.

    Raises E0201 for operands the row does not take and E0202 for a literal that does not fit.
    """
    from iron.ir import scalar
    from iron.ir.table import TABLE

    import_module("iron.ir.ops")  # fills the table
    row = TABLE[name]
    dtype = common(name, *args)
    if dtype is not None and dtype.kind not in row.kinds:
        hint = f"convert it first: f32(x), {name}, then {dtype}(..)" if dtype.kind == "s" else ""
        raise error("E0201", f"`{name}` is not defined on {dtype}", help=hint)
    with scalar.quiet():
        if dtype is None:
            return _of_numbers(row, args)
        held = [literal(name, a, dtype) for a in args]
        if row.ref is not None:
            return row.ref(*held)
        assert row.truth is not None
        import numpy as np

        wide = row.truth(*(np.asarray(a, np.float64) for a in held))
        return np.asarray(wide).astype(np.float32)[()]


def words(name: str, *args: Value) -> Value:
    """A row whose operands have dtypes of their own; Python numbers are i32."""
    from iron.ir import scalar
    from iron.ir.table import TABLE

    import_module("iron.ir.ops")
    held = [scalar.cast(a, i32) if common(name, a) is None else a for a in args]
    dtypes = [common(name, a) for a in held]
    if any(t is not i32 and (t is not u32 or n == len(held) - 1) for n, t in enumerate(dtypes)):
        listed = ", ".join(map(str, dtypes))
        raise error("E0201", f"`{name}` of {listed}", help="it takes words (i32 or u32) and an i32")
    row = TABLE[name]
    assert row.ref is not None
    return row.ref(*held)


def _of_numbers(row: Any, args: tuple[Value, ...]) -> Value:
    import numpy as np

    if row.truth is not None:
        return float(row.truth(*(np.float64(a) for a in args)))
    integers = all(isinstance(a, int) for a in args)
    kind = np.float64 if not integers or row.kinds == "f" else np.int64
    if "f" not in row.kinds:
        if not integers:
            raise error("E0202", f"`{row.name}` needs integers, got {args}")
        kind = np.int32  # bit operations need a width; a bare literal has that of i32
    return row.ref(*(kind(a) for a in args)).item()


def common(name: str, *args: Value) -> DType | None:
    """The one dtype of the numpy operands, or None when all are Python numbers; else E0201."""
    import numpy as np

    found: DType | None = None
    for arg in args:
        if isinstance(arg, np.generic | np.ndarray):
            dtype = of_numpy(arg.dtype)
            if dtype is None:
                raise error("E0201", f"`{name}` got {arg.dtype}, which the language does not have")
            if found is not None and dtype is not found:
                raise error("E0201", f"operands of `{name}` differ: {found} and {dtype}")
            found = dtype
        elif not isinstance(arg, int | float):
            raise error(
                "E0113",
                f"`{name}` got {type(arg).__name__} on the host",
                help="on the host it takes numbers and numpy arrays",
            )
    return found


def literal(name: str, arg: Value, dtype: DType) -> Value:
    """`arg`, or the Python number `arg` as `dtype`; E0202 for a float among integers."""
    from iron.ir import scalar

    if not isinstance(arg, int | float) or hasattr(arg, "dtype"):
        return arg
    if isinstance(arg, float) and not dtype.is_float:
        raise error("E0202", f"`{name}` meets {dtype} with the float literal {arg!r}")
    return scalar.cast(arg, dtype)


def joined(a: Value, b: Value) -> DType:
    """The dtype of two numbers that meet without a dtype: f32 if either is a float, else i32."""
    return f32 if isinstance(a, float) or isinstance(b, float) else i32
