"""A content-addressed store of compiled code on disk: what cannot be trusted is a miss.

The caller's key must name everything the payload depends on. An entry is one file, published by
one rename, that carries a digest over its own content; a fault of the disk, of the file or of the
directory never raises. This module knows neither kernels nor compilers.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

MAGIC: Final = b"iron-cache-1\n"
DIGEST: Final = hashlib.sha256().digest_size
LENGTH: Final = 4  # bytes of the header's length, little endian
SUFFIX: Final = ".entry"
PARTIAL: Final = ".partial"
ABANDONED_AFTER: Final = 3600.0  # seconds until an unfinished write counts as a killed process
TOUCH_AFTER: Final = 86400.0  # seconds; one write a day records that an entry is in use


class BadEntry(Exception):
    """A file that is not the entry it should be; its text says why."""


@dataclass(frozen=True, slots=True)
class Stats:
    """What lies on disk (`bytes`, age of the least recently used in seconds), what this process
    asked for, and `trouble`: why the directory cannot be used, or nothing."""

    root: Path
    entries: int
    bytes: int
    oldest: float
    counts: dict[str, int]
    trouble: str


@dataclass(frozen=True, slots=True)
class Pruned:
    """Entries and bytes that a prune removed."""

    entries: int
    bytes: int


@dataclass(frozen=True, slots=True)
class _File:
    path: Path
    bytes: int
    used: float


def default_root(environ: Mapping[str, str] = os.environ) -> Path:
    """`IRON_CACHE_DIR`, else `iron` in the XDG cache directory."""
    chosen = environ.get("IRON_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    base = environ.get("XDG_CACHE_HOME")
    # The XDG specification says that a relative value is to be ignored.
    if base and Path(base).is_absolute():
        return Path(base) / "iron"
    return Path("~/.cache/iron").expanduser()


class Cache:
    """The store below `root`, which is made with mode 0700 on the first write.

    Any number of processes may share it. Entries are code, so a directory that belongs to someone
    else than this user or root, or that others may write to, is neither read nor written.
    """

    def __init__(self, root: Path | str | None = None) -> None:
        self.root = Path(root) if root is not None else default_root()
        self.counts: Counter[str] = Counter()

    def get(self, key: str) -> bytes | None:
        """The payload stored under `key`, or None; every doubt is None."""
        found = self.read(key)
        return found[1] if found else None

    def read(self, key: str) -> tuple[dict[str, Any], bytes] | None:
        """Like `get`, with the metadata that was stored beside the payload."""
        path = self.path(key)
        trouble = self.trouble()
        if trouble:
            self.counts["absent" if trouble == ABSENT else "refused"] += 1
            return None
        try:
            meta, payload = decode(path.read_bytes(), key)
        except FileNotFoundError:
            self.counts["absent"] += 1
            return None
        except (OSError, BadEntry):
            self.counts["faulty"] += 1
            return None
        self.counts["hit"] += 1
        _touch(path)
        return meta, payload

    def put(self, key: str, payload: bytes, meta: Mapping[str, Any] | None = None) -> bool:
        """Publishes `payload`; False when the directory cannot take it.

        `meta` is JSON that a reader of the cache may want to see (names, versions).
        """
        image = encode(key, payload, meta or {})
        try:
            self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError:
            self.counts["unwritten"] += 1
            return False
        written = not self.trouble() and _publish(self.path(key), image)
        self.counts["written" if written else "unwritten"] += 1
        return written

    def path(self, key: str) -> Path:
        """The file that holds, or would hold, the entry."""
        return self.root / (hashlib.sha256(key.encode()).hexdigest() + SUFFIX)

    def trouble(self) -> str:
        """Why the directory cannot be used, or nothing."""
        try:
            info = self.root.stat()
        except FileNotFoundError:
            return ABSENT
        except OSError as fault:
            return fault.strerror or str(fault)
        if not stat.S_ISDIR(info.st_mode):
            return "not a directory"
        if os.name != "posix":
            return ""
        if info.st_uid not in (os.geteuid(), 0):
            return f"belongs to user {info.st_uid}"
        if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return f"others may write to it (mode {stat.S_IMODE(info.st_mode):04o})"
        return ""

    def stats(self) -> Stats:
        """Counts and sizes, read from the directory."""
        files = [f for f in self._files() if f.path.suffix == SUFFIX]
        ages = [max(0.0, time.time() - f.used) for f in files] or [0.0]
        total = sum(f.bytes for f in files)
        trouble = self.trouble()
        return Stats(
            self.root,
            len(files),
            total,
            max(ages),
            dict(self.counts),
            "" if trouble == ABSENT else trouble,
        )

    def prune(self, max_bytes: int | None = None, max_age: float | None = None) -> Pruned:
        """Removes entries unused for `max_age` seconds, then the least recently used ones until
        `max_bytes` are left, and what killed writers left behind."""
        now = time.time()
        kept: list[_File] = []
        doomed: list[_File] = []
        for f in self._files():
            limit = max_age if f.path.suffix == SUFFIX else ABANDONED_AFTER
            (doomed if limit is not None and now - f.used >= limit else kept).append(f)
        if max_bytes is not None:
            entries = sorted((f for f in kept if f.path.suffix == SUFFIX), key=lambda f: f.used)
            excess = sum(f.bytes for f in entries) - max_bytes
            for f in entries:
                if excess <= 0:
                    break
                doomed.append(f)
                excess -= f.bytes
        gone = [f for f in doomed if _remove(f.path)]
        return Pruned(len(gone), sum(f.bytes for f in gone))

    def _files(self) -> Iterator[_File]:
        if self.trouble():
            return
        with suppress(OSError):
            for item in os.scandir(self.root):
                if item.name.endswith((SUFFIX, PARTIAL)):
                    # Another process may prune at the same time.
                    with suppress(FileNotFoundError):
                        info = item.stat(follow_symlinks=False)
                        yield _File(Path(item.path), info.st_size, info.st_mtime)


ABSENT: Final = "absent"


def encode(key: str, payload: bytes, meta: Mapping[str, Any]) -> bytes:
    """The bytes of an entry: magic, digest of the rest, header length, header, payload."""
    header = json.dumps({"key": key, "meta": dict(meta)}, sort_keys=True).encode()
    rest = len(header).to_bytes(LENGTH, "little") + header + payload
    return MAGIC + hashlib.sha256(rest).digest() + rest


def decode(image: bytes, key: str) -> tuple[dict[str, Any], bytes]:
    """Metadata and payload of an entry; raises `BadEntry` on the first thing that is wrong."""
    if not image.startswith(MAGIC):
        raise BadEntry("not an entry of this version")
    digest = image[len(MAGIC) : len(MAGIC) + DIGEST]
    rest = image[len(MAGIC) + DIGEST :]
    if hashlib.sha256(rest).digest() != digest:
        raise BadEntry("digest does not match")
    size = int.from_bytes(rest[:LENGTH], "little")
    header = json.loads(rest[LENGTH : LENGTH + size])
    if header["key"] != key:
        raise BadEntry("entry of another key")
    return header["meta"], rest[LENGTH + size :]


def _publish(path: Path, image: bytes) -> bool:
    """Writes beside `path` and renames, so that a reader sees all of the entry or none."""
    try:
        handle, temporary = tempfile.mkstemp(suffix=PARTIAL, dir=path.parent)
    except OSError:
        return False
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(image)
            out.flush()
            os.fsync(out.fileno())
        os.replace(temporary, path)
    except OSError:
        _remove(Path(temporary))
        return False
    except BaseException:
        _remove(Path(temporary))
        raise
    return True


def _touch(path: Path) -> None:
    with suppress(OSError):
        if time.time() - path.stat().st_mtime > TOUCH_AFTER:
            os.utime(path)


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError:
        return False
    return True
