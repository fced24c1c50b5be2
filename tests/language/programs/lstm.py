"""A recurrent layer over time in one group: run-time trip count, state in lists and shared."""

import numpy as np

from iron.lang import (
    Const,
    In,
    Out,
    barrier,
    cdiv,
    dims,
    dtypes,
    f16,
    f32,
    groups,
    i32,
    inline,
    kernel,
    shared,
    sigmoid,
    strided,
    tanh,
    thread,
    u32,
    unrolled,
)

B, L, H = dims("B L H")
T = dtypes("T", f32, f16)


@inline
def gates(pre, w, h, unit):
    """The four gates of one unit before their functions."""
    gate = [pre[k, unit] for k in unrolled(4)]
    for j in range(h.shape[0]):
        for k in unrolled(4):
            gate[k] = gate[k] + w[j, k, unit].to(f32) * h[j]
    return gate


@kernel(variants={"REVERSE": [False, True]})
def lstm(
    pre: In[f32, B, L, 4, H],
    w: In[T, H, 4, H],
    h0: In[T, B, H],
    c0: In[f32, B, H],
    lengths: In[u32, B],
    y: Out[T, B, L, H],
    c_out: Out[f32, B, H],
    *,
    REVERSE: Const = False,
    THREADS: Const = 256,
):
    """`pre` holds the gates' input part (i, f, g, o); `w` is [input, gate, unit].

    Rows of y beyond a sequence's length are zero.
    """
    (b,) = groups(B, threads=THREADS)
    SLOTS = cdiv(H, THREADS)
    h = shared((2, H), f32)
    unit = [thread + s * THREADS for s in unrolled(SLOTS)]
    c = [c0[b, unit[s]] if unit[s] < H else f32(0) for s in unrolled(SLOTS)]
    for i in strided(H):
        h[0, i] = h0[b, i].to(f32)
    barrier()
    n = lengths[b].to(i32)
    for step in range(n):
        t = n - 1 - step if REVERSE else step
        old, new = step % 2, (step + 1) % 2
        for s in unrolled(SLOTS):
            if unit[s] < H:
                gate = gates(pre[b, t], w, h[old], unit[s])
                c[s] = sigmoid(gate[1]) * c[s] + sigmoid(gate[0]) * tanh(gate[2])
                out = sigmoid(gate[3]) * tanh(c[s])
                h[new, unit[s]] = out
                y[b, t, unit[s]] = out.to(T)
        barrier()
    for t in range(n, L):
        for i in strided(H):
            y[b, t, i] = T(0)
    for s in unrolled(SLOTS):
        if unit[s] < H:
            c_out[b, unit[s]] = c[s]


WRONG = ("sigmoid(gate[1]) * c[s] +", "sigmoid(gate[1]) * c[s] -")


def check():
    """Against the recurrence in f64, one sequence shorter than the other, from the end."""
    rng = np.random.default_rng(9)
    pre = rng.normal(size=(2, 6, 4, 70)).astype(np.float32)
    w = (rng.normal(size=(70, 4, 70)) * 0.2).astype(np.float32)
    h0, c0 = rng.normal(size=(2, 2, 70)).astype(np.float32)
    lengths = np.array([6, 4], np.uint32)
    y, c = lstm(pre=pre, w=w, h0=h0, c0=c0, lengths=lengths, REVERSE=True, THREADS=64)
    for b in range(2):
        state, cell = h0[b].astype(float), c0[b].astype(float)
        for t in reversed(range(lengths[b])):
            z = pre[b, t] + np.einsum("j,jkh->kh", state, w)
            i, f, o = (1 / (1 + np.exp(-z[k])) for k in (0, 1, 3))
            cell = f * cell + i * np.tanh(z[2])
            state = o * np.tanh(cell)
            assert np.abs(y[b, t] - state).max() < 1e-5 * np.sqrt(6)
        assert np.abs(c[b] - cell).max() < 1e-5 * np.sqrt(6) * np.abs(cell).max()
        assert not y[b, lengths[b] :].any()
