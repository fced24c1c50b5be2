"""The pool: values in scope of a random program, and how one of a wanted type is found."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from iron.dtypes import DTYPES, DType, bool_, f32, i32, u16, u32
from iron.ir.build import Builder
from iron.ir.core import Value
from iron.ir.types import Tensor, Type, Vector, count, element, vector

ALL = tuple(DTYPES.values())
INTEGERS = tuple(t for t in ALL if t.is_integer)
_WEIGHTS = {f32: 5, i32: 2, u32: 2}
_FLOATS = (0.0, -0.0, 1.0, -1.5, 3e38, 1e-40, np.inf, -np.inf, np.nan, 87.5, 2.0**31, 65504.0)


@dataclass(slots=True)
class Pool:
    """Values that the next op may use; `uniform` are those equal across a group.

    `own` numbers the threads of the launch, where it is known already.
    """

    rng: Random
    b: Builder
    own: Value | None = None
    values: list[Value] = field(default_factory=list[Value])
    uniform: set[Value] = field(default_factory=set[Value])

    def add(self, value: Value, uniform: bool = False) -> Value:
        """Puts a value in scope."""
        self.values.append(value)
        if uniform:
            self.uniform.add(value)
        return value

    @contextmanager
    def scope(self) -> Generator[None]:
        """What is added inside is gone after."""
        values, uniform = list(self.values), set(self.uniform)
        try:
            yield
        finally:
            self.values, self.uniform = values, uniform

    def are_uniform(self, *values: Value) -> bool:
        """True when every value is equal across the group."""
        return all(v in self.uniform for v in values)

    def emit(self, name: str, *args: Value, attrs: tuple[Any, ...] = ()) -> Value:
        """Emits an op and adds its result, uniform when the operands are."""
        self.b.exact = self.rng.random() < 0.1
        return self.add(self.b.emit(name, *args, attrs=attrs), self.are_uniform(*args))

    def pick(self, t: Type, *, uniform: bool = False) -> Value:
        """A value of type `t`, recent ones first; made when there is none."""
        r = self.rng
        found = [v for v in self.values if v.type is t and (not uniform or v in self.uniform)]
        if found and r.random() < 0.92:
            return r.choice(found[-6:] if r.random() < 0.7 else found)
        if isinstance(t, Vector):
            return self._vector(t, uniform)
        assert isinstance(t, DType)
        if r.random() < 0.6:
            sources = [v for v in self.values if isinstance(v.type, DType) and v.type is not t]
            sources = [v for v in sources if not uniform or v in self.uniform]
            if sources:
                return self.emit("cast", r.choice(sources), attrs=(t,))
        return self.const(t)

    def _vector(self, t: Vector, uniform: bool) -> Value:
        if self.rng.random() < 0.5:
            return self.emit("splat", self.pick(t.elem, uniform=uniform), attrs=(t.count,))
        return self.emit("pack", *(self.pick(t.elem, uniform=uniform) for _ in range(t.count)))

    def const(self, t: Type, value: Any = None) -> Value:
        """A constant, with values at the edges of the type."""
        dtype = element(t)
        made = self.b.const(self._edge(dtype) if value is None else value, dtype)
        self.uniform.add(made)
        if not isinstance(t, Vector):
            return made
        return self.emit("splat", made, attrs=(t.count,))

    def _edge(self, t: DType) -> Any:
        r = self.rng
        if t is bool_:
            return r.random() < 0.5
        if t.is_float:
            return r.choice([*_FLOATS, r.gauss(0, 3), r.gauss(0, 1e5)])
        edges = [0, 1, 2, 3, 7, t.bits - 1, t.bits, t.min, t.max, r.randint(t.min, t.max)]
        return r.choice([e for e in edges if t.min <= e <= t.max])

    def type(self, kinds: str = "fiubs", *, vectors: bool = True) -> DType | Vector:
        """A random scalar type of these kinds, or a vector of one."""
        fits = [t for t in ALL if t.kind in kinds]
        dtype = self.rng.choices(fits, [_WEIGHTS.get(t, 1) for t in fits])[0]
        length = self.rng.choice([0, 0, 0, 0, 2, 3, 4, 8]) if vectors else 0
        return vector(dtype, length) if length else dtype

    def index(self, size: int, *, uniform: bool = False) -> Value:
        """An integer from 0 to below `size`, a power of two, of any integer type."""
        if self.own is not None and not uniform and self.rng.random() < 0.5:
            return self.spread_index(self.own, size)
        dtype = self.rng.choice(INTEGERS)
        v = self.pick(dtype, uniform=uniform)
        return self.emit("and", v, self.const(dtype, min(size - 1, dtype.max)))

    def spread_index(self, own: Value, size: int) -> Value:
        """A place below `size` that differs between neighbouring threads."""
        t = own.type
        turned = self.emit("mul", own, self.const(t, self.rng.choice([1, 1, 3, 7, 11])))
        moved = self.emit("add", turned, self.const(t, self.rng.randrange(size)))
        return self.emit("and", moved, self.const(t, size - 1))

    def number(self, v: Value) -> Value:
        """`v` with NaNs replaced by 0: the sign and payload of a NaN are unspecified."""
        if not element(v.type).is_float:
            return v
        assert not isinstance(v.type, Tensor)
        wide = v if element(v.type) is f32 else self.emit("cast", v, attrs=(f32,))
        same = self.emit("eq", wide, wide)
        return self.emit("where", same, v, self.const(v.type, 0.0))

    def bits(self, v: Value, to: DType) -> Value:
        """A bit cast of a value without NaNs."""
        return self.emit("bitcast", self.number(v), attrs=(to,))

    def word(self, v: Value) -> Value:
        """A u32 in which a change of `v` shows."""
        if isinstance(v.type, Vector):
            at = self.rng.randrange(v.type.count)
            return self.word(self.emit("extract", v, attrs=(at,)))
        t = element(v.type)
        if t.is_float:
            return self._float_word(v, t)
        if t.bits < 64:
            return v if t is u32 else self.emit("cast", v, attrs=(u32,))
        halves = self.bits(v, u32)
        low, high = (self.emit("extract", halves, attrs=(k,)) for k in (0, 1))
        return self.emit("xor", low, high)

    def _float_word(self, v: Value, t: DType) -> Value:
        wide = v if t is f32 else self.emit("cast", v, attrs=(f32,))
        shown = self.bits(v, u32 if t is f32 else u16)
        if t is not f32:
            shown = self.emit("cast", shown, attrs=(u32,))
        nan = self.const(u32, 0x5A5A5A5A)
        return self.emit("where", self.emit("eq", wide, wide), shown, nan)

    def digest(self, values: list[Value]) -> Value:
        """A u32 in which a change of any of the values shows."""
        total = self.const(u32, 1)
        for v in values:
            total = self.emit("mul", total, self.const(u32, 0x9E3779B1))
            total = self.emit("xor", total, self.word(v))
        return total

    def bit_targets(self, t: Type) -> list[DType]:
        """The dtypes that `t` can be cast to bit by bit."""
        total = element(t).bits * max(1, count(t))
        fits = [d for d in ALL if d is not bool_ and total % d.bits == 0]
        return [d for d in fits if total // d.bits <= 64]
