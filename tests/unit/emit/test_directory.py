"""An artefact directory is there whole or not at all."""

import os
from pathlib import Path

import pytest

from iron.emit.directory import MANIFEST, replacing, write
from iron.emit.manifest import dumps, manifest
from iron.errors import KernelError


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def emit(out: Path, text: bytes, fault: bool = False) -> None:
    with replacing(out) as folder:
        write(folder, MANIFEST, dumps(manifest([])).encode())
        write(folder, "cpu/one.ll", text)
        if fault:
            raise KeyboardInterrupt


def test_a_new_one_and_one_in_place_of_an_older(tmp_path: Path):
    out = tmp_path / "deep" / "art"
    emit(out, b"first")
    assert files(out)["cpu/one.ll"] == b"first"
    write(out, "cpu/left.o", b"old")
    emit(out, b"second")
    assert files(out) == {MANIFEST: dumps(manifest([])).encode(), "cpu/one.ll": b"second"}
    assert os.listdir(tmp_path / "deep") == ["art"]


def test_a_failed_one_changes_nothing(tmp_path: Path):
    out = tmp_path / "art"
    with pytest.raises(KeyboardInterrupt):
        emit(out, b"never", fault=True)
    assert os.listdir(tmp_path) == []
    emit(out, b"first")
    before = files(out)
    with pytest.raises(KeyboardInterrupt):
        emit(out, b"never", fault=True)
    assert files(out) == before
    assert os.listdir(tmp_path) == ["art"]


def test_what_is_not_ours_is_left_alone(tmp_path: Path):
    out = tmp_path / "mine"
    write(out, "thesis.txt", b"years of work")
    write(out, MANIFEST, b"{}")
    with pytest.raises(KernelError) as refused:
        emit(out, b"never")
    assert refused.value.id == "E0802"
    assert files(out)["thesis.txt"] == b"years of work"
    plain = tmp_path / "file"
    plain.write_text("x")
    with pytest.raises(KernelError, match="no artefact directory"):
        emit(plain, b"never")


def test_an_empty_folder_is_taken(tmp_path: Path):
    emit(tmp_path / "art", b"x")
    (tmp_path / "empty").mkdir()
    emit(tmp_path / "empty", b"x")
    assert files(tmp_path / "empty") == files(tmp_path / "art")


def test_a_place_that_cannot_be_written_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(KernelError) as refused:
        emit(tmp_path / "file" / "art", b"x")
    assert refused.value.id == "E0802"
