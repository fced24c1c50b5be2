"""The library on Mesa's software device, 8 and 16 lanes wide, under the validation layer."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.vulkan.child import library

pytestmark = pytest.mark.device("vulkan")
ROOT = Path(__file__).parents[2]
WIDTHS = {8: "256", 16: "512"}


def child(width: int, *arguments: str, module: str = "child") -> dict[str, Any]:
    """What a module of this folder finds in a process with `width` lanes."""
    environment = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": WIDTHS[width], "PYTHONPATH": str(ROOT)}
    environment["MESA_SHADER_CACHE_DISABLE"] = "true"
    command = [sys.executable, "-m", f"tests.vulkan.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("width", "half"), [(8, 0), (16, 1)])
def test_cases_pass_and_the_layer_is_silent(width: int, half: int):
    """One case of each kernel at one of the widths; `test_every_case` runs all of them."""
    found = child(width, "cases", str(half))
    assert found["faults"] == []
    assert found["messages"] == []
    assert found["simd"] == width
    assert found["passed"] >= len(library()) * 3 // 8  # the others do not apply to the sizes


def test_the_layer_hears_mistakes():
    found = child(8, "controls")
    for name in (
        "plain",
        "plain, on the device",
        "plain, hazards",
        "with barrier",
        "in turns",
        "guarded",
        "few groups",
    ):
        assert found[name] == []
        assert f"{name} raised" not in found
    assert any("groupCountX" in m for m in found["large grid"])
    assert any("maxComputeSharedMemorySize" in m for m in found["much shared"])
    assert any("READ_AFTER_WRITE" in m for m in found["no barrier"])
    assert any("READ_AFTER_WRITE" in m for m in found["without waiting"])
    for name in ("outside", "unguarded", "groups beyond"):
        assert any("out of bounds" in m.lower() for m in found[name]), name


def test_words_of_memory_hold_the_same_bits():
    found = child(8, module="words")
    assert found["faults"] == []
    assert found["ran"] >= 100


def test_words_in_another_order_are_seen():
    """The control: every form that cuts narrow elements out of words is wrong."""
    found = child(8, "wrong", module="words")
    assert len(found["faults"]) >= 7


def test_launches_that_come_again_are_joined_once():
    """100 launches are two submissions; with another launch among them they are two others."""
    found = child(8, "again")
    assert found["reached"] == [600.0] * 64
    assert found["known"] == [2] * 6
    assert found["messages"] == []


def test_small_writes_come_in_order():
    found = child(8, "writes")
    assert found["sums"] == [sum(range(40)), sum(range(1, 40, 2))]
    assert found["messages"] == []


def test_numbers_are_right_where_compilers_or_bits_are_not():
    """Mesa takes integers that were floats for what they were, and fuses no product with a sum; NaN
    overflows when it is rounded."""
    found = child(16, module="numbers")
    assert found["integers"]["faults"] == []
    assert found["integers"]["control"] != []
    assert found["bfloats"]["faults"] == 0
    assert found["bfloats"]["control"] > 0
    assert found["split"]["faults"] == 0
    assert found["split"]["control"] > 100
    assert found["sums"]["faults"] == 0
    assert found["sums"]["control"] > 100
    assert found["extremes"]["faults"] == 0
    assert found["extremes"]["control"] > 0


def test_roads_that_other_devices_need():
    found = child(8, "ways")
    for name, way in found.items():
        assert way["faults"] == [], name
        assert way["passed"] >= 6, name


def test_a_bench_beside_another_backend(tmp_path: Path):
    """Ceilings through Vulkan, and the same kernel on the processor as a peer."""
    command = [sys.executable, "-m", "iron", "bench", "-b", "vulkan", "--beside", "cpu"]
    command += ["-f", "unary?f32,OP=exp?*1Mi*", "--quick", "--warm", "--peer", "none"]
    made = tmp_path / "run.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command += ["--allow-dirty", "-o", str(made)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(made.read_text())["rows"]
    (peer,) = row["peers"]
    assert peer["name"] == "iron on cpu"
    assert peer["time"]["n"] == row["time"]["n"] == 5
    assert all(rate > 0 for rate in row["ceilings"].values())
    assert row["figures"]["ratio"] == pytest.approx(
        peer["time"]["median"] / row["time"]["median"], rel=1e-5
    )


@pytest.mark.fuzz
@pytest.mark.parametrize("width", WIDTHS)
def test_random_programs_leave_the_same_bits(width: int):
    found = child(width, "fuzz", str(3000 * width), "2")
    assert found["faults"] == []
    assert found["simd"] == width


@pytest.mark.slow
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", library())
def test_every_case(name: str, width: int):
    """Each at one width, of each dtype and variant one at each."""
    found = child(width, "share", name)
    assert found["faults"] == []
    assert found["messages"] == []
    assert found["passed"] > 0


@pytest.mark.slow
@pytest.mark.fuzz
@pytest.mark.parametrize("width", WIDTHS)
def test_more_random_programs(width: int):
    assert child(width, "fuzz", "0", "400")["faults"] == []


def test_a_width_that_the_device_does_not_execute_is_refused():
    """LLVM's vectors end at 512 bits: at 1024 Mesa reports 32 lanes and runs 16."""
    environment = {**os.environ, "LP_NATIVE_VECTOR_WIDTH": "1024", "PYTHONPATH": str(ROOT)}
    code = "from iron.runtime.device import report; print(report('vulkan').missing)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert "reports subgroups of 32 lanes and runs others" in done.stdout
