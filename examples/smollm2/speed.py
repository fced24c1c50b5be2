"""`python -m examples.smollm2.speed [--backend vulkan]`: golden tokens and tokens a second."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from examples.smollm2.fetch import model_file
from examples.smollm2.generate import generate
from examples.smollm2.model import Model
from examples.smollm2.vulkan import VulkanModel

GOLDENS = Path(__file__).parents[2] / "tests" / "smollm2" / "goldens.json"


def right(model: Model, tokens: int) -> list[bool]:
    """For each golden prompt whether the model continues it with the golden tokens."""
    prompts = json.loads(GOLDENS.read_text())["open"].values()
    return [
        list(generate(model, p["token_ids"], tokens)) == p["greedy_48"][:tokens] for p in prompts
    ]


def rate(model: Model, tokens: int) -> float:
    """Tokens a second of greedy generation after a prompt of 8."""
    prompt = [504, 1573, 33059, 40061, 12, 7, 900, 33]
    for _ in generate(model, prompt, 8):
        pass
    began = time.perf_counter()
    count = sum(1 for _ in generate(model, prompt, tokens))
    return count / (time.perf_counter() - began)


def models(backend: str) -> dict[str, Callable[[], Model]]:
    """The forms of the model on a backend, by name."""
    path = model_file()
    if backend == "vulkan":
        return {"vulkan": lambda: VulkanModel(path)}
    if backend == "cpu":
        return {"cpu": lambda: Model(path)}
    from examples.smollm2.device import DeviceModel

    return {
        "cuda": lambda: DeviceModel(path, graphs=False),
        "cuda, graphs": lambda: DeviceModel(path),
    }


def main(arguments: list[str]) -> int:
    """Prints a line for each form of the model."""
    parser = argparse.ArgumentParser(prog="python -m examples.smollm2.speed", description=__doc__)
    parser.add_argument("--backend", choices=["cpu", "cuda", "vulkan"], default="cuda")
    parser.add_argument("--golden-tokens", type=int, default=48, help="of each prompt (48)")
    parser.add_argument("--tokens", type=int, default=256, help="to time (256)")
    given = parser.parse_args(arguments)
    bad = 0
    for name, make in models(given.backend).items():
        model = make()
        found = right(model, given.golden_tokens)
        bad += found.count(False)
        speed = rate(model, given.tokens)
        print(f"{name}: goldens {found}, {speed:.1f} tokens/s", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
