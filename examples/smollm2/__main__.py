"""`python -m examples.smollm2 [prompt]`: an answer from SmolLM2, streamed to the terminal."""

import argparse
import sys
import time

from examples.smollm2.fetch import FetchError, model_file
from examples.smollm2.generate import AT_ONCE, generate
from examples.smollm2.model import Model
from examples.smollm2.tokenizer import Text
from examples.smollm2.vulkan import VulkanModel
from iron.errors import KernelError


def options(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m examples.smollm2", description=__doc__)
    parser.add_argument("prompt", nargs="?", default="What is the capital of France?")
    parser.add_argument("--raw", action="store_true", help="complete the text, without chat form")
    parser.add_argument("--tokens", type=int, default=64, help="at most this many (default 64)")
    parser.add_argument("--temperature", type=float, default=0.0, help="0 takes the likeliest")
    parser.add_argument("--seed", type=int, default=0, help="of the draws at a temperature")
    parser.add_argument("--backend", choices=["cpu", "cuda", "vulkan"], default="cpu")
    parser.add_argument(
        "--codes", action="store_true", help="8-bit activations in products (cpu), as llama.cpp has"
    )
    parser.add_argument("--model", help="a GGUF file instead of the fetched one")
    return parser.parse_args(arguments)


def opened(given: argparse.Namespace) -> Model:
    """The model on the backend that was asked for."""
    path = given.model or model_file()
    if given.backend == "vulkan":
        return VulkanModel(path)
    if given.backend == "cpu":
        return Model(path, codes=given.codes)
    from examples.smollm2.device import DeviceModel

    return DeviceModel(path)


def rates(prompt: int, tokens: int, first: float, rest: float) -> str:
    """What the run took: `first` seconds to the first token, `rest` for the others."""
    spoken = f"{prompt} tokens of prompt in {first:.2f} s ({prompt / first:.0f} tokens/s)"
    if tokens < 2:
        return spoken
    return f"{spoken}, {tokens - 1} more in {rest:.2f} s ({(tokens - 1) / rest:.0f} tokens/s)"


def run(arguments: list[str]) -> int:
    """Runs the command; 0, or 1 with one message on the error stream."""
    given = options(arguments)
    try:
        model = opened(given)
        text = Text(model.file.metadata)
        prompt = text.encode(given.prompt if given.raw else text.chat(given.prompt))
        print(given.prompt, end="" if given.raw else "\n\n", flush=True)
        for count in (1, AT_ONCE):
            model.step(count)  # bound before the clock starts
        began, first, ids, said = time.perf_counter(), 0.0, list[int](), ""
        choice = {"temperature": given.temperature, "seed": given.seed}
        for token in generate(model, prompt, given.tokens, end=text.end, **choice):
            first = first or time.perf_counter() - began
            ids.append(token)
            whole = text.decode(ids)
            if not whole.endswith("\ufffd"):  # a character that is not complete yet
                print(whole[len(said) :], end="", flush=True)
                said = whole
        spent = time.perf_counter() - began
        line = rates(len(prompt), len(ids), first or spent, spent - first)
        print(f"\n\n{line}", file=sys.stderr)
    except (FetchError, KernelError, ValueError) as fault:
        print(f"error: {fault}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
