"""`python -m examples.smollm2.speed`: golden tokens and tokens a second on an NVIDIA GPU."""

import json
import sys
import time
from pathlib import Path

import torch

from examples.smollm2.device import DeviceModel
from examples.smollm2.fetch import model_file
from examples.smollm2.generate import generate
from examples.smollm2.model import Model

GOLDENS = Path(__file__).parents[2] / "tests" / "smollm2" / "goldens.json"


def right(model: Model) -> list[bool]:
    """For each golden prompt whether the model continues it with the golden tokens."""
    prompts = json.loads(GOLDENS.read_text())["open"].values()
    return [list(generate(model, p["token_ids"], 48)) == p["greedy_48"] for p in prompts]


def rate(model: Model, tokens: int = 256) -> float:
    """Tokens a second of greedy generation after a prompt of 8."""
    prompt = [504, 1573, 33059, 40061, 12, 7, 900, 33]
    for _ in generate(model, prompt, 8):
        pass
    began = time.perf_counter()
    count = sum(1 for _ in generate(model, prompt, tokens))
    return count / (time.perf_counter() - began)


def main() -> int:
    """Prints a line with and one without graph replay."""
    path, bad = model_file(), 0
    for graphs in (False, True):
        model = DeviceModel(path, graphs=graphs)
        found = right(model)
        bad += found.count(False)
        speed = rate(model)
        print(f"graphs {graphs}: goldens {found}, {speed:.1f} tokens/s", flush=True)
        del model
        torch.cuda.empty_cache()
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
