"""Evaluates an elementary body on numpy arrays by the rows' `ref`, in chunks that fit the cache."""

import numpy as np

from iron.dtypes import f32
from iron.elementary import RULES
from iron.ir import scalar
from iron.ir.build import Builder
from iron.ir.core import Block, Value
from iron.ir.table import TABLE

CHUNK = 8192


def body(name: str, rules=RULES) -> tuple[Block, tuple[Value, ...], Value]:
    """The block that stands for op `name`, its parameters and its result."""
    builder = Builder()
    params = tuple(Value(f32, None, o) for o in TABLE[name].operands)
    with builder.block(params) as block:
        (result,) = rules[name](builder, None, params)
    return block, params, result


def evaluate(block: Block, known: dict[Value, np.ndarray]) -> None:
    """Adds the values of `block` to `known`; both sides of an `if` run and are selected."""
    for op in block.ops:
        args = [known[a] for a in op.args]
        if op.name == "if":
            sides = []
            for region in op.regions:
                evaluate(region, known)
                sides.append([known[v] for v in region.yielded])
            for result, a, b in zip(op.results, *sides, strict=True):
                known[result] = np.where(args[0], a, b)
        elif op.name == "const":
            known[op.results[0]] = op.attrs[0]
        elif op.name != "yield":
            known[op.results[0]] = op.row.ref(*args, *op.attrs)


def call(name: str, *arrays: np.ndarray, rules=RULES) -> np.ndarray:
    """The body of `name` on f32 arrays of one length."""
    block, params, result = body(name, rules)
    out = np.empty(len(arrays[0]), np.float32)
    with scalar.quiet():
        for i in range(0, len(out), CHUNK):
            known = {p: a[i : i + CHUNK] for p, a in zip(params, arrays, strict=True)}
            evaluate(block, known)
            out[i : i + CHUNK] = known[result]
    return out


def ulps(got: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """The error of f32 values in units of the last place of `truth` (float64).

    Infinity where one is NaN, infinite or of the other sign and the other is not; a value beyond
    the range counts as infinite, except within a few units of the edge.
    """
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log2(np.abs(truth)))
        exponent = np.maximum(np.where(np.isfinite(exponent), exponent, -126), -126)
        edge = np.abs(np.abs(truth) / 2.0**128 - 1) < 2.0**-22
        wide = got.astype(np.float64)
        unbounded = np.where(edge & np.isinf(wide), np.copysign(2.0**128, wide), wide)
        target = np.where((np.abs(truth) >= 2.0**128) & ~edge, np.copysign(np.inf, truth), truth)
        error = np.abs(unbounded - target) / np.exp2(np.minimum(exponent, 127) - 23)
        same = (np.isnan(got) & np.isnan(target)) | (unbounded == target)
        signs = (truth != 0) | (np.signbit(got) == np.signbit(truth))
        return np.where(same & signs, 0, np.where(np.isfinite(error) & signs, error, np.inf))
