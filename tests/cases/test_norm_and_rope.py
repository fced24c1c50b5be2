"""Reported losses of accuracy: normalisation of rows with a large mean, rotation far out."""

import numpy as np
import pytest

from iron.kernels.norm.layer_norm import layer_norm
from iron.kernels.rope.rope import rope, turns
from tests.cases.conftest import blank

ENDS = {
    0: (-1.3416408, 1.3416408),
    100: (-1.3415277, 1.3413571),
    1000: (-1.3415078, 1.3442372),
    10000: (-1.3313334, 1.3313334),
}


@pytest.mark.parametrize("mean", ENDS)
def test_layer_norm_of_a_row_far_from_zero(mean: int):
    """burn 5607, mlx 2238: the spread drowns in the mean. Bound 1e-4 at every mean."""
    x = (np.float64(mean) + np.arange(16) * 1e-3).astype(np.float32)[None]
    y = layer_norm(x=x, y=blank(x.shape), eps=1e-5)
    z = x.astype(np.float64)
    want = (z - z.mean()) / np.sqrt(z.var() + 1e-5)
    assert np.allclose(want[0, [0, -1]], ENDS[mean], atol=1e-6)
    assert np.abs(y - want).max() < 1e-4


def test_layer_norm_of_a_constant_row_is_zero():
    x = np.full((2, 33), 1234.5, np.float32)
    assert np.array_equal(layer_norm(x=x, y=blank(x.shape), eps=1e-5), np.zeros_like(x))


FAR = {
    0: (1.0, 0.0),
    40: (-0.666938062, 0.745113160),
    2000: (-0.367459549, 0.930039504),
    16000: (-0.991381434, 0.131007066),
    131071: (-0.817983499, -0.575241684),
    1048575: (0.788042240, -0.615621173),
}


@pytest.mark.parametrize("pairing", ["half", "adjacent"])
def test_rope_far_out(pairing: str):
    """imp 1316: an angle formed in f32 is off by hundredths of a radian at 10^6.

    Frequencies are exact to 64 bits of a turn, so pair 1 follows 0.1 and not its f32 neighbour.
    """
    x = np.zeros((len(FAR), 1, 8), np.float32)
    first = [0, 1] if pairing == "half" else [0, 2]
    x[:, 0, first] = 1.0
    frequency = turns(10000.0 ** (-np.arange(4) / 4))
    position = np.array(list(FAR), np.uint32)
    y = rope(
        x=x, position=position, frequency=frequency, y=blank(x.shape), scale=1.0, PAIRING=pairing
    )
    at = [0, 4] if pairing == "half" else [0, 1]
    assert np.abs(y[:, 0, at] - np.array(list(FAR.values()))).max() < 2e-6
    at = [1, 5] if pairing == "half" else [2, 3]
    assert np.abs(y[4, 0, at] - [0.930342990, 0.366690497]).max() < 2e-6
    assert np.array_equal(y[0], x[0])
