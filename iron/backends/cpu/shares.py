"""The order in which an entry takes its groups: one after the other, or in shares that take turns.

A core that reads at one place and writes at another leaves part of the memory's rate unused: what
fetches ahead follows each place only so far. Straight code with one input, whose large outputs are
written past the caches, therefore goes through its groups in as many shares as the target reads at
once. Groups that would share a cache line at their borders stay in order, since half a line that
waits for its neighbour is written twice; so do those that do not read in order, whose lines others
use soon.
"""

from __future__ import annotations

from iron.backends.cpu.ahead import LINE
from iron.backends.cpu.state import Emitter
from iron.dtypes import DType
from iron.ir.types import Tensor


def shares(e: Emitter) -> int:
    """How many shares take turns in a launch with large outputs; 1 keeps the order.

    Code with two inputs and an output is at three places already, and gains nothing from more.
    """
    kernel = e.kernel
    outputs = [v.type for v in e.streamed if isinstance(v.type, Tensor)]
    whole = all(kernel.threads * _bytes(t) % LINE == 0 for t in outputs)
    looped = any(op.name in ("for", "while") for op in kernel.body.walk())
    straight = kernel.each and kernel.rank == 1 and not looped
    return e.target.streams if straight and whole and e.in_order and len(e.read) == 1 else 1


def _bytes(place: Tensor) -> int:
    elem = place.elem
    assert isinstance(elem, DType)
    return elem.bytes


def start(e: Emitter, number: int) -> list[str]:
    """What the turns need: `number` shares, a power of two, of a launch with large outputs that
    begin on a line and inputs whose neighbours lie side by side."""
    lines = ["  %large = icmp ne i64 %streams, 0"]
    last = "%large"
    for j, output in enumerate(v for v in e.kernel.body.params if v in e.streamed):
        lines += [
            f"  %begins{j} = ptrtoint ptr {e.names(output)[0]} to i64",
            f"  %beyond{j} = and i64 %begins{j}, {LINE - 1}",
            f"  %on_line{j} = icmp eq i64 %beyond{j}, 0",
            f"  %whole{j} = and i1 {last}, %on_line{j}",
        ]
        last = f"%whole{j}"
    for j, step in enumerate(e.if_one):
        lines += [f"  %one{j} = icmp eq i64 {step}, 1", f"  %near{j} = and i1 {last}, %one{j}"]
        last = f"%near{j}"
    return [
        *lines,
        f"  %share_bits = select i1 {last}, i64 {number.bit_length() - 1}, i64 0",
        "  %shares = shl i64 1, %share_bits",
        "  %last_share = sub i64 %shares, 1",
        "  %count = sub i64 %end, %first",
        "  %share = lshr i64 %count, %share_bits",
        "  %shared = shl i64 %share, %share_bits",
    ]


GROUP = [
    "  %turn = sub i64 %number, %first",
    "  %which = and i64 %turn, %last_share",
    "  %within = lshr i64 %turn, %share_bits",
    "  %before = mul i64 %which, %share",
    "  %apart = add i64 %before, %within",
    "  %dealt = icmp ult i64 %turn, %shared",
    "  %place = select i1 %dealt, i64 %apart, i64 %turn",
    "  %group0 = add i64 %first, %place",
]
"""The group whose turn it is; those left over by equal shares come last."""
