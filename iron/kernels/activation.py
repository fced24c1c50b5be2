"""Activation functions and the exponentials in them, precise and in the `fast_` kind.

A fast form is within 1e-5 of itself, and 0 may stand for what is below 2^-125.
"""

from iron.lang import absolute, erf, exp, f32, fast_exp2, fast_rcp, inf, inline, log1p, maximum
from iron.lang import sigmoid, tanh, where

LOG2E = 1.4426950408889634
HALF_ROOT = 0.7071067811865476
ROOT_2_OVER_PI = 0.7978845608028654


def math_of(T):
    """The default of MATH: functions of the `fast_` kind where T rounds their errors away."""
    return "precise" if T is f32 else "fast"


@inline
def swish(x, steepness):
    """x * sigmoid(steepness * x); -0 at -inf. Ramachandran et al. 2017 (arXiv:1710.05941)."""
    return where(x == -inf, -0.0, x * sigmoid(steepness * x))


@inline
def silu(x):
    """x * sigmoid(x); -0 at -inf, since sigmoid is 0 from -104 down."""
    return maximum(x, -104.0) * sigmoid(x)


@inline
def gelu_erf(x):
    """x * (1 + erf(x / sqrt(2))) / 2; -0 at -inf. Hendrycks and Gimpel 2016 (arXiv:1606.08415)."""
    return where(x == -inf, -0.0, 0.5 * x * (1.0 + erf(x * HALF_ROOT)))


@inline
def gelu_tanh(x):
    """The tanh approximation of `gelu_erf`, same source; -0 at -inf."""
    inner = ROOT_2_OVER_PI * (x + 0.044715 * x * x * x)
    return where(x == -inf, -0.0, 0.5 * x * (1.0 + tanh(inner)))


@inline
def gelu_quick(x):
    """x * sigmoid(1.702 x); -0 at -inf."""
    return swish(x, 1.702)


@inline
def fast_exp(x):
    """e^x as 2^(x log2 e), within 1e-5 of itself; below 2^-125 it may be 0."""
    return fast_exp2(x * LOG2E)


@inline
def fast_sigmoid(x):
    """1 / (1 + e^-x), within 1e-5 of itself; below 2^-125 it may be 0."""
    return fast_rcp(1.0 + fast_exp2(x * -LOG2E))


@inline
def fast_swish(x, steepness):
    """`swish` by `fast_sigmoid`, which is 0 from -104 down."""
    return maximum(x, -104.0 / steepness) * fast_sigmoid(steepness * x)


@inline
def fast_silu(x):
    """`silu` by `fast_sigmoid`."""
    return maximum(x, -104.0) * fast_sigmoid(x)


@inline
def fast_gelu_tanh(x):
    """`gelu_tanh` as x sigmoid(2 u), which is (1 + tanh u) / 2."""
    x = maximum(x, -104.0)
    return x * fast_sigmoid(2.0 * ROOT_2_OVER_PI * (x + 0.044715 * x * x * x))


@inline
def fast_gelu_quick(x):
    """`gelu_quick` by `fast_sigmoid`."""
    return fast_swish(x, 1.702)


@inline
def softplus(x):
    """log(1 + exp(x)) without overflow."""
    return maximum(x, 0.0) + log1p(exp(-absolute(x)))


@inline
def relu(x):
    """max(x, 0); NaN stays NaN."""
    return maximum(x, 0.0)


@inline
def relu2(x):
    """max(x, 0) squared."""
    return maximum(x, 0.0) * maximum(x, 0.0)
