"""Foreign bytes decode to the foreign values, and our encoders write them by their stated rule."""

import numpy as np
import pytest

from iron.dtypes import f16, f32
from iron.quant.encode import quantize
from iron.quant.format import FORMATS
from iron.quant.tensor import QTensor
from tests.unit.quant.goldens import Golden, goldens

NAMES = {"weight": "codes"}
CASES = [g for g in goldens().values() if g.format in FORMATS]
DECODE = [g for g in CASES if g.decoded]
EXACT = [g for g in CASES if g.kind in ("encode_exact", "encode_decode")]


def tensor(golden: Golden) -> QTensor:
    """The golden's tensors as a packed weight."""
    fmt = FORMATS[golden.format]
    planes = {NAMES.get(name, name): held for name, held in golden.tensors.items()}
    first = golden.decoded.get("shape") or golden.input.shape
    return QTensor(fmt, planes, tuple(first))


@pytest.mark.parametrize("golden", DECODE, ids=lambda g: g.id)
def test_decodes_to_the_foreign_values(golden: Golden):
    golden.check(tensor(golden).decode())


@pytest.mark.parametrize("golden", EXACT, ids=lambda g: g.id)
def test_encodes_to_the_foreign_bytes(golden: Golden):
    dtype = {"float32": f32, "float16": f16}.get(golden.params.get("T"))
    mine, theirs = quantize(golden.input, golden.format, dtype), tensor(golden)
    assert mine.planes.keys() == theirs.planes.keys()
    for name, plane in theirs.planes.items():
        assert np.array_equal(mine.planes[name], plane), name


def test_a_changed_bit_is_seen():
    golden = goldens()["gguf_dec_q4_1"]
    bad = golden.tensors["blocks"].copy()
    bad[1, -1] ^= 1
    weight = QTensor(FORMATS["gguf_q4_1"], {"blocks": bad}, (2, 32))
    with pytest.raises(AssertionError):
        golden.check(weight.decode())
