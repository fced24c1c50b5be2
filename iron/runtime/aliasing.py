"""Arguments that share memory: what a launch may not be given, found before it runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from iron.errors import error
from iron.lang.parameter import ParamSpec
from iron.runtime.arrays import Array, coincide, overlap


def check_overlaps(
    arrays: Mapping[str, Array],
    specs: Mapping[str, ParamSpec],
    in_place: frozenset[tuple[str, str]],
    kernel: str,
) -> None:
    """E0704 when a written parameter overlaps another one.

    An Out may coincide exactly with an In when `in_place` holds the pair (out, in): the analysis
    has shown that each element is read only by the thread that later writes it.
    """
    written = [n for n in arrays if _kind(specs, n) in ("out", "inout")]
    for out in written:
        for name in _others(arrays, out, written):
            if not overlap(arrays[out], arrays[name]):
                continue
            if (out, name) in in_place and coincide(arrays[out], arrays[name]):
                continue
            raise error(
                "E0704",
                f"`{out}` and `{name}` share memory",
                kernel=kernel,
                help=f"give `{out}` memory of its own, or declare the parameter InOut",
            )


def check_self_overlap(name: str, array: Array, kernel: str) -> None:
    """E0704 when two elements of a written array are the same memory (a broadcast view)."""
    if 0 not in array.shape and any(
        n > 1 and s == 0 for n, s in zip(array.shape, array.strides, strict=True)
    ):
        raise error(
            "E0704",
            f"elements of `{name}` share memory with each other",
            kernel=kernel,
            help="write to an array of its own instead of a broadcast view",
        )


def _others(arrays: Mapping[str, Array], out: str, written: list[str]) -> Iterable[str]:
    """The parameters to compare with `out`, each pair of written ones once."""
    seen = written[: written.index(out) + 1]
    return (name for name in arrays if name not in seen)


def _kind(specs: Mapping[str, ParamSpec], name: str) -> str:
    spec = specs.get(name)
    return spec.kind if spec is not None else "in"
