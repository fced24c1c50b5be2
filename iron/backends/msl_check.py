"""Metal text checked where no Metal compiler is: by a strict front end, and by rules of its own.

Clang's front end of C++ for OpenCL 2021 knows address spaces, kernels and their limits. What it
takes and Metal does not is a rule here. Only Apple's compiler proves that text is Metal.
"""

from __future__ import annotations

import re
from pathlib import Path

from iron.backends import clang
from iron.backends.clike.render import Text
from iron.backends.msl import MOST_BUFFERS
from iron.errors import error

_HEADER = Path(__file__).parent / "msl_check.h"
_INCLUDE = "#include <metal_stdlib>"
_FLAGS = (
    *(
        "-x",
        "cl",
        "-cl-std=clc++2021",
        "-cl-no-stdinc",
        "-target",
        "x86_64-linux-gnu",
        "-fsyntax-only",
    ),
    *("-Werror=unknown-attributes", "-Wno-unknown-pragmas", "-ffp-contract=off"),
)

_REFUSED = {
    r"\bdouble\b": "Metal has no double",
    r"\blong\s+long\b": "Metal has no long long",
    r"\dll\b|\dull\b": "Metal has no long long literals",
    r"\bgoto\b": "Metal has no goto",
    r"\bstatic\b(?! inline)": "a static object outlives its thread",
    r"\b(?:new|delete|virtual|dynamic_cast|throw|try)\b": "Metal leaves this out of C++",
    r"\[\[buffer\((?:3[1-9]|[4-9]\d|\d{3,})\)\]\]": f"a kernel takes {MOST_BUFFERS} buffers",
}


def check(text: Text) -> None:
    """Raises E0901 with what is wrong, E0603 without clang."""
    wrong = lint(text.source)
    if wrong:
        raise error("E0901", f"{text.symbol} is not Metal", notes=tuple(wrong))
    source = text.source.replace(_INCLUDE, _HEADER.read_text())
    clang.compiled(source, ".cl", _FLAGS, text.symbol)


def lint(source: str) -> list[str]:
    """What Metal refuses and the front end takes, with the line."""
    found = [
        f"line {number}: {why}: {line.strip()}"
        for number, line in enumerate(source.splitlines(), 1)
        for pattern, why in _REFUSED.items()
        if re.search(pattern, line)
    ]
    return found + [f"{name} calls itself" for name in _recursive(source)]


def _recursive(source: str) -> list[str]:
    """Functions that call themselves; without declarations they cannot call each other in turn."""
    found: list[str] = []
    for part in re.split(r"^static inline \w+ ", source, flags=re.MULTILINE)[1:]:
        name, _, rest = part.partition("(")
        head, _, below = rest.partition("\n")
        body = head if head.endswith("}") else below.partition("\n}")[0]
        if re.search(rf"\b{name}\(", body):
            found.append(name)
    return found
