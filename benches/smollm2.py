"""SmolLM2 on this CPU beside llama.cpp: tokens a second of a prompt and of generation.

`python benches/smollm2.py [PROMPT [TOKENS]]` runs a prompt of PROMPT tokens (256) and then TOKENS
(64) greedy ones, by turns in Iron with f32 activations, in Iron with 8-bit ones (what llama.cpp
does) and in llama.cpp with as many threads. It prints medians over all turns; a prompt's figure
ends with its last logits.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from examples.smollm2.fetch import model_file
from examples.smollm2.generate import prefill
from examples.smollm2.model import Model
from iron.runtime.drivers.cpu_pool import thread_count

TURNS = 7

Engine = tuple[Callable[[Sequence[int]], Any], Callable[[int, int], Any]]
"""What runs a prompt and what runs one token at a position; both return the last logits."""


def iron(path: Path, capacity: int, codes: bool) -> Engine:
    """Iron's example."""
    model = Model(path, capacity, codes=codes)

    def prompt(tokens: Sequence[int]) -> Any:
        return list(prefill(model, tokens))[-1]

    return prompt, lambda token, position: model.forward([token], position)[0]


def llama(path: Path, capacity: int, threads: int) -> Engine:
    """llama.cpp, through its C interface."""
    import llama_cpp as ll

    silent = ll.llama_log_callback(lambda level, text, data: None)
    ll.llama_log_set(silent, None)
    params = ll.llama_context_default_params()
    params.n_ctx, params.n_batch = capacity, capacity
    params.n_threads = params.n_threads_batch = threads
    model = ll.llama_model_load_from_file(str(path).encode(), ll.llama_model_default_params())
    context = ll.llama_init_from_model(model, params)
    size = ll.llama_vocab_n_tokens(ll.llama_model_get_vocab(model))

    def run(tokens: Sequence[int]) -> Any:
        held = (ll.llama_token * len(tokens))(*tokens)
        if ll.llama_decode(context, ll.llama_batch_get_one(held, len(tokens))):
            raise RuntimeError("llama.cpp could not run the tokens")
        return np.ctypeslib.as_array(ll.llama_get_logits_ith(context, -1), (size,))

    def prompt(tokens: Sequence[int]) -> Any:
        ll.llama_memory_clear(ll.llama_get_memory(context), True)
        return run(tokens)

    return prompt, lambda token, position: (run([token]), silent)[0]


def rates(engine: Engine, tokens: Sequence[int], count: int) -> tuple[float, float, list[int]]:
    """Tokens a second of the prompt and of `count` tokens after it, and those tokens."""
    prompt, step = engine
    began = time.perf_counter()
    logits = prompt(tokens)
    middle = time.perf_counter()
    found: list[int] = []
    for position in range(len(tokens), len(tokens) + count):
        found.append(int(np.argmax(logits)))
        logits = step(found[-1], position)
    end = time.perf_counter()
    return len(tokens) / (middle - began), count / (end - middle), found


def main(prompt: int = 256, count: int = 64) -> None:
    """Prints a line for each engine."""
    path, capacity = model_file(), prompt + count
    tokens = [int(t) for t in np.random.default_rng(0).integers(1000, 40000, prompt)]
    engines = {
        "llama.cpp": llama(path, capacity, thread_count()),
        "iron q8": iron(path, capacity, codes=True),
        "iron f32": iron(path, capacity, codes=False),
    }
    seen: dict[str, list[tuple[float, float, list[int]]]] = {name: [] for name in engines}
    for turn in range(TURNS + 1):
        for name, engine in engines.items():
            found = rates(engine, tokens, count)
            if turn:  # the first turn warms up
                seen[name].append(found)
    base = [statistics.median(row[i] for row in seen["llama.cpp"]) for i in (0, 1)]
    for name, found in seen.items():
        first, later = (statistics.median(row[i] for row in found) for i in (0, 1))
        print(
            f"{name:10} prompt {first:7.1f} tokens/s ({first / base[0]:.2f}x), "
            f"generation {later:6.1f} tokens/s ({later / base[1]:.2f}x), ends {found[-1][2][:6]}"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
