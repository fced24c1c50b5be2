"""Triton kernels of decoding attention: shares of the keys, then their sum, as the field has it.

Imported only where triton and a CUDA device are there.
"""

# pyright: basic, reportMissingImports=false, reportAttributeAccessIssue=false
import triton
import triton.language as tl


@triton.jit
def share(
    q, k, v, part, stat, scale, keys, heads,
    RATIO: tl.constexpr, SPLITS: tl.constexpr, D: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One share of the keys of one key head, for its RATIO query heads in a tile of 16 rows.

    `part` gets sums of exp2 times values, `stat` the greatest score in base 2 and the sum.
    """
    split, g, b = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    rows, columns, block = tl.arange(0, 16), tl.arange(0, D), tl.arange(0, BLOCK)
    head = b * heads + g * RATIO + rows
    inside = rows < RATIO
    query = tl.load(q + head[:, None] * D + columns[None, :], mask=inside[:, None], other=0.0)
    first = (b * (heads // RATIO) + g).to(tl.int64) * keys * D
    length = tl.cdiv(tl.cdiv(keys, SPLITS), BLOCK) * BLOCK
    low = split * length
    high = tl.minimum(low + length, keys)
    top = tl.full([16], -float("inf"), tl.float32)
    norm = tl.zeros([16], tl.float32)
    total = tl.zeros([16, D], tl.float32)
    for start in range(low, high, BLOCK):
        at = start + block
        seen = at < high
        key = tl.load(k + first + at[None, :] * D + columns[:, None], mask=seen[None, :], other=0.0)
        score = tl.where(seen[None, :], tl.dot(query, key) * scale, -float("inf"))
        peak = tl.maximum(top, tl.max(score, axis=1))
        weight = tl.exp2(score - peak[:, None])
        decay = tl.exp2(top - peak)
        value = tl.load(
            v + first + at[:, None] * D + columns[None, :], mask=seen[:, None], other=0.0
        )
        total = total * decay[:, None] + tl.dot(weight.to(value.dtype), value)
        norm = norm * decay + tl.sum(weight, axis=1)
        top = peak
    place = head * SPLITS + split
    tl.store(part + place[:, None] * D + columns[None, :], total, mask=inside[:, None])
    tl.store(stat + place * 2, top, mask=inside)
    tl.store(stat + place * 2 + 1, norm, mask=inside)


@triton.jit
def merge(part, stat, o, SPLITS: tl.constexpr, D: tl.constexpr):
    """The attention of one head from its shares."""
    head, splits, columns = tl.program_id(0), tl.arange(0, SPLITS), tl.arange(0, D)
    place = head * SPLITS + splits
    top, norm = tl.load(stat + place * 2), tl.load(stat + place * 2 + 1)
    weight = tl.exp2(top - tl.max(top, axis=0))
    total = tl.load(part + place[:, None] * D + columns[None, :])
    out = tl.sum(total * weight[:, None], axis=0) / tl.sum(norm * weight, axis=0)
    tl.store(o + head * D + columns, out.to(o.dtype.element_ty))
