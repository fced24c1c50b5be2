"""Checkpoints in every dialect give the weights of their definition; bad ones are named."""

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy

from iron.errors import KernelError
from iron.quant.encode import quantize
from iron.quant.encode.nearest import NF4
from iron.quant.read_safetensors import read_safetensors
from tests.unit.quant.checkpoint import E4M3, E5M2, E8M0, write

RNG = np.random.default_rng(12)
BF16 = ml_dtypes.bfloat16


def floats(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def codes(top: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, top, shape).astype(np.uint8)


def decoded(folder: Path, tensors: dict, config: dict | None = None, name: str = "p.weight"):
    """The weight of a written checkpoint, its format and values."""
    weight = read_safetensors(write(folder, tensors, config)).weight(name)
    return weight.fmt.name, weight.decode()


def adjacent(q: np.ndarray) -> np.ndarray:
    """Two nibbles a byte, the earlier one low."""
    return q[..., ::2] | (q[..., 1::2] << 4)


def e2m1(q: np.ndarray) -> np.ndarray:
    return q.view(ml_dtypes.float4_e2m1fn).astype(np.float32)


def bits_along(q: np.ndarray, bits: int, axis: int) -> np.ndarray:
    """Codes as u32 words of a bit stream along an axis, bit by bit."""
    q = np.moveaxis(q, axis, -1)
    spread = (q[..., None] >> np.arange(bits)) & 1
    flat = spread.reshape(*q.shape[:-1], -1).astype(np.uint8)
    words = np.ascontiguousarray(np.packbits(flat, axis=-1, bitorder="little")).view("<i4")
    return np.ascontiguousarray(np.moveaxis(words, -1, axis))


def test_modelopt_nvfp4(tmp_path: Path):
    q, s, g = codes(16, 6, 64), np.abs(floats(6, 4)).astype(E4M3), np.float32(0.25)
    tensors = {"p.weight": adjacent(q), "p.weight_scale": s, "p.weight_scale_2": g}
    name, got = decoded(tmp_path, {k: np.asarray(v) for k, v in tensors.items()})
    want = (np.repeat(s.astype(np.float32), 16, 1) * g) * e2m1(q)
    assert name == "nvfp4"
    assert np.array_equal(got, want)


def test_deepseek_mxfp4(tmp_path: Path):
    q, s = codes(16, 6, 64), RNG.integers(110, 140, (6, 2)).astype(np.uint8)
    tensors = {"p.weight": adjacent(q).view(np.int8), "p.scale": s.view(E8M0)}
    name, got = decoded(tmp_path, tensors, {"quant_method": "fp8"})
    assert name == "mxfp4"
    assert np.array_equal(got, np.repeat(np.exp2(s.astype(np.float32) - 127), 32, 1) * e2m1(q))


@pytest.mark.parametrize("kind", [E4M3, E5M2])
@pytest.mark.parametrize(
    ("scale", "name"),
    [
        (floats(1), "tensor"),
        (np.float32(3), "tensor"),
        (floats(5, 1), "row"),
        (floats(5), "row"),
        (floats(5, 1).astype(BF16), "row"),
    ],
    ids=["one", "scalar", "column", "flat", "bf16"],
)
def test_fp8_by_row_and_tensor(tmp_path: Path, kind, scale, name):
    w = floats(5, 48).astype(kind)
    tensors = {"p.weight": w, "p.weight_scale": np.asarray(scale)}
    found, got = decoded(tmp_path, tensors)
    assert found == f"fp8_{'e4m3' if kind is E4M3 else 'e5m2'}_{name}"
    wide = np.asarray(scale, np.float32).reshape(-1, 1)
    assert np.array_equal(got, wide * w.astype(np.float32))


@pytest.mark.parametrize("power", [False, True])
def test_fp8_tiles_with_partial_edges(tmp_path: Path, power: bool):
    w = floats(200, 300).astype(E4M3)
    s = np.exp2(RNG.integers(-3, 3, (2, 3))).astype(np.float32)
    held = s.astype(E8M0) if power else s
    suffix = "scale" if power else "weight_scale_inv"
    config = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found, got = decoded(tmp_path, {"p.weight": w, f"p.{suffix}": held}, config)
    assert found == f"fp8_e4m3_b128_{'e8m0' if power else 'f32'}"
    wide = np.repeat(np.repeat(s, 128, 0), 128, 1)[:200, :300]
    assert np.array_equal(got, wide * w.astype(np.float32))


def test_mxfp8_is_never_read_by_value(tmp_path: Path):
    w, s = floats(4, 64).astype(E4M3), np.full((4, 2), 120, np.uint8)
    found, got = decoded(tmp_path, {"p.weight": w, "p.weight_scale": s.view(E8M0)})
    assert found == "mxfp8_e4m3"
    assert np.array_equal(got, w.astype(np.float32) / 128)


@pytest.mark.parametrize(("scale", "name"), [((6, 1), "row"), ((6, 2), "g32"), ((1,), "row")])
def test_int8(tmp_path: Path, scale: tuple[int, ...], name: str):
    w, s = RNG.integers(-128, 128, (6, 64)).astype(np.int8), floats(*scale)
    found, got = decoded(tmp_path, {"p.weight": w, "p.weight_scale": s})
    wide = np.repeat(s.reshape(-1, scale[-1]), 64 // scale[-1], 1)
    assert found == f"int8_{name}_f32"
    assert np.array_equal(got, wide * w.astype(np.float32))


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("act", [False, True])
def test_gptq(tmp_path: Path, bits: int, version: int, act: bool):
    k, n, group = 128, 32, 32
    q, z, s = codes(1 << bits, k, n), codes(1 << bits, 4, n), floats(4, n).astype(np.float16)
    index = np.arange(k) // group
    index = RNG.permutation(index) if act else index
    tensors = {
        "p.qweight": bits_along(q, bits, 0),
        "p.qzeros": bits_along(z, bits, 1),
        "p.scales": s,
        "p.g_idx": index.astype(np.int32),
    }
    config = {"quant_method": "gptq"}
    config |= {"checkpoint_format": "gptq_v2"} if version == 2 else {}
    found, got = decoded(tmp_path, tensors, config)
    zero = z.astype(np.float32) + (version == 1)
    want = s.astype(np.float32)[index] * (q.astype(np.float32) - zero[index])
    assert found == f"gptq_int{bits}_v{version}_g32{'_act' * act}"
    assert np.array_equal(got, want.T)


def test_awq(tmp_path: Path):
    k, n, order = 128, 24, [0, 2, 4, 6, 1, 3, 5, 7]
    q, z, s = codes(16, k, n), codes(16, 2, n), floats(2, n).astype(np.float16)

    def packed(c: np.ndarray) -> np.ndarray:
        eights = c.reshape(len(c), -1, 8)[..., order].astype(np.uint32)
        return (eights << (4 * np.arange(8, dtype=np.uint32))).sum(-1).astype(np.uint32)

    tensors = {
        "p.qweight": packed(q).view(np.int32),
        "p.qzeros": packed(z).view(np.int32),
        "p.scales": s,
    }
    found, got = decoded(tmp_path, tensors, {"quant_method": "awq", "version": "GEMM"})
    wide = np.repeat(s.astype(np.float32), 64, 0)
    want = wide * (q.astype(np.float32) - np.repeat(z, 64, 0).astype(np.float32))
    assert found == "awq_int4_g64"
    assert np.array_equal(got, want.T)


def bitsandbytes(n: int, k: int, block: int, nested: bool) -> tuple[dict, np.ndarray]:
    q = codes(16, n * k)
    book = np.array(NF4, np.float32)
    blocks = -(-n * k // block)
    tensors = {
        "p.weight": ((q[::2] << 4) | q[1::2]).reshape(-1, 1),
        "p.weight.quant_map": book,
    }
    state = {"blocksize": block, "shape": [n, k], "dtype": "bfloat16"}
    if nested:
        level, table, outer = codes(256, blocks), floats(256), np.abs(floats(-(-blocks // 256)))
        state["nested_offset"] = 0.125
        tensors |= {"p.weight.absmax": level, "p.weight.nested_absmax": outer}
        tensors["p.weight.nested_quant_map"] = table
        absmax = table[level] * np.repeat(outer, 256)[:blocks] + np.float32(0.125)
    else:
        absmax = np.abs(floats(blocks))
        tensors["p.weight.absmax"] = absmax
    raw = np.frombuffer(json.dumps(state).encode(), np.uint8)
    tensors["p.weight.quant_state.bitsandbytes__nf4"] = raw
    return tensors, (book[q] * np.repeat(absmax, block)[: n * k]).reshape(n, k)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize(("k", "block"), [(128, 64), (96, 64), (256, 128), (40, 64)])
def test_bitsandbytes(tmp_path: Path, k: int, block: int, nested: bool):
    tensors, want = bitsandbytes(48, k, block, nested)
    found, got = decoded(tmp_path, tensors)
    assert found.startswith("bnb_nf4")
    assert np.array_equal(got, want)


@pytest.mark.parametrize("bits", [8, 4, 3, 2, 1])
def test_hqq(tmp_path: Path, bits: int):
    n, k, group = 16, 96, 32
    q, s, z = codes(1 << bits, n * k // group, group), floats(48, 1), floats(48, 1)
    cells = 10 if bits == 3 else 8 // bits
    kind = np.int32 if bits == 3 else np.uint8
    padded = np.zeros((-(-len(q) // cells) * cells, group), kind)
    padded[: len(q)] = q
    parts = padded.reshape(cells, -1, group)
    packed = np.zeros(parts.shape[1:], kind)
    for i, part in enumerate(parts):
        packed |= part << kind(bits * (cells - 1 - i))
    tensors = {"p.W_q": packed, "p.scale": s, "p.zero": z, "p.nbits": np.array([bits], np.int32)}
    tensors["p.shape"] = np.array([n, k], np.int64)
    found, got = decoded(tmp_path, tensors, {"quant_method": "hqq"})
    assert found == f"hqq_int{bits}_g32"
    assert np.array_equal(got, (s * (q.astype(np.float32) - z)).reshape(n, k))


def test_bitnet(tmp_path: Path):
    q, s = codes(3, 8, 64), np.array([3.0], np.float32)
    packed = q[:2] | (q[2:4] << 2) | (q[4:6] << 4) | (q[6:] << 6)
    found, got = decoded(
        tmp_path, {"p.weight": packed, "p.weight_scale": s}, {"quant_method": "bitnet"}
    )
    assert found == "bitnet"
    assert np.array_equal(got, (q.astype(np.float32) - 1) / s)


def test_gemma(tmp_path: Path):
    q, s = codes(16, 8, 64), floats(8, 1)
    tensors = {"p.weight": adjacent(q), "p.weight_scale": s}
    found, got = decoded(tmp_path, tensors, {"quant_method": "gemma", "bits": 4})
    assert found == "int4_sym_row_f32"
    assert np.array_equal(got, s * (q.astype(np.float32) - 8))


def test_mlx_layers_may_differ_and_experts_are_stacked(tmp_path: Path):
    held = quantize(floats(3, 4, 128), "mlx_int4_g64")
    wide = quantize(floats(4, 128), "mlx_int8_g32")
    tensors = {}
    for stem, weight, lead in (("p", held, (3, 4)), ("q", wide, (4,))):
        for plane, suffix in (("codes", "weight"), ("scales", "scales"), ("biases", "biases")):
            plane_of = weight.planes[plane]
            words = plane_of.view("<u4") if plane == "codes" else plane_of
            tensors[f"{stem}.{suffix}"] = words.reshape(*lead, -1)
    config = {"group_size": 64, "bits": 4, "q": {"group_size": 32, "bits": 8}}
    file = read_safetensors(write(tmp_path, tensors, config))
    assert file.weight("p.weight").shape == (3, 4, 128)
    assert np.array_equal(file.weight("p.weight").decode(), held.decode())
    assert file.weight("q.weight").fmt.name == "mlx_int8_g32"
    assert np.array_equal(file.weight("q.weight").decode(), wide.decode())


def test_files_of_the_safetensors_package(tmp_path: Path):
    tensors = {"a.weight": floats(3, 5), "b": floats(7).astype(np.float16), "c": np.arange(4)}
    safetensors.numpy.save_file(tensors, tmp_path / "x.safetensors", {"format": "pt"})
    file = read_safetensors(tmp_path / "x.safetensors")
    for name, held in tensors.items():
        assert np.array_equal(file.array(name), held)
    assert file.metadata == {"format": "pt"}
    assert np.array_equal(file.weight("a.weight").decode(), tensors["a.weight"])
    assert file.others() == ["c", "b"] or set(file.others()) == {"b", "c"}
    assert not file.array("b").flags.writeable


def test_shards_and_folders(tmp_path: Path):
    first, second = floats(2, 4), floats(2, 4)
    write(tmp_path, {"a.weight": first}).rename(tmp_path / "one.safetensors")
    write(tmp_path, {"b.weight": second}).rename(tmp_path / "two.safetensors")
    names = {"a.weight": "one.safetensors", "b.weight": "two.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    for path in (tmp_path, index):
        file = read_safetensors(path)
        assert np.array_equal(file.weight("b.weight").decode(), second)
        assert np.array_equal(file.weight("a.weight").decode(), first)
    names["b.weight"] = "missing.safetensors"
    index.write_text(json.dumps({"weight_map": names}))
    with pytest.raises(KernelError, match=r"missing\.safetensors: No such file"):
        read_safetensors(tmp_path)


GPTQ = {
    "p.qweight": np.zeros((8, 32), np.int32),
    "p.qzeros": np.zeros((2, 4), np.int32),
    "p.scales": np.ones((2, 32), np.float16),
}
MLX = ("p.weight", "p.scales", "p.biases")
FAULTS = {
    "scale is missing": (
        {"p.weight": floats(2, 32).astype(E4M3)},
        {},
        "scale tensor .* is missing",
    ),
    "no scales": ({"p.weight": np.zeros((2, 8), np.uint32)}, {}, "is no weight without p.scales"),
    "GPTQ zeros": (
        {"p.qweight": np.zeros((8, 32), np.int32), "p.scales": np.ones((2, 32), np.float16)},
        {"quant_method": "gptq"},
        r"tensor p.qweight, byte \d+: I32 \[8, 32\] is no weight without p.qzeros",
    ),
    "packed": (
        {"p.weight_packed": np.zeros((8, 8), np.int32)},
        {},
        r"tensor p.weight_packed, byte \d+: .* without p.weight_scale",
    ),
    "shape": (
        {"p.weight": floats(8, 64).astype(E4M3), "p.weight_scale_inv": floats(3, 3)},
        {"quant_method": "fp8", "weight_block_size": [4, 32]},
        r"tensor p.weight_scale_inv, byte \d+: a scale of shape \[3, 3\] does not tile",
    ),
    "group": (
        {
            "p.weight": np.zeros((2, 9), np.uint32),
            "p.scales": floats(2, 2),
            "p.biases": floats(2, 2),
        },
        {"group_size": 48},
        "needs the format mlx_int3_g48",
    ),
    "marlin": (GPTQ, {"quant_method": "gptq", "checkpoint_format": "marlin"}, "layout marlin"),
    "gptq_p": (GPTQ, {"quant_method": "gptq", "checkpoint_format": "gptq_p"}, "layout gptq_p"),
    "index": (
        {**GPTQ, "p.g_idx": np.full(64, 5, np.int32)},
        {"quant_method": "gptq"},
        "64 indices for 64 columns in 2 groups",
    ),
    "gemv": (
        {**GPTQ, "p.qweight": np.zeros((64, 4), np.int32)},
        {"quant_method": "awq", "version": "gemv"},
        "AWQ layout gemv",
    ),
    "zeros": (
        {**GPTQ, "p.qzeros": np.zeros((3, 4), np.int32)},
        {"quant_method": "gptq"},
        r"tensor p.qweight, byte \d+: .*the plane qzeros has shape \(3, 4\)",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_bad_weight_is_named(tmp_path: Path, case: str):
    tensors, config, message = FAULTS[case]
    path = write(tmp_path, tensors, config)
    file = read_safetensors(path)
    with pytest.raises(KernelError, match=message) as caught:
        file.weight("p.weight")
    assert caught.value.id == "E0801"
    assert str(path) in str(caught.value)
    assert "byte" in str(caught.value)


def test_a_quantisation_state_that_is_none(tmp_path: Path):
    tensors, _ = bitsandbytes(4, 64, 64, False)
    tensors["p.weight.quant_state.bitsandbytes__nf4"] = np.zeros(4, np.uint8)
    with pytest.raises(KernelError, match="not a quantisation state"):
        read_safetensors(write(tmp_path, tensors)).weight("p.weight")
    del tensors["p.weight.quant_state.bitsandbytes__nf4"]
    with pytest.raises(KernelError, match=r"quantisation state .* is missing"):
        read_safetensors(write(tmp_path, tensors)).weight("p.weight")


def header(record: dict) -> bytes:
    text = json.dumps(record).encode()
    return len(text).to_bytes(8, "little") + text


ONE = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BAD = {
    "empty": (b"", "the file is empty"),
    "short": (b"abc", "byte 0: needs 8 bytes"),
    "length": ((1 << 40).to_bytes(8, "little") + b"{}", "the header claims"),
    "json": ((2).to_bytes(8, "little") + b"{]", "byte 8: the header is not JSON"),
    "list": ((2).to_bytes(8, "little") + b"[]", "not an object"),
    "twice": (
        (37).to_bytes(8, "little") + b'{"a":{"dtype":"F32"},"a":{"dtype":0}}',
        "a key appears twice",
    ),
    "record": (header({"a": {"dtype": "F32"}}), "tensor a, byte 8: not a record"),
    "dtype": (header({"a": {**ONE, "dtype": "F7"}}) + bytes(8), "the dtype F7 is unknown"),
    "size": (header({"a": {**ONE, "shape": [3]}}) + bytes(8), r"F32 \[3\] takes 12 bytes"),
    "negative": (header({"a": {**ONE, "shape": [-2, -1]}}) + bytes(8), "takes 8 bytes"),
    "truncated": (header({"a": ONE}) + bytes(7), "tensor a, byte .*the file ends at"),
    "tail": (header({"a": ONE}) + bytes(9), "1 bytes after the last tensor"),
    "overlap": (header({"a": ONE, "b": ONE}) + bytes(8), "a gap or an overlap"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_named(tmp_path: Path, case: str):
    raw, message = BAD[case]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(raw)
    with pytest.raises(KernelError, match=message) as caught:
        read_safetensors(path)
    assert caught.value.id == "E0801"
    assert str(path) in str(caught.value)


def test_a_bad_config_is_named(tmp_path: Path):
    write(tmp_path, {"a": floats(2, 2)})
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(KernelError, match=r"config\.json: not JSON"):
        read_safetensors(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(KernelError, match="holds no safetensors file"):
        read_safetensors(tmp_path / "empty")
