"""Foreign bytes decode to the foreign values, and our encoders write them by their stated rule."""

from pathlib import Path

import numpy as np
import pytest

from iron.lang import u32
from iron.quant.codec import element as bodies
from iron.quant.encode import encode, quantize
from iron.quant.encode.minifloat import element
from iron.quant.format import Elem, Encode, by_name
from iron.quant.pack import pack, unpack
from iron.quant.tensor import QTensor
from tests.unit.quant.foreign import options, rotation, tensor
from tests.unit.quant.goldens import Golden, goldens

CASES = list(goldens().values())
TABLES = [g for g in CASES if g.kind == "element_table"]
ELEMENTS = [g for g in CASES if g.kind == "element_encode"]
PACKED = [g for g in CASES if g.kind == "bitpack"]
AURA = [g for g in CASES if g.format.startswith("aura")]
DECODE = [g for g in CASES if g.kind in ("decode", "encode_decode") and g not in AURA]
EXACT = [g for g in CASES if g.kind in ("encode_exact", "encode_decode")]
QUALITY = [g for g in CASES if g.kind == "encode_quality"]
ELEM = {
    "float4_e2m1fn": Elem.E2M1,
    "float6_e2m3fn": Elem.E2M3,
    "float6_e3m2fn": Elem.E3M2,
    "float8_e4m3fn": Elem.E4M3,
    "float8_e5m2": Elem.E5M2,
}


def test_every_golden_has_a_test():
    tested = [*TABLES, *ELEMENTS, *PACKED, *AURA, *DECODE, *EXACT, *QUALITY]
    assert {g.id for g in tested} == set(goldens())
    assert len(CASES) >= 87


@pytest.mark.parametrize("golden", TABLES, ids=lambda g: g.id)
def test_the_value_of_every_code(golden: Golden):
    codes = u32(golden.tensors["codes"])
    decoders = {
        "float4_e2m1fn": lambda c: bodies.minifloat(c, 2, 1, 1),
        "float6_e2m3fn": lambda c: bodies.minifloat(c, 2, 3, 1),
        "float6_e3m2fn": lambda c: bodies.minifloat(c, 3, 2, 3),
        "float8_e4m3fn": bodies.e4m3,
        "float8_e5m2": bodies.e5m2,
        "float8_e8m0fnu": bodies.e8m0,
    }
    golden.check(decoders[golden.format](codes))


@pytest.mark.parametrize("golden", ELEMENTS, ids=lambda g: g.id)
def test_the_nearest_code(golden: Golden):
    got = element(ELEM[golden.format], golden.input)
    assert np.array_equal(got, golden.tensors["codes"])


@pytest.mark.parametrize("golden", PACKED, ids=lambda g: g.id)
def test_bit_streams(golden: Golden):
    bits, words = golden.params["bits"], golden.tensors["packed"].view(np.uint32)
    codes = unpack(words, bits, golden.decoded["shape"][1])
    golden.check(codes.astype(np.float32) - golden.params["offset"])
    assert np.array_equal(pack(codes, bits), words)


@pytest.mark.parametrize("golden", DECODE, ids=lambda g: g.id)
def test_decodes_to_the_foreign_values(golden: Golden, tmp_path: Path):
    got = tensor(golden, tmp_path).decode()
    transposed = golden.format.startswith(("gptq", "awq"))
    golden.check(got.T if transposed else got)


@pytest.mark.parametrize("golden", EXACT, ids=lambda g: g.id)
def test_encodes_to_the_foreign_bytes(golden: Golden, tmp_path: Path):
    theirs = tensor(golden, tmp_path)
    w = golden.input.reshape(theirs.shape)
    mine = encode(theirs.fmt, w, options(golden))
    assert mine.keys() == theirs.planes.keys()
    for name, plane in theirs.planes.items():
        if golden.format.startswith("aura") and name == "scales":
            assert np.allclose(mine[name], plane, rtol=1e-6)
        else:
            assert np.array_equal(mine[name], plane), name


@pytest.mark.parametrize("golden", QUALITY, ids=lambda g: g.id)
def test_encodes_as_well_as_the_reference(golden: Golden, tmp_path: Path):
    fmt = by_name(golden.format)
    theirs = tensor(golden, tmp_path).decode()
    assert rmse(theirs, golden.input) == pytest.approx(golden.rmse, rel=1e-5)
    if fmt.encode is Encode.DECODE_ONLY:
        assert "neighbour tables" in fmt.reason
        return
    assert rmse(quantize(golden.input, fmt).decode(), golden.input) <= 1.10 * golden.rmse


def rmse(a: np.ndarray, b: np.ndarray) -> float:
    """Root of the mean square difference."""
    return float(np.sqrt(np.mean((a.astype(np.float64) - b) ** 2)))


@pytest.mark.parametrize("golden", AURA, ids=lambda g: g.id)
def test_rotated_vectors(golden: Golden, tmp_path: Path):
    rotated = tensor(golden, tmp_path).decode().astype(np.float64)
    got = (rotated @ rotation(golden)).astype(np.float32).reshape(-1)
    head = np.frombuffer(bytes.fromhex(golden.decoded["hex"]), "<f4")
    assert np.allclose(got[: head.size], head, rtol=1e-5, atol=1e-5 * np.abs(head).max())


def test_a_changed_bit_is_seen():
    golden = goldens()["gguf_dec_q4_1"]
    bad = golden.tensors["blocks"].copy()
    bad[1, -1] ^= 1
    weight = QTensor(by_name("gguf_q4_1"), {"blocks": bad}, (2, 32))
    with pytest.raises(AssertionError):
        golden.check(weight.decode())
