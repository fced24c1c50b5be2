"""The text of a module names what the author named and says which line each part is from."""

import re
import shutil
import subprocess

import pytest

from iron.backends.spirv.disassemble import disassemble
from tests.unit.backends.spirv.test_modules import encoded


def test_names_and_lines():
    text = disassemble(encoded("rms_norm").words)
    assert "OpEntryPoint" in text
    assert re.search(r"; rms_norm\.py:\d+", text)
    for name in ("%x", "%w", "%thread_index", "%x_origin"):
        assert f"{name} " in text
    assert "OpFMul %f32" in text


@pytest.mark.parametrize("name", ["softmax", "qmv", "scan_rows"])
def test_as_many_instructions_as_the_tools_see(name: str):
    tool = shutil.which("spirv-dis")
    if tool is None:
        pytest.skip("spirv-dis is not installed")
    words = encoded(name).words
    theirs = subprocess.run([tool, "--no-header", "-"], input=words, capture_output=True).stdout
    opcodes = re.findall(r"\bOp[A-Z]\w+", theirs.decode())
    ours = re.findall(r"\bOp[A-Z]\w+", disassemble(words))
    left_out = ("OpName", "OpMemberName", "OpLine")
    assert ours == [o for o in opcodes if o not in left_out]


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="no SPIR-V"):
        disassemble(b"\0" * 24)
