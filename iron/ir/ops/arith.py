"""Arithmetic, comparison and bit rows: elementwise, pure, typed by signature."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from iron.dtypes import i32, u32
from iron.ir import scalar
from iron.ir.core import Block, Value
from iron.ir.table import OpTypeError, Trait, defop
from iron.ir.types import Type

ELEMENT = Trait.PURE | Trait.ELEMENTWISE
SYMMETRIC = ELEMENT | Trait.COMMUTATIVE

add = defop(
    "add",
    "a b",
    sig="T T->T",
    kinds="fiu",
    traits=SYMMETRIC,
    ref=np.add,
    unit={"i": 0, "u": 0, "f": -0.0},
    c="{a} + {b}",
    doc="Sum. Integers wrap; floats round to nearest even.",
)
sub = defop(
    "sub",
    "a b",
    sig="T T->T",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.subtract,
    unit={"i": 0, "u": 0, "f": 0.0},
    c="{a} - {b}",
    doc="Difference. Integers wrap; floats round to nearest even.",
)
mul = defop(
    "mul",
    "a b",
    sig="T T->T",
    kinds="fiu",
    traits=SYMMETRIC,
    ref=np.multiply,
    unit={"i": 1, "u": 1, "f": 1.0},
    c="{a} * {b}",
    doc="Product. Integers wrap; floats round to nearest even.",
)
div = defop(
    "div",
    "a b",
    sig="T T->T",
    kinds="f",
    traits=ELEMENT,
    ref=np.divide,
    unit={"f": 1.0},
    c="{a} / {b}",
    doc="Quotient of floats, correctly rounded.",
)
fma = defop(
    "fma",
    "a b c",
    sig="T T T->T",
    kinds="f",
    traits=ELEMENT,
    ref=scalar.fma,
    c="fma({a}, {b}, {c})",
    doc="a * b + c, rounded once.",
)
floordiv = defop(
    "floordiv",
    "a b",
    sig="T T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.floordiv,
    unit={"i": 1, "u": 1},
    doc="Quotient rounded towards minus infinity; 0 when b is 0; the least value // -1 wraps.",
)
mod = defop(
    "mod",
    "a b",
    sig="T T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.mod,
    doc="Remainder with the sign of b; 0 when b is 0.",
)
mulhi = defop(
    "mulhi",
    "a b",
    sig="T T->T",
    kinds="iu",
    traits=SYMMETRIC,
    ref=scalar.mulhi,
    doc="High half of the double-width product.",
)
neg = defop(
    "neg",
    "x",
    sig="T->T",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.negative,
    c="-{x}",
    doc="Negation. Integers wrap; a float changes its sign bit.",
)
abs_ = defop(
    "abs",
    "x",
    sig="T->T",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.abs,
    doc="Magnitude. The least signed value stays itself.",
)
sign = defop(
    "sign",
    "x",
    sig="T->T",
    kinds="fi",
    traits=ELEMENT,
    ref=scalar.sign,
    doc="-1, 0 or 1; a zero keeps its sign and NaN stays NaN.",
)
copysign = defop(
    "copysign",
    "a b",
    sig="T T->T",
    kinds="f",
    traits=ELEMENT,
    ref=scalar.copysign,
    doc="The magnitude of a with the sign bit of b.",
)
min_ = defop(
    "min",
    "a b",
    sig="T T->T",
    kinds="fiu",
    traits=ELEMENT,
    ref=scalar.minimum,
    doc="a if a < b or a is NaN, else b: NaN propagates.",
)
max_ = defop(
    "max",
    "a b",
    sig="T T->T",
    kinds="fiu",
    traits=ELEMENT,
    ref=scalar.maximum,
    doc="a if a > b or a is NaN, else b: NaN propagates.",
)
fmin = defop(
    "fmin",
    "a b",
    sig="T T->T",
    kinds="f",
    traits=ELEMENT,
    ref=scalar.fmin,
    doc="a if a < b or b is NaN, else b: a NaN operand is ignored.",
)
fmax = defop(
    "fmax",
    "a b",
    sig="T T->T",
    kinds="f",
    traits=ELEMENT,
    ref=scalar.fmax,
    doc="a if a > b or b is NaN, else b: a NaN operand is ignored.",
)
sqrt = defop(
    "sqrt",
    "x",
    sig="T->T",
    kinds="f",
    traits=ELEMENT,
    ref=np.sqrt,
    c="sqrt({x})",
    doc="Square root, correctly rounded.",
)
rint = defop(
    "rint",
    "x",
    sig="T->T",
    kinds="f",
    traits=ELEMENT,
    ref=np.rint,
    c="rint({x})",
    doc="Nearest integral value, ties to even.",
)
floor = defop(
    "floor",
    "x",
    sig="T->T",
    kinds="f",
    traits=ELEMENT,
    ref=np.floor,
    c="floor({x})",
    doc="Greatest integral value not above x.",
)
ceil = defop(
    "ceil",
    "x",
    sig="T->T",
    kinds="f",
    traits=ELEMENT,
    ref=np.ceil,
    c="ceil({x})",
    doc="Least integral value not below x.",
)
trunc = defop(
    "trunc",
    "x",
    sig="T->T",
    kinds="f",
    traits=ELEMENT,
    ref=np.trunc,
    c="trunc({x})",
    doc="Integral part of x.",
)

and_ = defop(
    "and",
    "a b",
    sig="T T->T",
    kinds="iub",
    traits=SYMMETRIC,
    ref=np.bitwise_and,
    unit={"i": -1, "u": -1, "b": True},
    c="{a} & {b}",
    doc="Bitwise and; of bools, both.",
)
or_ = defop(
    "or",
    "a b",
    sig="T T->T",
    kinds="iub",
    traits=SYMMETRIC,
    ref=np.bitwise_or,
    unit={"i": 0, "u": 0, "b": False},
    c="{a} | {b}",
    doc="Bitwise or; of bools, either.",
)
xor = defop(
    "xor",
    "a b",
    sig="T T->T",
    kinds="iub",
    traits=SYMMETRIC,
    ref=np.bitwise_xor,
    unit={"i": 0, "u": 0, "b": False},
    c="{a} ^ {b}",
    doc="Bitwise exclusive or; of bools, exactly one.",
)
not_ = defop(
    "not",
    "x",
    sig="T->T",
    kinds="iub",
    traits=ELEMENT,
    ref=np.invert,
    c={"i": "~{x}", "u": "~{x}", "b": "!{x}"},
    doc="Every bit inverted.",
)
shl = defop(
    "shl",
    "a b",
    sig="T T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.shl,
    unit={"i": 0, "u": 0},
    doc="a shifted left by b modulo the width.",
)
shr = defop(
    "shr",
    "a b",
    sig="T T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.shr,
    unit={"i": 0, "u": 0},
    doc="a shifted right by b modulo the width: arithmetic for signed, logical for unsigned.",
)
popcount = defop(
    "popcount",
    "x",
    sig="T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.popcount,
    doc="Number of one bits.",
)
clz = defop(
    "clz",
    "x",
    sig="T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.clz,
    doc="Zero bits above the highest one; the width for 0.",
)
ctz = defop(
    "ctz",
    "x",
    sig="T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.ctz,
    doc="Zero bits below the lowest one; the width for 0.",
)
reverse_bits = defop(
    "reverse_bits",
    "x",
    sig="T->T",
    kinds="iu",
    traits=ELEMENT,
    ref=scalar.reverse_bits,
    doc="The bits in opposite order.",
)

eq = defop(
    "eq",
    "a b",
    sig="T T->b",
    kinds="fiub",
    traits=SYMMETRIC,
    ref=np.equal,
    c="{a} == {b}",
    doc="Equal; false when either is NaN.",
)
ne = defop(
    "ne",
    "a b",
    sig="T T->b",
    kinds="fiub",
    traits=SYMMETRIC,
    ref=np.not_equal,
    c="{a} != {b}",
    doc="Not equal; true when either is NaN.",
)
lt = defop(
    "lt",
    "a b",
    sig="T T->b",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.less,
    c="{a} < {b}",
    doc="Less; false when either is NaN.",
)
le = defop(
    "le",
    "a b",
    sig="T T->b",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.less_equal,
    c="{a} <= {b}",
    doc="Less or equal; false when either is NaN.",
)
gt = defop(
    "gt",
    "a b",
    sig="T T->b",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.greater,
    c="{a} > {b}",
    doc="Greater; false when either is NaN.",
)
ge = defop(
    "ge",
    "a b",
    sig="T T->b",
    kinds="fiu",
    traits=ELEMENT,
    ref=np.greater_equal,
    c="{a} >= {b}",
    doc="Greater or equal; false when either is NaN.",
)
where = defop(
    "where",
    "c a b",
    sig="b T T->T",
    kinds="fiubs",
    traits=ELEMENT,
    ref=scalar.where,
    c="{c} ? {a} : {b}",
    doc="a where c holds, else b; both are evaluated.",
)


def _dot4(args: Sequence[Value], attrs: tuple[Any, ...], _: Sequence[Block]) -> tuple[Type, ...]:
    if len(args) != 3:
        raise OpTypeError(f"takes 3 operands, got {len(args)}")
    words, total = [a.type for a in args[:2]], args[2].type
    if any(t is not i32 and t is not u32 for t in words) or total is not i32:
        listed = ", ".join(str(a.type) for a in args)
        raise OpTypeError(f"takes two words of four bytes (i32 or u32) and an i32, got {listed}")
    return (i32,)


dot4 = defop(
    "dot4",
    "a b c",
    infer=_dot4,
    traits=ELEMENT,
    ref=scalar.dot4,
    doc="c plus the sum of the products of the four bytes of a and b, wrapping. The bytes of an "
    "i32 word are signed, those of a u32 word are not; the sum is an i32.",
)
