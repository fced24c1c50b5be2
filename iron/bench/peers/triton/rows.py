"""Triton kernels of rows: a program holds a whole row, or a head, in registers.

Imported only where triton and a CUDA device are there.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
import triton
import triton.language as tl


@triton.jit
def softmax(x, y, n, BLOCK: tl.constexpr):
    """y = softmax of row `program_id` of x, both of n columns."""
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row + at, mask=inside, other=-float("inf")).to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    out = power / tl.sum(power, axis=0)
    tl.store(y + row + at, out.to(y.dtype.element_ty), mask=inside)


@triton.jit
def rms_norm(x, w, y, n, eps, BLOCK: tl.constexpr):
    """y = x / sqrt(mean(x^2) + eps) * w of a row."""
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(value * value, axis=0) / n + eps)
    tl.store(y + row + at, (value * scale * weight).to(y.dtype.element_ty), mask=inside)


@triton.jit
def layer_norm(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    """y = (x - mean) / sqrt(variance + eps) * w + b of a row."""
    row = tl.program_id(0).to(tl.int64) * n
    at = tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + row + at, mask=inside, other=0.0).to(tl.float32)
    weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
    bias = tl.load(b + at, mask=inside, other=0.0).to(tl.float32)
    off = tl.where(inside, value - tl.sum(value, axis=0) / n, 0.0)
    scale = tl.rsqrt(tl.sum(off * off, axis=0) / n + eps)
    tl.store(y + row + at, (off * scale * weight + bias).to(y.dtype.element_ty), mask=inside)


@triton.jit
def rope(x, cos, sin, y, heads, HEADS: tl.constexpr, PAIRS: tl.constexpr):
    """The heads of one position turned: elements p and p + PAIRS of each by the angle p.

    HEADS is `heads` rounded up to a power of two; `cos` and `sin` have PAIRS columns a position.
    """
    position = tl.program_id(0).to(tl.int64)
    head, pair = tl.arange(0, HEADS)[:, None], tl.arange(0, PAIRS)[None, :]
    inside = head < heads
    at = (position * heads + head) * (2 * PAIRS) + pair
    c = tl.load(cos + position * PAIRS + pair).to(tl.float32)
    s = tl.load(sin + position * PAIRS + pair).to(tl.float32)
    a = tl.load(x + at, mask=inside).to(tl.float32)
    b = tl.load(x + at + PAIRS, mask=inside).to(tl.float32)
    tl.store(y + at, (a * c - b * s).to(y.dtype.element_ty), mask=inside)
    tl.store(y + at + PAIRS, (a * s + b * c).to(y.dtype.element_ty), mask=inside)
