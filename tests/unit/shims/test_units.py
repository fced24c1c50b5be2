"""Text as C++ units: what is compiled, kept and refused; the orders; the fallback of the switch."""

import platform
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from iron.backends import clang
from iron.backends.clike.render import Text
from iron.dtypes import f32, i32
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.ir.types import tensor
from iron.runtime.cache import Cache
from iron.shims import build, cuda_text, driver
from iron.shims.driver import TextDriver
from iron.shims.fibres import fibres
from iron.shims.unit import called, meeting, unit
from iron.targets.nvidia import SM_80
from tests.unit.ir.handmade import Handmade
from tests.unit.shims.roads import opened


def adding(value: float, threads: int = 32) -> Kernel:
    p = Handmade(threads=threads, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    at = p.place()
    p.store(y, at, p.emit("add", p.load(x, at), p.const(value, f32)))
    return p.done()


def run(loaded, groups: int = 2) -> np.ndarray:
    x = np.arange(groups * loaded.kernel.threads, dtype=np.float32)
    y = np.full_like(x, np.nan)
    loaded.bind({"x": x, "y": y}, {}, {}, (groups,))()
    return y - x


def test_kernels_compiled_together_stay_apart(tmp_path: Path):
    opened = TextDriver("cuda-text", cuda_text.WORDS, SM_80, Cache(tmp_path))
    kernels = [adding(value) for value in (1.0, 2.0, 3.0)]
    opened.prepare(kernels)
    assert [set(run(opened.load(k))) for k in kernels] == [{1.0}, {2.0}, {3.0}]
    assert opened._cache.counts["written"] == 1


def test_code_comes_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def again() -> TextDriver:
        return TextDriver("cuda-text", cuda_text.WORDS, SM_80, Cache(tmp_path))

    first = again().load(adding(4.0))
    monkeypatch.setattr(clang, "compiled", None)
    assert (run(again().load(adding(4.0))) == run(first)).all()
    with pytest.raises(TypeError):
        again().load(adding(5.0))


def test_without_clang_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(KernelError) as wrong:
        opened("cuda-text").target()
    assert wrong.value.id == "E0603"
    assert "apt-get install clang-19" in str(wrong.value)


def test_text_that_is_no_program_is_a_fault_of_iron(monkeypatch: pytest.MonkeyPatch):
    real = driver.render

    def broken(*given: object) -> Text:
        text = real(*given)  # pyright: ignore[reportArgumentType]
        return Text(text.symbol, text.prelude, text.body + "}", text.arguments, (*text.places,))

    monkeypatch.setattr(driver, "render", broken)
    with pytest.raises(KernelError) as wrong:
        opened("cuda-text").load(adding(6.5))
    assert wrong.value.id == "E0901"
    assert "extraneous closing brace" in str(wrong.value)


def test_the_places_where_threads_meet_are_numbered():
    p = Handmade(threads=64, simd=32)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    t = p.thread()
    scanned = p.do(
        "scan", p.load(x, t), p.const(0.0, f32), attrs=(0, True), regions=(p.function("add", f32),)
    )
    p.store(y, t, scanned[0])
    text = opened("cuda-text").text(p.done(), "0" * 64)
    found = meeting(text, cuda_text.WORDS)
    assert found == ["__syncthreads", "iron_shifted_f32", "iron_shuffle_up_f32"]
    source = unit([text], cuda_text.WORDS)
    assert all(source.count(f"#define {n}(") == source.count(f"#undef {n}\n") == 1 for n in found)


def test_an_instruction_without_a_meaning_here_is_refused():
    line = 'asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));'
    assert called(line) == "ptx_cvt_f32_f16(y, x);"
    assert called('asm("fma.rn %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));') == "ptx_fma_rn(d, a, b);"
    header = (build.FOLDER / "cuda.h").read_text()
    assert "ptx_cvt_f32_f16" in header
    assert "ptx_fma_rn" not in header


def test_the_body_points_to_the_lines_of_the_author():
    p = Handmade(threads=32, simd=32, file="author.py")
    y = p.tensor("y", i32, "out")
    t = p.thread()
    p.at(7)
    p.store(y, t, p.const(1))
    p.at(8)
    p.store(y, t, p.const(2))
    p.at(20)
    p.store(y, t, p.const(3))
    text = opened("cuda-text").text(p.done(), "0" * 64)
    lines = text.numbered("text.cu").split("\n")
    assert [line for line in lines if "author.py" in line] == [
        '#line 7 "author.py"',
        '#line 20 "author.py"',
    ]
    own = next(line for line in lines if "text.cu" in line)
    number = int(own.split()[1])
    after = lines[lines.index(own) + 1]
    assert text.source.split("\n")[number - 1] == after


def test_the_portable_switch_runs_the_same():
    """By the C library's contexts; in a process of its own, since units find one runtime."""
    code = """
from iron.runtime.cache import Cache
from iron.shims import driver
from iron.shims.fibres import Fibres
from tests.unit.shims.roads import opened
from tests.unit.shims.test_faults import run_total
portable = Fibres(("-DFIBRES_BY_UCONTEXT",), Cache())
driver.fibres = lambda: portable
assert all(run_total(opened("cuda-text", order)).all() for order in ("forward", "shuffled"))
assert portable.switch() == "ucontext"
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    assert (fibres().switch() == "x86-64") == (platform.machine() == "x86_64")


def test_a_view_with_gaps_keeps_what_lies_between():
    base = np.arange(64, dtype=np.float32)
    y = base[1::2]
    loaded = opened("cuda-text").load(strided())
    loaded.bind({"y": y}, {}, {}, (1,))()
    assert base.tolist() == [v for k in range(32) for v in (2 * k, k)]


def strided() -> Kernel:
    p = Handmade(threads=32, simd=32)
    y = p.param("y", "tensor", tensor(f32, 1, "out", packed=False))
    t = p.thread()
    p.store(y, t, p.emit("cast", t, attrs=(f32,)))
    return p.done()
