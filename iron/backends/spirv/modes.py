"""What the language promises of floats, as far as a device lets a module ask for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iron.backends.spirv.words import Capability, Mode

if TYPE_CHECKING:
    from iron.backends.spirv.encode import Encoder

WANTED = (
    ("denorm_preserve", Capability.DenormPreserve, Mode.DenormPreserve),
    ("signed_zero_inf_nan", Capability.SignedZeroInfNanPreserve, Mode.SignedZeroInfNanPreserve),
    ("round_to_even", Capability.RoundingModeRTE, Mode.RoundingModeRTE),
)


def float_modes(e: Encoder, main: int) -> None:
    """Execution modes of the entry point `main`, once its instructions are known."""
    m = e.m
    for feature, capability, mode in WANTED:
        for bits in (16, 32):
            uses = bits == 32 or Capability.Float16 in m.capabilities
            if uses and e.target.has(f"{feature}{bits}") and not _slows(e, feature, bits):
                m.need(capability)
                m.mode(main, mode, bits)


def _slows(e: Encoder, feature: str, bits: int) -> bool:
    """True for rounding to even where it makes a fast reciprocal an exact one, and only that.

    A device that rounds so by default was seen to; quotients, and what goes through f64, want it.
    """
    if feature != "round_to_even" or bits != 32 or not e.target.has("even_by_default"):
        return False
    names = {op.name for op in e.kernel.body.walk()}
    return "fast_rcp" in names and "div" not in names and Capability.Float64 not in e.m.capabilities
