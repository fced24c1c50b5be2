"""HIP text becomes code objects for AMD GPUs; what they say of their kernels is read right."""

import struct
from collections.abc import Callable, Collection
from dataclasses import replace
from zlib import crc32

import pytest

from iron.backends.clike.render import render
from iron.backends.code_object import METADATA, NOTE, resources
from iron.backends.hip import HIP
from iron.backends.hip_code import compile_text, forms
from iron.dtypes import f32
from iron.errors import KernelError
from iron.ir.core import Kernel
from iron.targets.amd import GFX90A, GFX942, GFX1100, GFX1201, wide
from iron.targets.target import Target
from tests.unit.backends.samples import kernels, texts
from tests.unit.ir.handmade import Handmade

OTHERS = [GFX90A, GFX1100, wide(GFX1100), wide(GFX1201)]


def compiles(target: Target, some: Callable[[str], bool] = bool) -> int:
    """How many kernels, those whose names `some` takes, become code as it should be."""
    count = 0
    for name, text in texts(target, HIP[target.simd]):
        if not some(name):
            continue
        (found,) = resources(compile_text(text.source, target, name))
        assert found.symbol == text.symbol
        assert found.wave == target.simd == kernels(target)[name].simd
        assert found.spilled_registers == 0, name
        assert found.shared_bytes <= target.shared_bytes
        count += 1
    return count


@pytest.mark.parametrize(("target", "half"), [(GFX942, 0), (GFX1201, 1)], ids=["gfx942", "gfx1201"])
def test_every_kernel_compiles_for_one_of_two(target: Target, half: int):
    assert compiles(target, lambda name: crc32(name.encode()) % 2 == half) > 20


@pytest.mark.slow
@pytest.mark.parametrize("target", [GFX942, GFX1201, *OTHERS], ids=lambda t: t.name + t.attributes)
def test_every_kernel_compiles(target: Target):
    assert compiles(target) > 20


def forms_compile(target: Target, names: Collection[str]) -> int:
    """How many forms there are; each is compiled."""
    count = 0
    for name in names:
        for form in forms(kernels(target)[name]):
            (found,) = resources(compile_text(form.code.text.source, target, name))
            assert found.spilled_registers == 0, name
            count += 1
    return count


def test_forms_of_words_compile():
    assert forms_compile(GFX942, ["cast", "binary"]) > 2


@pytest.mark.slow
@pytest.mark.parametrize("target", [GFX90A, GFX1201], ids=lambda t: t.name)
def test_every_form_of_every_kernel_compiles(target: Target):
    assert forms_compile(target, kernels(target)) > len(kernels(target))


def total(simd: int) -> Kernel:
    p = Handmade(threads=256, simd=simd)
    x, y = p.tensor("x", f32), p.tensor("y", f32, "out")
    t = p.thread()
    p.store(y, t, p.do("reduce", p.load(x, t), attrs=(0,), regions=(p.function("add", f32),))[0])
    return p.done()


def source(simd: int) -> str:
    return render(total(simd), HIP[simd], "iron_total").source


@pytest.mark.parametrize("target", [GFX90A, wide(GFX1100)], ids=["gfx90a", "gfx1100 in 64"])
def test_what_a_kernel_takes(target: Target):
    (found,) = resources(compile_text(source(64), target))
    assert (found.symbol, found.wave) == ("iron_total", 64)
    assert found.shared_bytes == 4 * 256 // 64
    assert found.argument_bytes >= 2 * 8
    assert 0 < found.vector_registers < 64
    assert found.scalar_registers > 0


def test_a_spill_is_seen():
    """More values alive across a barrier than there are registers."""
    lines = [f"  float v{n} = x[iron_thread() + {n * 256}];" for n in range(300)]
    total = " + ".join(f"v{n} * v{299 - n}" for n in range(300))
    body = source(64).replace(
        "const i32 thread_index",
        "\n".join([*lines, "  iron_barrier();"])
        + (f"\n  y[iron_thread() + 1] = {total};\n  const i32 thread_index"),
    )
    tight = body.replace("__launch_bounds__(256)", "__launch_bounds__(1024)")
    (found,) = resources(compile_text(tight, GFX90A))
    assert found.spilled_registers > 0


def test_the_other_width_of_a_wave_is_refused():
    votes = Handmade(threads=64, simd=32)
    y = votes.tensor("y", f32, "out")
    t = votes.thread()
    mine = votes.emit("ballot", votes.emit("lt", t, votes.const(3)))
    votes.store(y, t, votes.emit("cast", mine, attrs=(f32,)))
    text = render(votes.done(), HIP[32], "iron_votes").source
    assert resources(compile_text(text, GFX1201))[0].wave == 32
    with pytest.raises(KernelError) as wrong:
        compile_text(text, GFX942)
    assert wrong.value.id == "E0901"
    assert "wavefrontsize32" in str(wrong.value)


def test_an_unknown_function_is_refused():
    use = "y[1] = powf(x[0], 2.0f);\n  const i32 thread_index"
    with pytest.raises(KernelError, match="powf"):
        compile_text(source(64).replace("const i32 thread_index", use), GFX942)


# --- the reader -----------------------------------------------------------------------------------


def test_every_form_of_metadata(monkeypatch: pytest.MonkeyPatch):
    packed = bytes(
        [
            *(0x85, 0xA1, 0x61, 0xCD, 1, 2, 0xA1, 0x62, 0x93, 0xFF, 0xC3, 0xC0),
            *(0xD9, 1, 0x63, 0xD1, 0xFF, 0xFE, 0xA1, 0x64, 0xDC, 0, 1, 0x05),
            *(0xA1, 0x65, 0xDE, 0, 1, 0xA1, 0x66, 0xCE, 0, 0, 1, 0),
        ]
    )
    from iron.backends import code_object

    found, end = code_object._unpack(memoryview(packed), 0)
    assert found == {"a": 258, "b": [-1, True, None], "c": -2, "d": [5], "e": {"f": 256}}
    assert end == len(packed)


def elf(content: bytes, name: bytes = b"AMDGPU\0", kind: int = METADATA) -> bytes:
    """A file with one section: a note."""
    pad = lambda b: b + bytes(-len(b) % 4)  # noqa: E731
    note = struct.pack("<III", len(name), len(content), kind) + pad(name) + pad(content)
    head = b"\x7fELF\x02\x01".ljust(16, b"\0") + struct.pack(
        "<HHIQQQIHHHHHH", 3, 224, 1, 0, 0, 64 + len(note), 0, 64, 0, 0, 64, 1, 0
    )
    section = struct.pack("<IIQQQQIIQQ", 0, NOTE, 0, 0, 64, len(note), 0, 0, 4, 0)
    return head + note + section


@pytest.mark.parametrize(
    "file",
    [
        b"",
        b"no code",
        elf(b"\x80"),
        elf(b"\x81\xa1"),
        elf(b"\xc1"),
        elf(b"\x80", name=b"GNU\0"),
        elf(b"\x80", kind=1),
    ],
)
def test_a_file_that_is_no_code_object(file: bytes):
    with pytest.raises(KernelError) as wrong:
        resources(file)
    assert wrong.value.id == "E0801"


def test_the_widths_are_two_dialects():
    assert HIP[32].functions["iron_ballot"] != HIP[64].functions["iron_ballot"]
    assert replace(HIP[32], functions=HIP[64].functions) == HIP[64]
