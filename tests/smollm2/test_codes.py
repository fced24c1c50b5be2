"""The example with 8-bit activations stays inside the goldens' class for them."""

from typing import Any

import numpy as np
import pytest

from examples.smollm2 import model as engine
from examples.smollm2.fetch import model_file
from examples.smollm2.generate import generate
from iron.kernels.gemm import qmv_q8
from tests.changed_source import changed
from tests.smollm2.conftest import GOLDENS
from tests.smollm2.test_goldens import Recorded

pytestmark = pytest.mark.xdist_group("smollm2")
LIMITS = GOLDENS["_meta"]["recommended_tolerances"]["q8_block_activations"]
PROMPTS = GOLDENS["open"]
UNSURE = 0.5  # margins of the greedy choice below which another token may come
SHORT = 20  # tokens below which a mean of the prompt may be farther off


@pytest.fixture(scope="module")
def model() -> engine.Model:
    return engine.Model(model_file(), codes=True)


def faults(golden: dict[str, Any], rows: Any, tokens: list[int]) -> list[str]:
    """How the logits of a prompt and the tokens after it leave the class."""
    ids, count = golden["token_ids"], golden["n_tokens"]
    wide = np.array(rows[: count - 1], np.float64)
    nll = np.logaddexp.reduce(wide, axis=1) - wide[np.arange(count - 1), ids[1:]]
    off = abs(nll.mean() - golden["prompt_nll_mean_f64"])
    out = [] if off <= (0.15 if count < SHORT else 0.06) else [f"mean nll off by {off:.2e}"]
    record, last = golden["logits"][0], rows[count - 1].astype(np.float64)
    worst = np.abs(last[record["top10_ids"]] - record["top10_logits_f64"]).max()
    if worst > LIMITS["logit_abs_top10_at_recorded_offsets"]:
        out.append(f"a great logit off by {worst:.2e}")
    pairs = zip(tokens, golden["greedy_48"], golden["greedy_margin"], strict=False)
    for got, want, margin in pairs:
        if got != want:
            return out if margin < UNSURE else [*out, f"{got} for {want}, which leads by {margin}"]
    return out


@pytest.mark.parametrize("name", PROMPTS)
def test_prompt_and_greedy_tokens(name: str, model: engine.Model):
    golden, recorded = PROMPTS[name], Recorded(model)
    watched: Any = recorded
    tokens = list(generate(watched, golden["token_ids"], 16))
    assert faults(golden, recorded.rows, tokens) == []


def test_a_wrong_kernel_leaves_the_class(monkeypatch: pytest.MonkeyPatch, tmp_path: Any):
    bad: Any = changed(qmv_q8, ("total[m, b] * -less", "total[m, b] * less"), tmp_path)
    monkeypatch.setattr(engine, "qmv_codes", bad.qmv_codes)
    golden, recorded = PROMPTS["p1_sentence"], Recorded(engine.Model(model_file(), codes=True))
    model: Any = recorded
    tokens = list(generate(model, golden["token_ids"], 2))
    assert faults(golden, recorded.rows, tokens) != []
