"""What the demo prints of speeds: both figures of each engine, ratios where there is a peer."""

import os
import signal

from benches.smollm2 import apart, lines, taken

SEEN = {
    "iron q8": [(300.0, 120.0, [1, 2]), (500.0, 140.0, [1, 2]), (400.0, 160.0, [3])],
    "iron f32": [(200.0, 70.0, [4])],
}


def test_medians_and_ratios_to_the_peer():
    peer = {"llama.cpp": [(200.0, 100.0, [9])]}
    said = lines(peer | SEEN)
    assert len(said) == 3
    assert "prompt   400.0 tokens/s (2.00x), generation  140.0 tokens/s (1.40x)" in said[1]
    assert "prompt   200.0 tokens/s (1.00x), generation   70.0 tokens/s (0.70x)" in said[2]


def test_without_the_peer_there_are_figures_and_no_ratios():
    said = lines(SEEN)
    assert [line.split()[1] for line in said] == ["q8", "f32"]
    assert "prompt   400.0 tokens/s, generation  140.0 tokens/s" in said[0]


def echo(offset: int):
    """An engine whose every logit row names a token after the one it was given."""

    def logits(token: int) -> list[int]:
        return [int(i == (token + offset) % 8) for i in range(8)]

    return lambda tokens: logits(tokens[-1]), lambda token, position: logits(token)


def killed():
    os.kill(os.getpid(), signal.SIGILL)


def test_an_engine_apart_takes_turns(capsys):
    seen = taken({"a": apart(echo, 1), "b": apart(echo, 2)}, [3], 2, 2)
    assert [[r[2] for r in found] for found in seen.values()] == [[[4, 5]] * 2, [[5, 7]] * 2]
    assert capsys.readouterr().out == ""


def test_an_engine_whose_process_ends_is_left_out(capsys):
    seen = taken({"a": apart(killed), "b": apart(echo, 2)}, [3], 2, 1)
    assert list(seen) == ["b"]
    assert "a is left out" in capsys.readouterr().out
