"""Every lossless edge keeps every bit of every weight, and refuses what has no place."""

import numpy as np
import pytest

from iron.errors import KernelError
from iron.quant import columns
from iron.quant.encode import quantize
from iron.quant.format import FORMATS, by_name
from iron.quant.repack import EDGES, plane_form, repack, to_planes, to_tiles
from iron.quant.tensor import QTensor
from tests.unit.quant.sample import random_tensor, sides

FOREIGN = [f.name for f in FORMATS.values() if f.body in columns.EDGES]


def bits(weight: QTensor) -> np.ndarray:
    """The decoded weights as u32, so that the sign of zero counts."""
    return weight.decode().view(np.uint32)


def sample(name: str) -> QTensor:
    """Random weights that every edge takes."""
    fmt = FORMATS[name]
    weight = random_tensor(fmt, *sides(fmt), seed=7)
    if name in ("mxfp4", "nvfp4"):
        words = weight.planes["codes"]
        for shift in range(0, 32, 4):
            negative_zero = (words >> shift) & 15 == 8
            words[negative_zero] ^= np.uint32(8 << shift)
    if name == "nvfp4":
        weight.planes["outer"][:] = 1
    if name == "gguf_nvfp4":
        scales = weight.planes["blocks"].reshape(weight.rows, -1, 36)[..., :4]
        scales[scales == 255] = 3
    return weight


@pytest.mark.parametrize(("name", "target"), EDGES)
def test_an_edge_keeps_every_bit(name: str, target: str):
    weight = sample(name)
    moved = repack(weight, target)
    assert moved.fmt.name == target
    assert np.array_equal(bits(moved), bits(weight))


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_layout_keeps_every_bit_as_planes(name: str):
    weight = sample(name)
    moved = to_planes(weight)
    assert moved.fmt.body == "stream"
    assert np.array_equal(bits(moved), bits(weight))
    assert to_planes(moved) is moved


@pytest.mark.parametrize(("name", "target"), [e for e in EDGES if e[::-1] in EDGES])
def test_there_and_back_is_the_same_bytes(name: str, target: str):
    weight = sample(name)
    if name in ("gguf_mxfp4", "gguf_nvfp4"):
        weight = quantize(weight.decode(), name)
    back = repack(repack(weight, target), name)
    for plane, held in weight.planes.items():
        assert np.array_equal(back.planes[plane], held), plane


def test_every_format_has_a_plane_form_or_says_why():
    reasons = {}
    for fmt in FORMATS.values():
        try:
            assert by_name(plane_form(fmt)).body in ("stream", "dense")
        except KernelError as caught:
            reasons[fmt.name] = str(caught)
    nowhere = {f.name for f in FORMATS.values() if f.reordered}
    nowhere |= {f"gguf_iq{n}" for n in ("1_s", "1_m", "2_xxs", "2_xs", "2_s", "3_xxs", "3_s")}
    assert reasons.keys() == nowhere
    assert all("no lossless form" in reason for reason in reasons.values())


@pytest.mark.parametrize("name", [f.name for f in FORMATS.values() if f.reordered])
def test_sorted_columns_are_the_same_weights(name: str):
    weight = sample(name)
    index = weight.planes["g_idx"]
    groups = weight.cols // weight.fmt.multiple
    index[:] = np.random.default_rng(8).permutation(np.arange(weight.cols) % groups)
    plain, order = columns.sort(weight)
    assert not np.array_equal(order, np.arange(weight.cols))
    assert not plain.fmt.reordered
    assert np.array_equal(bits(plain), bits(weight)[:, order])
    index[0, np.argmax(index != index[0, 0])] = index[0, 0]
    with pytest.raises(KernelError, match="does not name each group") as caught:
        columns.sort(weight)
    assert caught.value.id == "E0601"


@pytest.mark.parametrize(
    ("name", "target", "plane", "value", "message"),
    [
        ("gguf_mxfp4", "mxfp4", "blocks", 255, "255 is NaN there"),
        ("gguf_nvfp4", "nvfp4", "blocks", 255, "0xFF"),
        ("mxfp4", "gguf_mxfp4", "codes", 0x88888888, "no negative zero"),
        ("mxfp4", "gguf_mxfp4", "scales", 255, "no NaN"),
        ("nvfp4", "gguf_nvfp4", "outer", 2, "factor of the tensor"),
        ("nvfp4", "gguf_nvfp4", "scales", 0x80, "negative scale"),
    ],
)
def test_what_has_no_place_is_refused(name, target, plane, value, message):
    weight = sample(name)
    weight.planes[plane][0, 0] = value
    with pytest.raises(KernelError, match=message) as caught:
        repack(weight, target)
    assert caught.value.id == "E0601"


def test_wrong_ways():
    with pytest.raises(KernelError, match="the columns of mlx_int4_g32 are not reordered"):
        columns.sort(random_tensor(FORMATS["mlx_int4_g32"], 2, 64, seed=1))
    with pytest.raises(KernelError, match="no lossless way leads from f32 to mxfp4"):
        repack(quantize(np.ones((1, 32), np.float32), "f32"), "mxfp4")
    with pytest.raises(KernelError, match="gguf_iq1_s has no lossless form"):
        to_planes(sample("gguf_iq1_s"))
    wide = random_tensor(FORMATS["mlx_int4_g32"], 2, 64, seed=1)
    planes = {**wide.planes, "scales": wide.planes["scales"].astype(np.float32)}
    with pytest.raises(KernelError, match="the blocks hold f16"):
        repack(QTensor(wide.fmt, planes, wide.shape), "gguf_q4_1")


@pytest.mark.parametrize("name", ["gguf_q4_0", "gguf_q4_1", "gguf_q8_0", "mlx_int4_g64", "mxfp4"])
@pytest.mark.parametrize("rows", [1, 32, 67])
def test_rows_side_by_side_keep_every_bit(name: str, rows: int):
    weight = random_tensor(FORMATS[name], rows, 192, seed=11)
    moved = to_tiles(weight)
    assert moved.fmt.body == "tiles"
    assert np.array_equal(bits(moved), bits(weight))
    assert to_tiles(moved) is moved


def test_a_format_without_tiles_is_refused():
    with pytest.raises(KernelError, match="E0601"):
        to_tiles(random_tensor(FORMATS["mlx_int3_g64"], 32, 64, seed=1))


def test_an_exchanged_row_is_seen():
    weight = to_tiles(random_tensor(FORMATS["gguf_q4_0"], 64, 64, seed=5))
    codes = weight.planes["codes"].copy()
    codes[:, [0, 1]] = codes[:, [1, 0]]
    other = QTensor(weight.fmt, {**weight.planes, "codes": codes}, weight.shape)
    assert not np.array_equal(bits(other), bits(weight))
