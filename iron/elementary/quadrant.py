"""Argument reduction of the circular functions: x = quadrant pi / 2 + r + tail, |r| about pi / 4.

Up to 2^20 pi / 2 is subtracted in three parts (Cody and Waite), the first of them exactly. Beyond,
the fraction of x 2 / pi is formed from 96 bits of 2 / pi with 32-bit products (Payne and Hanek),
which is right up to the greatest float; that path is entered only where it is needed.
"""

from __future__ import annotations

from math import inf

from iron.dtypes import f32, i32
from iron.elementary.exponential import MAGIC
from iron.elementary.expression import Expr, unless, where

NEAR = 2.0**20
TWO_OVER_PI = 0.6366197723675814
HALF_PI = (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15)
# 2 / pi x 2^219 as 224 bits, the most significant word first
BITS_OF_TWO_OVER_PI = (
    0x0517CC1B,
    0x727220A9,
    0x4FE13ABE,
    0x8FA9A6EE,
    0x06DB14AC,
    0xC9E21C82,
    0x0FF28B1D,
)


def reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """r, tail and the quadrant, an i32 of which only the low two bits are meant."""
    turns = x.fma(TWO_OVER_PI, MAGIC)
    n = turns - MAGIC
    first = n.fma(-HALF_PI[0], x)
    second = n * -HALF_PI[1]
    r = first + second
    rest = n.fma(-HALF_PI[2], n.fma(-HALF_PI[1], -second))
    tail = (first - r) + second + rest
    a = abs(x)
    far = (a > NEAR) & (a < inf)
    r, tail, quadrant = unless(far, (r, tail, turns.ints()), lambda: _far(x))
    return r, tail, quadrant


def _far(x: Expr) -> tuple[Expr, Expr, Expr]:
    bits = x.words()
    high, low = _product((bits & 0x7FFFFF) | 0x800000, _window((bits << 1 >> 24) - 147))
    quadrant = (high + 0x20000000) >> 30
    signed = (high - (quadrant << 30)).bits(i32)
    negative = signed >> 31
    r, tail = _radians(signed ^ negative, low ^ negative.words())
    flip = (negative ^ x.ints()) & -0x80000000
    turned = where(x < 0.0, -quadrant, quadrant).bits(i32)
    return (r.ints() ^ flip).float(), (tail.ints() ^ flip).float(), turned


def _window(start: Expr) -> list[Expr]:
    """Three words of 2 / pi from bit `start` on, 0 <= start < 128."""
    skip, shift = start >> 5, start & 31
    words: list[Expr] = []
    for k in range(4):
        w0, w1, w2, w3 = BITS_OF_TWO_OVER_PI[k : k + 4]
        late = where(skip.equals(2), start.constant(w2), w3)
        words.append(where(skip.equals(0), start.constant(w0), where(skip.equals(1), w1, late)))
    back = 31 - shift
    return [(words[k] << shift) | (words[k + 1] >> 1 >> back) for k in range(3)]


def _product(m: Expr, window: list[Expr]) -> tuple[Expr, Expr]:
    """The upper two words of m times the window, modulo 2^96: quarter turns x 2^62."""
    a, b, c = window
    carried = m.op("mulhi", c)
    low = m * b + carried
    carry = where(low < carried, m.constant(1), 0)
    return m * a + m.op("mulhi", b) + carry, low


def _radians(high: Expr, low: Expr) -> tuple[Expr, Expr]:
    """(high + low 2^-32) 2^-30 quarter turns, not negative, as an angle in two parts."""
    a = high.to(f32)
    b = low.to(f32).fma(2.0**-32, (high - a.to(i32)).to(f32)) * 2.0**-30
    a = a * 2.0**-30
    r = a * HALF_PI[0]
    tail = b.fma(HALF_PI[0], a.fma(HALF_PI[1], a.fma(HALF_PI[0], -r)))
    total = r + tail
    return total, (r - total) + tail
