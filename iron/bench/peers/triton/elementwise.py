"""Triton kernels that work on each element: flat blocks, masked at the end, f32 arithmetic.

Imported only where triton and a CUDA device are there.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
import triton
import triton.language as tl

BLOCK = 1024
"""Elements a program; a multiple of 16 bytes a thread for 128 threads."""
LOG2E = tl.constexpr(1.4426950408889634)


@triton.jit
def silu_of(x):
    """x / (1 + e^-x)."""
    return x / (1.0 + tl.exp2(-x * LOG2E))


@triton.jit
def unary(x, y, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """y = OP(x)."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside).to(tl.float32)
    out = tl.exp(value) if OP == "exp" else silu_of(value)
    tl.store(y + at, out.to(y.dtype.element_ty), mask=inside)


@triton.jit
def gated(g, u, y, n, BLOCK: tl.constexpr):
    """y = silu(g) * u."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    gate = tl.load(g + at, mask=inside).to(tl.float32)
    up = tl.load(u + at, mask=inside).to(tl.float32)
    tl.store(y + at, (silu_of(gate) * up).to(y.dtype.element_ty), mask=inside)


@triton.jit
def cast(x, y, n, BLOCK: tl.constexpr):
    """y = x in y's type; a copy where the types agree."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(y + at, tl.load(x + at, mask=inside).to(y.dtype.element_ty), mask=inside)


@triton.jit
def select(c, a, b, y, n, BLOCK: tl.constexpr):
    """y = a where c is not 0, else b."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    chosen = tl.load(c + at, mask=inside) != 0
    first, second = tl.load(a + at, mask=inside), tl.load(b + at, mask=inside)
    tl.store(y + at, tl.where(chosen, first, second), mask=inside)


@triton.jit
def binary(a, b, z, n, OP: tl.constexpr, BLOCK: tl.constexpr):
    """z = OP(a, b) of one shape."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    p = tl.load(a + at, mask=inside).to(tl.float32)
    q = tl.load(b + at, mask=inside).to(tl.float32)
    if OP == "add":
        out = p + q
    elif OP == "sub":
        out = p - q
    elif OP == "mul":
        out = p * q
    else:
        out = p / q
    tl.store(z + at, out.to(z.dtype.element_ty), mask=inside)
