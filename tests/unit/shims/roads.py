"""The text backends as the tests of the shims open them: any order, any change to the text."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from iron.backends.clike.render import Text
from iron.ir.core import Kernel
from iron.runtime.cache import Cache
from iron.shims import cuda_text, hip_text, metal_text
from iron.shims.driver import TextDriver
from iron.shims.fibres import ORDERS
from iron.targets.apple import APPLE7
from iron.targets.nvidia import SM_80

VOCABULARIES = {
    "cuda-text": (cuda_text.WORDS, SM_80),
    "hip-text-32": (hip_text.WORDS[32], hip_text.TARGETS[32]),
    "hip-text-64": (hip_text.WORDS[64], hip_text.TARGETS[64]),
    "msl-text": (metal_text.WORDS, APPLE7),
}
NAMES = tuple(VOCABULARIES)

Edit = Callable[[Sequence[str]], list[str]]


class Edited(TextDriver):
    """A driver that changes the lines of every kernel's body before it compiles them."""

    edit: Edit = list

    def text(self, kernel: Kernel, key: str) -> Text:
        """The edited text; what is left of it has no user's lines."""
        text = super().text(kernel, key)
        lines = self.edit(text.body.split("\n"))
        return replace(text, body="\n".join(lines), places=(None,) * len(lines))


def opened(name: str, order: str = "") -> TextDriver:
    """The driver called `name`, with threads in one order."""
    words, target = VOCABULARIES[name]
    return TextDriver(name, words, target, Cache(), order)


def edited(name: str, edit: Edit, order: str = "") -> TextDriver:
    """The same, with the text changed by `edit`."""
    words, target = VOCABULARIES[name]
    driver = Edited(name, words, target, Cache(), order)
    driver.edit = edit
    return driver


def without(number: int, words: str) -> Edit:
    """Drops the occurrence `number` of a line that holds `words`."""

    def edit(lines: Sequence[str]) -> list[str]:
        at = [k for k, line in enumerate(lines) if words in line][number]
        return [line for k, line in enumerate(lines) if k != at]

    return edit


__all__ = ["NAMES", "ORDERS", "VOCABULARIES", "edited", "opened", "without"]
