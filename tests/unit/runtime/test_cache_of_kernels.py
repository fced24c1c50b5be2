"""Processes that share a cache directory: right values whatever lies in it, and no rubbish left."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from iron.runtime.cache import SUFFIX

ROOT = Path(__file__).parents[3]
HEAD = "from iron.lang import *\n(N,) = dims('N')\n"
DECLARED = "@kernel\ndef probe(x: In[f32, N], y: Out[f32, N]):\n    (i,) = each(N)\n"
TEMPLATE = DECLARED.replace("probe", "k{n}") + "    y[i] = exp2(x[i] * {n}.0) + {n}.0\n"
FAMILY = HEAD + "".join(TEMPLATE.format(n=n) for n in range(20))

RUN = """
import json, os, sys
import numpy as np
import iron
sys.path.insert(0, sys.argv[1])
sys.stdin.readline()
if len(sys.argv) > 3:
    import iron.runtime.launch, iron.runtime.drivers.cpu, iron.front, iron.compiler
    iron.runtime.driver.driver('cpu').target()
    os.seteuid(int(sys.argv[3]))
import kernels
found = {}
for backend in sys.argv[2].split():
    with iron.use(backend):
        names = sorted(n for n in vars(kernels) if n[0] in "kp" and n not in ("kernel", "plan"))
        fns = [f for n in names if isinstance(f := getattr(kernels, n), iron.lang.KernelFunction)]
        found[backend] = [f(np.arange(1, 4, dtype=np.float32)).tolist() for f in fns]
print(json.dumps(found))
"""


def start(
    folder: Path, store: Path, seed: int = 0, backends: str = "interp cpu", uid: int | None = None
) -> subprocess.Popen[str]:
    """A process that waits for a line, then runs every kernel of `folder`/kernels.py."""
    env = {
        **os.environ,
        "IRON_CACHE_DIR": str(store),
        "PYTHONHASHSEED": str(seed),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder), backends, *([] if uid is None else [str(uid)])],
        cwd=ROOT,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def together(processes: list[subprocess.Popen[str]]) -> list[dict[str, list[list[float]]]]:
    """Lets all of them go and returns what each printed; all must exit with 0."""
    for p in processes:
        assert p.stdin
        p.stdin.write("go\n")
        p.stdin.flush()
    ended = [(*p.communicate(timeout=120), p.returncode) for p in processes]
    assert [code for *_, code in ended] == [0] * len(ended), ended[0][1]
    return [json.loads(out) for out, *_ in ended]


def entries(store: Path) -> dict[str, tuple[int, int]]:
    """Name, inode and time of every file of the store, which may hold entries only."""
    found = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in store.iterdir()}
    assert all(name.endswith(SUFFIX) for name in found), found
    return found


# --- eight at once --------------------------------------------------------------------------------


def wanted() -> list[list[float]]:
    """What the family gives on 1, 2, 3, in the order of the names."""
    order = sorted(range(20), key=lambda n: f"k{n}")
    return [[2.0 ** (x * n) + n for x in (1, 2, 3)] for n in order]


def close(found: list[dict[str, list[list[float]]]]) -> None:
    """All processes printed the same, both backends the same bits, and it is right to f32."""
    assert all(f == found[0] for f in found)
    assert found[0]["interp"] == found[0]["cpu"]
    for got, want in zip(found[0]["cpu"], wanted(), strict=True):
        assert got == pytest.approx(want, rel=1e-6)


def test_eight_cold_processes_then_a_broken_entry_then_no_right_to_write():
    """triton 2688, 11512, 11319, warp 1696: one directory, eight hash seeds."""
    with tempfile.TemporaryDirectory() as outer:
        folder, store = Path(outer), Path(outer) / "store"
        folder.chmod(0o755)
        (folder / "kernels.py").write_text(FAMILY)
        close(together([start(folder, store, seed) for seed in range(8)]))
        made = entries(store)
        # The launcher that all kernels share is one more.
        assert 20 <= len(made) <= 21

        broken = store / sorted(made)[0]
        whole = broken.read_bytes()
        broken.write_bytes(whole[: len(whole) // 2])
        close(together([start(folder, store, seed) for seed in (0, 1)]))
        assert entries(store).keys() == made.keys()
        assert broken.stat().st_size > len(whole) // 2
        unchanged = {n: v for n, v in entries(store).items() if n != broken.name}
        assert unchanged == {n: v for n, v in made.items() if n != broken.name}

        read_only(folder, store)


def read_only(folder: Path, store: Path) -> None:
    """A reader's directory: whole, then with one entry gone; nothing is ever written."""
    gone = store / sorted(p.name for p in store.iterdir())[1]
    gone.unlink()
    before = entries(store)
    store.chmod(0o555)
    uid = 65534 if os.geteuid() == 0 else None
    for p in store.iterdir():
        p.chmod(0o444)
    try:
        close(together([start(folder, store, 3, uid=uid)]))
        assert entries(store) == before
    finally:
        store.chmod(0o755)


# --- edited helpers -------------------------------------------------------------------------------

FORMS = {
    "called": (HEAD + "{helper}\n" + DECLARED + "    y[i] = f(x[i])\n", ""),
    "through a dict": (
        HEAD + "{helper}\nCHOSEN = {{'f': f}}['f']\n" + DECLARED + "    y[i] = CHOSEN(x[i])\n",
        "",
    ),
    "two levels deep": (
        HEAD + "{helper}\ndef g(x):\n    return f(x)\n" + DECLARED + "    y[i] = g(x[i])\n",
        "",
    ),
    "in another file": (
        HEAD + "import far\n" + DECLARED + "    y[i] = far.f(x[i])\n",
        "{helper}\n",
    ),
}
DOUBLE, ADD = "def f(x): return x * 2.0", "def f(x): return x +10.0"


def write(folder: Path, form: str, helper: str) -> None:
    """The module with `helper` in it, its size and time the same for every helper of a length."""
    for name, text in zip(("kernels.py", "far.py"), FORMS[form], strict=True):
        path = folder / name
        path.write_text(text.format(helper=helper))
        os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize("form", FORMS)
def test_an_edited_helper_is_never_stale(form: str, tmp_path: Path):
    """triton 4051, cubecl 1455: size and time of the file say nothing."""
    assert len(DOUBLE) == len(ADD)
    store = tmp_path / "store"
    write(tmp_path, form, DOUBLE)
    sizes = [p.stat() for p in sorted(tmp_path.glob("*.py"))]
    (first,) = together([start(tmp_path, store)])
    made = entries(store)
    write(tmp_path, form, ADD)
    again = [p.stat() for p in sorted(tmp_path.glob("*.py"))]
    assert [(s.st_size, s.st_mtime) for s in sizes] == [(s.st_size, s.st_mtime) for s in again]
    (second,) = together([start(tmp_path, store)])
    assert first == {"interp": [[2, 4, 6]], "cpu": [[2, 4, 6]]}
    assert second == {"interp": [[11, 12, 13]], "cpu": [[11, 12, 13]]}
    assert len(entries(store)) == len(made) + 1


def test_a_comment_changes_no_code(tmp_path: Path):
    store = tmp_path / "store"
    write(tmp_path, "called", DOUBLE)
    (first,) = together([start(tmp_path, store)])
    made = entries(store)
    write(tmp_path, "called", "# A comment, and every line moves.\n\n" + DOUBLE)
    (second,) = together([start(tmp_path, store)])
    assert first == second == {"interp": [[2, 4, 6]], "cpu": [[2, 4, 6]]}
    assert entries(store) == made
