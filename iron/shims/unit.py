"""Generated text as C++: each kernel in a namespace of its own, and how the runtime calls it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from iron.backends.clike.dialect import Argument, Dialect
from iron.backends.clike.group_memory import POOL
from iron.backends.clike.render import Text
from iron.backends.cuda_forms import Form
from iron.ir.core import Kernel

_ASM = re.compile(r'asm\("([\w.]+) [^"]*" : "=\w"\((\w+)\) : ((?:"\w"\(\w+\)(?:, )?)+)\);')
_NAME = re.compile(r"\b\w+\b")


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a dialect's text means on fibres.

    `header` is the file in this folder that defines its words. Threads meet where the text names
    one of `meets`. `replaced` is text of the prelude that stands for other text here. `call` makes
    the statements that call a kernel with the words `given`. `forms` are the texts of a lowered
    kernel that a launch chooses among, best first.
    """

    dialect: Dialect
    header: str
    meets: frozenset[str]
    replaced: Mapping[str, str] = field(default_factory=dict[str, str])
    call: Callable[[Text], list[str]] = lambda text: plain_call(text)
    forms: Callable[[Kernel, str], Iterable[Form]] = lambda kernel, symbol: ()


def unit(texts: Sequence[Text], words: Vocabulary) -> str:
    """A translation unit with the kernels of `texts`, which are called by their number."""
    parts = [f'#include "{words.header}"']
    for number, text in enumerate(texts):
        parts += _kernel(number, text, words)
    return "\n".join(parts) + "\n"


def _kernel(number: int, text: Text, words: Vocabulary) -> list[str]:
    prelude = text.prelude
    for old, new in words.replaced.items():
        prelude = prelude.replace(old, new)
    sites = meeting(text, words)
    section = f"fibre_shared_{number}"
    macros = [f"#define {name}(...) FIBRE_SITE({name}(__VA_ARGS__))" for name in sites]
    return [
        f"namespace unit_{number} {{",
        called(prelude),
        *macros,
        f'#define FIBRE_SHARED "{section}"',
        called(_static(text, words.dialect)),
        '#line 1 "unit"',
        "#undef FIBRE_SHARED",
        *(f"#undef {name}" for name in sites),
        "static void call(const unsigned long long* given) {",
        *words.call(text),
        "}",
        "}",
        'extern "C" {',
        f'extern __attribute__((weak, visibility("hidden"))) char __start_{section}[];',
        f'extern __attribute__((weak, visibility("hidden"))) char __stop_{section}[];',
        f"fibre_kernel fibre_kernel_{number} = "
        f"{{unit_{number}::call, __start_{section}, __stop_{section}}};",
        "}",
    ]


def plain_call(text: Text) -> list[str]:
    """Every argument by value, in order."""
    given = ", ".join(_passed(a, at) for at, a in enumerate(text.arguments))
    return [f"  {text.symbol}({given});"]


def _static(text: Text, dialect: Dialect) -> str:
    """The body, in which arrays of the group outlive the thread that declares them."""
    body = text.numbered(f"{text.symbol}.{dialect.name}")
    pool = re.compile(rf"^  extern {re.escape(dialect.shared)} (?=.*{POOL}\[\];$)", re.MULTILINE)
    body = pool.sub("  FIBRE_ARRAY ", body).replace(f" {POOL}[];", f" {POOL}[{text.dynamic}];")
    aligned = r"(?:__align__\(\d+\) )?"
    declared = re.compile(
        rf"^  (?={re.escape(dialect.shared)} {aligned}\w+ \w+\[\d+\];$)", re.MULTILINE
    )
    return declared.sub("  FIBRE_ARRAY ", body)


def _passed(a: Argument, at: int) -> str:
    kind = f"{'' if a.written else 'const '}{a.dtype}*" if a.pointer else str(a.dtype)
    return f"fibre_bits<{kind}>(given[{at}])"


def meeting(text: Text, words: Vocabulary) -> list[str]:
    """The functions that the body calls and in which threads meet."""
    functions = words.dialect.functions
    known: dict[str, bool] = {}

    def meets(name: str) -> bool:
        if name not in known:
            known[name] = False
            inner = _NAME.findall(functions[name]) if name in functions else []
            known[name] = name in words.meets or any(
                n != name and (n in words.meets or n in functions) and meets(n) for n in inner
            )
        return known[name]

    return sorted(n for n in set(_NAME.findall(text.body)) if meets(n))


def called(text: str) -> str:
    """`text` with a call of the vocabulary in place of each inline instruction."""

    def call(found: re.Match[str]) -> str:
        operands = re.findall(r'"\w"\((\w+)\)', found[3])
        return f"ptx_{found[1].replace('.', '_')}({', '.join([found[2], *operands])});"

    return _ASM.sub(call, text)
