"""The laws of F2-linear maps and layouts, on random ones."""

from itertools import product as every
from math import prod

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from iron.ir.layout import COSTS, Layout, convert
from iron.ir.linear import Linear, compose, divide, identity, invert, product, spans

FEW = settings(max_examples=60, deadline=None)


@st.composite
def linears(draw: st.DrawFn, bits: int | None = None, width: int | None = None) -> Linear:
    width = draw(st.integers(0, 6)) if width is None else width
    bits = draw(st.integers(0, 6)) if bits is None else bits
    images = st.integers(0, (1 << width) - 1)
    return Linear(tuple(draw(st.lists(images, min_size=bits, max_size=bits))), width)


@st.composite
def layouts(draw: st.DrawFn, shuffle_of: Layout | None = None) -> Layout:
    """A layout that covers its tile: the bits of a matrix dealt out, with some copies."""
    if shuffle_of is None:
        down, along = draw(st.integers(0, 3)), draw(st.integers(0, 3))
        repeats = draw(st.lists(st.tuples(st.integers(0, 1), st.sampled_from([3, 5])), max_size=2))
        core = (1 << down, 1 << along)
    else:
        core, repeats = shuffle_of.core, shuffle_of.repeats
        down, along = (side.bit_length() - 1 for side in core)
    places = [(1 << i, 0) for i in range(down)] + [(0, 1 << i) for i in range(along)]
    places += [(0, 0)] * draw(st.integers(0, 2))
    parts: list[list[tuple[int, int]]] = [[], [], []]
    for place in draw(st.permutations(places)):
        parts[draw(st.integers(0, 2)) if any(place) else draw(st.integers(1, 2))].append(place)
    return Layout(core, *(tuple(p) for p in parts), tuple(repeats))


def held(layout: Layout) -> list[tuple[tuple[int, int, int], tuple[int, ...]]]:
    """Every place and what it holds."""
    ranges = (range(layout.registers), range(layout.lanes), range(layout.simds))
    return [(place, layout.at(*place)) for place in every(*ranges)]


@FEW
@given(linears(), st.data())
def test_a_map_is_linear(f: Linear, data: st.DataObject):
    x, y = (data.draw(st.integers(0, (1 << len(f.columns)) - 1)) for _ in range(2))
    assert f(x ^ y) == f(x) ^ f(y)
    assert f(0) == 0


@FEW
@given(st.data(), st.integers(0, 5), st.integers(0, 5))
def test_composition_applies_one_after_the_other(data: st.DataObject, a: int, b: int):
    inner, outer = data.draw(linears(a, b)), data.draw(linears(b, 4))
    both = compose(outer, inner)
    assert all(both(x) == outer(inner(x)) for x in range(1 << a))
    assert compose(outer, identity(b)) == outer == compose(identity(4), outer)


@FEW
@given(linears())
def test_what_is_onto_has_a_right_inverse(f: Linear):
    images = {f(x) for x in range(1 << len(f.columns))}
    assert len(images) == 1 << f.rank
    assert f.onto == (len(images) == 1 << f.width)
    if f.onto:
        assert compose(f, invert(f)) == identity(f.width)
    else:
        with pytest.raises(ValueError, match="bits are reached"):
            invert(f)
    for y in range(1 << f.width):
        x = f.solve(y)
        assert (x is not None) == (y in images) == spans(f.columns, y)
        assert x is None or f(x) == y


@FEW
@given(linears(), linears())
def test_division_undoes_a_product(low: Linear, high: Linear):
    both = product(low, high)
    assert divide(both, low) == high
    assert all(
        both(x | y << len(low.columns)) == low(x) | high(y) << low.width
        for x in range(1 << len(low.columns))
        for y in range(1 << len(high.columns))
    )
    if low.columns:
        other = Linear((low.columns[0] ^ 1, *low.columns[1:]), low.width) if low.width else None
        assert other is None or divide(both, other) is None


@FEW
@given(layouts())
def test_finding_undoes_placing(layout: Layout):
    places = held(layout)
    wanted = set(every(*map(range, layout.shape)))
    assert {where for _, where in places} == wanted
    assert layout.covers
    assert len(places) == layout.copies * prod(layout.shape)
    assert layout.exact == (layout.copies == 1)
    assert all(layout.at(*layout.find(where)) == where for where in wanted)


@FEW
@given(layouts(), st.integers(0, 1))
def test_a_slice_holds_what_its_matrix_holds(layout: Layout, axis: int):
    cut, register = layout.slice(axis)
    assert cut.shape == (layout.shape[1 - axis],)
    assert len(register) == layout.registers
    for (r, lane, simd), where in held(layout):
        assert cut.at(register[r], lane, simd) == (where[1 - axis],)


@FEW
@given(layouts(), st.data())
def test_a_conversion_costs_what_it_must(old: Layout, data: st.DataObject):
    """The cost against its meaning, element by element."""
    new = data.draw(layouts(shuffle_of=old))
    found = convert(old, new)
    assert found.cost in COSTS
    lanes, simds = max(old.lanes, new.lanes), max(old.simds, new.simds)
    near: dict[int, set[tuple[int, ...]]] = {s: set() for s in range(simds)}
    for s, lane, r in every(range(simds), range(lanes), range(old.registers)):
        near[s].add(old.at(r, lane % old.lanes, s % old.simds))
    inside = all(
        new.at(r, lane % new.lanes, s % new.simds) in near[s]
        for s, lane, r in every(range(simds), range(lanes), range(new.registers))
    )
    assert inside == (found.cost != "shared")
    for r, source in enumerate(found.source):
        for lane, s in every(range(lanes), range(simds)):
            here = old.at(source, lane % old.lanes, s % old.simds)
            assert here == new.at(r, lane % new.lanes, s % new.simds)


@FEW
@given(layouts())
def test_a_layout_becomes_itself_for_nothing(layout: Layout):
    assert convert(layout, layout).cost == "none"
    turned = layout.transpose()
    assert turned.transpose() == layout
    assert all(turned.at(*place) == where[::-1] for place, where in held(layout))


@pytest.mark.parametrize("side", [72, 80, 96, 192, 64, 8])
def test_sides_beyond_powers_of_two_repeat_the_outermost_registers(side: int):
    atom = Layout((16, 8), ((0, 1), (8, 0)), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)))
    wide = atom.across(0, 4).repeat(1, side // 8)
    assert wide.shape == (64, side)
    assert wide.exact
    assert len({where for _, where in held(wide)}) == 64 * side
    assert convert(wide, wide.transpose().transpose()).cost == "none"


def test_repeats_in_another_order_are_other_names_for_registers():
    atom = Layout((8, 8), ((0, 1),), ((0, 2), (0, 4), (1, 0), (2, 0), (4, 0)))
    one, other = atom.repeat(0, 3).repeat(1, 5), atom.repeat(1, 5).repeat(0, 3)
    found = convert(one, other)
    assert found.cost == "registers"
    assert sorted(found.source) == list(range(one.registers))


def test_wrong_layouts_are_refused():
    with pytest.raises(ValueError, match="power of two"):
        Layout((3, 4))
    with pytest.raises(ValueError, match="outside"):
        Layout((4, 4), ((0, 4),))
    with pytest.raises(ValueError, match="does not become"):
        convert(Layout((1,)), Layout((1, 1)))
    with pytest.raises(ValueError, match="does not hold"):
        convert(Layout((2,)), Layout((2,), ((1,),)))
    with pytest.raises(ValueError, match="no place"):
        Layout((2, 2), ((1, 0),)).find((0, 1))


@FEW
@given(layouts(), st.data())
def test_a_wrong_image_is_seen(layout: Layout, data: st.DataObject):
    """A control: one image made equal to another leaves elements without a place."""
    assume(len(layout.register) > 1)
    wrong = Layout(
        layout.core,
        (layout.register[1], *layout.register[1:]),
        *(layout.lane, layout.simd, layout.repeats),
    )
    assert not wrong.covers
