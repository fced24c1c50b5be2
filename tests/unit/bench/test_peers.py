"""Every peer that is installed computes what its kernel's oracle says, at a small size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from iron.bench.peers.record import PRODUCT, Peer, Subject, libraries, peers_of
from iron.bench.points import BenchInputs, Point, points
from iron.bench.verify import allowance, difference
from iron.check.prepare import arguments, given, output_dtype, prepare
from iron.lang.suite import Bench, Case
from iron.quant.tensor import QTensor
from iron.runtime.device import report
from iron.worker import discover

SMALL = {"R": 3, "N": 64, "M": 1, "K": 64, "C": 6, "V": 9, "D": 64, "E": 64, "H": 4, "G": 2,
         "S": 32, "B": 2, "P": 2, "N2": 128, "L": 2}  # fmt: skip
IMAGE = {"B": 2, "H": 9, "W": 7, "C": 24, "N": 40, "R": 3, "S": 3, "D": 24}
SMALL_OF = {
    "conv2d": IMAGE,
    "conv2d_planar": IMAGE,
    "patch_embed": {"B": 2, "C": 3, "H": 30, "W": 45, "N": 40},
    "sdpa_decode_batched": {"S": 3, "L": 40},
}
COMPILED = "torch.compile"
DEVICES = ("cpu", "cuda")


def kernels() -> dict[str, Any]:
    return {
        name: found
        for module in discover.modules(("iron.kernels",))
        for name, found in discover.kernels(module).items()
    }


KERNELS = kernels()


def small(name: str) -> Iterator[Point]:
    """The kernel's benches at a small size, one a tag."""
    seen = set()
    for point in points(KERNELS[name]):
        if point.tags in seen:
            continue
        seen.add(point.tags)
        sizes = SMALL | SMALL_OF.get(name, {})
        axes = {k: sizes.get(k, v) if type(v) is int else v for k, v in point.case.axes.items()}
        case = point.case.case
        smaller = Case(axes, case.tol, case.make)
        from dataclasses import replace

        yield Point(replace(point.case, case=smaller, axes=axes), Bench(axes))


def subject(point: Point, device: str = "cpu") -> tuple[Subject, dict[str, np.ndarray]]:
    rng = BenchInputs(0, point.case.label)
    found = given(point.case, rng)
    prepared = prepare(point.case, 0, BenchInputs(0, point.case.label))
    fresh = {
        n: np.array(found.inputs[n]) if n in found.inputs
        else np.zeros(shape, output_dtype(point.case, n).np)
        for n, shape in found.outputs.items()
    }  # fmt: skip
    given_ = arguments(point.case, found, fresh)
    want = {n: np.ma.getdata(o.reference).astype(o.dtype.np) for n, o in prepared.outputs.items()}
    return Subject(given_, fresh, point.case.dtypes, point.case.consts, device, 1), want


def installed(compiled: bool) -> list[Any]:
    return [
        pytest.param(p, device, id=f"{p.name} {p.kernel} {device}")
        for library in libraries()
        for device in DEVICES
        if report(device).ready  # asking a library about another device loads it
        if library.version(device)
        for p in library.peers
        if (p.name == COMPILED) == compiled and p.kernel in KERNELS  # a ceiling is of no kernel
    ]


def agrees(peer: Peer, device: str) -> int:
    took_part = 0
    for point in small(peer.kernel):
        s, want = subject(point, device)
        attempt = peer.make(s)
        if attempt is None:
            continue
        took_part += 1
        for _ in range(2):
            attempt.call()
        got = attempt.results()
        assert difference(got, want) <= allowance(want, attempt.rounds), point.tags
    return took_part


@pytest.mark.slow
@pytest.mark.parametrize(("peer", "device"), installed(compiled=False))
def test_a_peer_computes_what_the_oracle_says(peer: Peer, device: str):
    assert agrees(peer, device), "no bench of the kernel is within reach of this peer"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("peer", "device"), installed(compiled=True))
def test_a_compiled_peer_computes_what_the_oracle_says(peer: Peer, device: str):
    assert agrees(peer, device)


def test_every_peer_is_of_a_kernel():
    assert {p.kernel for library in libraries() for p in library.peers} <= {*KERNELS, PRODUCT}


def test_peers_are_chosen_by_library_or_name():
    named = [p.name for p, _ in peers_of("softmax", "cpu", ("numpy",))]
    assert named == ["numpy"]
    assert peers_of("softmax", "cpu", ("absent",)) == []
    assert all(version for _, version in peers_of("softmax", "cpu", ()))


@pytest.mark.slow
def test_triton_is_touched_only_where_it_can_run():
    """In a process of its own, since torch imports triton where it can."""
    script = (
        "import sys\n"
        "from iron.bench.peers.record import peers_of\n"
        "assert all(p.name != 'triton' for p, _ in peers_of('softmax', 'cpu', ()))\n"
        "assert not {m for m in sys.modules if m.split('.')[0] == 'triton'}\n"
        "import iron.bench.peers.triton as found\n"
        "assert {p.kernel for p in found.LIBRARY.peers} >= {'softmax', 'unary', 'rope'}\n"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_a_missing_library_is_a_blank(monkeypatch: pytest.MonkeyPatch):
    for library in libraries():
        monkeypatch.setattr(library, "version", lambda device: None)
    assert peers_of("softmax", "cpu", ()) == []


def test_a_wrong_result_is_seen():
    s, want = subject(next(small("softmax")))
    for change in (lambda y: y * 1.01, lambda y: np.roll(y, 1), lambda y: y[:1]):
        assert difference({"y": change(want["y"])}, want) > allowance(want, None)
    assert difference({}, want) == np.inf
    assert isinstance(s.x, np.ndarray)
    assert not isinstance(s.x, QTensor)
