"""SPIR-V: words straight from the IR, in sections, for Vulkan's compute pipelines."""

from iron.backends.spirv.disassemble import disassemble
from iron.backends.spirv.encode import Encoded
from iron.backends.spirv.entry import encode

__all__ = ["Encoded", "disassemble", "encode"]
