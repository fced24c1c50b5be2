"""SmolLM2 on this CPU beside llama.cpp: tokens a second of a prompt and of generation.

`python -m benches.smollm2 [PROMPT [TOKENS [TURNS]]]` runs a prompt of PROMPT tokens (256) and then
TOKENS (64) greedy ones, by TURNS turns (7) in Iron with f32 activations, in Iron with 8-bit ones
(the class q8, what llama.cpp does) and, where it is installed, in llama.cpp with as many threads.
It prints medians over all turns; a prompt's figure ends with its last logits.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from examples.smollm2.fetch import model_file
from examples.smollm2.generate import prefill
from examples.smollm2.model import Model
from iron.runtime.drivers.cpu_pool import thread_count

TURNS = 7
PEER = "llama.cpp"

Engine = tuple[Callable[[Sequence[int]], Any], Callable[[int, int], Any]]
"""What runs a prompt and what runs one token at a position; both return the last logits."""

Rates = tuple[float, float, list[int]]
"""Tokens a second of a prompt and of those after it, and the latter."""


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


def rates(engine: Engine, tokens: Sequence[int], count: int) -> Rates:
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


Turn = Callable[[Sequence[int], int], Rates]
"""One turn of an engine."""


def serve(pipe: Connection, make: Callable[..., Engine], arguments: tuple[Any, ...]) -> None:
    """A child's turns, until the parent closes the pipe."""
    engine = make(*arguments)
    with suppress(EOFError):
        while True:
            pipe.send(rates(engine, *pipe.recv()))


def apart(make: Callable[..., Engine], *arguments: Any) -> Turn:
    """The turns of an engine in a process of its own; EOFError when that has ended.

    A library that was built for another processor ends its process, not this one.
    """
    here, there = get_context("spawn").Pipe()
    get_context("spawn").Process(target=serve, args=(there, make, arguments), daemon=True).start()
    there.close()

    def turn(tokens: Sequence[int], count: int) -> Rates:
        here.send((tokens, count))
        return here.recv()

    return turn


def turns_of(path: Path, capacity: int) -> dict[str, Turn]:
    """A turn of each engine that is there, by name."""
    found: dict[str, Turn] = {}
    if find_spec("llama_cpp") is None:
        print(f"{PEER} is not installed: pip install llama-cpp-python")
    else:
        found[PEER] = apart(llama, path, capacity, thread_count())
    for name, codes in (("iron q8", True), ("iron f32", False)):
        found[name] = partial(rates, iron(path, capacity, codes))
    return found


def taken(
    engines: dict[str, Turn], tokens: Sequence[int], count: int, turns: int
) -> dict[str, list[Rates]]:
    """The rates of each engine by turns, after one that warms up; one whose process ends is out."""
    seen: dict[str, list[Rates]] = {name: [] for name in engines}
    for turn in range(turns + 1):
        for name in list(seen):
            try:
                found = engines[name](tokens, count)
            except (EOFError, OSError):
                print(f"{name} is left out: its process ended")
                del seen[name]
                continue
            if turn:
                seen[name].append(found)
    return seen


def lines(seen: dict[str, list[Rates]]) -> list[str]:
    """A line for each engine: medians, and their ratios to llama.cpp's where it took part."""
    base = medians(seen[PEER]) if PEER in seen else None
    out: list[str] = []
    for name, found in seen.items():
        first, later = medians(found)
        ratio = [f" ({r:.2f}x)" for r in (first / base[0], later / base[1])] if base else ["", ""]
        out.append(
            f"{name:10} prompt {first:7.1f} tokens/s{ratio[0]}, "
            f"generation {later:6.1f} tokens/s{ratio[1]}, ends {found[-1][2][:6]}"
        )
    return out


def medians(found: Sequence[Rates]) -> tuple[float, float]:
    """Of the prompt and of generation, over all turns."""
    first, later = (statistics.median(row[i] for row in found) for i in (0, 1))
    return first, later


def main(prompt: int = 256, count: int = 64, turns: int = TURNS) -> None:
    """Prints a line for each engine."""
    path, capacity = model_file(), prompt + count
    tokens = [int(t) for t in np.random.default_rng(0).integers(1000, 40000, prompt)]
    seen = taken(turns_of(path, capacity), tokens, count, turns)
    print("\n".join(lines(seen)))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
