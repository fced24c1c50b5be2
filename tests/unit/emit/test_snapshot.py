"""Code snapshots: what is the same shows nothing, what changed shows a unified difference."""

import gzip
from pathlib import Path

import pytest

from iron.emit.snapshot import Change, Snapshot, Text, collected, compare, dumps, load
from iron.errors import KernelError

BEFORE = [
    Text("cuda:sm_90a", "iron_copy_f32", "iron_copy_f32_11111111", "a\nb\nc\n"),
    Text("cuda:sm_90a", "iron_scale", "iron_scale_22222222", "two\n"),
    Text("cuda:sm_90a", "iron_scale", "iron_scale_33333333", "three\n"),
    Text("cpu:x86-64-v3", "iron_copy_f32", "iron_copy_f32_44444444", "x\n"),
]


def test_it_is_read_back_as_it_was_written(tmp_path: Path):
    made = collected(BEFORE, ("copy",), "f32")
    (tmp_path / "a").write_bytes(dumps(made))
    assert load(tmp_path / "a") == made
    assert dumps(collected(reversed(BEFORE), ("copy",), "f32")) == dumps(made)


def test_kernels_of_one_alias_go_by_their_symbols():
    assert list(collected(BEFORE).texts["cuda:sm_90a"]) == [
        "iron_copy_f32",
        "iron_scale_22222222",
        "iron_scale_33333333",
    ]


def test_equal_code_under_another_digest_is_no_difference():
    again = [Text(t.target, t.alias, t.symbol, t.text) for t in BEFORE]
    again[0] = Text("cuda:sm_90a", "iron_copy_f32", "iron_copy_f32_99999999", "a\nb\nc\n")
    assert list(compare(collected(BEFORE), collected(again))) == []


def test_a_change_reads_as_a_unified_difference():
    after = [Text("cuda:sm_90a", "iron_copy_f32", "iron_copy_f32_11111111", "a\nB\nc\n")]
    changes = list(compare(collected(BEFORE[:1]), collected(after)))
    assert changes == [Change("cuda:sm_90a", "iron_copy_f32", "a\nb\nc\n", "a\nB\nc\n")]
    assert changes[0].unified() == (
        "--- before/iron_copy_f32 for cuda:sm_90a\n"
        "+++ after/iron_copy_f32 for cuda:sm_90a\n"
        "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    )


def test_kernels_that_come_and_go_are_one_line_each():
    changes = list(compare(collected(BEFORE[:1]), collected(BEFORE[3:])))
    assert [c.unified() for c in changes] == [
        "+++ iron_copy_f32 for cpu:x86-64-v3\n",
        "--- iron_copy_f32 for cuda:sm_90a\n",
    ]


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", gzip.compress(b"{}"), gzip.compress(b"[1]"), dumps(Snapshot({}))[:-9]],
    ids=["empty", "plain", "object", "list", "cut"],
)
def test_another_file_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "file").write_bytes(content)
    with pytest.raises(KernelError) as refused:
        load(tmp_path / "file")
    assert refused.value.id == "E0801"
