"""The class of instruction that each elementwise row and each cast must become on x86-64.

A class is a regular expression of the mnemonic; `WIDE` is AVX-512, `NARROW` x86-64-v3. A row
without a class in its dtype is a KeyError, so that a new row has to say what it should become.
"""

from iron.dtypes import DType

WIDE, NARROW = "x86-64-v4", "x86-64-v3"
LETTER = {8: "b", 16: "w", 32: "d", 64: "q"}

Class = str | dict[int, str]
"""A mnemonic, or one by bits; `{w}` is the letter of the width, `{s}` s or u by signedness."""

INTEGERS: dict[str, Class] = {
    "add": "vpadd{w}",
    "sub": "vpsub{w}",
    "neg": "vpsub{w}",
    "mul": {8: "vpmullw", 16: "vpmullw", 32: "vpmulld", 64: "vpmullq|vpmuludq"},
    "mulhi": {8: "vpmul(h|l)w", 16: "vpmulhu?w", 32: "vpmulu?dq", 64: "i?mulq|mulxq"},
    # Up to 32 bits a quotient of floats is exact after a correction; 64 bits have no vector form.
    "floordiv": {8: "vdivps", 16: "vdivps", 32: "vdivpd", 64: "i?divq"},
    "mod": {8: "vdivps", 16: "vdivps", 32: "vdivpd", 64: "i?divq"},
    "sign": "vpcmpgt{w}",
    "and": "v(pand[dq]?|andps)",
    "or": "v(por[dq]?|orps)",
    "xor": "v(pxor[dq]?|xorps)",
    "not": "v(pternlog[dq]|pxor|xorps)",
    "shl": {8: "vpsllw", 16: "vpsllv[wd]", 32: "vpsllvd", 64: "vpsllvq"},
    "popcount": "vpshufb|vpopcnt[bwdq]",
    "clz": {8: "vpshufb", 16: "vplzcntd|vpshufb", 32: "vplzcntd|vpshufb", 64: "vplzcntq|vpshufb"},
    "ctz": {8: "vpshufb", 16: "vpshufb", 32: "vplzcntd|vpshufb", 64: "vplzcntq|vpshufb"},
    "reverse_bits": "vpshufb",
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), r"vpcmp\w*{w}"),
    **{name: {8: f"vp{name}{{s}}b", 16: f"vp{name}{{s}}w", 32: f"vp{name}{{s}}d",
              64: f"vp{name}{{s}}q|vpcmpgtq"} for name in ("min", "max")},
}  # fmt: skip
SIGNED: dict[str, Class] = {
    "shr": {8: "vpsraw", 16: "vpsrav[wd]", 32: "vpsravd", 64: "vpsravq|vpsrlvq"},
    "abs": {8: "vpabsb", 16: "vpabsw", 32: "vpabsd", 64: "vpabsq|vpsubq"},
}
UNSIGNED: dict[str, Class] = {
    "shr": {8: "vpsrlw", 16: "vpsrlv[wd]", 32: "vpsrlvd", 64: "vpsrlvq"},
    "abs": "vmov[a-z0-9]+",
}
FLOATS: dict[str, Class] = {
    "add": "vaddps",
    "sub": "vsubps",
    "mul": "vmulps",
    "div": "vdivps",
    "fma": r"vfmadd\d+ps",
    "sqrt": "vsqrtps",
    "neg": "v(pxor[dq]?|xorps)",
    "abs": "v(pand[dq]?|andps)",
    "sign": "vcmp[a-z]+ps",
    "copysign": "vpternlog[dq]|vandn?ps",
    **dict.fromkeys(("rint", "floor", "ceil", "trunc"), "vrndscaleps|vroundps"),
    **dict.fromkeys(("min", "max", "fmin", "fmax"), "vcmpunordps"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "vcmp[a-z]+ps"),
}
BOOLS: dict[str, Class] = dict.fromkeys(
    ("and", "or", "xor", "not", "eq", "ne"), "vp(cmpeq|test)b|vptestn?mb"
)
BLENDS = {
    WIDE: r"v(mov\S+|pblend\S*|blend\S*) .*\{%k|vpternlog",
    NARROW: r"v(pblendvb|blendvp[sd])",
}


def expected(name: str, dtype: DType, level: str) -> str:
    """What must appear in the code of the row in `dtype` for 32 lanes, as a regular expression."""
    if name == "where":
        return BLENDS[level]
    found = _class(name, dtype)
    chosen = found[dtype.bits] if isinstance(found, dict) else found
    mnemonic = chosen.format(w=LETTER.get(dtype.bits, ""), s="u" if dtype.kind == "u" else "s")
    if mnemonic.startswith("i?"):
        return rf"\t({mnemonic}) "
    return rf"\t({mnemonic}) .*{_register(dtype, level)}"


def _class(name: str, dtype: DType) -> Class:
    if dtype.kind == "b":
        return BOOLS[name]
    if dtype.is_float:
        return FLOATS[name]
    own = UNSIGNED if dtype.kind == "u" else SIGNED
    return own[name] if name in own else INTEGERS[name]


def _register(dtype: DType, level: str) -> str:
    """32 lanes of 8 bits fill 256 bits; 16 bits may be done in two halves."""
    if level == NARROW:
        return "%ymm"
    return "%[yz]mm" if dtype.bits <= 16 else "%zmm"


def expected_of_cast(source: DType, to: DType, level: str) -> list[str]:
    """What must appear in the code of a cast of 32 lanes, one regular expression for each step."""
    if source.kind == "b" or source is to:
        return []
    steps = [_WIDENED.get(source.name, "")]
    if to.kind == "b":
        steps.append(r"v(p|)(cmp|test)[a-z]*(ps|b|w|d|q)")
    elif source.is_float and not to.is_float:
        steps.append(_to_integer(to, level))
    elif to.is_float and not source.is_float:
        steps.append(_from_integer(source, level))
    elif not source.is_float and to.bits > source.bits:
        steps.append(
            f"vpmov{'z' if source.kind == 'u' else 's'}x{LETTER[source.bits]}{LETTER[to.bits]}"
        )
    elif to.bits < source.bits and not source.is_float:
        narrowed = f"vpmov{LETTER[source.bits]}{LETTER[to.bits]}"
        steps.append(narrowed if level == WIDE else "vpack[us]s(wb|dw)|vpermpd|vshufps")
    steps.append(_NARROWED.get(to.name, ""))
    return [rf"\t({step}) " for step in steps if step]


# bf16 is the high half of f32; a test for zero may look at the bits as they are.
_WIDENED = {"f16": "vcvtph2ps", "bf16": "vpslld|vptestmw|vpcmpgtw"}
_NARROWED = {"f16": "vcvtps2ph", "bf16": "vpsrld"}


def _to_integer(to: DType, level: str) -> str:
    if to.bits == 64:
        return f"vcvttps2{'u' if to.kind == 'u' else ''}qq" if level == WIDE else "vcvttss2siq?"
    return "vcvttps2u?dq" if level == WIDE else "vcvttps2dq"


def _from_integer(source: DType, level: str) -> str:
    """x86-64-v3 has no unsigned form: the halves of a u32 are put together as floats."""
    unsigned = source.kind == "u" and source.bits >= 32
    if source.bits == 64:
        return f"vcvt{'u' if unsigned else ''}qq2ps" if level == WIDE else "vcvtsi2ss[lq]?"
    if unsigned:
        return "vcvtudq2ps" if level == WIDE else "vsubps|vaddps"
    return "vcvtdq2ps"
