"""The codebooks of the IQ types: trained data, read from the `gguf` package and checked by digest.

They are not derivable and not Iron's to copy; everything else about these types is in `iq`.
"""

from __future__ import annotations

import functools
import hashlib
from types import MappingProxyType
from typing import Any, Final

from iron.errors import error

# class of the gguf package, shape, SHA-256 of the entries as i8
GRIDS: Final = MappingProxyType(
    {
        "iq2_xxs": (
            "IQ2_XXS",
            (256, 8),
            "05826b5d3e472a3a78f196be62ac78acf81df0f909626e12ab9fa2a5d490dd54",
        ),
        "iq2_xs": (
            "IQ2_XS",
            (512, 8),
            "06e47aaca60b4dc1d9b5a3f34540437058a6b142b4d7a59d5ded769b4d1bf1de",
        ),
        "iq2_s": (
            "IQ2_S",
            (1024, 8),
            "e1aa1473412b0552c2174c30ef22ab4073f6a181b85a17056e8249bd2932fd88",
        ),
        "iq3_xxs": (
            "IQ3_XXS",
            (256, 4),
            "46e35f5a997efdee6c99ce57854c8a0d4f0ff8ca57e5e8a60c0793ea580acf5d",
        ),
        "iq3_s": (
            "IQ3_S",
            (512, 4),
            "bd1af4945a1717c65610b0284e4628b9a1ba3b306fae3a06f6e5f597356e349f",
        ),
        "iq1": (
            "IQ1_S",
            (2048, 8),
            "07540ffc1aeaf6ad4d97e96b0fcc765aae39671d4ae4a27bbd0e796fde167c6a",
        ),
    }
)


@functools.cache
def grid(name: str) -> Any:
    """The codebook as a flat i8 array; E0803 without the gguf package or with other data in it."""
    import numpy as np

    try:
        from gguf import quants
    except ImportError:
        raise error(
            "E0803",
            f"the codebook of {name} comes with the package gguf, which is not installed",
            help="pip install 'iron-kernels[gguf]'",
        ) from None
    owner, shape, digest = GRIDS[name]
    cls = getattr(quants, owner)
    cls.init_grid()
    entries = np.ascontiguousarray(cls.grid.reshape(shape).astype(np.int8))
    found = hashlib.sha256(entries.tobytes()).hexdigest()
    if found != digest:
        raise error(
            "E0803",
            f"the codebook of {name} in the installed gguf package is not the known one ({found})",
            help="install gguf 0.19",
        )
    return entries.reshape(-1)
