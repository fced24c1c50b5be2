"""The text of one LLVM function under construction: names, lines, stack cells, declarations."""

from __future__ import annotations

from iron.backends.cpu.types import each_lane, is_literal, lanes, spread, suffix

ALIGN = 64


class Writer:
    """Collects lines; every value gets a fresh name, every intrinsic used is declared once.

    `first` and `last` are lines for the kernel's entry and its end, `scratch` is stack memory for
    what tile registers give. `pieces` says of parts of
    integers what they are part of: its name, its bits, and the number of the part.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.cells: list[str] = []
        self.first: list[str] = []
        self.last: list[str] = []
        self.scratch = ""
        self.pieces: dict[str, tuple[str, int, int]] = {}
        self.globals: list[str] = []
        self.declared: dict[str, str] = {}
        self._count = 0

    def fresh(self, prefix: str = "v") -> str:
        """A name not used before, without its sigil."""
        self._count += 1
        return f"{prefix}{self._count}"

    def let(self, text: str) -> str:
        """Names the result of an instruction."""
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Starts a basic block."""
        self.lines.append(f"{name}:")

    def jump(self, target: str) -> None:
        """Ends a basic block."""
        self.do(f"br label %{target}")

    def branch(self, condition: str, yes: str, no: str) -> None:
        """Ends a basic block with a choice."""
        self.do(f"br i1 {condition}, label %{yes}, label %{no}")

    def cell(self, ll: str, count: int = 1) -> str:
        """Stack memory for `count` values, made once at function entry."""
        name = f"%{self.fresh('cell')}"
        size = f", i64 {count}" if count > 1 else ""
        self.cells.append(f"  {name} = alloca {ll}{size}, align {ALIGN}")
        return name

    def call(self, result: str, name: str, *args: tuple[str, str]) -> str:
        """Calls an intrinsic with `(type, operand)` pairs; a `void` result gives no name."""
        plain = ", ".join(t.split(" align ")[0] for t, _ in args)
        self.declared[name] = f"declare {result} @{name}({plain})"
        text = f"call {result} @{name}({', '.join(f'{t} {x}' for t, x in args)})"
        if result == "void":
            self.do(text)
            return ""
        return self.let(text)

    def splat(self, x: str, ll: str, width: int) -> str:
        """`x` in every one of `width` lanes."""
        if width == 1:
            return x
        if is_literal(x):
            return "zeroinitializer" if x in ("0", "false") else spread(x, ll, width)
        t = lanes(ll, width)
        first = self.let(f"insertelement {t} poison, {ll} {x}, i64 0")
        return self.let(f"shufflevector {t} {first}, {t} poison, <{width} x i32> zeroinitializer")

    def pick(self, x: str, ll: str, width: int, at: list[int], other: str = "poison") -> str:
        """The lanes `at` of `x`, counting on into `other`."""
        t = lanes(ll, width)
        if width == 1:
            return x if len(at) == 1 else self.splat(x, ll, len(at))
        if len(at) == 1:
            return self.let(f"extractelement {t} {x}, i64 {at[0]}")
        index = each_lane(at)
        return self.let(f"shufflevector {t} {x}, {t} {other}, <{len(at)} x i32> {index}")

    def concat(self, parts: list[str], ll: str, width: int) -> str:
        """Vectors of `width` lanes one after another."""
        if len(parts) == 1:
            return parts[0]
        if width == 1:
            t = lanes(ll, len(parts))
            joined = "poison"
            for i, part in enumerate(parts):
                joined = self.let(f"insertelement {t} {joined}, {ll} {part}, i64 {i}")
            return joined
        whole = list(parts)
        while len(whole) & (len(whole) - 1):
            whole.append("poison")
        while len(whole) > 1:
            both = list(range(2 * width))
            pairs = zip(whole[::2], whole[1::2], strict=True)
            whole = [self.pick(a, ll, width, both, b) for a, b in pairs]
            width *= 2
        wanted = list(range(width // _power(len(parts)) * len(parts)))
        return whole[0] if len(wanted) == width else self.pick(whole[0], ll, width, wanted)

    def any(self, mask: str, width: int) -> str:
        """An i1 that says whether some lane of `mask` is set."""
        if width == 1:
            return mask
        bits = self.let(f"bitcast <{width} x i1> {mask} to i{width}")
        return self.let(f"icmp ne i{width} {bits}, 0")

    def all(self, mask: str, width: int) -> str:
        """An i1 that says whether every lane of `mask` is set."""
        if width == 1:
            return mask
        bits = self.let(f"bitcast <{width} x i1> {mask} to i{width}")
        return self.let(f"icmp eq i{width} {bits}, -1")

    def first_set(self, mask: str, width: int) -> str:
        """The i32 number of the lowest set lane of a mask that is not empty."""
        if width == 1:
            return "0"
        bits = self.let(f"bitcast <{width} x i1> {mask} to i{width}")
        name = f"llvm.cttz.{suffix(f'i{width}', 1)}"
        found = self.call(f"i{width}", name, (f"i{width}", bits), ("i1", "true"))
        if width == 32:
            return found
        return self.let(f"{'zext' if width < 32 else 'trunc'} i{width} {found} to i32")


def _power(n: int) -> int:
    p = 1
    while p < n:
        p *= 2
    return p
