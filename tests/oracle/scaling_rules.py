# SPDX-License-Identifier: Apache-2.0
"""Scales of 8-bit tensors by Transformer Engine's rules, in Python's float64 rounded to f32 where a GPU rounds.

Written from the text of those rules, without a look at the program that it checks. A quotient or product of two f32 in
float64, rounded to f32, is the f32 quotient or product: 53 bits are more than twice 24 and two.
"""
import math
import struct

LARGEST_F32 = struct.unpack("<f", b"\xff\xff\x7f\x7f")[0]


def f32(x):
    """x rounded to f32, infinity beyond it."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def power_of_two_below(x):
    return math.ldexp(1, math.frexp(x)[1] - 1)


class DelayedScaling:
    """One tensor: magnitudes of `length` steps, the one at hand first; a scale that starts at 1."""

    def __init__(self, length, choice, margin, largest, power_of_two):
        self.length, self.choice, self.power_of_two = length, choice, power_of_two
        self.reach = largest * 2.0 ** -margin
        self.magnitudes = [0.0] * length
        self.scale = 1.0

    def see(self, amax):
        self.magnitudes[0] = max(self.magnitudes[0], amax)

    def end_step(self):
        now = self.magnitudes[0]
        if now == 0:  # not used, or nothing but zeros: as it was
            return
        window = [now] + self.magnitudes[1:]
        amax = max(window) if self.choice == "max" else now
        # Older magnitudes move towards the front, where the next step's place is; the one there goes.
        self.magnitudes = [0.0] + (self.magnitudes[2:] + [now] if self.length > 1 else [])
        if amax == 0 or math.isinf(amax):
            return
        scale = f32(self.reach / amax)
        if math.isinf(scale):
            scale = LARGEST_F32
        self.scale = power_of_two_below(scale) if self.power_of_two else scale
