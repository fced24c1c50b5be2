"""Fenced blocks of a Markdown page, and running them as a reader would."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>[^`]*)$")
SECONDS = 120


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after the fence, its text, and the line of its first text."""

    kind: str
    words: tuple[str, ...]
    text: str
    line: int

    def word(self, key: str) -> str:
        """The value of `key=value` among the words, or nothing."""
        return next((w.split("=", 1)[1] for w in self.words if w.startswith(f"{key}=")), "")


def blocks(text: str) -> list[Block]:
    """All fenced blocks in order; ValueError when one is not closed."""
    found: list[Block] = []
    words: list[str] | None = None
    inside: list[str] = []
    start = 0
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and words is None:
            words, inside, start = fence["info"].split(), [], number + 1
        elif fence and words is not None and not fence["info"].strip():
            kind = words[0] if words else ""
            found.append(Block(kind, tuple(words[1:]), "".join(f"{t}\n" for t in inside), start))
            words = None
        elif words is not None:
            inside.append(line)
    if words is not None:
        raise ValueError(f"the block of line {start - 1} is not closed")
    return found


@dataclass
class Session:
    """A reader with one Python session, one shell and one folder that is empty at the start."""

    page: Path
    folder: Path
    name: str = "page"
    space: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    here: str = ""

    def __post_init__(self) -> None:
        self.space["__name__"] = self.name
        self.here = str(self.folder)

    def run(self, found: list[Block]) -> None:
        """Every block that runs, in the order of the page."""
        (self.folder / ".source").mkdir(exist_ok=True)
        for block in found:
            if block.kind == "python" and block.word("file"):
                self.write(block)
            elif block.kind == "python":
                self.python(block)
            elif block.kind == "output":
                check_output(block.text, self.printed, f"{self.page.name}:{block.line}")
            elif block.kind == "console":
                self.console(block)

    def write(self, block: Block) -> None:
        """`file=path`: the reader saves the block in the folder of the shell."""
        path = Path(self.here) / block.word("file")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block.text)

    def python(self, block: Block) -> None:
        """Runs the block; the source is on disk with the page's line numbers, for `inspect`."""
        file = self.folder / ".source" / f"{self.page.stem}_{block.line}.py"
        source = "\n" * (block.line - 1) + block.text
        file.write_text(source)
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.chdir(self.folder):
            exec(compile(source, str(file), "exec", dont_inherit=True), self.space)
        self.printed = out.getvalue()

    def console(self, block: Block) -> None:
        """Runs each `$ command` and compares what it prints with the lines below it."""
        for command, expected, next_command, line in commands(block):
            done = subprocess.run(
                ["bash", "-c", f"trap 'pwd > \"{self.folder}/.here\"' EXIT\n{command}"],
                cwd=self.here,
                env=environment(self.folder),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=SECONDS,
            )
            where = f"{self.page.name}:{line}: {command}"
            if command == "echo $?":
                continue
            self.here = (self.folder / ".here").read_text().strip()
            wanted = next_command[1] if next_command[0] == "echo $?" else "0\n"
            assert f"{done.returncode}\n" == wanted, f"{where}\n{done.stdout}"
            check_output(expected, done.stdout, where)


def commands(block: Block) -> list[tuple[str, str, tuple[str, str], int]]:
    """Command, expected output, the command after it with its output, and line."""
    found: list[tuple[str, str, int]] = []
    for offset, line in enumerate(block.text.splitlines()):
        if line.startswith("$ "):
            found.append((line[2:].strip(), "", block.line + offset))
        else:
            assert found, f"line {block.line + offset}: output before any command"
            command, expected, at = found[-1]
            found[-1] = (command, f"{expected}{line}\n", at)
    after = [(c, e) for c, e, _ in found[1:]] + [("", "")]
    return [(c, e, n, at) for (c, e, at), n in zip(found, after, strict=True)]


def environment(folder: Path) -> dict[str, str]:
    """The reader's shell: `iron` and `python` are this installation, the cache is fresh."""
    tools = folder / ".bin"
    if not tools.is_dir():
        tools.mkdir()
        for name, arguments in (("iron", "-m iron "), ("python", "")):
            script = tools / name
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments}"$@"\n')
            script.chmod(0o755)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("IRON_", "PYTEST_"))}
    return {
        **kept,
        "PATH": f"{tools}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "IRON_CACHE_DIR": str(folder / ".cache"),
        "NO_COLOR": "1",
        "COLUMNS": "100",
    }


def check_output(expected: str, printed: str, where: str) -> None:
    """Equal text; `...` stands for any characters, over lines too."""
    parts = [re.escape(part) for part in expected.strip().split("...")]
    if expected.strip() and not re.fullmatch("(?s:.*?)".join(parts), printed.strip()):
        raise AssertionError(f"{where}\nexpected:\n{expected}\nprinted:\n{printed}")
