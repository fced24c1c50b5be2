"""A conversion killed in the middle leaves the output as it was, and the next one goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from iron.cli.app import run
from iron.quant.write_gguf import write_gguf

COUNT, SECONDS = 8, 120
W = np.random.default_rng(71).normal(size=(384, 512)).astype(np.float32)


def done(journal: Path) -> int:
    """How many tensors a journal says are done."""
    try:
        return len(json.loads(journal.read_text())["done"])
    except (OSError, ValueError):
        return 0


def start_and_kill(source: Path, out: Path) -> int:
    """Kills `iron quantize` when some tensors are done and some are not; how many were."""
    journal = out.with_name(out.name + ".part.json")
    arguments = ["quantize", str(source), str(out), "-F", "q4_k", "--force"]
    process = subprocess.Popen([sys.executable, "-m", "iron", *arguments])
    end = time.monotonic() + SECONDS
    while done(journal) < 2 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return done(journal)


def test_killed_in_the_middle(tmp_path: Path, capsys):
    source, out, whole = (tmp_path / name for name in ("in.gguf", "out.gguf", "whole.gguf"))
    write_gguf(source, {f"blk.{i}.weight": W * (i + 1) for i in range(COUNT)})
    out.write_bytes(b"precious")
    before = start_and_kill(source, out)
    assert 2 <= before < COUNT
    assert out.read_bytes() == b"precious"
    assert (tmp_path / "out.gguf.part").exists()
    # a process may also die while it writes the journal
    (tmp_path / "out.gguf.part.json.1.part").write_bytes(b"{")

    assert run(["quantize", str(source), str(out), "-F", "q4_k", "--force"]) == 0
    assert f"{before} tensors were done by an earlier run" in capsys.readouterr().out
    assert run(["quantize", str(source), str(whole), "-F", "q4_k"]) == 0
    assert "earlier run" not in capsys.readouterr().out
    assert out.read_bytes() == whole.read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"in.gguf", "out.gguf", "whole.gguf"}
