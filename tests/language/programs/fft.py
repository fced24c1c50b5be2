"""Fourier transform of 4^n complex points in one group: Stockham radix 4, twiddles from a table."""

import numpy as np

from iron.lang import (
    Const,
    In,
    Out,
    barrier,
    dims,
    dtypes,
    f16,
    f32,
    groups,
    kernel,
    require,
    shared,
    table,
    thread,
    unrolled,
)

R, N = dims("R N")
T = dtypes("T", f32, f16)


@kernel(variants={"INVERSE": [False, True]})
def fft(
    re: In[T, R, N],
    im: In[T, R, N] | None,
    out_re: Out[T, R, N],
    out_im: Out[T, R, N],
    *,
    LOG4: Const = 5,
    INVERSE: Const = False,
):
    """One thread per four points; the inverse is not scaled."""
    N4 = 4 ** (LOG4 - 1)
    (row,) = groups(R, threads=N4)
    require(N == 4**LOG4, "N must be 4 ** LOG4")
    sign = 1.0 if INVERSE else -1.0
    angle = 2 * np.pi * np.arange(4 * N4) / (4 * N4)
    cosine, sine = table(np.cos(angle), f32), table(sign * np.sin(angle), f32)
    a, b = shared((4 * N4,), f32), shared((4 * N4,), f32)
    x = [re[row, thread + r * N4].to(f32) for r in unrolled(4)]
    y = [im[row, thread + r * N4].to(f32) if im is not None else f32(0) for r in unrolled(4)]
    for p in unrolled(LOG4):
        span = 4**p
        j = thread % span
        for r in unrolled(1, 4):
            t = j * r * (N4 // span)
            c, s = cosine[t], sine[t]
            x[r], y[r] = x[r] * c - y[r] * s, x[r] * s + y[r] * c
        ar, ai, br, bi = x[0] + x[2], y[0] + y[2], x[0] - x[2], y[0] - y[2]
        cr, ci, dr, di = x[1] + x[3], y[1] + y[3], x[1] - x[3], y[1] - y[3]
        x = [ar + cr, br - sign * di, ar - cr, br + sign * di]
        y = [ai + ci, bi + sign * dr, ai - ci, bi - sign * dr]
        if p < LOG4 - 1:
            base = (thread - j) * 4 + j
            for r in unrolled(4):
                a[base + r * span] = x[r]
                b[base + r * span] = y[r]
            barrier()
            x, y = (
                [a[thread + r * N4] for r in unrolled(4)],
                [b[thread + r * N4] for r in unrolled(4)],
            )
            barrier()
    for r in unrolled(4):
        out_re[row, thread + r * N4] = x[r].to(T)
        out_im[row, thread + r * N4] = y[r].to(T)


WRONG = ("br - sign * di", "br + sign * di")


def check():
    """Against numpy.fft for 256 points, both directions, with and without imaginary input."""
    rng = np.random.default_rng(8)
    x, y = rng.normal(size=(2, 2, 256)).astype(np.float32)
    bound = 4 * 2.0**-24 * 8 * 16 * np.linalg.norm(x + 1j * y)
    for inverse, want in ((False, np.fft.fft(x + 1j * y)), (True, 256 * np.fft.ifft(x + 1j * y))):
        re, im = fft(re=x, im=y, LOG4=4, INVERSE=inverse)
        assert np.abs(re + 1j * im - want).max() < bound
    re, im = fft(re=x, im=None, LOG4=4)
    assert np.abs(re + 1j * im - np.fft.fft(x)).max() < bound
