"""Edges of the kernels that their cases do not reach: nothing, one, special values, refusals."""

from typing import Any

import numpy as np
import pytest

import iron
from iron.errors import KernelError
from iron.kernels.gemm.qmv import qmv
from iron.kernels.kv_cache.kv_append import kv_append
from iron.kernels.norm.layer_norm import layer_norm
from iron.kernels.norm.rms_norm import rms_norm
from iron.kernels.ops.arg_reduce import arg_reduce
from iron.kernels.ops.binary import binary
from iron.kernels.ops.cast import cast
from iron.kernels.ops.logsumexp import logsumexp
from iron.kernels.ops.reduce import reduce
from iron.kernels.ops.scan import scan
from iron.kernels.ops.select import select
from iron.kernels.ops.unary import unary
from iron.kernels.primitives import threefry, unit_interval
from iron.kernels.quant.dequant_gather import dequant_gather
from iron.kernels.quant.quantize import quantize as quantize_op
from iron.kernels.rope.rope import rope, turns
from iron.kernels.sampling.categorical_sample import categorical_sample
from iron.kernels.sampling.softmax import softmax
from iron.lang import f16, f32, u8, u32
from iron.quant.encode import quantize
from iron.quant.format import by_name

INF, NAN = np.inf, np.nan


@pytest.fixture(autouse=True, params=["interp", "cpu"])
def road(request: pytest.FixtureRequest) -> Any:
    """The backend of the test."""
    with iron.use(request.param):
        yield request.param


def row(*values: float) -> Any:
    """One row of f32."""
    return np.array([values], np.float32)


def same(got: Any, *want: float) -> bool:
    """Equal bit for bit, NaN as one value."""
    held = np.array(want, np.float32)
    got = np.asarray(got).reshape(-1)
    zeros = np.signbit(got) == np.signbit(held)
    return bool(np.all((got == held) & zeros | np.isnan(got) & np.isnan(held)))


@pytest.mark.parametrize(
    ("op", "given", "want"),
    [
        ("sqrt", [-1.0, -0.0, INF], [NAN, -0.0, INF]),
        ("log", [0.0, -1.0, INF], [-INF, NAN, INF]),
        ("silu", [-INF, -1e30, INF], [-0.0, -0.0, INF]),
        ("gelu_erf", [-INF, INF, NAN], [-0.0, INF, NAN]),
        ("gelu_tanh", [-INF, INF, NAN], [-0.0, INF, NAN]),
        ("gelu_quick", [-INF, INF, NAN], [-0.0, INF, NAN]),
        ("sign", [NAN, -0.0, -3.0], [NAN, -0.0, -1.0]),
        ("round", [0.5, 1.5, -2.5], [0.0, 2.0, -2.0]),
        ("softplus", [-INF, 200.0, NAN], [0.0, 200.0, NAN]),
        ("sigmoid", [-INF, INF, NAN], [0.0, 1.0, NAN]),
        ("recip", [0.0, -0.0, INF], [INF, -INF, 0.0]),
        ("relu", [NAN, -1.0, 2.0], [NAN, 0.0, 2.0]),
        ("leaky_relu", [NAN, -100.0, 2.0], [NAN, -1.0, 2.0]),
        ("logical_not", [0.0, -0.0, NAN], [1.0, 1.0, 0.0]),
        ("erfinv", [-1.0, 1.0, 2.0], [-INF, INF, NAN]),
    ],
)
def test_special_values_of_unary(op: str, given: list[float], want: list[float]):
    assert same(unary(x=row(*given)[0], OP=op), *want)


@pytest.mark.parametrize(
    ("op", "given", "want"),
    [
        ("exp", [-INF, INF, NAN, 0.0], [0.0, INF, NAN, 1.0]),
        ("exp2", [-INF, INF, NAN, 3.0], [0.0, INF, NAN, 8.0]),
        ("silu", [-INF, -1e30, INF, NAN], [-0.0, -0.0, INF, NAN]),
        ("gelu_tanh", [-INF, -1e30, INF, NAN], [-0.0, -0.0, INF, NAN]),
        ("gelu_quick", [-INF, -1e30, INF, NAN], [-0.0, -0.0, INF, NAN]),
        ("sigmoid", [-INF, INF, NAN, 0.0], [0.0, 1.0, NAN, 0.5]),
        ("recip", [0.0, -0.0, INF, NAN], [INF, -INF, 0.0, NAN]),
        ("rsqrt", [0.0, -1.0, INF, NAN], [INF, NAN, 0.0, NAN]),
        ("erf", [-INF, INF, NAN, 0.0], [-1.0, 1.0, NAN, 0.0]),  # has no fast form
    ],
)
def test_special_values_of_fast_forms(op: str, given: list[float], want: list[float]):
    """In the body and, on fibres, in a GPU's own instructions."""
    assert same(unary(x=row(*given)[0], OP=op, MATH="fast"), *want)
    with iron.use("cuda-text"):
        assert same(unary(x=row(*given)[0], OP=op, MATH="fast"), *want)


@pytest.mark.parametrize("op", ["expm1", "log1p", "tanh", "erf", "asinh"])
def test_small_arguments_keep_their_digits(op: str):
    y = unary(x=np.array([1e-6, -1e-30], np.float32), OP=op)
    scale = 2 / np.sqrt(np.pi) if op == "erf" else 1.0
    assert np.allclose(y, np.array([1e-6, -1e-30]) * scale, rtol=2e-6, atol=0)


@pytest.mark.parametrize(
    ("op", "a", "b", "want"),
    [
        ("div", 1.0, 0.0, INF),
        ("div", 0.0, 0.0, NAN),
        ("pow", 0.0, 0.0, 1.0),
        ("pow", -2.0, 3.0, -8.0),
        ("pow", -2.0, 0.5, NAN),
        ("remainder", -5.0, INF, INF),
        ("remainder", 5.0, INF, 5.0),
        ("remainder", -5.0, 3.0, 1.0),
        ("remainder", 5.0, -3.0, -1.0),
        ("remainder", 1.0, 0.0, NAN),
        ("floor_div", -5.0, INF, -1.0),
        ("floor_div", 1.0, 0.1, 9.0),
        ("floor_div", -INF, 2.0, NAN),
        ("floor_div", 1.0, 0.0, INF),
        ("max", NAN, 1.0, NAN),
        ("min", 1.0, NAN, NAN),
        ("logaddexp", -INF, -INF, -INF),
        ("logaddexp", INF, INF, INF),
        ("logaddexp", 1000.0, -1000.0, 1000.0),
        ("atan2", 0.0, -1.0, np.pi),
    ],
)
def test_special_values_of_binary(op: str, a: float, b: float, want: float):
    assert same(binary(a=row(a), b=row(b), OP=op), want)


def test_a_selected_number_is_alone():
    y = select(c=np.array([1, 0], np.uint8), a=row(1, NAN)[0], b=row(NAN, 2)[0])
    assert same(y, 1.0, 2.0)


def test_conversions_saturate_and_round():
    x = np.array([300.0, -300.0, NAN, 1.9, -1.9, INF], np.float32)
    y = cast(x=x, y=np.zeros(6, np.int8))
    assert y.tolist() == [127, -128, 0, 1, -1, 127]
    edge = np.array([65504.0, 65519.0, 65520.0, 6e-8, 2.9e-8], np.float32)
    want = np.array([65504, 65504, INF, 6e-8, 0], np.float16)
    assert np.array_equal(cast(x=edge, TO=f16), want)


@pytest.mark.parametrize(
    ("op", "want"),
    [("sum", 0), ("sumsq", 0), ("any", 0), ("prod", 1), ("all", 1), ("max", -INF), ("min", INF)],
)
def test_reductions_of_nothing(op: str, want: float):
    assert same(reduce(x=np.zeros((2, 0), np.float32), OP=op), want, want)


def test_nothing_to_do_launches_nothing():
    assert reduce(x=np.zeros((0, 5), np.float32), OP="sum").shape == (0,)
    assert rms_norm(x=np.zeros((0, 8), np.float32), eps=1e-5).shape == (0, 8)
    assert unary(x=np.zeros(0, np.float32), OP="exp").shape == (0,)
    assert scan(x=np.zeros((2, 0), np.float32)).shape == (2, 0)


def test_arg_reduce_of_nothing_is_refused():
    with pytest.raises(KernelError, match="no greatest") as refused:
        arg_reduce(x=np.zeros((1, 0), np.float32))
    assert refused.value.id == "E0702"


def test_logsumexp_of_infinities():
    x = np.array([[-INF, -INF], [INF, 0], [-INF, 3]], np.float32)
    assert same(logsumexp(x=x), -INF, INF, 3.0)
    assert same(logsumexp(x=np.zeros((1, 0), np.float32)), -INF)


@pytest.mark.parametrize("kernel", [rms_norm, layer_norm])
def test_rows_of_one_and_of_zeros(kernel: Any):
    one = kernel(x=row(-3.0), eps=0.0 if kernel is rms_norm else 1e-5)
    assert same(one, -1.0 if kernel is rms_norm else 0.0)
    assert same(kernel(x=row(0, 0, 0), eps=1e-5), 0.0, 0.0, 0.0)


def test_rms_norm_of_large_f16():
    x = np.full((1, 64), 60000.0, np.float16)
    assert np.array_equal(rms_norm(x=x, eps=1e-5), np.ones((1, 64), np.float16))


def test_softmax_of_one_and_of_infinity():
    assert same(softmax(x=row(-7.0), scale=1.0), 1.0)
    assert same(softmax(x=row(-INF, 2.0), scale=1.0), 0.0, 1.0)
    assert same(softmax(x=row(-INF, -INF), scale=1.0), NAN, NAN)


def test_threefry_gives_the_published_answers():
    ones = 0xFFFFFFFF
    for key, counter, want in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((ones, ones), (ones, ones), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        got = threefry(tuple(map(u32, key)), tuple(map(u32, counter)))
        assert tuple(map(int, got)) == want
    assert float(unit_interval(u32(ones))) < 1.0


def sampled(x: Any, u: float, temperature: float = 1.0) -> int:
    """The token for one row and one number."""
    made = categorical_sample(x=x, u=np.array([u], np.float32), temperature=temperature)
    return int(made[0])


def test_draws_at_the_ends():
    x = row(-INF, NAN, 0.0, 0.0, -INF)
    assert sampled(x, 0.0) == 2
    assert sampled(x, 0.4999) == 2
    assert sampled(x, 0.5) == 3
    assert sampled(x, 1 - 2**-24) == 3
    assert sampled(row(1.0, INF, 5.0), 0.7) == 1
    assert sampled(row(7.0), 0.0) == 0
    with pytest.raises(KernelError, match="temperature must be positive"):
        sampled(x, 0.5, temperature=0.0)


def test_draws_follow_the_distribution(road: str):
    """chi-squared over 7 cells: 30 is beyond the 0.9999 quantile."""
    draws = 20000 if road == "cpu" else 2000
    logits = np.log(np.array([0.3, 0.2, 0.2, 0.1, 0.1, 0.06, 0.04])).astype(np.float32)
    key = np.array([11, 22, 0, 0], np.uint32)
    tokens = categorical_sample(x=np.tile(logits, (draws, 1)), key=key, temperature=1.0)
    expected = draws * np.exp(logits.astype(float))
    found = np.bincount(tokens, minlength=7)
    assert ((found - expected) ** 2 / expected).sum() < 30


def test_a_slot_beyond_the_cache_is_skipped():
    new = np.ones((2, 1, 4), np.float32)
    keys, values = np.zeros((1, 3, 4), np.float32), np.zeros((1, 3, 4), np.float32)
    position = np.array([3, 2], np.uint32)
    kv_append(key=new, value=new, position=position, keys=keys, values=values)
    assert keys[0].sum(1).tolist() == [0, 0, 4]
    kv_append(key=new, value=new, position=position, keys=keys, values=values, RING=True)
    assert values[0].sum(1).tolist() == [4, 0, 4]


def test_rope_keeps_lengths_and_turns_back():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(4, 2, 16)).astype(np.float32)
    position = np.array([0, 1, 77, 2**32 - 1], np.uint32)
    given = {"position": position, "frequency": turns(1e4 ** (-np.arange(8) / 8)), "scale": 1.0}
    y = rope(x=x, **given)
    assert np.array_equal(y[0], x[0])
    assert np.allclose(np.hypot(y[..., :8], y[..., 8:]), np.hypot(x[..., :8], x[..., 8:]), 1e-6)
    assert np.abs(rope(x=y, INVERSE=True, **given) - x).max() < 2e-6
    here = x.copy()
    rope(x=here, y=here, **given)
    assert np.array_equal(here, y)


def test_turns_are_fixed_point():
    half, quarter, more = turns([np.pi, np.pi / 2, 2 * np.pi + np.pi / 2])
    assert half.tolist() == [1 << 31, 0]
    assert quarter.tolist() == [1 << 30, 0]
    assert abs(int(more[0]) - (1 << 30)) <= 1
    assert turns([]).shape == (0, 2)


def test_a_head_too_small_for_its_pairs_is_refused():
    with pytest.raises(KernelError, match="at most D / 2 pairs"):
        rope(
            x=np.zeros((1, 1, 6), np.float32), position=np.zeros(1, np.uint32),
            frequency=turns(np.ones(4)), scale=1.0,
        )  # fmt: skip


def test_qmv_takes_eight_vectors_of_whole_chunks():
    w = quantize(np.ones((3, 64)), "gguf_q4_0")
    assert qmv(x=np.ones((8, 64), np.float32), w=w).shape == (8, 3)
    with pytest.raises(KernelError, match="at most 8 vectors"):
        qmv(x=np.ones((9, 64), np.float32), w=w)
    with pytest.raises(KernelError, match="multiple of the format's chunk"):
        qmv(x=np.ones((1, 20), np.float32), w=quantize(np.ones((3, 20)), "f32"))
    with pytest.raises(KernelError, match="K is"):
        qmv(x=np.ones((1, 32), np.float32), w=w)


@pytest.mark.parametrize(
    "name", ["mxfp4", "mxfp8_e4m3", "nvfp4", "gguf_iq4_nl", "int8_sym_row_f16"]
)
def test_qmv_and_dequant_gather_take_every_format(name: str):
    """The formats whose codes are no numbers in binary; their cases are those of the codec."""
    rng = np.random.default_rng(2)
    w = quantize(rng.normal(size=(5, 256)), name)
    dense, x = w.decode(), rng.normal(size=(1, 256)).astype(np.float32)
    rows = dequant_gather(w=w, idx=np.array([4, 0], np.uint32), T=f32)
    assert np.array_equal(rows, dense[[4, 0]])
    y = qmv(x=x, w=w)
    size = np.abs(x).astype(float) @ np.abs(dense).T
    assert (np.abs(y - x.astype(float) @ dense.T) <= 1e-6 * size).all()


def test_a_negative_and_a_zero_scale():
    w = quantize(np.tile(np.linspace(-9, 2, 64), (2, 1)), "mlx_int4_g64")
    x = np.random.default_rng(0).normal(size=(1, 64)).astype(np.float32)
    for change in (1.0, -1.0, 0.0):
        w.planes["scales"][...] = w.planes["scales"] * np.float16(change or 0)
        assert np.allclose(qmv(x=x, w=w), x.astype(float) @ w.decode().T.astype(float), atol=1e-4)


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_group_that_is_not_finite_says_so(bad: float):
    x = np.ones((1, 64), np.float32)
    x[0, 40] = bad
    codes, scales = quantize_op(x, FORMAT=by_name("mxfp4"), C=u32, S=u8)
    assert scales.tolist() == [[125, 255]]
    assert not codes[0, 4:].any()
    codes, scales = quantize_op(x, FORMAT=by_name("fp4_g32_f32"), C=u32, S=f32)
    assert np.isfinite(scales[0]).tolist() == [True, False]
    assert not codes[0, 4:].any()


def test_a_group_of_zeros_is_zero():
    for name, dtype, code in (
        ("mxfp4", u8, 127),
        ("fp4_g32_f32", f32, 1),
        ("int3_g64_f32", f32, 1),
    ):
        fmt = by_name(name)
        codes, scales = quantize_op(
            np.zeros((1, fmt.group), np.float32), FORMAT=fmt, C=u32, S=dtype
        )
        assert not codes.any()
        assert scales.tolist() == [[code]]


def test_lanes_that_share_lines_read_as_many_words_each():
    """Half of the words of a row of 512 would be read beyond its end."""
    rng = np.random.default_rng(5)
    w = quantize(rng.standard_normal((16, 512)).astype(np.float32), by_name("gguf_q4_1"))
    way: dict[str, Any] = {"WAY": "matrix", "TEAM": 32, "TEAMS": 1, "THREADS": 128, "ROWS": 32}
    with pytest.raises(KernelError, match="as many words of a row") as refused:
        qmv(np.ones((1, 512), np.float32), w, None, None, UNROLL=1, MATRIX=1, **way)
    assert refused.value.id == "E0702"
