"""`python -m examples.smollm2 [prompt]`: an answer from SmolLM2, streamed to the terminal."""

import argparse
import sys
import time

from examples.smollm2.fetch import FetchError, model_file
from examples.smollm2.generate import generate
from examples.smollm2.model import Model
from examples.smollm2.tokenizer import Text
from iron.errors import KernelError


def options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.smollm2", description=__doc__)
    parser.add_argument("prompt", nargs="?", default="What is the capital of France?")
    parser.add_argument("--raw", action="store_true", help="complete the text, without chat form")
    parser.add_argument("--tokens", type=int, default=64, help="at most this many (default 64)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest")
    parser.add_argument("--seed", type=int, default=0, help="of the draws at a temperature")
    parser.add_argument("--backend", choices=["cpu", "cuda"], default="cpu", help="default: cpu")
    parser.add_argument("--model", help="a GGUF file instead of the fetched one")
    return parser.parse_args(arguments)


def opened(backend: str) -> type[Model]:
    """The model's class for a backend."""
    if backend == "cpu":
        return Model
    from examples.smollm2.device import DeviceModel

    return DeviceModel


def run(arguments: list[str]) -> int:
    """Runs the command; 0, or 1 with one message on the error stream."""
    given = options(arguments)
    try:
        model = opened(given.backend)(given.model or model_file())
        text = Text(model.file.metadata)
        prompt = text.encode(given.prompt if given.raw else text.chat(given.prompt))
        print(given.prompt, end="" if given.raw else "\n\n", flush=True)
        began, ids, said = time.perf_counter(), list[int](), ""
        choice = {"temperature": given.temperature, "seed": given.seed}
        for token in generate(model, prompt, given.tokens, end=text.end, **choice):
            ids.append(token)
            whole = text.decode(ids)
            if not whole.endswith("\ufffd"):  # a character that is not complete yet
                print(whole[len(said) :], end="", flush=True)
                said = whole
        seconds = time.perf_counter() - began
        print(f"\n\n{len(prompt)} + {len(ids)} tokens in {seconds:.1f} s", file=sys.stderr)
    except (FetchError, KernelError, ValueError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
