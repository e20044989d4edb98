"""What scores.py is written in: the primitives of include/ssa/scores-inl.h in Triton's language.

The polynomials are those of src/kernels/math-inl.h; their errors stand there.
"""

import triton
import triton.language as tl


@triton.jit
def copy_sign(magnitude, sign):
    """magnitude >= 0 with the sign of the other; 0 has none."""
    return tl.where(sign < 0, -magnitude, magnitude)


@triton.jit
def log2_1p(x, careful):
    """log2(1 + x) for x >= 0; inf and NaN stay.

    `careful` keeps the digits of a small x: n·log2(1 + x) with a large n needs them. Else the error is absolute, one
    rounding of 1 + x and that of the processor's own logarithm (2^-22 on NVIDIA), at a third of the instructions.
    """
    if careful:
        result = _log2_1p_of_small(x)
    else:
        result = tl.log2(1.0 + x)
    return result


@triton.jit
def _log2_1p_of_small(x):
    """1 + x = 2^e·m with m in [√½, √2), f = m − 1: e + f·P(f). Where e is 0, f is x itself."""
    bits = (1.0 + x).to(tl.int32, bitcast=True)
    exponent = (bits - 0x3F3504F3) >> 23  # √½
    m = (bits - (exponent << 23)).to(tl.float32, bitcast=True)
    f = tl.where(exponent == 0, x, m - 1.0)
    p = 1.258370126e-01
    p = p * f - 2.072697430e-01
    p = p * f + 2.157156068e-01
    p = p * f - 2.389448218e-01
    p = p * f + 2.879162481e-01
    p = p * f - 3.607036828e-01
    p = p * f + 4.809106429e-01
    p = p * f - 7.213473468e-01
    p = p * f + 1.442695004e00
    # An infinite x is its own logarithm; NaN fails the comparison and stays.
    return tl.where(x < float("inf"), p * f + exponent.to(tl.float32), x)


@triton.jit
def tanh(x):
    """|x| < 0.625: x + x³·P(x²); beyond: 1 − 2/(1 + e^2|x|). NaN stays."""
    magnitude = tl.abs(x)
    square = x * x
    p = -5.704986926e-03
    p = p * square + 2.063908716e-02
    p = p * square - 5.373971505e-02
    p = p * square + 1.333144220e-01
    p = p * square - 3.333328194e-01
    near = x + x * square * p
    far = 1.0 - 2.0 / (1.0 + tl.exp2(2.885390082 * magnitude))
    return tl.where(magnitude < 0.625, near, copy_sign(far, x))
