"""The cache: any fault is a miss, no reader ever sees half an entry, nothing is left behind."""

import errno
import hashlib
import os
import resource
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from iron.runtime.cache import ABANDONED_AFTER, PARTIAL, Cache, decode, default_root, encode

ROOT = Path(__file__).parents[3]
PAYLOAD = bytes(range(256)) * 3


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "store")


def names(cache: Cache) -> list[str]:
    return sorted(p.name for p in cache.root.iterdir()) if cache.root.exists() else []


def test_what_is_put_is_got(cache: Cache):
    assert cache.get("k") is None
    assert cache.put("k", PAYLOAD, {"kernel": "softmax"})
    assert cache.get("k") == PAYLOAD
    assert cache.read("k") == ({"kernel": "softmax"}, PAYLOAD)
    assert cache.get("K") is None
    assert cache.put("k", b"")
    assert cache.get("k") == b""
    assert cache.stats().counts == {"absent": 2, "written": 2, "hit": 3}


def test_the_directory_is_private_and_the_entry_too(cache: Cache):
    cache.put("k", PAYLOAD)
    assert stat.S_IMODE(cache.root.stat().st_mode) == 0o700
    assert stat.S_IMODE(cache.path("k").stat().st_mode) == 0o600
    assert len(names(cache)) == 1


def test_every_truncation_is_a_miss(cache: Cache):
    cache.put("k", b"payload")
    path = cache.path("k")
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        assert cache.get("k") is None, length
    path.write_bytes(whole + b"\0")
    assert cache.get("k") is None
    path.write_bytes(whole)
    assert cache.get("k") == b"payload"


def test_every_flipped_byte_is_a_miss(cache: Cache):
    cache.put("k", b"payload")
    path = cache.path("k")
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x10]) + whole[at + 1 :])
        assert cache.get("k") is None, at
    assert cache.stats().counts["faulty"] == len(whole)


def test_a_faulty_entry_is_mended_by_the_next_put(cache: Cache):
    cache.put("k", PAYLOAD)
    cache.path("k").write_bytes(b"")
    assert cache.get("k") is None
    assert cache.put("k", PAYLOAD)
    assert cache.get("k") == PAYLOAD


def test_an_entry_under_the_wrong_name_is_a_miss(cache: Cache):
    cache.put("a", PAYLOAD)
    cache.path("a").rename(cache.path("b"))
    assert cache.get("b") is None


def test_a_directory_in_the_place_of_an_entry_is_a_miss(cache: Cache):
    cache.put("a", PAYLOAD)
    cache.path("b").mkdir()
    assert cache.get("b") is None
    assert not cache.put("b", PAYLOAD)
    assert not [n for n in names(cache) if n.endswith(PARTIAL)]


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777, 0o1777], ids=oct)
def test_a_directory_others_may_write_to_is_refused(cache: Cache, mode: int):
    cache.put("k", PAYLOAD)
    cache.root.chmod(mode)
    assert cache.get("k") is None
    assert not cache.put("l", PAYLOAD)
    assert "others may write" in cache.stats().trouble
    cache.root.chmod(0o755)
    assert cache.get("k") == PAYLOAD
    assert cache.get("l") is None


def test_a_directory_of_another_user_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    cache.put("k", PAYLOAD)
    owner = cache.root.stat().st_uid
    if owner == 0:
        os.chown(cache.root, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert cache.get("k") is None
    assert "belongs to user" in cache.stats().trouble


class Unprivileged:
    """Runs the block as user nobody when the suite runs as root, whom no mode stops."""

    def __enter__(self):
        if os.geteuid() == 0:
            os.seteuid(65534)

    def __exit__(self, *_: object):
        if os.getuid() == 0:
            os.seteuid(0)


def test_a_read_only_directory_is_read():
    with tempfile.TemporaryDirectory() as outer:
        os.chmod(outer, 0o755)
        cache = Cache(Path(outer) / "store")
        cache.put("k", PAYLOAD)
        cache.path("k").chmod(0o444)
        cache.root.chmod(0o555)
        with Unprivileged():
            assert cache.get("k") == PAYLOAD
            assert not cache.put("l", PAYLOAD)
            assert cache.prune(max_bytes=0).entries == 0
        assert names(cache) == [cache.path("k").name]
        cache.root.chmod(0o755)


def test_a_root_that_cannot_be_made_is_a_miss(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for root in (tmp_path / "file", tmp_path / "file" / "store"):
        cache = Cache(root)
        assert cache.get("k") is None
        assert not cache.put("k", PAYLOAD)
        assert cache.stats().entries == 0
        assert cache.prune(max_bytes=0).entries == 0


def test_a_full_disk_leaves_nothing(cache: Cache):
    cache.put("k", b"small")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, hard))
        assert not cache.put("big", PAYLOAD)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert names(cache) == [cache.path("k").name]
    assert cache.get("k") == b"small"


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_fault_at_a_late_step_leaves_nothing(
    cache: Cache, monkeypatch: pytest.MonkeyPatch, step: str
):
    def no_space(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, step, no_space)
        assert not cache.put("k", PAYLOAD)
    assert names(cache) == []
    assert cache.get("k") is None


def test_an_interrupt_leaves_nothing(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        cache.put("k", PAYLOAD)
    assert names(cache) == []


WRITER = """
import hashlib, sys
from iron.runtime.cache import Cache
cache, me = Cache(sys.argv[1]), sys.argv[2]
sys.stdin.readline()
for turn in range(40):
    key = f"shared-{turn % 5}"
    payload = hashlib.sha256(f"{me}-{turn}".encode()).digest() * 500
    assert cache.put(key, key.encode() + payload)
    found = cache.get(key)
    assert found is not None and found.startswith(key.encode()), key
assert cache.counts["faulty"] == 0
"""


def test_eight_processes_at_once(cache: Cache):
    run = [sys.executable, "-c", WRITER, str(cache.root)]
    writers = [
        subprocess.Popen([*run, str(n)], cwd=ROOT, stdin=subprocess.PIPE, text=True)
        for n in range(8)
    ]
    for w in writers:
        assert w.stdin
        w.stdin.write("go\n")
        w.stdin.close()
    assert [w.wait(60) for w in writers] == [0] * 8
    assert names(cache) == sorted(cache.path(f"shared-{n}").name for n in range(5))


def test_entries_do_not_depend_on_the_hash_seed():
    code = (
        "from iron.runtime.cache import Cache, encode; import hashlib;"
        "print(Cache('x').path('k').name,"
        "hashlib.sha256(encode('k', b'p', {'b': 1, 'a': [2], 'c': None})).hexdigest())"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(seen) == 1


def aged(cache: Cache, key: str, seconds: float, size: int = 100) -> None:
    cache.put(key, b"x" * size)
    then = time.time() - seconds
    os.utime(cache.path(key), (then, then))


def test_prune_by_age(cache: Cache):
    aged(cache, "old", 1000)
    aged(cache, "new", 10)
    assert cache.prune(max_age=500).entries == 1
    assert cache.get("old") is None
    assert cache.get("new") is not None


def test_prune_by_size_removes_the_least_recently_used(cache: Cache):
    for age, key in ((30, "a"), (20, "b"), (10, "c")):
        aged(cache, key, age)
    one = cache.stats().bytes // 3
    assert cache.prune(max_bytes=2 * one).entries == 1
    assert [cache.get(k) is not None for k in "abc"] == [False, True, True]
    assert cache.prune(max_bytes=0).entries == 2
    assert cache.stats().entries == 0


def test_a_hit_makes_an_old_entry_young(cache: Cache):
    aged(cache, "k", 10 * 86400)
    cache.get("k")
    assert cache.prune(max_age=86400).entries == 0


def test_prune_removes_what_a_killed_writer_left(cache: Cache):
    aged(cache, "k", 0)
    for name, age in ((f"dead{PARTIAL}", 2 * ABANDONED_AFTER), (f"alive{PARTIAL}", 0)):
        path = cache.root / name
        path.write_bytes(b"half")
        os.utime(path, (time.time() - age,) * 2)
    cache.prune()
    assert names(cache) == sorted([cache.path("k").name, f"alive{PARTIAL}"])


def test_prune_leaves_files_that_are_not_its_own(cache: Cache):
    aged(cache, "k", 1000)
    (cache.root / "notes.txt").write_text("mine")
    cache.prune(max_bytes=0, max_age=0)
    assert names(cache) == ["notes.txt"]


def test_where_it_lies():
    home = Path.home()
    assert default_root({}) == home / ".cache/iron"
    assert default_root({"XDG_CACHE_HOME": "/x"}) == Path("/x/iron")
    assert default_root({"XDG_CACHE_HOME": "relative"}) == home / ".cache/iron"
    assert default_root({"XDG_CACHE_HOME": "/x", "IRON_CACHE_DIR": "/y"}) == Path("/y")


def test_a_digest_that_fits_a_changed_key_is_still_refused():
    image = encode("a", PAYLOAD, {})
    assert decode(image, "a")[1] == PAYLOAD
    assert hashlib.sha256(image[13 + 32 :]).digest() == image[13 : 13 + 32]
    with pytest.raises(Exception, match="another key"):
        decode(image, "b")
