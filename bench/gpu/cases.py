# SPDX-License-Identifier: Apache-2.0
"""Operands of sums that run on a GPU: every code from a hash of (format, distribution, seed, index).

tests/golden/tensor_core_cases.h makes the same ones."""
import numpy as np

# exponent bits, mantissa bits, bias, largest exponent field of finite numbers, bytes, low zero bits of the storage
FORMATS = {"e4m3": (4, 3, 7, 15, 1), "e5m2": (5, 2, 15, 30, 1), "bf16": (8, 7, 127, 254, 2),
           "f16": (5, 10, 15, 30, 2), "tf32": (8, 10, 127, 254, 4)}
U = np.uint64

def mix(seed, n):
    """Splitmix64's finaliser of seed * 2^32 + index."""
    with np.errstate(over="ignore"):
        x = (U(seed) << U(32)) + np.arange(n, dtype=U)
        x = x + U(0x9E3779B97F4A7C15)
        x = (x ^ (x >> U(30))) * U(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> U(27))) * U(0x94D049BB133111EB)
        return x ^ (x >> U(31))

DISTRIBUTIONS = 12  # of operands, by number; 5 to 7, 10 and 11 have accumulators to start from

def codes(fmt, dist, seed, n):
    E, M, bias, top, size = FORMATS[fmt]
    r = mix(seed, n)
    sign = r >> U(63)
    mant = (r >> U(8)) & U((1 << M) - 1)
    pick = (r >> U(32)) & U(0xFFFFFF)
    lo, hi = 0, top
    if fmt in ("bf16", "tf32"): lo, hi = bias - 30, bias + 30
    if dist in (2, 3, 5):     # geometric: each binade half as likely as the one above
        low = pick & (~pick + U(1))
        zeros = np.where(pick == 0, 24, np.log2(np.maximum(low, 1).astype(np.float64)).astype(np.int64))
        e = np.maximum(bias + 1 - zeros, 0)
    else:
        if dist == 1: lo, hi = bias - 4, bias + 4
        if dist == 7: lo, hi = 0, 2
        if dist == 8: lo, hi = 0, top
        if dist == 9: lo, hi = bias - 2, (1 << E) - 1
        if dist == 10: lo, hi = 0, 0
        if dist == 11: lo, hi = (bias + 62, bias + 64) if fmt in ("bf16", "tf32") else (top - 1, top)
        e = lo + (pick % U(hi - lo + 1)).astype(np.int64)
    if dist == 10: mant = np.where((r >> U(58)) & U(31) != 0, U(0), mant)  # zeros of both signs
    if dist == 3: sign = np.zeros_like(sign)
    code = (sign << U(E + M)) | (e.astype(U) << U(M)) | mant
    if fmt == "e4m3" and dist not in (9, 11):  # no NaN
        code = np.where((code & U(0x7F)) == U(0x7F), code ^ U(1), code)
    if dist == 4: code = np.where(((r >> U(56)) & U(3)) != 0, U(0), code)
    if dist == 9: code = np.where((r >> U(56)) & U(0x3F) != 0, U(1) << U(E + M - 2), code)  # mostly an ordinary number
    if fmt == "tf32": code = code << U(13)
    return code.astype({1: np.uint8, 2: np.uint16, 4: np.uint32}[size])

def starts(dist, seed, n):
    """f32 accumulators to start from."""
    if dist not in (5, 6, 7, 10, 11): return np.zeros(n, np.float32)
    r = mix(seed, n)
    if dist == 10: return ((r >> U(63)) << U(31)).astype(np.uint32).view(np.float32)
    lo, hi = {5: (127, 143), 6: (107, 147), 7: (92, 132), 11: (250, 254)}[dist]
    e = U(lo) + ((r >> U(32)) & U(0xFFFF)) % U(hi - lo + 1)
    bits = ((r >> U(63)) << U(31)) | (e << U(23)) | (r & U(0x7FFFFF))
    return bits.astype(np.uint32).view(np.float32)

def tiles(fa, fb, dist, seed, count, K):
    """count tiles: A [count, 64, K], B [count, 8, K], C [count, 64, 8]."""
    A = codes(fa, dist, 3 * seed, count * 64 * K).reshape(count, 64, K)
    B = codes(fb, dist, 3 * seed + 1, count * 8 * K).reshape(count, 8, K)
    C = starts(dist, 3 * seed + 2, count * 512).reshape(count, 64, 8)
    if dist == 10:  # products that are all -0
        A[:, :8, :] = 1 << (8 * A.dtype.itemsize - 1)
        B[:, 0, :] = 0
    return A, B, C
