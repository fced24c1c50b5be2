"""The forms of a kernel in one module: entries, tables once, the same bits on fibres."""

from dataclasses import replace

import jsonschema
import pytest

from iron.backends.clike.dialect import Argument
from iron.backends.clike.module import joined
from iron.backends.clike.render import Text
from iron.backends.cuda import CUDA
from iron.backends.hip import HIP
from iron.dtypes import bf16, f16, f32
from iron.emit.build import build
from iron.emit.forms import forms, note
from iron.emit.host import HostKernel
from iron.emit.manifest import Specialised, document, schema
from iron.emit.targets import destination
from iron.errors import Loc
from iron.front import TensorArg, bind, specialise
from iron.ir.host import evaluate
from iron.kernels.gemm.gemm import gemm
from iron.shims import hip_text
from iron.shims.driver import TextDriver
from tests.golden.texts import of
from tests.unit.backends.test_cuda_forms import SHAPES, lowered, run, same


@pytest.mark.parametrize("wave", [pytest.param(32, marks=pytest.mark.slow), 64])
def test_forms_in_hip_compute_the_same(wave: int):
    """All kernels in one unit; the driver takes the best form."""
    found = [lowered(name, f16) for name in SHAPES]
    words = replace(hip_text.WORDS[wave], forms=lambda k, symbol: forms(k, symbol, HIP[wave]))
    driver = TextDriver(f"hip-text-{wave}", words, hip_text.TARGETS[wave])
    driver.prepare(plain for plain, *_ in found)
    for plain, arrays, sizes in found:
        held = {n: a.copy() for n, a in arrays.items()}
        executable = driver.load(plain)
        assert len(executable.choices) > 1, plain.name
        executable.bind(held, {}, sizes, evaluate(plain, {}, sizes)[0])()
        assert same(held, run(plain, arrays, sizes)), plain.name


@pytest.mark.parametrize("target", ["cuda:sm_90a", "hip:gfx942"])
def test_a_module_holds_every_entry_that_the_manifest_names(target: str):
    to = destination(target)
    kind = {"cuda": "cubin", "hip": "hsaco"}[to.family.name]
    built = build(of("unary", target), to, (to.family.name, kind))
    record = built.record["targets"][0]
    code = built.files[to.path(built.record["symbol"], f".{kind}")]
    text = built.files[to.path(built.record["symbol"], to.family.text)].decode()
    entries = [built.record["symbol"], *(form["entry"] for form in record["forms"])]
    assert len(entries) == 2
    for entry, resources in zip(
        entries, [record["resources"], *(f["resources"] for f in record["forms"])], strict=True
    ):
        assert entry.encode() in code
        assert f" {entry}(" in text
        assert 0 < resources["registers"] < 256
    assert "// takes any arguments" in text
    assert "// needs rows of x at multiples of 16 bytes, " in text


def test_a_note_says_what_a_form_needs():
    plain, _, _ = lowered("moved", f32)
    best, unit, last = forms(plain, "k", CUDA)
    assert [f.code.symbol for f in (best, unit, last)] == ["k_neighbours", "k_unit", "k"]
    assert note(unit, plain) == "needs neighbours in the last axis of x"
    assert note(best, plain) == (
        "needs rows of x at multiples of 16 bytes, rows of y at multiples of 16 bytes, "
        "neighbours in the last axis of x, neighbours move 4 at a time"
    )


# --- several texts as one -------------------------------------------------------------------------

TABLE = "__constant__ i32 table[2] = {\n  1, 2\n};"
OTHER = TABLE.replace("1, 2", "3, 4")


def text(symbol: str, *tables: str) -> Text:
    lines = ["\n".join(tables)] if tables else []
    body = "\n".join([*lines, f"void {symbol}() {{", "  y[0] = table[1];", "}"])
    count = body.count("\n") + 1
    places = (*[None] * (count - 2), Loc("kernel.py", 7), None)
    return Text(symbol, "", body, (Argument("y", f32, True, True),), places, tables)


def test_equal_tables_are_there_once_and_others_get_another_name():
    whole = joined([text("a", TABLE), text("b", TABLE), text("c", OTHER)], list("xyz"), CUDA)
    assert whole.body.count("table[2] = {") == 1
    assert whole.body.count("table_2[2] = {\n  3, 4\n}") == 1
    a, b, c = whole.body.split("// ")[1:]
    assert (a.count("table[1]"), b.count("table[1]"), c.count("table_2[1]")) == (1, 1, 1)
    assert whole.symbol == "a"


def test_every_line_keeps_its_place():
    whole = joined([text("a", TABLE), text("b", TABLE), text("c", OTHER)], list("xyz"), CUDA)
    lines = whole.body.split("\n")
    assert len(lines) == len(whole.places)
    placed = [line for line, place in zip(lines, whole.places, strict=True) if place]
    assert placed == ["  y[0] = table[1];"] * 2 + ["  y[0] = table_2[1];"]
    source = whole.source.split("\n")
    assert [source[n] for n, place in enumerate(whole.lines) if place] == placed


def test_the_form_of_rings_has_its_maps_in_the_manifest():
    """What encodes each map is there, and a generated host launches another form."""
    to, given = destination("cuda:sm_90a"), TensorArg(bf16, (256, 256), (256, 1))
    consts = {"TA": 0, "TB": 1, "BM": 128, "BN": 128, "BK": 64, "PERSISTENT": 132}
    arrays = {"a": given, "b": given, "bias": None, "residual": None}
    bound = bind(gemm, arrays, consts, shared_bytes=to.target.shared_bytes)
    built = build(Specialised(gemm, specialise(gemm, bound, 32), bound), to, ("cuda",))
    whole = document([built.record])
    jsonschema.validate(whole, schema())
    best, *_ = built.record["targets"][0]["forms"]
    maps = [a for a in best["arguments"] if a["kind"] == "map"]
    shown = {m["name"]: (m["box"], [size["text"] for size in m["sizes"]]) for m in maps}
    assert shown["a"] == ([128, 64], ["P", "Q"])
    assert shown["c"][0] == [64, 64]
    assert best["entry"].endswith("_rings")
    conditions = [c["text"] for c in best["requires"]]
    assert {f"address({name}) % 16 == 0" for name in "abc"} <= set(conditions)
    assert [c for c in conditions if "stride(b, 0) * 2 % 16 == 0" in c]
    (groups,) = best["groups"]
    assert groups["text"].startswith("min(")
    text = built.files[to.path(built.record["symbol"], ".cu")].decode()
    assert f" {best['entry']}(" in text
    host = HostKernel(built.record, {p["name"]: p["name"] for p in built.record["parameters"]})
    assert best["entry"] not in [form["entry"] for form in host.forms("cuda")]
    assert len(host.forms("cuda")) == len(built.record["targets"][0]["forms"]) - 1
