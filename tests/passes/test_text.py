"""Each `.ir` file: a kernel, the passes that run over it, and the kernel that they leave.

The head of a file holds comments: `// passes: simplify dead`, `// dims: N=40`, `// scalars: s=2`,
`// shapes: x=40 y=8x5`. A line of dashes parts before from after. Both sides also run through the
interpreter on the same random arrays and must leave the same bits (`// meaning: new` says that a
pass like `fuse` may change the last place). `IRON_UPDATE=1` writes what the passes leave.
"""

import os
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from iron.check.generate.agree import same_bits
from iron.ir.core import Kernel
from iron.ir.host import evaluate
from iron.ir.interp import run
from iron.ir.text import parse_kernel, print_kernel
from iron.ir.types import Tensor
from iron.ir.verify import verify

FOLDER = Path(__file__).parent
FILES = sorted(FOLDER.glob("*.ir"))
RULE = "-" * 20 + "\n"


@dataclass
class Case:
    """A file taken apart."""

    head: str
    facts: dict[str, str]
    before: Kernel
    after: str

    def numbers(self, name: str) -> dict[str, float]:
        pairs = (p.split("=") for p in self.facts.get(name, "").split())
        return {k: float(v) if "." in v else int(v) for k, v in pairs}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        pairs = (p.split("=") for p in self.facts.get("shapes", "").split())
        return {k: tuple(map(int, v.split("x"))) for k, v in pairs}


def read(text: str) -> Case:
    before, _, after = text.partition(RULE)
    head = "".join(line for line in before.splitlines(keepends=True) if line.startswith("//"))
    facts = {}
    for line in head.splitlines():
        name, colon, rest = line.removeprefix("//").partition(":")
        if colon:
            facts[name.strip()] = rest.strip()
    return Case(head, facts, parse_kernel(before), after)


def passed(case: Case) -> Kernel:
    kernel = case.before
    verify(kernel)
    for name in case.facts["passes"].split():
        kernel = getattr(import_module(f"iron.passes.{name}"), name)(kernel)
        verify(kernel)
    return kernel


def outcome(kernel: Kernel, case: Case) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    arrays, shapes = {}, case.shapes()
    for p in kernel.params:
        if isinstance(p.type, Tensor):
            data = rng.integers(-100, 100, shapes[p.name])
            arrays[p.name] = data.astype(p.type.elem.np) * p.type.elem.np.type(1)
            if p.type.elem.is_float:
                arrays[p.name] = rng.normal(size=shapes[p.name]).astype(p.type.elem.np)
    dims = {k: int(v) for k, v in case.numbers("dims").items()}
    scalars = case.numbers("scalars")
    grid, failed = evaluate(kernel, scalars, dims)
    assert not failed
    run(kernel, arrays, scalars, dims, grid)
    return arrays


def faults(text: str) -> list[str]:
    """What is wrong with a file: the text the passes leave, or what it computes."""
    case = read(text)
    after = passed(case)
    out = []
    if print_kernel(after) != print_kernel(parse_kernel(case.after)):
        out.append("text")
    if case.facts.get("meaning") != "new":
        want, have = outcome(case.before, case), outcome(parse_kernel(case.after), case)
        out += [f"value {n}" for n in want if not same_bits(want[n], have[n]).all()]
    return out


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_file(path):
    text = path.read_text()
    if os.environ.get("IRON_UPDATE"):
        case = read(text)
        body = print_kernel(case.before) + RULE + print_kernel(passed(case))
        path.write_text(case.head + body)
        text = path.read_text()
    assert faults(text) == []


def test_every_pass_has_a_file():
    passes = {p.stem for p in (FOLDER.parents[1] / "iron" / "passes").glob("*.py")} - {"__init__"}
    tested = {name for f in FILES for name in read(f.read_text()).facts["passes"].split()}
    assert passes - tested <= {"scalarise"}  # has tests of its own


def test_a_wrong_text_and_a_wrong_value_are_seen():
    text = (FOLDER / "simplify_quotients.ir").read_text()
    before, rule, after = text.partition(RULE)
    assert faults(text) == []
    assert faults(before + rule + after.replace("= and %t", "= xor %t")) == ["text", "value y"]


PLANTED = {
    "values held over a barrier": ("forward_shared", "forward", "_forget", lambda held: None),
    "every store to another place": ("forward_places", "forward", "_apart", lambda a, b: True),
    "loads leave every loop": ("hoist_loops", "hoist", "ranges", lambda kernel: Always()),
}


class Always:
    """Facts that claim every loop runs."""

    def runs(self, loop: object) -> bool:
        return True


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_seen(name, monkeypatch):
    file, which, attribute, wrong = PLANTED[name]
    monkeypatch.setattr(import_module(f"iron.passes.{which}"), attribute, wrong)
    assert "text" in faults((FOLDER / f"{file}.ir").read_text())
