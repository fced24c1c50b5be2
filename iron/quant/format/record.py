"""What a weight format is, as frozen records; no arithmetic on weights and no numpy here.

A format stores `W[N, K]` (out, in) as two-dimensional planes. A code of `bits` bits becomes a
number x by its `Elem`; neighbours along K share factors; the `Algebra` puts both together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Any

from iron.dtypes import DType


class Algebra(Enum):
    """How a weight follows from its element x and the factors of its group."""

    DENSE = "w = x"
    SCALED = "w = s * x"
    AFFINE = "w = s * x + b"
    ZERO = "w = s * (x - z)"


class Elem(Enum):
    """How one code becomes a number."""

    VALUE = "the float itself"
    UINT = "the unsigned code"
    INT = "two's complement"
    FIXED = "two's complement over 2^(bits - 2)"
    OFFSET = "the unsigned code less half its range"
    E2M1 = "OCP FP4: bias 1, largest 6"
    E2M3 = "OCP FP6: bias 1, largest 7.5"
    E3M2 = "OCP FP6: bias 3, largest 28"
    E4M3 = "OCP FP8 E4M3FN: bias 7, largest 448, NaN, no infinity"
    E5M2 = "OCP FP8 E5M2: bias 15, largest 57344, infinity and NaN"
    TABLE = "an entry of a fixed table"
    CODEBOOK = "an entry of a table stored beside the codes"
    BLOCK = "by the rule of its block"


class Scale(Enum):
    """How a stored scale becomes a number."""

    NONE = "no scale"
    FLOAT = "f32, f16 or bf16"
    E8M0 = "a power of two: 2^(e - 127), 255 is NaN"
    E4M3 = "OCP FP8 E4M3FN"
    SUPER = "an integer times the float of its super-block"
    BLOCK = "inside the block"


class Outer(Enum):
    """How a second float factor, one a row, joins the scales (a tensor has one value repeated)."""

    NONE = "none"
    MULTIPLY = "s * g"
    DIVIDE = "s / g"


class Encode(Enum):
    """What an encoder of this format promises."""

    EXACT = "bytes are fixed by the rule"
    QUALITY = "error at most 1.10 times that of the reference encoder"
    DECODE_ONLY = "not encoded"


class Rule(Enum):
    """How an encoder chooses the scale of a group."""

    NONE = "nothing to choose"
    AMAX = "s = amax / largest"
    FULL = "s = 2 amax / (2^bits - 1)"
    FLOOR = "e = floor(log2 amax) - emax"
    EVEN = "e = floor(log2 of amax rounded to the element's precision) - emax"
    CEIL = "e = ceil(log2(amax / largest))"
    MINMAX = "s = (max - min) / (2^bits - 1), b = min"
    ZERO_POINT = "s = (max - min) / (2^bits - 1) with 0 in the range, z = rint(-min / s)"
    EDGE = "the end of larger magnitude is exact; s may be negative"
    SIGNED_MAX = "d = signed extreme / -2^(bits - 1)"
    TWO_LEVEL = "g = amax(tensor) / 2688, s = E4M3(amax / 6 / g)"
    LEAST_SQUARES = "weighted least squares from several starts"
    MEAN = "d = mean |w|"
    NEAREST = "s = amax, nearest entry of the table"
    LLOYD = "norm of the vector, nearest centroid of its rotated direction"


@dataclass(frozen=True, slots=True)
class Extent:
    """One extent of a plane: ceil(N^n * K^k * up / down)."""

    n: int = 0
    k: int = 0
    up: int = 1
    down: int = 1

    def of(self, n: int, k: int) -> int:
        """The extent for a weight of n rows and k columns."""
        return -(-(n**self.n) * k**self.k * self.up // self.down)


ROWS = Extent(n=1)
ONE = Extent()


def per(group: int) -> Extent:
    """One cell for each `group` neighbours along K; one a row when group is 0."""
    return Extent(k=1, down=group) if group else ONE


def words(bits: int) -> Extent:
    """The u32 words that hold K codes of `bits` bits."""
    return Extent(k=1, up=bits, down=32)


@dataclass(frozen=True, slots=True)
class Plane:
    """One array of a packed weight, rank 2; `dtypes` lists what a file may hold, default first."""

    name: str
    dtypes: tuple[DType, ...]
    rows: Extent
    cols: Extent

    def shape(self, n: int, k: int) -> tuple[int, int]:
        """The plane's shape for a weight of n rows and k columns."""
        return (self.rows.of(n, k), self.cols.of(n, k))

    def bits(self, n: int, k: int) -> int:
        """The plane's size in bits, in its default dtype."""
        rows, cols = self.shape(n, k)
        return rows * cols * self.dtypes[0].bits


@dataclass(frozen=True, slots=True)
class Ids:
    """The names other software has for a format."""

    ggml: int | None = None
    mlx: str = ""
    ct: str = ""
    method: str = ""
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """One weight format. `FORMATS` in `iron.quant.format` holds every one.

    `group` neighbours along K share factors (0: the whole row) and `scale_rows` rows do (0: all).
    `block` elements repeat the layout, in `block_bytes` bytes where the planes hold raw blocks. A
    kernel walks a row in chunks of `vec` elements. `multiple` must divide K. `supers` groups share
    the float of a super-block. `zero_step` is added to a stored zero point.
    """

    name: str
    tier: int
    elem: Elem
    bits: int
    algebra: Algebra
    group: int
    planes: tuple[Plane, ...]
    body: str
    block: int
    vec: int
    block_bytes: int = 0
    multiple: int = 1
    scale: Scale = Scale.NONE
    scale_rows: int = 1
    supers: int = 0
    outer: Outer = Outer.NONE
    zero_step: int = 0
    table: tuple[float, ...] = ()
    encode: Encode = Encode.DECODE_ONLY
    rule: Rule = Rule.NONE
    reason: str = ""
    ids: Ids = field(default_factory=Ids)
    aliases: tuple[str, ...] = ()
    note: str = ""

    def __repr__(self) -> str:
        return self.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_by_name, (self.name,))

    @property
    def period(self) -> int:
        """Elements along K after which both layout and factors repeat."""
        return max(self.group, self.block)

    @property
    def flat(self) -> bool:
        """Whether blocks follow each other without a seam: element k of a row is e = k, b = 0."""
        return self.body in ("stream", "dense", "tiles")

    @property
    def reordered(self) -> bool:
        """Whether an index names the group of each column."""
        return any(p.name == "g_idx" for p in self.planes)

    @property
    def share(self) -> int:
        """Neighbours in one chunk that have the same factors."""
        return min(self.vec, self.group) if self.group else self.vec

    @property
    def runs(self) -> tuple[tuple[int, int], ...]:
        """(offset, length) of the runs of neighbours in one chunk, counted from `at(c)`."""
        return ((0, self.vec),)

    @property
    def bpw(self) -> float:
        """Stored bits per weight of a large matrix, with the default dtype of each plane."""
        n, k = 3 << 20, 3 << 20
        return round(sum(p.bits(n, k) for p in self.planes) / (n * k), 4)

    def plane(self, name: str) -> Plane:
        """The plane called `name`; KeyError when there is none."""
        return {p.name: p for p in self.planes}[name]

    @property
    def at(self) -> Callable[..., Any]:
        """`at(c)`: the first column of chunk c."""
        return partial(_codec("at"), self)

    @property
    def code(self) -> Callable[..., Any]:
        """`code(w, n, b, e)`: element e of block b of row n before any factor, in f32."""
        return partial(_body(self.body, "code"), self)

    @property
    def factors(self) -> Callable[..., Any]:
        """`factors(w, n, g)`: scale and second factor of group g of row n, in f32."""
        return partial(_body(self.body, "factors"), self)

    @property
    def word(self) -> Callable[..., Any]:
        """`word(w, n, i)`: word i of the codes of row n, of formats with rows side by side."""
        return partial(_codec("word"), self)

    @property
    def codes(self) -> Callable[..., Any]:
        """`codes(w, n, c)`: the list of `vec` elements of chunk c before any factor, in f32."""
        return partial(_codec("codes"), self)

    @property
    def parts(self) -> int:
        """Parts of a chunk, as `quant.codec.words` cuts it for GPUs."""
        from iron.quant.codec.words import parts

        return parts(self)

    @property
    def part_runs(self) -> tuple[tuple[int, int], ...]:
        """(offset, length) of the runs of neighbours in one part, counted from `part_at(p)`."""
        from iron.quant.codec.words import part_runs

        return part_runs(self)

    @property
    def part_at(self) -> Callable[..., Any]:
        """`part_at(p)`: the first column of part p of a row."""
        return partial(_codec("part_at"), self)

    @property
    def part_codes(self) -> Callable[..., Any]:
        """`part_codes(w, n, p)`: the list of elements of part p of row n, in f32."""
        return partial(_codec("part_codes"), self)

    @property
    def part_dot(self) -> Callable[..., Any]:
        """`part_dot(w, n, p, xs)`: the sum over part p of weight times `xs`, in f32."""
        return partial(_codec("part_dot"), self)

    @property
    def decode(self) -> Callable[..., Any]:
        """`decode(w, n, k)`: the weight (n, k) in f32."""
        return partial(_codec("decode"), self)

    @property
    def dot(self) -> Callable[..., Any]:
        """`dot(w, n, c, xs)`: the sum over chunk c of weight times `xs`, in f32."""
        return partial(_codec("dot"), self)


def _codec(name: str) -> Callable[..., Any]:
    from iron.quant import codec

    return getattr(codec, name)


def _body(body: str, part: str) -> Callable[..., Any]:
    from iron.quant import codec

    return getattr(codec.BODIES[body], part)


def _by_name(name: str) -> Format:
    from iron.quant.format import by_name

    return by_name(name)
