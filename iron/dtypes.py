"""The table of element types; nothing else in Iron may list them.

A dtype is one frozen record. numpy types are named by string and resolved on first use, so that
importing this module loads the standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

_RESOLVED: dict[str, Any] = {}
_OF_NUMPY: dict[Any, DType | None] = {}


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type.

    `kind` is `f` (float with arithmetic), `s` (float that is storage only: loads widen, stores
    round), `i` (signed), `u` (unsigned) or `b` (bool). Integers wrap at their own width.
    """

    name: str
    kind: str
    bits: int
    numpy: str

    @property
    def np(self) -> np.dtype[Any]:
        """The numpy dtype that holds one element in memory."""
        found = _RESOLVED.get(self.name)
        if found is None:
            found = _RESOLVED[self.name] = _resolve(self.numpy)
        return found

    @property
    def bytes(self) -> int:
        """Bytes one element occupies in memory (bool occupies one)."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """True for floats of either kind, arithmetic or storage."""
        return self.kind in "fs"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, not for bool."""
        return self.kind in "iu"

    @property
    def min(self) -> int:
        """The least value of an integer type."""
        return -(1 << (self.bits - 1)) if self.kind == "i" else 0

    @property
    def max(self) -> int:
        """The greatest value of an integer type."""
        return (1 << (self.bits - (self.kind == "i"))) - 1

    def __call__(self, value: Any) -> Any:
        """`value` converted to this type by the language's cast rules, eagerly on numpy.

        Accepts a Python number, a numpy scalar or an array. Inside a kernel the front end turns
        the same call into a `cast` op.
        """
        from iron.ir.scalar import cast

        return cast(value, self)

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str | tuple[Any, ...]:
        return (by_name, (self.name,))


def _resolve(name: str) -> Any:
    import numpy as np

    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


bool_: Final = DType("bool", "b", 1, "bool")
i8: Final = DType("i8", "i", 8, "int8")
i16: Final = DType("i16", "i", 16, "int16")
i32: Final = DType("i32", "i", 32, "int32")
i64: Final = DType("i64", "i", 64, "int64")
u8: Final = DType("u8", "u", 8, "uint8")
u16: Final = DType("u16", "u", 16, "uint16")
u32: Final = DType("u32", "u", 32, "uint32")
u64: Final = DType("u64", "u", 64, "uint64")
f16: Final = DType("f16", "s", 16, "float16")
bf16: Final = DType("bf16", "s", 16, "bfloat16")
f32: Final = DType("f32", "f", 32, "float32")

DTYPES: Final[dict[str, DType]] = {
    t.name: t for t in (bool_, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32)
}


def by_name(name: str) -> DType:
    """The dtype called `name`; KeyError when there is none."""
    return DTYPES[name]


def of_numpy(dtype: Any) -> DType | None:
    """The dtype whose memory form is `dtype`, of numpy or of a library that uses its names.

    None when there is none.
    """
    if isinstance(dtype, DType):
        return dtype
    if dtype not in _OF_NUMPY:
        name = getattr(dtype, "name", str(dtype).rpartition(".")[2])
        _OF_NUMPY[dtype] = next((t for t in DTYPES.values() if t.numpy == name), None)
    return _OF_NUMPY[dtype]


def ulp(dtype: DType) -> float:
    """Half the distance from 1 to the next float of `dtype` (the unit roundoff u)."""
    return {"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}[dtype.name]
