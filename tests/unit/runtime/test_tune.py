"""Tuned results: where a call stands, which file counts, and what a launch makes of them."""

import json

import numpy as np
import pytest

import iron
from iron.errors import KernelError
from iron.lang import (
    Const,
    In,
    Out,
    Packed,
    cdiv,
    dims,
    dtypes,
    f16,
    f32,
    formats,
    groups,
    kernel,
    require,
    thread,
)
from iron.quant.encode import quantize
from iron.quant.format import by_name
from iron.runtime import launch, tune
from iron.runtime.device import device_of, slug
from iron.runtime.driver import driver

N, R = dims("N R")
T = dtypes("T", f32, f16)
FMT = formats("FMT", by_name("gguf_q8_0"), by_name("mlx_int4_g64"))
NAME = f"{__name__}.spans"


@kernel(choose={"WIDE": [True, False]}, variants={"OP": ["a", "b"]}, tune={"SPAN": [8, 16, 32]})
def spans(x: In[T, N], y: Out[T, N], *, OP: Const = "a", SPAN: Const = 4, WIDE: Const = True):
    """y[i] = SPAN, or -SPAN where WIDE is false: a test sees what the launch chose."""
    (group,) = groups(cdiv(N, 32), threads=32)
    require(SPAN < 32 or N % 32 == 0, "SPAN of 32 takes whole groups")
    require(not WIDE or N % 2 == 0, "WIDE takes pairs")
    i = group * 32 + thread
    if i < N:
        y[i] = (x[i].to(f32) * 0.0 + (SPAN if WIDE else -SPAN)).to(T)


@kernel(tune={"SPAN": [8, 16]})
def packed(x: In[f32, N], w: Packed[FMT, R, N], y: Out[f32, R], *, SPAN: Const = 8):
    (n,) = groups(R, threads=1)
    y[n] = w.decode(n, 0) * x[0]


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    monkeypatch.setenv("IRON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("IRON_TUNE", raising=False)
    monkeypatch.setattr(tune, "PACKAGE", tmp_path / "iron" / "kernels" / "tuned")
    tune.forget()
    launch._CHOSEN.clear()
    yield
    tune.forget()
    launch._CHOSEN.clear()


def result(consts, where: str = "x:f32[64] OP=a") -> None:
    device = device_of(driver("cpu"))
    tune.write(device, "cpu", NAME, where, {"consts": consts, "seconds": 1.0, "default": 2.0})
    tune.forget()
    launch._CHOSEN.clear()


def chosen(n: int = 64, **consts) -> float:
    with iron.use("cpu"):
        return float(spans(np.ones(n, np.float32), **consts)[0])


def test_a_launch_takes_what_was_found():
    assert chosen() == 4
    result({"SPAN": 16})
    assert chosen() == chosen(33 + 1) == chosen(64, OP="a") == 16
    assert chosen(32) == chosen(66) == chosen(64, OP="b") == 4
    assert float(spans(np.ones(64, np.float16))[0]) == 4


def test_what_the_caller_gives_is_never_changed():
    result({"SPAN": 16})
    assert chosen(SPAN=8) == 8


@pytest.mark.parametrize("wrong", [{"SPAN": 64}, {"OTHER": 8}, {"SPAN": "16"}])
def test_results_outside_the_space_are_left_alone(wrong):
    result(wrong)
    assert chosen() == 4


def test_a_result_that_does_not_fit_gives_way():
    """63 stands where 64 does; there neither WIDE nor a SPAN of 32 fits."""
    result({"SPAN": 32})
    assert chosen(64) == 32
    assert chosen(63) == -4
    result({"SPAN": 16})
    assert chosen(63) == -16


@pytest.mark.parametrize(("mode", "span"), [("off", 4), ("cached", 16), ("on", 16), ("", 16)])
def test_modes(mode: str, span: int, monkeypatch):
    result({"SPAN": 16})
    monkeypatch.setenv("IRON_TUNE", mode)
    assert chosen() == span


def test_an_unknown_mode_is_refused(monkeypatch):
    monkeypatch.setenv("IRON_TUNE", "fast")
    with pytest.raises(KernelError, match="off, cached, on"):
        chosen()


def test_a_search_sees_the_kernel_as_it_is():
    result({"SPAN": 16})
    with tune.ignored():
        assert chosen() == 4


def test_the_users_results_come_before_the_packages():
    name = f"{slug(device_of(driver('cpu')))}.json"
    for folder, span in ((tune.PACKAGE, 8), (tune.user_folder(), 16)):
        entries = {"cpu": {NAME: {"x:f32[64] OP=a": {"consts": {"SPAN": span}}}}}
        folder.mkdir(parents=True)
        (folder / name).write_text(json.dumps({"schema": 1, "backends": entries}))
        tune.forget()
        launch._CHOSEN.clear()
        assert chosen() == span


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2, "backends": {}}', '{"schema": 1}'])
def test_a_file_that_is_none_changes_nothing(text: str):
    path = tune.user_folder() / f"{slug(device_of(driver('cpu')))}.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert chosen() == 4
    result({"SPAN": 16})
    assert chosen() == 16


def test_results_go_beside_the_kernels_of_a_checkout_only():
    (tune.PACKAGE.parent).mkdir(parents=True)
    assert tune.folder_for("iron.kernels.a.a") == tune.user_folder()
    (tune.PACKAGE.parents[2] / ".git").mkdir()
    assert tune.folder_for("iron.kernels.a.a") == tune.PACKAGE
    assert tune.folder_for("mine.a") == tune.user_folder()


def test_entries_are_added():
    result({"SPAN": 16})
    result({"SPAN": 8}, "x:f32[128] OP=a")
    assert (chosen(64), chosen(128)) == (16, 8)
    found = tune.found_before(driver("cpu"), NAME, "x:f32[128] OP=a")
    assert found == {"consts": {"SPAN": 8}, "seconds": 1.0, "default": 2.0}
    assert tune.found_before(driver("cpu"), NAME, "x:f32[1] OP=a") is None


def test_places():
    assert [tune.bucket(n) for n in (0, 1, 2, 3, 64, 65)] == [0, 1, 2, 4, 64, 128]
    w = quantize(np.ones((33, 128), np.float32), by_name("mlx_int4_g64"))
    given = {"x": np.ones(128, np.float32), "w": w}
    assert launch.place(packed, given) == "x:f32[128] w:mlx_int4_g64[64,128]"
    assert launch.place(packed, {**given, "SPAN": 16}) == launch.place(packed, given)
    x = np.ones(60, np.float32)
    assert launch.place(spans, {"x": x, "y": x, "OP": "b"}) == "x:f32[64] OP=b"
