"""What emitted kernels are called: a symbol that is unique, and an alias that stays.

An alias says what an engine asks for (operation, dtypes, code path); the symbol adds the digest of
what the code means, so that two kernels of one name never meet.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from iron.front.bind import Binding
from iron.ir.core import Kernel
from iron.ir.text import digest
from iron.lang.declare import KernelFunction
from iron.lang.parameter import ConstSpec, ParamSpec

HASH_DIGITS: Final = 8


def symbol(alias: str, kernel: Kernel) -> str:
    """The alias and the first digits of the kernel's digest."""
    return f"{alias}_{digest(kernel)[:HASH_DIGITS]}"


def alias(
    declared: KernelFunction,
    binding: Binding,
    fixed: Mapping[str, int],
    given: Collection[str],
    chosen: bool = True,
) -> str:
    """`iron_<op>_<dtype>[_<variant>]`.

    The variant is made of formats, the Consts of `variants` and `choose`, other Consts that are
    `given` and differ from their default, optional parameters that are there, the rank of `...`
    and fixed dims. Without `chosen` it is the name that the alternatives of `choose` share.
    """
    parts = ["iron", declared.name, *(d.name for d in binding.dtypes.values())]
    parts += [_word(f) for f in binding.formats.values()]
    parts += _consts(declared, binding, given, chosen)
    parts += _present(declared, binding)
    parts += [_pair(name, size) for name, size in fixed.items()]
    return "_".join(parts)


def _consts(
    declared: KernelFunction, binding: Binding, given: Collection[str], chosen: bool
) -> Iterator[str]:
    for name, value in binding.consts.items():
        spec = declared.signature[name]
        assert isinstance(spec, ConstSpec)
        if value in binding.formats.values() or (name in declared.choose and not chosen):
            continue
        always = name in declared.variants or name in declared.choose
        if always or (name in given and _differs(value, spec.default)):
            yield _pair(name, value)


def _differs(value: Any, default: Any) -> bool:
    """1, 1.0 and True are three Consts."""
    return type(value) is not type(default) or value != default


def _pair(name: str, value: Any) -> str:
    """`vec4`, `one_plus`, `no_one_plus`, `l2_3`, `op_silu`."""
    plain = name.lower()
    if isinstance(value, bool):
        return plain if value else f"no_{plain}"
    joined = isinstance(value, int) and not plain[-1].isdigit()
    return f"{plain}{'' if joined else '_'}{_word(value)}"


def _present(declared: KernelFunction, binding: Binding) -> Iterator[str]:
    held = {**binding.tensors, **binding.packed, **binding.scalars}
    for name, spec in declared.signature.items():
        if isinstance(spec, ParamSpec) and spec.optional and held.get(name) is not None:
            yield f"with_{name}"
    ranks = [n for n in binding.dims if n.startswith("shape_")]
    if any(isinstance(s, ParamSpec) and s.dims is None for s in declared.signature.values()):
        yield f"rank{len(ranks)}"


def _word(value: Any) -> str:
    """A Const's value as part of a C identifier."""
    return re.sub(r"\W", "_", str(getattr(value, "name", value)).replace("-", "m"))
