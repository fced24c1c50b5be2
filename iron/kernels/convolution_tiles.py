"""Convolution as a product of matrices that are never made: one tap of a filter after the other.

The rows (or columns) of one factor are the pixels of a box; for each tap they are the same box of
the input, moved. What lies outside of the image reads as 0.
"""

from iron.lang import cdiv, inline, next_pow2


def box_of(sizes, pixels):
    """Sides of a box of so many pixels (a power of two) that covers `sizes` with the least waste.

    Of equal ones the one that is longest along the last sizes.
    """
    boxes = [()]
    for _ in sizes[1:]:
        boxes = [(*box, 1 << n) for box in boxes for n in range(pixels.bit_length())]
    whole = [(pixels // _product(box), *box) for box in boxes if _product(box) <= pixels]
    return min(whole, key=lambda box: (_count(sizes, box), [-side for side in box[::-1]]))


def _product(sides):
    total = 1
    for side in sides:
        total *= side
    return total


def _count(sizes, box):
    return _product(cdiv(size, side) for size, side in zip(sizes, box, strict=True))


def reach(size, taps, STRIDE, PAD, DIL):
    """The length of an axis of the output."""
    return (size + 2 * PAD - DIL * (taps - 1) - 1) // STRIDE + 1


def height(H, R, STRIDE, PAD, DIL):
    """Rows of the output."""
    return reach(H, R, STRIDE, PAD, DIL)


def width(W, S, STRIDE, PAD, DIL):
    """Columns of the output."""
    return reach(W, S, STRIDE, PAD, DIL)


def groups_of(C, D):
    """Groups of channels, each of which has a filter of its own."""
    return C // D


def channels_of(N, GROUPS):
    """Channels of the output in a tile: up to 64 of one group."""
    return min(64, max(16, next_pow2(N // GROUPS)))


@inline
def tap(k, COLUMNS, CHUNKS):
    """(row of the filter, its column, chunk of channels) of turn k."""
    t = k // CHUNKS
    return t // COLUMNS, t % COLUMNS, k % CHUNKS


@inline
def moved(t, STRIDE, PAD, DIL):
    """(phase, elements) of tap t: output u meets element `elements + u` of `x[phase::STRIDE]`."""
    at = t * DIL - PAD
    return (at % STRIDE, at // STRIDE) if STRIDE > 1 else (0, at)
