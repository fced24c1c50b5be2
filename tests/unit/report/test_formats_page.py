"""The reference of formats is up to date, counts the core, and has a row for every format."""

import re
from pathlib import Path

import pytest

from iron.quant.format import CORE, FORMATS, Scale, by_name
from iron.report import formats_page
from iron.report.formats_page import family, main, page

MATRIX = """
    f32 f16 bf16 mlx_int2_g64 mlx_int3_g32 mlx_int8_g128 mlx_mxfp4 mlx_nvfp4 mlx_mxfp8
    mxfp8_e5m2 nvfp4 nvfp4_ct fp8_e4m3_tensor fp8_e4m3_row fp8_e4m3_b128_f32
    fp8_e4m3_b128_e8m0 int8_row int8_g32 int4_sym_g32_f32 int4_sym_g32_f16 int4_sym_g32_e8m0
    gguf_q4_0 gguf_q4_1 gguf_q5_0 gguf_q5_1 gguf_q8_0 gguf_q2_k gguf_q3_k gguf_q4_k gguf_q5_k
    gguf_q6_k gguf_mxfp4 kv_int8 kv_int4 kv_fp8_e4m3 kv_fp8_e5m2 aura_2 aura_3 aura_4 aura_8
    mxfp6_e2m3 mxfp6_e3m2 mxint8 gguf_iq4_nl gguf_iq4_xs gguf_tq1_0 gguf_tq2_0 gguf_nvfp4
    gguf_q1_0 gguf_q2_0 ct_pack_int4_sym ct_pack_int4_asym gptq_int4_v1 gptq_int4_v2
    gptq_int3_v2 awq_int4 bnb_nf4 bnb_nf4_dq bnb_fp4 aura_6 gguf_iq1_s gguf_iq1_m gguf_iq2_xxs
    gguf_iq2_xs gguf_iq2_s gguf_iq3_xxs gguf_iq3_s hqq_int8 hqq_int4 hqq_int3 hqq_int2
    gemma_int2 gemma_int4 bitnet gguf_q8_1 gguf_q8_k
"""
PAGE = Path(__file__).parents[3] / "docs" / "formats.md"


def test_page_is_what_the_table_says():
    assert PAGE.read_text() == page(), "run `python -m iron.report.formats_page`"


def test_the_core_is_thirty_formats_by_name():
    text = page()
    listed = re.search(r"## The core: 30 .*?\n\n.*?\n\n(.*?)\n\n", text, re.DOTALL)
    assert listed
    names = re.findall(r"`([a-z0-9_]+)`", listed[1])
    assert len(names) == len(set(names)) == 30
    assert tuple(names) == CORE
    scales = [by_name(name).scale for name in names]
    assert scales.count(Scale.FLOAT) == 20
    assert scales.count(Scale.E8M0) == 9
    assert scales.count(Scale.E4M3) == 1
    widths = [k for b in (2, 3, 4, 5, 6, 8) for k in (f"mxint{b}", f"int{b}_g64_f32")]
    assert set(widths) <= set(names)


def test_every_format_has_a_row():
    named = set(re.findall(r"^\| `([a-z0-9_{}A-Z]+)` \|", page(), re.MULTILINE))
    for fmt in FORMATS.values():
        forms = {fmt.name, family(fmt.name), family(fmt.name).replace("{b}", str(fmt.bits))}
        assert forms & named, fmt.name


def test_every_tier_of_the_matrix_is_there():
    for name in MATRIX.split():
        assert by_name(name)


def test_a_changed_table_changes_the_page(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    fewer = {name: f for name, f in FORMATS.items() if name != "bitnet"}
    monkeypatch.setattr(formats_page, "FORMATS", fewer)
    assert page() != PAGE.read_text()
    assert main([str(tmp_path / "formats.md")]) == 0
    assert "| `bitnet` | " not in (tmp_path / "formats.md").read_text().split("## Layouts")[0]
