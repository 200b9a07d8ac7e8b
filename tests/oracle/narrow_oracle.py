#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Conversions between f32, bf16, f16, e4m3, e5m2 and e8m0 against torch's casts, code for code.

From f32 2^24 bit patterns that share out all of them, and all bf16 and f16; to each type of 8 bits saturating (torch's
cast of the clamped number, which is what Transformer Engine's cast gives) and not (torch's cast, with NaN where torch 2.11
gave it and 2.15 saturates); all codes back; the middle between every two codes with its neighbours. By the scalar and by the vector code.

    narrow_oracle.py --codes build/ci/tests/narrow_codes
"""
import argparse
import subprocess
import sys

import numpy as np
import torch

from comparison import Checks
from narrow_golden import TYPES, all_bf16, sampled_f32, torch_codes

WAYS = ("scalar", "simd")
NUMPY = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def converted(program, source, to, rounding, way, elements):
    out = subprocess.run([program, source, to, rounding, way], input=elements.tobytes(), capture_output=True, check=True).stdout
    return np.frombuffer(out, NUMPY[len(out) // max(1, len(elements))])


def is_nan(codes, dtype):
    wide = torch.from_numpy(codes.copy().view(np.int16 if codes.dtype.itemsize == 2 else np.uint8)).view(dtype)
    return wide.float().isnan().numpy()


def compare_narrowing(checks, program):
    f16 = torch.from_numpy(np.arange(1 << 16, dtype=np.uint16).view(np.int16)).view(torch.float16).float().numpy()
    sources = {"f32": (sampled_f32(), sampled_f32()),
               "bf16": (np.arange(1 << 16, dtype=np.uint16), all_bf16()),
               "f16": (np.arange(1 << 16, dtype=np.uint16), f16.view(np.uint32))}
    for source, (elements, bits) in sources.items():
        for to in ("f8_e4m3", "f8_e5m2", "f8_e8m0", "f16", "bf16"):
            for rounding in ("nonfinite", "saturate") if to in ("f8_e4m3", "f8_e5m2") else ("nonfinite",):
                expected = torch_codes(bits, to, rounding)
                for way in WAYS if to != "f8_e8m0" else ("scalar",):
                    codes = converted(program, source, to, rounding, way, elements).view(expected.dtype)
                    differ = codes != expected
                    if expected.dtype.itemsize == 2:  # which NaN is no matter, that it is one is
                        differ &= ~(is_nan(codes, TYPES[to]) & is_nan(expected, TYPES[to]))
                    checks.expect(f"{source} to {to} {rounding}, {way}", not differ.any(),
                                  f"{differ.sum()} of {len(codes)} differ")


def compare_widening(checks, program):
    for source in ("f8_e4m3", "f8_e5m2", "f8_e8m0", "f16"):
        codes = np.arange(1 << (16 if source == "f16" else 8), dtype=np.uint16 if source == "f16" else np.uint8)
        theirs = torch.from_numpy(codes.view(np.int16) if source == "f16" else codes).view(TYPES[source]).float().numpy()
        for way in WAYS if source != "f8_e8m0" else ("scalar",):
            ours = converted(program, source, "f32", "nonfinite", way, codes).view(np.float32)
            same = np.array_equal(ours, theirs, equal_nan=True) and np.array_equal(np.signbit(ours[ours == 0]), np.signbit(theirs[theirs == 0]))
            checks.expect(f"{source} to f32, {way}", same, f"{len(codes)} codes")


def compare_middles(checks, program):
    for to, largest in (("f8_e4m3", 0x7e), ("f8_e5m2", 0x7b)):
        values = torch.arange(largest + 1, dtype=torch.uint8).view(TYPES[to]).double().numpy()
        middles = ((values[1:] + values[:-1]) / 2).astype(np.float32)
        x = np.concatenate([np.nextafter(middles, np.float32(0)), middles, np.nextafter(middles, np.float32(np.inf))])
        x = np.concatenate([x, -x])
        expected = torch_codes(x.view(np.uint32), to, "nonfinite")
        for way in WAYS:
            codes = converted(program, "f32", to, "nonfinite", way, x)
            checks.expect(f"middles of {to}, {way}", np.array_equal(codes, expected), f"{len(x)} numbers")


def compare_exponents(checks, program):
    """Rounding up, which torch has no cast for: against frexp in float64."""
    x = np.abs(sampled_f32().view(np.float32))
    x = x[np.isfinite(x)]
    mantissa, exponent = np.frexp(x.astype(np.float64))
    up = np.clip(exponent - (mantissa == 0.5) + 127, 0, 254)
    expected = np.where(x == 0, 0, up).astype(np.uint8)
    codes = converted(program, "f32", "f8_e8m0", "up", "scalar", x)
    checks.expect("f32 to f8_e8m0 up", np.array_equal(codes, expected), f"{len(x)} numbers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", required=True, help="the program narrow_codes")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    checks = Checks()
    compare_narrowing(checks, arguments.codes)
    compare_widening(checks, arguments.codes)
    compare_middles(checks, arguments.codes)
    compare_exponents(checks, arguments.codes)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
