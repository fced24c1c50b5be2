"""Text to token ids and back, and the form of a chat, all from the GGUF file's metadata."""

from collections.abc import Iterable, Mapping
from typing import Any

from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

CONTROL = 3  # GGUF token type of control tokens


class Text:
    """The model's tokenizer; `end` is the id that ends an answer."""

    def __init__(self, metadata: Mapping[str, Any]) -> None:
        words = metadata["tokenizer.ggml.tokens"]
        merges = [tuple(m.split(" ")) for m in metadata["tokenizer.ggml.merges"]]
        ids = {word: i for i, word in enumerate(words)}
        self._tokenizer = Tokenizer(models.BPE(vocab=ids, merges=merges))
        self._tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
        self._tokenizer.decoder = decoders.ByteLevel()
        kinds = metadata["tokenizer.ggml.token_type"]
        special = [w for w, kind in zip(words, kinds, strict=True) if kind == CONTROL]
        self._tokenizer.add_special_tokens([AddedToken(w, special=True) for w in special])
        self.end = int(metadata["tokenizer.ggml.eos_token_id"])
        plain = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        self._form = plain.from_string(metadata["tokenizer.chat_template"])

    def encode(self, text: str) -> list[int]:
        """The ids of `text`; no beginning-of-sequence token is added."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`, control tokens included."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def chat(self, message: str) -> str:
        """One user message in the model's chat form, ready for the answer."""
        turns = [{"role": "user", "content": message}]
        return self._form.render(messages=turns, add_generation_prompt=True)
