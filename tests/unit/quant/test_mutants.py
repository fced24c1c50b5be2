"""Known mistakes of other codecs, planted one by one: the goldens and the definitions reject each.

A mutant replaces one function that the codec looks up by name; its judge is a check that passes
on the sound codec and must fail with the mutant in place.
"""

import struct
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from iron.lang import f32, u32, where
from iron.quant import codec
from iron.quant.codec import Body, blocks, element, foreign, stream
from iron.quant.encode import affine, encode, minifloat
from iron.quant.format import FORMATS, Algebra, Elem, Outer, by_name
from iron.quant.format import gguf as table
from iron.quant.tensor import Planes
from tests.unit.quant.foreign import options, tensor
from tests.unit.quant.goldens import goldens

# --- judges ---------------------------------------------------------------------------------------


def decodes(*prefixes: str) -> Callable[[], None]:
    """The goldens whose id starts so decode to the foreign values."""

    def judge() -> None:
        found = [g for g in goldens().values() if g.decoded and g.id.startswith(prefixes)]
        assert found
        for golden in found:
            with tempfile.TemporaryDirectory() as folder:
                got = tensor(golden, Path(folder)).decode()
            golden.check(got.T if golden.format.startswith(("gptq", "awq")) else got)

    return judge


def encodes(*prefixes: str) -> Callable[[], None]:
    """The goldens whose id starts so are written byte for byte."""

    def judge() -> None:
        found = [g for g in goldens().values() if "encode_" in g.kind and g.id.startswith(prefixes)]
        assert found
        for golden in found:
            with tempfile.TemporaryDirectory() as folder:
                theirs = tensor(golden, Path(folder))
            mine = encode(theirs.fmt, golden.input.reshape(theirs.shape), options(golden))
            for name, plane in theirs.planes.items():
                assert np.array_equal(mine[name], plane)

    return judge


def elements() -> None:
    """Every code of every small float has its value, and every probe its code."""
    bodies = {"float8_e4m3fn": element.e4m3, "float8_e8m0fnu": stream.e8m0}
    for golden in goldens().values():
        if golden.kind == "element_table" and golden.format in bodies:
            golden.check(bodies[golden.format](u32(golden.tensors["codes"])))
        if golden.id == "elemenc_float8_e4m3fn":
            codes = minifloat.element(Elem.E4M3, golden.input)
            assert np.array_equal(codes, golden.tensors["codes"])


def awq_columns() -> None:
    """The eight nibbles of a word are columns 0 2 4 6 1 3 5 7."""
    word = np.array([[0x76543210]], np.uint32)
    got = [int(foreign.awq_nibble(word, 0, n)) for n in (0, 2, 4, 6, 1, 3, 5, 7)]
    assert got == list(range(8))


def group_edges() -> None:
    """Element by element, the first and last column of each group have its scale."""
    fmt = FORMATS["mlx_int4_g64"]
    golden = goldens()["mlx_affine_4b_g64_float32"]
    planes = {"codes": golden.tensors["weight"]}
    planes |= {name: golden.tensors[name] for name in ("scales", "biases")}
    planes = {name: np.concatenate([p, p + p.dtype.type(1)], axis=1) for name, p in planes.items()}
    got = fmt.decode(Planes(planes), np.array([[0]]), np.array([[0, 63, 64, 127]]))
    q = [(int(planes["codes"][0, k // 8]) >> (k % 8 * 4)) & 15 for k in (0, 63, 64, 127)]
    s, b = (np.repeat(planes[name][0], 2) for name in ("scales", "biases"))
    assert np.array_equal(got[0], s * np.array(q, np.float32) + b)


def block_sizes() -> None:
    """Blocks are as long as the C structures of ggml, spelled for `struct`."""
    spelled = {"q8_1": "<ee32b", "q8_0": "<e32b", "q4_1": "<ee16B", "q8_k": "<f256b16h"}
    made = {f.name: f for f in table.formats()}
    for name, code in spelled.items():
        assert made[f"gguf_{name}"].block_bytes == struct.calcsize(code)


# --- mutants --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """A wrong function in place of a right one, and the judge that must notice."""

    name: str
    owner: Any
    attribute: str
    wrong: Any
    judge: Callable[[], None]


def body(name: str, **parts: Any) -> Any:
    """The codec's bodies with one of them changed."""
    sound = codec.BODIES[name]
    changed = Body(parts.get("code", sound.code), parts.get("factors", sound.factors))
    return {**codec.BODIES, name: changed}


bits_at, bits_down, split = stream.bits_at, foreign.bits_down, blocks.split
sound_minifloat, sound_e8m0, sound_factors = element.minifloat, stream.e8m0, stream.factors


def swapped_stream(words, n, first, e, bits):
    return bits_at(words, n, first, e ^ 1 if bits == 4 else e, bits)


def swapped_down(words, column, e, bits):
    return bits_down(words, column, e ^ 1, bits)


def swapped_bnb(fmt, w, n, b, e):
    raw = (u32(w.codes[n, b * (fmt.block // 2) + e // 2]) >> u32(e % 2 * 4)) & 15
    return f32(w.codebook[0, raw])


def swapped_split(w, n, at, e, half_block):
    return split(w, n, at, (e + half_block) % (2 * half_block), half_block)


def adjacent_split(w, n, at, e, half_block):
    return (u32(w.blocks[n, at + e // 2]) >> u32(e % 2 * 4)) & 15


def plain_awq(words, row, n):
    return (words[row, n // 8] >> u32(n % 8 * 4)) & 15


def swapped_rows(fmt, w, n, b, e):
    k = b * fmt.block + e
    r = n * w.scales.shape[1] + k // fmt.group
    packed = w.codes.shape[0]
    raw = u32(w.codes[r % packed, k % fmt.group]) >> u32(r // packed * fmt.bits)
    return f32(raw & ((1 << fmt.bits) - 1))


def zeros_as_stored(fmt, w, n, g):
    return f32(w.scales[g, n]), f32(stream.bits_at(w.qzeros, g, 0, n, fmt.bits))


def multiplied(fmt, w, n, g):
    s = stream.scale(fmt, w, n, g)
    if fmt.outer is not Outer.NONE:
        return s * w.outer[n, 0], None
    return sound_factors(fmt, w, n, g)


def signed_scale(code):
    return sound_minifloat(code, 4, 3, 7)


def capped(code, exponent, mantissa, bias):
    x = sound_minifloat(code, exponent, mantissa, bias)
    return np.clip(x, -240, 240) if exponent == 4 else x


def no_zero(code, exponent, mantissa, bias):
    x = sound_minifloat(code, exponent, mantissa, bias)
    return where(x == 0, f32(2.0 ** (1 - bias)), x)


def zero_power(code):
    return where(code == 0, f32(0), sound_e8m0(code))


def infinite_power(code):
    return where(code == 255, f32(float("inf")), sound_e8m0(code))


def next_group(fmt, w, n, k):
    x = fmt.code(w, n, k // fmt.block, k % fmt.block)
    last = w.scales.shape[1] - 1
    s, t = fmt.factors(w, n, np.minimum((k + 1) // fmt.group, last))
    return codec.combine(fmt, x, s, t)


def clipped_scale(fmt, w, n, g):
    s, t = sound_factors(fmt, w, n, g)
    return (np.abs(s), t) if fmt.algebra is Algebra.AFFINE else (s, t)


def positive_edge(low, high, top):
    return np.maximum((high - low) / top, affine.TINY), low


LONG_Q8_1 = tuple((*r[:3], 40, *r[4:]) if r[0] == "q8_1" else r for r in table.DECODED)
LOW_CAP = {**minifloat.LARGEST, Elem.E4M3: 240.0}
GROUPED = ("mlx_affine_4b", "ct_w4a16", "mxfp4_gptoss")
MUTANTS = [
    Mutant("adj_lo", stream, "bits_at", swapped_stream, decodes(*GROUPED)),
    Mutant("adj_hi", codec, "BODIES", body("bnb", code=swapped_bnb), decodes("bnb")),
    Mutant("split", blocks, "split", swapped_split, decodes("gguf_dec_q4_0")),
    Mutant("split 8", blocks, "split", adjacent_split, decodes("gguf_dec_iq4", "gguf_dec_mxfp4")),
    Mutant("awq", foreign, "awq_nibble", plain_awq, awq_columns),
    Mutant("kpack", foreign, "bits_down", swapped_down, decodes("gptq")),
    Mutant("halfrows", codec, "BODIES", body("hqq", code=swapped_rows), decodes("hqq_4", "hqq_2")),
    Mutant("GPTQ zeros", codec, "BODIES", body("gptq", factors=zeros_as_stored), decodes("gptq")),
    Mutant("NVFP4 global", stream, "factors", multiplied, decodes("ct_nvfp4")),
    Mutant("signed UE4M3", blocks, "unsigned_e4m3", signed_scale, lambda: ue4m3()),
    Mutant("cap of 240 read", element, "minifloat", capped, elements),
    Mutant("cap of 240 written", minifloat, "LARGEST", LOW_CAP, elements),
    Mutant("fp8 zero", element, "minifloat", no_zero, elements),
    Mutant("E8M0 0", stream, "e8m0", zero_power, elements),
    Mutant("E8M0 255", stream, "e8m0", infinite_power, elements),
    Mutant("Q8_1 size", table, "DECODED", LONG_Q8_1, block_sizes),
    Mutant("group edge", codec, "decode", next_group, group_edges),
    Mutant("scale clipped on reading", stream, "factors", clipped_scale, decodes("mlx_aff")),
    Mutant("scale clipped on writing", affine, "_edge_factors", positive_edge, encodes("mlx_aff")),
]  # fmt: skip


def ue4m3() -> None:
    """All 256 scale bytes of a GGUF NVFP4 block."""
    codes = np.arange(256, dtype=np.uint8)
    raw = np.zeros((256, 36), np.uint8)
    raw[:, 0] = codes
    raw[:, 4] = 2  # one
    got = by_name("gguf_nvfp4").decode(Planes({"blocks": raw}), codes.astype(np.int64), 0)
    low = codes & 0x7F
    e, m = (low >> 3).astype(np.int64), (low & 7).astype(np.float64)
    want = np.where(e == 0, m / 512, (1 + m / 8) * np.exp2(e - 7.0))
    want[0x7F] = 0
    assert np.array_equal(got, want.astype(np.float32))


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_mutant_is_killed(mutant: Mutant, monkeypatch: pytest.MonkeyPatch):
    if mutant.attribute in ("bits_at", "factors") and mutant.owner is stream:
        # the table of bodies holds functions, which a patched module no longer names
        sound = codec.BODIES["stream"]
        wrong = {"factors": mutant.wrong}.get(mutant.attribute, sound.factors)
        bodies = {**codec.BODIES, "stream": Body(sound.code, wrong)}
    else:
        bodies = codec.BODIES
    with np.errstate(all="ignore"):
        mutant.judge()
        monkeypatch.setattr(codec, "BODIES", bodies)
        monkeypatch.setattr(mutant.owner, mutant.attribute, mutant.wrong)
        with pytest.raises(AssertionError):
            mutant.judge()
