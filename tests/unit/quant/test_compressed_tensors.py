"""Checkpoints of compressed-tensors: every width, order and age of packing, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from iron.errors import KernelError
from iron.quant.read_safetensors import read_safetensors
from tests.unit.quant.checkpoint import E4M3, write
from tests.unit.quant.test_read_safetensors import bits_along, codes, decoded, floats

RNG = np.random.default_rng(13)
N, K, G = 32, 96, 32


def config(*bits: int) -> dict:
    """A config with one group of settings for each width."""
    groups = {f"group_{i}": {"weights": {"num_bits": b}} for i, b in enumerate(bits)}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


def whole_words(q: np.ndarray, bits: int, axis: int) -> np.ndarray:
    """Codes in words of floor(32 / bits) whole codes along an axis, word by word."""
    q = np.moveaxis(q, axis, -1).astype(np.uint32)
    each = 32 // bits
    q = np.pad(q, ((0, 0), (0, -q.shape[1] % each))).reshape(len(q), -1, each)
    words = sum(q[..., i] << np.uint32(i * bits) for i in range(each))
    return np.ascontiguousarray(np.moveaxis(words.view(np.int32), -1, axis))


def packed(bits: int, asymmetric: bool, pack=bits_along) -> tuple[dict, np.ndarray, np.ndarray]:
    """A checkpoint of random codes; scales [N, K / G] and codes less zero points, both in f32."""
    q, z = codes(1 << bits, N, K), codes(1 << bits, N, K // G)
    s = floats(N, K // G).astype(np.float16)
    tensors = {
        "p.weight_packed": pack(q, bits, 1),
        "p.weight_scale": s,
        "p.weight_shape": np.array([N, K], np.int64),
    }
    if asymmetric:
        tensors["p.weight_zero_point"] = pack(z, bits, 0)
    zero = z.astype(np.float32) if asymmetric else np.full(z.shape, 1 << (bits - 1), np.float32)
    return tensors, s.astype(np.float32), np.stack([q.astype(np.float32), np.repeat(zero, G, 1)])


def expected(s: np.ndarray, q: np.ndarray, index: np.ndarray) -> np.ndarray:
    """s (q - z) with the group of each column by an index."""
    zero = q[1][:, ::G][:, index]
    return s[:, index] * (q[0] - zero)


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("asymmetric", [False, True])
def test_integers(tmp_path: Path, bits: int, asymmetric: bool):
    tensors, s, q = packed(bits, asymmetric)
    found, got = decoded(tmp_path, tensors, config(bits))
    assert found == (f"ct_pack_int{bits}_asym_g32" if asymmetric else f"int{bits}_sym_g32_f16")
    assert np.array_equal(got, expected(s, q, np.arange(K) // G))


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("asymmetric", [False, True])
def test_reordered_columns(tmp_path: Path, bits: int, asymmetric: bool):
    tensors, s, q = packed(bits, asymmetric)
    index = RNG.permutation(np.arange(K) // G).astype(np.int32)
    tensors["p.weight_g_idx"] = index
    found, got = decoded(tmp_path, tensors, config(bits))
    assert found == f"ct_pack_int{bits}_{'asym' if asymmetric else 'sym'}_g32_act"
    assert np.array_equal(got, expected(s, q, index))
    assert not np.array_equal(got, expected(s, q, np.arange(K) // G))


@pytest.mark.parametrize("index", [np.arange(K) // G, np.full(K, -1)], ids=["in order", "never"])
def test_an_index_that_changes_nothing(tmp_path: Path, index: np.ndarray):
    tensors, s, q = packed(4, False)
    tensors["p.weight_g_idx"] = index.astype(np.int32)
    found, got = decoded(tmp_path, tensors, config(4))
    assert found == "int4_sym_g32_f16"
    assert np.array_equal(got, expected(s, q, np.arange(K) // G))


@pytest.mark.parametrize("bits", [3, 5, 6, 7])
@pytest.mark.parametrize("asymmetric", [False, True])
def test_words_of_whole_codes(tmp_path: Path, bits: int, asymmetric: bool):
    tensors, s, q = packed(bits, asymmetric, whole_words)
    dense, *_ = packed(bits, asymmetric)
    assert tensors["p.weight_packed"].shape != dense["p.weight_packed"].shape
    _, got = decoded(tmp_path, tensors, config(bits))
    assert np.array_equal(got, expected(s, q, np.arange(K) // G))


def test_the_width_comes_from_the_group_that_fits(tmp_path: Path):
    tensors, s, q = packed(4, False)
    for held in (config(8, 4), None):
        found, got = decoded(tmp_path / str(held is None), tensors, held)
        assert found == "int4_sym_g32_f16"
        assert np.array_equal(got, expected(s, q, np.arange(K) // G))


def test_experts_are_stacked(tmp_path: Path):
    first, s, q = packed(4, True)
    second, s2, q2 = packed(4, True)
    tensors = {k: np.stack([first[k], second[k]]) for k in first if not k.endswith("shape")}
    tensors["p.weight_shape"] = np.array([2, N, K], np.int64)
    _, got = decoded(tmp_path, tensors, config(4))
    assert got.shape == (2, N, K)
    for e, (scale, code) in enumerate([(s, q), (s2, q2)]):
        assert np.array_equal(got[e], expected(scale, code, np.arange(K) // G))


@pytest.mark.parametrize("scale", [(N, 1), (N, 3), (1,)], ids=["row", "group", "tensor"])
def test_bytes_with_zero_points(tmp_path: Path, scale: tuple[int, ...]):
    w = RNG.integers(-128, 128, (N, K)).astype(np.int8)
    s, z = floats(*scale), RNG.integers(-128, 128, scale).astype(np.int8)
    tensors = {"p.weight": w, "p.weight_scale": s, "p.weight_zero_point": z}
    found, got = decoded(tmp_path, tensors)
    wide = K // scale[-1]
    s, z = (np.repeat(v.reshape(-1, scale[-1]).astype(np.float32), wide, 1) for v in (s, z))
    assert found == f"int8_zp_{'row' if scale[-1] == 1 else 'g32'}"
    assert np.array_equal(got, np.broadcast_to(s, got.shape) * (w.astype(np.float32) - z))
    tensors["p.weight_zero_point"] = np.zeros_like(tensors["p.weight_zero_point"])
    assert decoded(tmp_path, tensors)[0].startswith("int8_row" if wide == K else "int8_g32")


def faults() -> dict[str, tuple[dict, dict | None, str]]:
    """Case -> tensors, config, what the message must say."""
    plain = packed(4, False)[0]
    fp8 = {"p.weight": floats(4, 32).astype(E4M3), "p.weight_scale": floats(1)}
    stack = {
        "p.weight_packed": np.zeros((2, 3, 4), np.int32),
        "p.weight_scale": floats(2, 3, 1).astype(np.float16),
        "p.weight_zero_point": np.zeros((2, 1, 1), np.int32),
        "p.weight_shape": np.array([2, 3, 32], np.int64),
    }
    return {
        "index": (
            {**plain, "p.weight_g_idx": np.full(K, 3, np.int32)},
            config(4),
            r"tensor p.weight_g_idx, byte \d+: 96 indices for 96 columns in 3 groups",
        ),
        "negative": (
            {**plain, "p.weight_g_idx": np.arange(-1, K - 1, dtype=np.int32) // G},
            config(4),
            r"tensor p.weight_g_idx, byte \d+: 96 indices",
        ),
        "width": (plain, config(8), "12 words a row for K = 96 are not 8 bits"),
        "no width": (
            {**plain, "p.weight_shape": np.array([N, 8], np.int64)},
            None,
            r"12 words a row for K = 8 are not 1 to 8 bits",
        ),
        "shape": (
            {**plain, "p.weight_shape": np.array([N + 1, K], np.int64)},
            config(4),
            r"tensor p.weight_packed, byte \d+: .*the plane codes has shape",
        ),
        "fp8": (
            {**fp8, "p.weight_zero_point": np.ones(1, np.float32).astype(E4M3)},
            None,
            r"tensor p.weight_zero_point, byte \d+: a zero point of FP8 weights",
        ),
        "experts": (stack, config(4), r"tensor p.weight_zero_point, byte \d+: .* whole words"),
    }


@pytest.mark.parametrize("case", faults())
def test_a_bad_weight_is_named(tmp_path: Path, case: str):
    tensors, held, message = faults()[case]
    path = write(tmp_path, tensors, held)
    with pytest.raises(KernelError, match=message) as caught:
        read_safetensors(path).weight("p.weight")
    assert caught.value.id == "E0801"
    assert str(path) in str(caught.value)


def test_zero_points_of_small_floats_that_are_zero(tmp_path: Path):
    w = floats(4, 32).astype(E4M3)
    tensors = {"p.weight": w, "p.weight_scale": floats(1)}
    tensors["p.weight_zero_point"] = np.zeros(1, np.float32).astype(E4M3)
    _, got = decoded(tmp_path, tensors)
    assert np.array_equal(got, tensors["p.weight_scale"] * w.astype(np.float32))
