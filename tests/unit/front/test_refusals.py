"""Wrong kernels: each is refused with its id, at the line that ends in `# !`."""

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from iron.lang import (
    Const,
    In,
    InOut,
    KernelFunction,
    Out,
    Scalar,
    atomic_add,
    barrier,
    bool_,
    cdiv,
    dims,
    dot,
    each,
    f16,
    f32,
    full,
    group_max,
    group_reduce,
    group_scan,
    group_sum,
    group_xor,
    groups,
    i32,
    inline,
    kernel,
    require,
    shared,
    strided,
    table,
    thread,
    u8,
    u32,
    unrolled,
    vec,
    where,
    zeros,
)
from tests.unit.front.trial import refusal

N, M = dims("N M")
ITEMS = [1, 2]
NESTED = (1, [2])
NUMBERS = np.arange(3)
CASES: list[tuple[str, KernelFunction]] = []


def refused(id: str) -> Callable[[Callable[..., Any]], KernelFunction]:
    """Registers a kernel that is to be refused with `id`."""

    def register(fn: Callable[..., Any]) -> KernelFunction:
        made = kernel(fn)
        CASES.append((id, made))
        return made

    return register


@inline
def half(v):
    return v / 2  # !!


@inline
def endless(v):
    return endless(v)


@inline
def last_if_positive(v):
    if v > 0.0:
        return v  # !!
    return v + 1.0


@refused("E0101")
def while_loop(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    while x[thread] > 0.0:  # !
        y[thread] = 0.0


@refused("E0103")
def return_in_branch(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if x[thread] > 0.0:
        return  # !
    y[thread] = 0.0


@refused("E0103")
def return_in_helper(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = last_if_positive(x[thread])


@refused("E0103")
def returns_a_value(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 0.0
    return y


@refused("E0104")
def break_not_last(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in range(3):
        if x[i] > 0.0:
            if x[i] > 1.0:
                break  # !
            y[i] = 1.0


@refused("E0105")
def undefined(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = missing  # noqa: F821  # !


@refused("E0105")
def read_before_assignment(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = later  # noqa: F821  # !
    later = 1.0  # noqa: F841


@refused("E0105")
def unbound_dim(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = f32(M)  # !


@refused("E0105")
def no_attribute(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x.first  # !


@refused("E0106")
def step_zero(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in range(0, 3, 0):  # !
        y[i] = 1.0


@refused("E0106")
def step_down(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in range(3, 0, -1):  # !
        y[i] = 1.0


@refused("E0106")
def step_at_run_time(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in range(0, 3, thread):  # !
        y[i] = 1.0


@refused("E0107")
def mutable_global(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] * ITEMS[0]  # !


@refused("E0107")
def mutable_in_tuple(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] * NESTED[0]  # !


@refused("E0107")
def mutable_array(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] * NUMBERS[0]  # !


@refused("E0109")
def and_at_run_time(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if x[thread] > 0.0 and thread > 3:  # !
        y[thread] = 1.0


@refused("E0109")
def not_at_run_time(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 1.0 if not x[thread] > 0.0 else 0.0  # !


@refused("E0109")
def chain_at_run_time(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 1.0 if 3 <= thread < 9 else 0.0  # !


@refused("E0110")
def failing_call(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = float("text")  # !


@refused("E0110")
def failing_operator(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 1 / 0  # !


@refused("E0111")
def recursion(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = endless(x[thread])


@refused("E0112")
def appended(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    xs = [x[thread]]
    if x[thread] > 0.0:
        xs.append(x[thread])  # !
    y[thread] = xs[0]


@refused("E0113")
def too_many_arguments(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = where(x[thread] > 0.0, 1.0)  # !


@refused("E0113")
def helper_without_argument(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = half()  # !


@refused("E0201")
def float_times_int(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] * thread  # !


@refused("E0201")
def signed_plus_unsigned(x: In[u32, N], y: Out[u32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] + thread  # !


@refused("E0201")
def half_arithmetic(x: In[f16, N], y: Out[f16, N]):
    groups(1, threads=64)
    y[thread] = x[thread] + x[thread]  # !


@refused("E0201")
def unequal_store(x: In[f32, N], y: Out[f16, N]):
    groups(1, threads=64)
    y[thread] = x[thread]  # !


@refused("E0201")
def mixed_bounds(x: In[u32, N], y: Out[u32, N]):
    groups(1, threads=64)
    for i in range(x[0], i32(7)):  # !
        y[i] = 1


@refused("E0202")
def float_literal_index(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread + 1.0]  # !


@refused("E0202")
def divided_integers(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread / 2]  # !


@refused("E0202")
def divided_in_helper(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = f32(half(thread)) + x[thread]


@refused("E0202")
def too_large_literal(x: In[u8, N], y: Out[u8, N]):
    groups(1, threads=64)
    y[thread] = x[thread] + 300  # !


@refused("E0202")
def negative_for_unsigned(x: In[u32, N], y: Out[u32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] & -8  # !


@refused("E0202")
def carried_integer_literal(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    s = 0
    for i in range(3):
        s += x[i] * 0.5 + 0.25 * s + s * 1.5  # !
    y[thread] = s


@refused("E0203")
def sides_differ(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if x[thread] > 0.0:  # noqa: SIM108
        v = x[thread]
    else:
        v = thread
    y[thread] = v  # !


@refused("E0203")
def one_side_only(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if x[thread] > 0.0:
        v = x[thread]
    y[thread] = v  # !


@refused("E0203")
def loop_only(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in strided(N):
        v = x[i]
    y[thread] = v  # !


@refused("E0203")
def counter_after_loop(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in strided(N):
        y[i] = x[i]
    y[i] = 0.0  # !


@refused("E0203")
def list_length_differs(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    xs = [x[thread]]
    if x[thread] > 0.0:
        xs = [*xs, x[thread]]
    y[thread] = xs[0]  # !


@refused("E0203")
def choice_of_kinds(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = f32(x[thread] if thread > 3 else thread)  # !


@refused("E0204")
def list_as_value(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] + [1.0]  # !


@refused("E0204")
def none_as_value(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = None  # !


@refused("E0204")
def python_function_of_value(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = float(x[thread])  # !


@refused("E0204")
def truth_of_values(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 1.0 if any([x[thread] > 0.0]) else 0.0  # !


@refused("E0204")
def value_in_list(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 1.0 if thread in (1, 2) else 0.0  # !


@refused("E0204")
def lists_compared(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = 1.0 if [x[thread]] == [x[thread]] else 0.0  # !


@refused("E0205")
def second_name(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    a = [f32(0), f32(1)]
    b = a
    a[0] = x[thread]  # !
    y[thread] = b[0]


@refused("E0205")
def repeated_row(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    rows = [[f32(0)]] * 2
    rows[0][0] = x[thread]  # !
    y[thread] = rows[1][0]


@refused("E0205")
def grown_second_name(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    a = [x[thread]]
    b = a
    a += [x[thread]]  # !
    y[thread] = b[0]


@refused("E0206")
def float_condition(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if x[thread]:  # !
        y[thread] = 1.0


@refused("E0206")
def vector_condition(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if x[0:4].to(f32) > 0.0:  # !
        y[thread] = 1.0


@refused("E0207")
def run_time_list_index(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    xs = [x[thread], x[0]]
    y[thread] = xs[thread]  # !


@refused("E0207")
def run_time_length(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for i in unrolled(thread):  # !
        y[i] = 0.0


@refused("E0208")
def too_many_indices(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread, 0]  # !


@refused("E0208")
def float_index(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[x[thread]]  # !


@refused("E0208")
def constant_outside(x: In[f32, N], y: Out[f32, 64]):
    groups(1, threads=64)
    y[64] = x[0]  # !


@refused("E0209")
def whole_tensor_as_value(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[0 : thread + 1] + 1.0  # !


@refused("E0210")
def lengths_differ(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    v = x[0:4].to(f32) + x[0:2].to(f32)  # !
    y[thread] = v[0]


@refused("E0210")
def too_long(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    v = zeros(65, f32)  # !
    y[thread] = v[0]


@refused("E0210")
def empty_vector(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    v = vec([x[thread]] * 1)[0:0]  # !
    y[thread] = v[0]


@refused("E0211")
def shift_past_width(x: In[i32, N], y: Out[i32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] << 32  # !


@refused("E0211")
def negative_shift(x: In[i32, N], y: Out[i32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] >> -1  # !


@refused("E0211")
def shift_past_byte(x: In[u8, N], y: Out[u8, N]):
    groups(1, threads=64)
    y[thread] = x[thread] << i32(8)  # !


@refused("E0301")
def odd_threads(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=48)  # !
    y[thread] = x[thread]


@refused("E0302")
def load_before_launch(x: In[f32, N], y: Out[f32, N]):
    first = x[0]  # !
    groups(1, threads=64)
    y[thread] = first


@refused("E0302")
def launch_in_branch(x: In[f32, N], y: Out[f32, N]):
    if N > 3:
        groups(1, threads=64)  # !
    y[thread] = x[thread]


@refused("E0302")
def no_launch(x: In[f32, N], y: Out[f32, N]):
    require(N > 0)


@refused("E0302")
def requirement_on_data(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    require(x[0] > 0.0)  # !
    y[thread] = x[thread]


@refused("E0302")
def requirement_in_branch(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    if thread > 3:
        require(N > 3)  # !
    y[thread] = x[thread]


@refused("E0303")
def two_launches(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    each(N)  # !
    y[thread] = x[thread]


@refused("E0304")
def odd_width(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_sum(x[thread], width=12)  # !


@refused("E0304")
def partner_outside(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_xor(x[thread], 64)  # !


@refused("E0305")
def collective_in_each(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    y[i] = group_max(x[i])  # !


@refused("E0305")
def barrier_in_each(x: In[f32, N], y: Out[f32, N]):
    (i,) = each(N)
    barrier()  # !
    y[i] = x[i]


@refused("E0401")
def store_to_input(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    x[thread] = 1.0  # !


@refused("E0401")
def store_to_table(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    t = table((1, 2, 3), f32)
    t[0] = x[thread]  # !


@refused("E0403")
def shared_in_loop(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    for _ in range(2):
        s = shared(4, f32)  # !
        s[0] = x[thread]


@refused("E0405")
def atomic_on_float(x: In[f32, N], y: InOut[f32, N]):
    groups(1, threads=64)
    atomic_add(y, 0, x[thread])  # !


@refused("E0405")
def atomic_on_output(x: In[u32, N], y: Out[u32, N]):
    groups(1, threads=64)
    atomic_add(y, 0, x[thread])  # !


@refused("E0702")
def never_true(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    require(1 > 2, "one is less")  # !
    y[thread] = x[thread]


@refused("E0113")
def kernel_in_kernel(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    never_true(x, y)  # !


@refused("E0201")
def float_extent(x: In[f32, N], y: Out[f32, N]):
    groups(2.0, threads=64)  # !
    y[thread] = x[thread]


@refused("E0202")
def bool_plus_number(x: In[f32, N], y: Out[i32, N]):
    groups(1, threads=64)
    y[thread] = (x[thread] > 0.0) + 1  # !


@refused("E0202")
def dim_in_a_byte(x: In[u8, N], y: Out[u8, N]):
    groups(1, threads=64)
    y[thread] = x[thread] + N  # !


@refused("E0201")
def dot_of_integers(x: In[i32, N], y: Out[i32, N]):
    groups(1, threads=64)
    y[thread] = dot(x[0:4], x[0:4])  # !


@refused("E0113")
def reduction_returns_too_much(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_reduce(lambda a, b: (a, b), x[thread])  # !


@refused("E0113")
def reduction_of_a_captured_value(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    v = x[thread]
    y[thread] = group_reduce(lambda a, b: a + b * v, x[thread])  # !


@refused("E0113")
def reduction_that_stores(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_reduce(lambda a, b: a + x[0], x[thread])  # !


@refused("E0113")
def reduction_by_thread(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_reduce(lambda a, b: a if thread > 3 else b, x[thread])  # !


@refused("E0113")
def scan_units(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_scan(half, (0, 0), x[thread])  # !


@refused("E0204")
def collective_of_a_number(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = group_sum(1.0)  # !


@refused("E0201")
def power_of_values(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    y[thread] = x[thread] ** 3  # !


@refused("E0302")
def extent_of_data(x: In[f32, N], y: Out[f32, N]):
    (g,) = groups(cdiv(y.size, i32(thread)), threads=64)  # !
    y[g] = x[g]


@refused("E0207")
def threads_of_a_scalar(x: In[f32, N], y: Out[f32, N], s: Scalar[i32]):
    groups(1, threads=s)  # !
    y[thread] = x[thread]


@refused("E0210")
def full_of_a_vector(x: In[f32, N], y: Out[f32, N]):
    groups(1, threads=64)
    v = full(4, x[0:4].to(f32), f32)  # !
    y[thread] = v[0]


def marked_line(fn: Callable[..., Any], mark: str) -> int:
    """The first line below `fn`'s start that ends in `mark`; its first line when there is none."""
    first = fn.__code__.co_firstlineno
    file = fn.__code__.co_filename
    for line in range(first, first + 40):
        text = linecache.getline(file, line)
        if line > first + 1 and text.startswith(("@", "def ")):
            break
        if text.rstrip().endswith(mark):
            return line
    return 0


DTYPES = {f32: np.float32, f16: np.float16, i32: np.int32, u32: np.uint32, u8: np.uint8}


def argument(spec: Any) -> Any:
    """An argument that fits a declared parameter."""
    if spec.kind == "scalar":
        return 1
    return np.ones(64, DTYPES[spec.dtype])


@pytest.mark.parametrize(("id", "fn"), CASES, ids=lambda c: getattr(c, "name", c))
def test_refused(id: str, fn: KernelFunction):
    wrong = refusal(fn, **{n: argument(s) for n, s in fn.signature.items()})
    assert wrong.id == id, str(wrong)
    assert wrong.diagnostic.loc is not None
    line = marked_line(fn.fn, "# !")
    if line:
        assert wrong.diagnostic.loc.line == line
        assert linecache.getline(__file__, line).strip() in str(wrong)


def test_the_call_chain_is_shown():
    wrong = refusal(divided_in_helper, x=np.ones(64, np.float32), y=np.ones(64, np.float32))
    loc = wrong.diagnostic.loc
    assert loc is not None
    assert loc.line == marked_line(half.fn, "# !!")
    assert [c.line for c in loc.chain()] == [divided_in_helper.fn.__code__.co_firstlineno + 3]
    assert "called from test_refusals.py" in str(wrong)


def test_both_lines_of_a_broken_name_are_shown():
    wrong = refusal(sides_differ, x=np.ones(64, np.float32), y=np.ones(64, np.float32))
    branch = sides_differ.fn.__code__.co_firstlineno + 3
    assert f"the branch on line {branch}" in str(wrong)
    assert "`v` is f32 on one side" in str(wrong)


def test_the_next_legal_thread_count_is_printed():
    wrong = refusal(odd_threads, x=np.ones(64, np.float32), y=np.ones(64, np.float32))
    assert "the next legal value is 64" in str(wrong)


def test_every_id_is_in_the_catalogue():
    from iron.errors import CATALOGUE

    assert {id for id, _ in CASES} <= set(CATALOGUE)
    assert bool_.name == "bool"
    assert Const is not None
