"""A child that crashes, hangs, eats memory or babbles is lost with a reason, and replaced."""

import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from iron.worker.protocol import VERSION, ProtocolError, decode
from iron.worker.supervise import Limits, Lost, Worker

ROOT = Path(__file__).parents[3]

CHILD = textwrap.dedent("""
    import ctypes, os, subprocess, sys, time
    from iron.errors import error
    from iron.worker.protocol import BUSY
    from iron.worker.serve import serve

    def handler(request):
        do = request["do"]
        if do == "echo":
            yield {"type": "echo", "value": request["value"]}
        elif do == "many":
            yield from ({"type": "n", "n": n} for n in range(1000))
        elif do == "long":
            for wait in request["waits"]:
                time.sleep(wait)
                yield BUSY
            yield {"type": "n", "n": 1}
        elif do == "print":
            print("to standard output", flush=True)
            os.system("echo from a child of the child")
            yield {"type": "stdin", "read": sys.stdin.read()}
        elif do == "segfault":
            ctypes.string_at(0)
        elif do == "exit":
            os._exit(3)
        elif do == "sys.exit":
            sys.exit("left")
        elif do == "hang":
            print("about to hang", file=sys.stderr, flush=True)
            time.sleep(600)
        elif do == "spawn and hang":
            child = subprocess.Popen(["sleep", "600"])
            open(request["file"], "w").write(str(child.pid))
            time.sleep(600)
        elif do == "eat":
            hoard = []
            while True:
                hoard.append(bytearray(16 << 20))
        elif do == "raise":
            raise ValueError("wrong value")
        elif do == "kernel error":
            raise error("E0404", "index outside the tensor")
        elif do == "babble":
            os.write(int(request["fd"]), b"not json\\n")
            time.sleep(600)

    serve(handler, memory=int(sys.argv[1]))
""")


@pytest.fixture
def worker(tmp_path: Path):
    script = tmp_path / "child.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{CHILD}")
    limits = Limits(seconds=3.0, memory=512 << 20)
    with Worker((sys.executable, str(script), str(limits.memory)), limits) as it:
        yield it


def alive(worker: Worker) -> bool:
    return worker.ask({"do": "echo", "value": 7}) == [{"v": VERSION, "type": "echo", "value": 7}]


def test_it_answers_many_times_with_one_child(worker: Worker):
    assert [m["n"] for m in worker.ask({"do": "many"})] == list(range(1000))
    assert alive(worker)
    assert worker.starts == 1


def test_a_long_task_says_that_it_is_busy(worker: Worker):
    assert [m["n"] for m in worker.ask({"do": "long", "waits": [0.5] * 8})] == [1]
    assert worker.starts == 1
    with pytest.raises(Lost, match="3 seconds"):
        worker.ask({"do": "long", "waits": [0, 600]})


def test_what_the_code_prints_does_not_reach_the_pipe(worker: Worker):
    assert worker.ask({"do": "print"}) == [{"v": VERSION, "type": "stdin", "read": ""}]
    assert alive(worker)


@pytest.mark.parametrize(
    ("do", "kind", "text"),
    [
        ("segfault", "crash", "SIGSEGV"),
        ("exit", "crash", "status 3"),
        ("hang", "hang", "3 seconds\n    about to hang"),
    ],
)
def test_a_lost_child_is_named_and_replaced(worker: Worker, do: str, kind: str, text: str):
    assert alive(worker)
    with pytest.raises(Lost) as lost:
        worker.ask({"do": do})
    assert lost.value.kind == kind
    assert text in lost.value.text
    assert alive(worker)
    assert worker.starts == 2


def test_a_segfault_shows_the_python_line(worker: Worker):
    with pytest.raises(Lost, match=r"child.py.*in handler"):
        worker.ask({"do": "segfault"})


def test_a_memory_eater_is_an_error_and_the_child_is_replaced(worker: Worker):
    (answer,) = worker.ask({"do": "eat"})
    assert (answer["type"], answer["kind"]) == ("error", "memory")
    assert alive(worker)
    assert worker.starts == 2


def test_exceptions_are_answers(worker: Worker):
    (answer,) = worker.ask({"do": "raise"})
    assert answer["type"] == "error"
    assert "ValueError: wrong value" in answer["text"]
    assert "child.py" in answer["text"]
    (answer,) = worker.ask({"do": "sys.exit"})
    assert "left" in answer["text"]
    (answer,) = worker.ask({"do": "kernel error"})
    assert answer["text"] == "error[E0404]: index outside the tensor"
    assert alive(worker)
    assert worker.starts == 1


def test_a_child_that_breaks_the_protocol_is_lost(worker: Worker):
    # Descriptors 0 to 2 are standard; the pipes are the next two.
    with pytest.raises(Lost) as lost:
        worker.ask({"do": "babble", "fd": 4})
    assert lost.value.kind == "protocol"
    assert alive(worker)


def test_the_children_of_a_hung_child_end_too(worker: Worker, tmp_path: Path):
    with pytest.raises(Lost):
        worker.ask({"do": "spawn and hang", "file": str(tmp_path / "pid")})
    pid = int((tmp_path / "pid").read_text())
    for _ in range(100):
        if not running(pid):
            return
        time.sleep(0.05)
    pytest.fail("the grandchild lives")


def running(pid: int) -> bool:
    try:
        # A killed process that nobody has waited for is a zombie, which is ended enough.
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except FileNotFoundError:
        return False


def test_a_child_that_cannot_start_is_lost():
    worker = Worker((sys.executable, "-c", "raise SystemExit('no backend')"), Limits())
    with pytest.raises(Lost, match=r"status 1\n    no backend"):
        worker.ask({"do": "echo"})


def test_close_ends_the_child(worker: Worker):
    assert alive(worker)
    child = worker._child
    worker.close()
    assert child is not None
    assert child.returncode is not None
    assert alive(worker)


def test_the_child_ends_with_its_parent(tmp_path: Path):
    script = tmp_path / "child.py"
    script.write_text(f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{CHILD}")
    parent = textwrap.dedent(f"""
        import os, sys
        sys.path.insert(0, {str(ROOT)!r})
        from iron.worker.protocol import encode
        from iron.worker.supervise import Limits, Worker
        worker = Worker((sys.executable, {str(script)!r}, "0"), Limits())
        worker.ask({{"do": "echo", "value": 1}})
        child = worker._child
        child.stdin.write(encode({{"do": "hang"}}))
        child.stdin.flush()
        print(child.pid, flush=True)
        os._exit(0)
    """)
    done = subprocess.run([sys.executable, "-c", parent], capture_output=True, text=True)
    child = int(done.stdout)
    for _ in range(100):
        if not running(child):
            return
        time.sleep(0.05)
    os.kill(child, 9)
    pytest.fail("the child outlived its parent")


@pytest.mark.parametrize("line", [b"", b"{", b"[]", b'{"v":2}', b"{}", b"\xff"])
def test_a_line_that_is_no_message(line: bytes):
    with pytest.raises(ProtocolError):
        decode(line)


def test_an_abandoned_child_is_killed_at_once_and_not_replaced(worker: Worker):
    lost: list[Lost] = []

    def wait() -> None:
        try:
            worker.ask({"do": "hang"})
        except Lost as told:
            lost.append(told)

    assert worker.ask({"do": "echo", "value": 1})[0]["value"] == 1
    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.1)
    started = time.monotonic()
    worker.abandon()
    thread.join()
    assert time.monotonic() - started < 2
    assert [told.kind for told in lost] == ["crash"]
    with pytest.raises(Lost, match="abandoned"):
        worker.ask({"do": "echo", "value": 2})
    assert worker.starts == 1
