"""Random kernel sources whose meaning Python itself gives, thread by thread.

A program is a tree of lines and blocks, so that a failing one can be made smaller. Its source is
a file that replays alone: `python FILE` compares the compiled kernel with Python.
"""

from __future__ import annotations

import importlib.util
import linecache
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from iron import lang
from iron.errors import KernelError
from iron.lang import KernelFunction
from tests.unit.front.trial import run

THREADS = 64
REFUSABLE = {"E0202", "E0203", "E0205"}  # rules that ordinary Python need not obey

HEAD = '''\
"""Replay with `PYTHONPATH=. python {path}` from the root of the repository."""

from iron.lang import *

(N,) = dims("N")


@inline
def twist(a, b):
    c = a * b
    d = a - b
    return d, c


@inline
def pick(items, k):
    return items[0] if k > 2 else items[1]


@inline
def scaled(v, times, up=True):
    total = v
    for j in unrolled(times):
        if j % 2 == 0:
            total = total + v * 0.5
        else:
            total = total - v
    if up:
        return total
    return -total


@inline
def swapped(items):
    a, b = items
    return [b, a]


@kernel(exact=True)
def program(
    x: In[f32, N], y: Out[f32, N], y2: Out[f32, N], z: Out[i32, N], z2: Out[u32, N], q: Out[f32, N]
):
    groups(1, threads=64)
    f0, f1, f2 = f32(0.5), x[thread], f32(-1.0)
    i0, i1, i2 = i32(3), thread * 5, i32(40)
    u0, u1 = u32(7), u32(thread) * 2654435761
    b0 = thread > 20
    xs = [x[thread] + 1.0, f32(2.0)]
    ys = [[f32(1), f32(2)], [f32(3), x[thread]]]
    p = (x[thread] * 0.5, f32(4))
'''

TAIL = """\
    y[thread] = f0 + f1 * 3.0 + f2
    y2[thread] = xs[0] - xs[1] + ys[0][0] + ys[1][1] * ys[0][1] - ys[1][0]
    z[thread] = i0 ^ i1 ^ i2
    z2[thread] = u0 ^ (u1 if b0 else u0 + 1)
    q[thread] = p[0] - p[1]


if __name__ == "__main__":
    from tests.property.source_programs import replay

    replay(__file__)
"""


@dataclass(slots=True)
class Node:
    """A line, or a block with a header; `rest` are blocks that belong to it, such as `else`."""

    text: str
    body: list[Node] = field(default_factory=list["Node"])
    rest: list[Node] = field(default_factory=list["Node"])

    def lines(self, indent: int) -> Iterator[str]:
        """The source of the node."""
        pad = "    " * indent
        yield pad + self.text
        if self.text.endswith(":"):
            if not self.body:
                yield pad + "    pass"
            for node in self.body:
                yield from node.lines(indent + 1)
        for node in self.rest:
            yield from node.lines(indent)


def source(nodes: list[Node], path: Path) -> str:
    """The whole file of a program."""
    body = "\n".join(line for node in nodes for line in node.lines(1))
    return HEAD.format(path=path) + body + "\n" + TAIL


class Writer:
    """Writes statements over a fixed set of typed names."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def choose(self, *options: str) -> str:
        """One of the options."""
        return self.random.choice(options)

    # --- expressions ------------------------------------------------------------------------------

    def float_leaf(self) -> str:
        """A name or element of type f32."""
        r = self.random.randrange
        return self.choose(
            f"f{r(3)}", f"xs[{r(2)}]", f"ys[{r(2)}][{r(2)}]", "x[thread]", f"p[{r(2)}]", "xs[-1]"
        )

    def float(self, depth: int = 2) -> str:
        """An expression of type f32, or an exact literal."""
        pick = self.random.random()
        if depth == 0 or pick < 0.2:
            literal = self.choose("0.5", "2.0", "-1.25", "0.0", "3")
            return self.float_leaf() if self.random.random() < 0.8 else literal
        a, b = self.float(depth - 1), self.float_leaf()
        forms: list[Callable[[], str]] = [
            lambda: f"({a} {self.choose('+', '-', '*')} {b})",
            lambda: f"({b} {self.choose('+', '-', '*')} {a})",
            lambda: f"({b} / ({self.float_leaf()} * {self.float_leaf()} + 1.0))",
            lambda: f"({a} if {self.bool(depth - 1)} else {b})",
            lambda: f"f32({self.int(depth - 1)} & 7)",
            lambda: "(x[thread + 1] if thread + 1 < N else 0.0)",
            lambda: f"pick(xs, {self.int(0)})",
            lambda: f"pick([{b}, {self.float_leaf()}], {self.int(0)})",
            lambda: f"{self.choose('maximum', 'minimum', 'max', 'min')}({b}, {a})",
            lambda: f"where({self.bool(0)}, {b}, {a})",
            lambda: f"scaled({b}, {self.random.randrange(3)}, {self.choose('True', 'up=False')})",
            lambda: f"abs({b})",
            lambda: f"-{b}",
            lambda: f"sum([{b}, {self.float_leaf()}])",
            lambda: f"dot(vec([f32({b}), f32(f0)]), vec([f32(v) for v in xs]))",
            lambda: f"x[{self.int(0)} & 63]",
            lambda: f"f32({self.bool(0)})",
        ]
        return self.random.choice(forms)()

    def int_leaf(self) -> str:
        """A name of type i32."""
        return self.choose("i0", "i1", "i2", "thread")

    def int(self, depth: int = 2) -> str:
        """An expression of type i32."""
        pick = self.random.random()
        if depth == 0 or pick < 0.25:
            return self.int_leaf()
        a = self.int(depth - 1)
        b = self.choose(self.int_leaf(), str(self.random.randrange(9)), "N", "(N // 3)")
        forms: list[Callable[[], str]] = [
            lambda: f"({a} {self.choose('+', '-', '*', '&', '^', '|')} {b})",
            lambda: f"({b} {self.choose('+', '-', '*')} {a})",
            lambda: (
                f"({a} {self.choose('//', '%')} {self.choose('7', '-3', '8', self.int_leaf())})"
            ),
            lambda: f"({a} {self.choose('<<', '>>')} {self.random.randrange(31)})",
            lambda: f"({a} {self.choose('<<', '>>')} ({self.int_leaf()} & 31))",
            lambda: f"({self.int_leaf()} if {self.bool(depth - 1)} else {a})",
            lambda: f"{self.choose('max', 'min')}({a}, {b})",
            lambda: f"i32({self.float(0)} * 3.0)",
            lambda: f"i32({self.uint(depth - 1)} & 1023)",
            lambda: f"~{self.int_leaf()}",
            lambda: f"-{self.int_leaf()}",
            lambda: f"where({self.bool(0)}, {a}, {self.int_leaf()})",
            lambda: f"i32(b0) * {self.int_leaf()}",
        ]
        return self.random.choice(forms)()

    def uint(self, depth: int = 2) -> str:
        """An expression of type u32."""
        leaf = self.choose("u0", "u1", "u32(thread)")
        if depth <= 0:
            return leaf
        a = self.uint(depth - 1)
        forms: list[Callable[[], str]] = [
            lambda: leaf,
            lambda: f"({a} {self.choose('+', '-', '*', '&', '^', '|')} {leaf})",
            lambda: f"({a} {self.choose('+', '*', '&', '^')} {self.random.randrange(1, 99)})",
            lambda: f"({a} {self.choose('<<', '>>')} {self.random.randrange(32)})",
            lambda: f"({a} {self.choose('//', '%')} {self.choose('7', 'u0', '16')})",
            lambda: f"u32({self.int(depth - 1)})",
            lambda: f"({a} if {self.bool(0)} else {leaf})",
            lambda: f"bitcast({self.int_leaf()}, u32)",
        ]
        return self.random.choice(forms)()

    def bool(self, depth: int = 1) -> str:
        """A condition."""
        compare = self.choose("<", ">=", "==", "!=", ">")
        forms: list[Callable[[], str]] = [
            lambda: f"({self.int(min(depth, 1))} {compare} {self.random.randrange(60)})",
            lambda: (
                f"({self.float_leaf()} {self.choose('<', '>')} {self.choose('0.0', '0.5', '-1')})"
            ),
            lambda: f"(u0 {compare} u1)",
            lambda: "b0",
            lambda: f"({self.int_leaf()} {compare} {self.int_leaf()})",
        ]
        one = self.random.choice(forms)()
        if depth and self.random.random() < 0.3:
            return f"({one} {self.choose('&', '|', '^')} {self.bool(0)})"
        return f"(~{one})" if self.random.random() < 0.1 else one

    # --- statements -------------------------------------------------------------------------------

    def block(self, count: int, indent: int) -> list[Node]:
        """`count` statements after one that always changes something."""
        return [Node("i0 += 1"), *(self.statement(indent) for _ in range(count))]

    def statement(self, indent: int) -> Node:
        """One statement; blocks only up to a depth."""
        if indent < 4 and self.random.random() < 0.42:
            forms = (self.branch, self.branch, self.loop, self.loop, self.repeated, self.early)
            return self.random.choice(forms)(indent)
        return Node(self.simple())

    def simple(self) -> str:
        """An assignment."""
        r = self.random.randrange
        forms: list[Callable[[], str]] = [
            lambda: f"f{r(3)} {self.choose('=', '+=', '*=', '-=')} {self.float()}",
            lambda: f"f{r(3)} = f32({self.float()})",
            lambda: f"i{r(3)} {self.choose('=', '+=', '^=')} {self.int()}",
            lambda: f"u{r(2)} {self.choose('=', '+=', '^=')} {self.uint()}",
            lambda: f"b0 = {self.bool()}",
            lambda: f"xs[{r(2)}] = {self.float_leaf()} + {self.float(1)}",
            lambda: f"xs[{r(2)}] += {self.float(1)}",
            lambda: f"ys[{r(2)}][{r(2)}] = {self.float_leaf()} - {self.float(1)}",
            lambda: f"xs = [{self.float_leaf()} + 1.0, {self.float_leaf()} * 0.5]",
            lambda: f"ys[{r(2)}] = [{self.float_leaf()}, {self.float_leaf()}]",
            lambda: "ys = [[v * 0.5 for v in row] for row in ys]",
            lambda: "xs = [a - b for a, b in zip(xs, p)]",
            lambda: "xs = swapped(xs)",
            lambda: f"xs = {self.choose('ys[0]', 'list(ys[1])', '[*p]', 'list(xs)', 'xs[::-1]')}",
            lambda: f"f0, f1 = twist({self.float_leaf()}, {self.float_leaf()})",
            lambda: "f0, f1 = f1, f0",
            lambda: "p = (p[1], p[0])",
            lambda: f"p = ({self.float_leaf()}, {self.float_leaf()})",
            lambda: "xs, f2 = [f2, xs[0]], xs[1]",
            lambda: f"(f0, f1), f2 = p, {self.float_leaf()}",
        ]
        return self.random.choice(forms)()

    def branch(self, indent: int) -> Node:
        """`if`, perhaps with `elif` and `else`."""
        r = self.random
        node = Node(f"if {self.bool()}:", self.block(r.randrange(1, 4), indent + 1))
        if r.random() < 0.25:
            node.rest.append(Node(f"elif {self.bool()}:", self.block(r.randrange(2), indent + 1)))
        if r.random() < 0.6:
            node.rest.append(Node("else:", self.block(r.randrange(1, 4), indent + 1)))
        return node

    def loop(self, indent: int) -> Node:
        """A run-time loop, perhaps with an early end."""
        r = self.random
        over = self.choose(
            f"range({self.int_leaf()} & 3)",
            "range(3)",
            "range(thread & 1, 4, 2)",
            "range(1, 3)",
            "strided(N)" if indent < 3 else "range(2)",
        )
        node = Node(f"for k{indent} in {over}:", self.block(r.randrange(1, 3), indent + 1))
        if r.random() < 0.5:
            node.body.append(Node(f"i1 += k{indent}"))
        if r.random() < 0.45:
            node.body += self.leaving(indent)
        return node

    def leaving(self, indent: int) -> list[Node]:
        """`if c: ..; break`, with what follows it."""
        r = self.random
        out = Node(f"if {self.bool()}:", [*self.block(r.randrange(2), indent + 2), Node("break")])
        if r.random() < 0.3:
            body = self.block(1, indent + 2)
            ends = [Node("break")] if r.random() < 0.4 else []
            out.rest.append(Node(f"elif {self.bool()}:", [*body, *ends]))
        if r.random() < 0.3:
            out.rest.append(Node("else:", self.block(1, indent + 2)))
        return [out, *(self.statement(indent + 1) for _ in range(r.randrange(3)))]

    def repeated(self, indent: int) -> Node:
        """A compile-time loop."""
        over = self.choose("unrolled(2)", "unrolled(2, -1, -1)", "enumerate(xs)", "xs")
        names = {"enumerate(xs)": f"k{indent}, v{indent}", "xs": f"v{indent}"}
        node = Node(f"for {names.get(over, f'k{indent}')} in {over}:")
        node.body = self.block(self.random.randrange(1, 3), indent + 1)
        if "unrolled" in over:
            node.body.append(Node(f"f0 += xs[k{indent} % 2] * {self.float_leaf()}"))
        elif "xs" in over:
            node.body.append(Node(f"f1 += v{indent} * 0.25"))
        if self.random.random() < 0.3:
            node.body += self.leaving(indent)
        return node

    def early(self, indent: int) -> Node:
        """A branch that Python decides at compile time."""
        node = Node(f"if {self.choose('simd_width == 32', '1 > 2', 'len(xs) == 2')}:")
        node.body = self.block(1, indent + 1)
        node.rest.append(Node("else:", self.block(1, indent + 1)))
        return node


def program(seed: int) -> list[Node]:
    """The statements of the program of a seed."""
    writer = Writer(seed)
    return [writer.statement(1) for _ in range(writer.random.randrange(5, 12))]


# --- running --------------------------------------------------------------------------------------


def outputs() -> dict[str, Any]:
    """Fresh outputs."""
    made: dict[str, Any] = {n: np.zeros(THREADS, np.float32) for n in ("y", "y2", "q")}
    return made | {"z": np.zeros(THREADS, np.int32), "z2": np.zeros(THREADS, np.uint32)}


def load(path: Path) -> Any:
    """The module of a program's file, read anew."""
    linecache.checkcache(str(path))
    spec = importlib.util.spec_from_file_location(f"program_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    keep, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        spec.loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = keep
    return module


def by_python(module: Any, x: Any, out: dict[str, Any]) -> None:
    """The program executed by Python once for each thread, on numpy scalars; spoils `module`."""
    space = vars(module)

    def spread(*bounds: Any) -> Iterator[Any]:
        return (np.int32(v) for v in range(*map(int, bounds)))

    space |= {n: space[n].fn for n in ("twist", "pick", "scaled", "swapped")}
    space |= {"N": THREADS, "groups": lambda *a, **k: None, "unrolled": spread, "range": spread}
    space |= {"simd_width": 32, "min": extreme(lang.minimum), "max": extreme(lang.maximum)}
    space["strided"] = lambda n: spread(space["thread"], n, THREADS)
    with np.errstate(all="ignore"):
        for t in range(THREADS):
            space["thread"] = np.int32(t)
            module.program.fn(x, out["y"], out["y2"], out["z"], out["z2"], out["q"])


def extreme(two: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The language's `min` or `max`, which propagate NaN, in place of Python's."""
    return lambda a, b: two(a, b)


def on_cpu(fn: KernelFunction, **arguments: Any) -> None:
    """Launches the kernel on this machine."""
    fn(**arguments)


ROADS: dict[str, Callable[..., Any]] = {"interpreter": run, "cpu": on_cpu}


def difference(path: Path, seed: int = 0, roads: tuple[str, ...] = ("interpreter",)) -> str:
    """What is wrong with a program; empty when compiled and Python agree, an id when refused."""
    x = np.random.default_rng(seed).standard_normal(THREADS).astype(np.float32)
    truth = outputs()
    by_python(load(path), x, truth)
    for road in roads:
        compiled = outputs()
        try:
            ROADS[road](load(path).program, x=x, **compiled)
        except KernelError as wrong:
            return wrong.id if wrong.id in REFUSABLE else f"refused: {wrong}"
        wrong = compared(compiled, truth)
        if wrong:
            return f"on {road}, {wrong}"
    return ""


def compared(compiled: dict[str, Any], truth: dict[str, Any]) -> str:
    """The first element that differs in its bits, NaNs apart."""
    for name, have in compiled.items():
        want = truth[name]
        same = (have.view(np.uint32) == want.view(np.uint32)) | ((have != have) & (want != want))
        if not same.all():
            at = int(np.flatnonzero(~same)[0])
            return f"{name}[{at}] is {have[at]!r}, Python gives {want[at]!r}"
    return ""


def judge(
    nodes: list[Node], path: Path, seed: int = 0, roads: tuple[str, ...] = ("interpreter",)
) -> str:
    """Writes the program to `path` and says what is wrong with it."""
    path.write_text(source(nodes, path))
    try:
        return difference(path, seed, roads)
    except Exception as crash:
        return f"{type(crash).__name__}: {crash}"


def kind(wrong: str) -> str:
    """The part of a fault that a smaller program must keep: the id, or that values differ."""
    return wrong.split("]")[0] if wrong.startswith("refused") else wrong.split(":")[0].split("[")[0]


def shrink(
    nodes: list[Node], path: Path, wrong: str, roads: tuple[str, ...] = ("interpreter",)
) -> list[Node]:
    """A smaller program with the same kind of fault, found by leaving parts out."""
    wanted = kind(wrong)
    progress = True
    while progress:
        progress = False
        for smaller in list(_smaller(nodes)):
            if kind(judge(smaller, path, roads=roads)) == wanted:
                nodes, progress = smaller, True
                break
    judge(nodes, path)
    return nodes


def _smaller(nodes: list[Node]) -> Iterator[list[Node]]:
    for i, node in enumerate(nodes):
        before, after = nodes[:i], nodes[i + 1 :]
        yield [*before, *after]
        inner = [n for n in node.body if n.text != "break"]
        if inner:
            yield [*before, *inner, *after]
        for k in range(len(node.rest)):
            rest = [*node.rest[:k], *node.rest[k + 1 :]]
            yield [*before, Node(node.text, node.body, rest), *after]
        for body in _smaller(node.body):
            yield [*before, Node(node.text, body, node.rest), *after]
        for k, part in enumerate(node.rest):
            for body in _smaller(part.body):
                rest = [*node.rest[:k], Node(part.text, body), *node.rest[k + 1 :]]
                yield [*before, Node(node.text, node.body, rest), *after]


def replay(file: str) -> None:
    """Says on the terminal whether a program's file agrees with Python; exit status 1 if not."""
    wrong = difference(Path(file), roads=tuple(ROADS))
    print(wrong or "the compiled kernel and Python agree")
    sys.exit(bool(wrong) and wrong not in REFUSABLE)


def failure(seed: int, folder: Path, roads: tuple[str, ...]) -> str:
    """What is wrong with the program of a seed; a small form of it stays in `folder` then."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"source_{seed}.py"
    nodes = program(seed)
    wrong = judge(nodes, path, seed, roads)
    if wrong in REFUSABLE or not wrong:
        path.unlink()
        return wrong
    shrink(nodes, path, wrong, roads)
    return f"seed {seed}: {wrong}\n  replay: PYTHONPATH=. python {path}"


def main(low: int, high: int, folder: Path, roads: tuple[str, ...]) -> None:
    """Runs a range of seeds and leaves a small file for each failure in `folder`."""
    refused = failed = 0
    for seed in range(low, high):
        wrong = failure(seed, folder, roads)
        refused += wrong in REFUSABLE
        if wrong and wrong not in REFUSABLE:
            failed += 1
            print(wrong, flush=True)
    print(f"{high - low} programs: {failed} failed, {refused} refused by a rule of the language")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]), ("interpreter", *sys.argv[4:]))
