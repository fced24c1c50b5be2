"""The sm_90a road in the machine whose asynchronous work ends as late as allowed, against numpy."""

import numpy as np
import pytest

from iron.dtypes import bf16, f16, f32, i8, i32, u8
from iron.ir.build import Builder
from iron.ir.core import Kernel, Op, Value
from iron.ir.floats8 import decoded
from iron.ir.rebuild import rebuild
from iron.tiles import protocol
from tests.unit.tiles import kernels
from tests.unit.tiles.machine import Deadlock, play

RNG = np.random.default_rng(5)


def run(fn, m, n, k, dtype=bf16, seed=0, **consts):
    """The output of a product and what it should be."""
    turned = fn is kernels.product_tn
    names = [p for p in fn.signature if p in ("b", "g", "u")]
    arrays = {"a": kernels.small(RNG, *((k, m) if turned else (m, k)), dtype=dtype)}
    for name in names:
        arrays[name] = kernels.small(RNG, *((k, n) if turned else (n, k)), dtype=dtype)
    arrays["c"] = kernels.empty(m, n, dtype=dtype)
    made = kernels.special(fn, arrays, **consts)
    groups = play(made, arrays, {"M": m, "N": n, "K": k}, seed=seed)
    a = arrays["a"].astype(np.float32)
    wide = [arrays[x].astype(np.float32) for x in names]
    found = [a.T @ x if turned else a @ x.T for x in wide]
    wanted = found[0] if len(found) == 1 else found[0] * found[1] + 1
    return groups, arrays["c"], wanted.astype(dtype.np)


@pytest.mark.parametrize("fn", [kernels.product_nt, kernels.product_tn, kernels.two_products])
@pytest.mark.parametrize(("m", "n", "k"), [(130, 72, 200), (1, 8, 8), (70, 136, 0), (65, 129, 321)])
def test_ragged_products(fn, m, n, k):
    _, got, wanted = run(fn, m, n, k)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("trips", [0, 1, 3, 7])
@pytest.mark.parametrize("persistent", [0, 2])
def test_rings_of_any_depth(stages, trips, persistent):
    consts = {"STAGES": stages, "PERSISTENT": persistent}
    groups, got, wanted = run(kernels.product_nt, 64, 192, 64 * trips, seed=trips, **consts)
    assert np.array_equal(got, wanted)
    assert groups == (persistent or 3)


@pytest.mark.parametrize(
    "consts",
    [
        {"BM": 128},
        {"BM": 128, "CONSUMERS": 1},
        {"BM": 192, "CONSUMERS": 3},
        {"BM": 128, "BN": 128, "BK": 128},
    ],
)
def test_consumers_and_shapes_of_tiles(consts):
    for fn in (kernels.product_nt, kernels.product_tn):
        _, got, wanted = run(fn, 200, 136, 200, dtype=f16, **consts)
        assert np.array_equal(got, wanted)


@pytest.mark.parametrize(
    ("fn", "consts"),
    [
        (kernels.product_nt, {"BM": 16}),
        (kernels.product_nt, {"BM": 32, "BN": 128, "BK": 128}),
        (kernels.product_nt, {"BM": 48, "BN": 128, "CONSUMERS": 1}),
        (kernels.product_nt, {"BM": 16, "BN": 256, "CONSUMERS": 4, "PERSISTENT": 2}),
        (kernels.product_tn, {"BM": 64, "BN": 128, "TRANSPOSED": 1}),
    ],
)
def test_few_rows_are_many_columns_of_the_transpose(fn, consts):
    _, got, wanted = run(fn, 70, 264, 136, **consts)
    assert np.array_equal(got, wanted)


@pytest.mark.parametrize(
    "consts", [{}, {"BM": 128, "BN": 32}, {"BM": 32, "BN": 128}, {"TRANSPOSED": 1}]
)
def test_epilogues(consts):
    """Vectors, matrices and masks beside the sums; writes of two dtypes, one without a buffer."""
    m, n, k = 130, 72, 72
    shapes = {"a": (m, k), "b": (n, k), "bias": (n,), "rest": (m, n)}
    arrays = {name: kernels.small(RNG, *shape) for name, shape in shapes.items()}
    arrays |= {"c": kernels.empty(m, n), "d": kernels.empty(m, n, dtype=f32)}
    made = kernels.special(kernels.epilogues, arrays, **consts)
    play(made, arrays, {"M": m, "N": n, "K": k}, {"s": 2.0})
    a, b, bias, rest = (arrays[x].astype(np.float32) for x in shapes)
    wanted = np.maximum(2 * (a @ b.T) + bias, 0) + rest
    assert np.array_equal(arrays["d"], wanted)
    above = np.arange(m)[:, None] <= np.arange(n)
    assert np.array_equal(arrays["c"], np.where(above, wanted, 7.0).astype(bf16.np))


@pytest.mark.parametrize(
    "consts", [{}, {"SIDES": (2, 4, 16)}, {"SIDES": (1, 16, 8), "BN": 128, "PERSISTENT": 2}]
)
def test_boxes_of_rows(consts):
    """Windows begin before the array, and end behind it; a consumer writes a part of its box."""
    p, m, n, d, out, side = 3, 13, 9, 72, 72, 3
    arrays = {"x": kernels.small(RNG, p, m, n, d), "w": kernels.small(RNG, out, side, side, d)}
    arrays["y"] = kernels.empty(p, m, n, out)
    made = kernels.special(kernels.convolution, arrays, **consts)
    play(made, arrays, {"P": p, "M": m, "N": n, "D": d, "L": out, "S": side})
    x, w = (arrays[name].astype(np.float32) for name in "xw")
    wide = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    wanted = sum(
        wide[:, r : r + m, s : s + n] @ w[:, r, s].T for r in range(side) for s in range(side)
    )
    assert np.array_equal(arrays["y"], wanted.astype(bf16.np))


@pytest.mark.parametrize("consts", [{}, {"BM": 32, "BN": 128}])
def test_gathers(consts):
    m, n, k, size = 70, 72, 72, 90
    arrays = {"a": kernels.small(RNG, m, k), "b": kernels.small(RNG, n, k)}
    arrays |= {"table": kernels.small(RNG, size, dtype=f32), "c": kernels.empty(m, n)}
    made = kernels.special(kernels.slanted, arrays, **consts)
    play(made, arrays, {"M": m, "N": n, "K": k, "L": size})
    a, b = (arrays[x].astype(np.float32) for x in "ab")
    at = 3 + np.arange(n) - np.arange(m)[:, None]
    there = (at >= 0) & (at < size) & (np.arange(n) != 5)
    wanted = a @ b.T + np.where(there, arrays["table"][np.clip(at, 0, size - 1)], 0)
    assert np.array_equal(arrays["c"], wanted.astype(bf16.np))


@pytest.mark.parametrize(
    ("dtype", "consts"),
    [
        (f32, {"MATH": "tf32"}),
        (f32, {"MATH": "tf32", "BM": 16, "BN": 128}),
        (i8, {"BK": 128, "BM": 128}),
        (u8, {"BK": 128, "TRANSPOSED": 1}),
        (u8, {"BK": 128, "MATH": "e4m3"}),
        (u8, {"BK": 128, "MATH": "e5m2", "BM": 32, "BN": 128}),
    ],
)
def test_other_factors(dtype, consts):
    """Small integers, or bytes that stand for small numbers."""
    m, n, k = 70, 136, 272
    floats = consts.get("MATH", "") if dtype is u8 else ""
    total = f32 if dtype is f32 or floats else i32
    held = kernels.BYTES[floats] if floats else dtype.np
    arrays = {x: kernels.small(RNG, s, k).astype(held) for x, s in (("a", m), ("b", n))}
    arrays = {x: v.view(np.uint8) if floats else v for x, v in arrays.items()}
    arrays["c"] = np.full((m, n), 7, total.np)
    made = kernels.special(kernels.other_factors, arrays, **consts)
    play(made, arrays, {"M": m, "N": n, "K": k})
    a, b = (decoded(arrays[x], floats) if floats else arrays[x].astype(np.int64) for x in "ab")
    assert np.array_equal(arrays["c"], (a @ b.T).astype(total.np))


def divided(m, n, k):
    """Rows of four parts, one of them empty and one not written; what no part uses is poison."""
    first, used = np.array([3, 3, 70, 75, m], np.uint32), np.array([5, n - 7, 0, n, 0], np.uint32)
    arrays = {"a": kernels.small(RNG, m, k), "b": kernels.small(RNG, n, k)}
    wanted = kernels.empty(m, n)
    a, b = (x.astype(np.float32) for x in arrays.values())
    for low, high, count in zip(first, first[1:], used, strict=False):
        wanted[low:high] = 0
        wanted[low:high, :count] = a[low:high] @ b[:count].T
    return arrays | {"first": first, "used": used, "c": kernels.empty(m, n)}, wanted


def endless(kernel: Kernel) -> Kernel:
    """Copies in and out that end where their tensor does."""

    def whole(b: Builder, op: Op, args: tuple[Value, ...]):
        *attrs, ended = op.attrs
        return b.emit_all(op.name, args[:-1], (*attrs, False)) if ended else None

    return rebuild(kernel, {"ring_copy": whole, "bulk_store": whole}, fold=False)


@pytest.mark.parametrize("consts", [{}, {"BM": 128, "BN": 128, "PERSISTENT": 3}])
def test_views_with_ends_of_their_own(consts):
    m, n, k = 140, 136, 72
    arrays, wanted = divided(m, n, k)
    made = kernels.special(kernels.parts, arrays, **consts)
    dims = {"M": m, "N": n, "K": k, "P": 5}
    play(made, arrays, dims)
    assert np.array_equal(arrays["c"], wanted, equal_nan=True)
    other = arrays | {"c": kernels.empty(m, n)}
    play(endless(made), other, dims)
    assert not np.array_equal(other["c"], wanted, equal_nan=True)


def softmax(q, k, v, scale, causal):
    """Attention in f64: the output, its log-sum-exp in powers of 2, and the size of its terms."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, len(q) // len(x), 0) for x in (k, v))
    score = q @ k.transpose(0, 2, 1) * scale
    s, n = score.shape[1:]
    if causal:
        score = np.where(np.arange(n) <= np.arange(s)[:, None] + n - s, score, -np.inf)
    weight = np.exp(score - score.max(-1, keepdims=True))
    norm = weight.sum(-1)
    lse = (score.max(-1) + np.log(norm)) / np.log(2)
    return weight @ v / norm[..., None], lse, weight @ abs(v) / norm[..., None]


@pytest.mark.parametrize(
    ("s", "n", "causal", "consts"),
    [
        (64, 64, False, {}),
        (70, 130, True, {"STAGES": 1}),
        (130, 200, False, {"PERSISTENT": 2}),
        (130, 130, True, {"PERSISTENT": 3, "BM": 128}),
        (100, 300, True, {"BN": 128, "HEAD": 128, "STAGES": 1}),
        (64, 64, False, {"OVERLAP": 1}),
        (130, 200, True, {"OVERLAP": 1, "PERSISTENT": 2}),
        (130, 130, True, {"OVERLAP": 1, "BM": 128, "STAGES": 1}),
        (130, 130, True, {"OVERLAP": 1, "BM": 128, "PINGPONG": 1, "PERSISTENT": 2}),
        (130, 200, False, {"BM": 128, "PINGPONG": 1, "STAGES": 1}),
        (70, 130, True, {"BM": 128, "HEAD": 256, "OVERLAP": 1}),
        (70, 130, True, {"BM": 128, "HEAD": 72, "OVERLAP": 1}),
    ],
)
def test_attention(s, n, causal, consts):
    head = consts.get("HEAD", 64)
    shapes = {"q": (2, s, head), "k": (1, n, head), "v": (1, n, head)}
    arrays = {x: RNG.normal(size=shape).astype(bf16.np) for x, shape in shapes.items()}
    arrays |= {"o": kernels.empty(2, s, head), "lse": kernels.empty(2, s, dtype=f32)}
    made = kernels.special(kernels.attention, arrays, CAUSAL=causal, **consts)
    scale = head**-0.5
    dims = {"H": 2, "G": 1, "S": s, "L": n, "D": head}
    play(made, arrays, dims, {"scale": scale})
    o, lse, terms = softmax(arrays["q"], arrays["k"], arrays["v"], scale, causal)
    step = 2.0**-8  # half a step of bf16: weights are rounded once, and so is the output
    assert (abs(arrays["o"].astype(np.float64) - o) <= 2 * step * terms + step * abs(o)).all()
    assert (abs(arrays["lse"] - lse) <= 2.0**-16 * (1 + abs(lse))).all()


# --- mutants --------------------------------------------------------------------------------------


def without(name: str, attrs: tuple | None = None):
    """Every op of that name gone."""

    def mutate(kernel: Kernel) -> Kernel:
        def gone(b: Builder, op: Op, args: tuple[Value, ...]):
            return () if attrs is None or op.attrs == attrs else None

        return rebuild(kernel, {name: gone}, fold=False)

    return mutate


def swapped(first: str, second: str):
    """The first op of one name and the next of the other change places."""

    def mutate(kernel: Kernel) -> Kernel:
        made = rebuild(kernel, fold=False)
        blocks = [made.body, *(r for op in made.body.walk() for r in op.regions)]
        for block in blocks:
            names = [op.name for op in block.ops]
            if first in names and second in names:
                i, j = names.index(first), names.index(second)
                block.ops[i], block.ops[j] = block.ops[j], block.ops[i]
                return made
        raise AssertionError("nothing to swap")

    return mutate


def nth(name: str, number: int):
    """The op of that name with this number gone."""

    def mutate(kernel: Kernel) -> Kernel:
        seen: list[Op] = []

        def gone(b: Builder, op: Op, args: tuple[Value, ...]):
            seen.append(op)
            return () if len(seen) == number + 1 else None

        return rebuild(kernel, {name: gone}, fold=False)

    return mutate


def patient(kernel: Kernel) -> Kernel:
    """One bulk store more may be under way."""

    def wait(b: Builder, op: Op, args: tuple[Value, ...]):
        pending, read = op.attrs
        return b.emit_all("bulk_wait", (), (pending + 1, read)) if read else None

    return rebuild(kernel, {"bulk_wait": wait}, fold=False)


MUTANTS = {
    "no wait for a slot": (without("ring_wait"), "before its slot is full", True),
    "no wait for products": (without("wgmma_wait"), "freed while a product reads", True),
    "free before the wait": (swapped("wgmma_wait", "ring_free"), "freed while", True),
    "no free": (without("ring_free"), "not freed", True),
    "no claim": (without("ring_claim"), "without a claim", True),
    "a part is not filled": (nth("ring_copy", 1), "not filled", True),
    "copy before the claim": (swapped("ring_claim", "ring_copy"), "without a claim", False),
    "no barrier after the ring": (without("barrier"), "its first use", False),
    "no proxy fence": (without("fence_async"), "no fence", False),
    "no barrier before the store": (nth("part_barrier", 1), "no barrier", False),
    "no barrier after the wait": (nth("part_barrier", 0), "may read it", False),
    "no wait for the buffer": (without("bulk_wait", (0, True)), "may read it", True),
    "a wait too short": (patient, "may read it", True),
    "no wait at the end": (without("bulk_wait", (0, False)), "the group ends", True),
}
"""What is broken, what the verifier says, and whether the machine notices as well."""


@pytest.fixture(scope="module")
def sound():
    rng = np.random.default_rng(1)
    arrays = {"a": kernels.small(rng, 64, 256), "b": kernels.small(rng, 192, 256)}
    arrays["c"] = kernels.empty(64, 192)
    return arrays, kernels.special(kernels.product_nt, arrays, STAGES=2, PERSISTENT=1, BN=64)


def test_a_sound_kernel_has_no_fault(sound):
    assert protocol.faults(sound[1]) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_the_verifier_kills(name, sound):
    mutate, message, _ = MUTANTS[name]
    found = protocol.faults(mutate(sound[1]))
    assert any(message in f for f in found), found


def hasty(pending: int):
    """Waits for products that wait for one less."""

    def mutate(kernel: Kernel) -> Kernel:
        def wait(b: Builder, op: Op, args: tuple[Value, ...]):
            return b.emit_all("wgmma_wait", (), (pending + 1,)) if op.attrs[0] == pending else None

        return rebuild(kernel, {"wgmma_wait": wait}, fold=False)

    return mutate


@pytest.mark.parametrize("pending", [0, 1])
def test_a_wait_for_one_product_less_is_seen(pending):
    """Where products of two turns overlap, one runs on behind what is computed."""
    shapes = {"q": (1, 64, 64), "k": (1, 192, 64), "v": (1, 192, 64)}
    arrays = {x: RNG.normal(size=shape).astype(bf16.np) for x, shape in shapes.items()}
    arrays |= {"o": kernels.empty(1, 64, 64), "lse": kernels.empty(1, 64, dtype=f32)}
    sound = kernels.special(kernels.attention, arrays, OVERLAP=1)
    assert protocol.faults(sound) == []
    mutant = hasty(pending)(sound)
    assert any("before its products are awaited" in f for f in protocol.faults(mutant))
    dims = {"H": 1, "G": 1, "S": 64, "L": 192, "D": 64}
    play(sound, arrays, dims, {"scale": 0.1})
    other = arrays | {"o": kernels.empty(1, 64, 64)}
    try:
        play(mutant, other, dims, {"scale": 0.1})
    except AssertionError:
        return
    assert not np.array_equal(other["o"], arrays["o"])


@pytest.mark.parametrize("name", [n for n, m in MUTANTS.items() if m[2]])
def test_the_machine_kills(name, sound):
    arrays, kernel = sound
    wanted = (arrays["a"].astype(np.float32) @ arrays["b"].astype(np.float32).T).astype(bf16.np)
    mutant = MUTANTS[name][0](kernel)

    def survives(seed: int) -> bool:
        c = kernels.empty(64, 192)
        try:
            play(mutant, {**arrays, "c": c}, {"M": 64, "N": 192, "K": 256}, seed=seed)
        except (Deadlock, AssertionError):
            return False
        return np.array_equal(c, wanted)

    assert not all(survives(seed) for seed in range(4))
