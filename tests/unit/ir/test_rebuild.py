"""A sweep without rules keeps a kernel; rules, folds and constant branches do what they say."""

from iron.dtypes import bool_, f32, i32
from iron.ir.build import Builder
from iron.ir.core import Kernel, Value
from iron.ir.parse import parse_kernel
from iron.ir.rebuild import rebuild
from iron.ir.text import print_kernel
from iron.ir.verify import verify
from tests.unit.ir.handmade import Handmade


def sample(*, fold: bool = True) -> Kernel:
    p = Handmade(fold=fold)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    p.scalar("s", f32)
    p.at(4)
    t = p.thread()
    v = p.load(x, t)
    v.name = "v"
    p.b.exact = True
    w = p.emit("mul", v, p.values["s"])
    p.b.exact = False
    counter, total = Value(i32, None, "i"), Value(f32, None, "total")
    with p.b.block((counter, total)) as body:
        p.do("yield", p.emit("add", total, w))
    (r,) = p.do("for", p.const(0), p.const(3), p.const(1), w, attrs=(False,), regions=(body,))
    (z,) = p.b.emit_all("reduce", (r,), (0,), (p.function("add", f32),), "group_sum")
    p.store(y, t, z)
    return p.done()


def test_a_sweep_without_rules_keeps_everything():
    k = sample()
    again = rebuild(k)
    verify(again)
    assert print_kernel(again, locs=True) == print_kernel(k, locs=True)
    assert again.body is not k.body
    assert all(a is not b for a, b in zip(k.body.walk(), again.body.walk(), strict=True))


def test_the_text_form_survives_a_sweep():
    k = sample()
    parsed = parse_kernel(print_kernel(k, locs=True))
    assert print_kernel(rebuild(parsed), locs=True) == print_kernel(k, locs=True)


def test_a_rule_replaces_an_op_and_none_keeps_it():
    def double(b: Builder, op, args):
        return (b.emit("add", args[0], args[0]),) if op.exact else None

    k = rebuild(sample(), {"mul": double})
    verify(k)
    assert "mul" not in {op.name for op in k.body.walk()}
    (kept,) = [op for op in k.body.ops if op.name == "add"]
    assert kept.args[0] is kept.args[1]
    assert kept.loc is not None


def test_a_rule_reaches_every_region():
    k = rebuild(sample(), {"add": lambda b, op, args: (b.emit("sub", *args),)})
    assert [op.name for op in k.body.walk()].count("sub") == 2


def test_a_constant_branch_is_its_side():
    p = Handmade(fold=False)
    y, t = p.tensor("y", f32, "out"), p.thread()
    for flag in (True, False):
        with p.b.block() as then:
            p.do("yield", p.const(1.0, f32))
        with p.b.block() as other:
            p.do("yield", p.emit("neg", p.const(2.0, f32)))
        (v,) = p.do("if", p.const(flag, bool_), regions=(then, other))
        p.store(y, t, v)
    k = rebuild(p.done())
    verify(k)
    assert "if" not in {op.name for op in k.body.walk()}
    stored = [op.args[-1].op.attrs[0] for op in k.body.ops if op.name == "store"]
    assert stored == [1.0, -2.0]


def test_without_folding_nothing_is_merged():
    k = sample(fold=False)
    assert print_kernel(rebuild(k, fold=False)) == print_kernel(k)


def test_the_other_facts_of_a_kernel_are_kept():
    k = sample()
    again = rebuild(k)
    for fact in ("name", "params", "rank", "threads", "simd", "requires", "index", "each"):
        assert getattr(again, fact) == getattr(k, fact)
