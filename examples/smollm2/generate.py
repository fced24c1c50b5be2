"""Text from the model, token by token: greedy, or drawn at a temperature."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from examples.smollm2.model import Model
from iron.kernels.ops.arg_reduce import arg_reduce
from iron.kernels.sampling.categorical_sample import categorical_sample

AT_ONCE = 8  # prompt tokens a step; the kernels for few vectors take up to 8

Array = np.ndarray[Any, Any]


def prefill(model: Model, tokens: Sequence[int]) -> Iterator[Array]:
    """Runs the prompt in steps of 8 and then 1; the logits of each token, copied."""
    start = 0
    while start < len(tokens):
        count = AT_ONCE if len(tokens) - start >= AT_ONCE else 1
        logits = model.forward(tokens[start : start + count], start)
        yield from (model.copy(row) for row in logits)
        start += count


def chooser(model: Model, temperature: float, seed: int) -> Callable[[Array], int]:
    """A function from logits to a token: the likeliest at temperature 0, else a draw."""
    logits = model.zeros((1, model.embedding.rows))
    token, key = model.zeros(1, np.uint32), model.zeros(4, np.uint32)
    draws = itertools.count()
    if temperature > 0:
        launch = categorical_sample.bind(x=logits, key=key, token=token, temperature=temperature)
    else:
        launch = arg_reduce.bind(x=logits, y=token, OP="max")

    def choose(row: Array) -> int:
        model.move(row, logits[0])
        if temperature > 0:
            model.write(key, [seed, 0, next(draws) % 2**32, 0])
        launch()
        return int(model.read(token)[0])

    return choose


def generate(
    model: Model,
    prompt: Sequence[int],
    limit: int,
    *,
    end: int | None = None,
    temperature: float = 0.0,
    seed: int = 0,
) -> Iterator[int]:
    """Up to `limit` tokens after `prompt`, stopping before `end` or when the cache is full."""
    if not prompt:
        raise ValueError("the prompt is empty")
    choose = chooser(model, temperature, seed)
    *_, logits = prefill(model, prompt)
    for position in range(len(prompt), min(len(prompt) + limit, model.capacity)):
        token = choose(logits)
        if token == end:
            return
        yield token
        logits = model.forward([token], position)[0]
