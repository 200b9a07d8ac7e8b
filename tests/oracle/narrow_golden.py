#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes or checks what tests/golden/narrow_test.cpp compares with, where PyTorch is not at hand.

conversions.safetensors: SHA-256 of the codes that torch gives (of e4m3 beyond its range: gave, in 2.11) for all bf16, and
for 2^24 f32 that share out all bit patterns. delayed_scaling.safetensors: 50 steps of scaling_rules.py.
loss_scale.safetensors: 400 steps of torch.amp.GradScaler's update, with long runs of good and of bad ones.

    narrow_golden.py [--check]
"""
import argparse
import hashlib
import pathlib
import sys

import numpy as np
import safetensors.numpy
import torch

from scaling_rules import DelayedScaling, f32

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "golden" / "narrow"
TYPES = {"f8_e4m3": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2, "f8_e8m0": torch.float8_e8m0fnu,
         "f16": torch.float16, "bf16": torch.bfloat16}
LARGEST = {"f8_e4m3": 448.0, "f8_e5m2": 57344.0}
STEPS, TENSORS = 50, 6
# name: history, choice, margin, largest, power of two
CONFIGURATIONS = {"max_8": (8, "max", 0, 448.0, False), "recent_1": (1, "most_recent", 0, 448.0, False),
                  "recent_4": (4, "most_recent", 2, 448.0, False), "max_5_e5m2": (5, "max", 1, 57344.0, True),
                  "max_1024": (1024, "max", 0, 448.0, False)}


def sampled_f32():
    """2^24 bit patterns: all upper 24 bits, below each 8 bits that a product scatters."""
    upper = np.arange(1 << 24, dtype=np.uint64)
    lower = (upper * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56)
    return ((upper << np.uint64(8)) | lower).astype(np.uint32)


def all_bf16():
    return (np.arange(1 << 16, dtype=np.uint32) << 16).astype(np.uint32)


def torch_codes(bits, to, rounding):
    """f32 bit patterns converted, as bytes; a NaN of 16 bits is the one that is made of the exponent and a 1."""
    x = torch.from_numpy(bits.view(np.float32).copy())
    if rounding == "saturate":
        x = x.clamp(-LARGEST[to], LARGEST[to])
    codes = x.to(TYPES[to])
    if to == "f8_e4m3" and rounding == "nonfinite":  # torch 2.15 saturates; as 2.11: beyond the last middle is NaN
        codes = torch.where(x.abs() > 464, (codes.view(torch.uint8) & 0x80) | 0x7F, codes.view(torch.uint8))
    if codes.element_size() == 2:
        codes = torch.where(x.isnan(), torch.tensor(float("nan"), dtype=TYPES[to]), codes)
        return codes.view(torch.int16).numpy()
    return codes.view(torch.uint8).numpy()


CONVERSIONS = [("f8_e4m3", "nonfinite"), ("f8_e4m3", "saturate"), ("f8_e5m2", "nonfinite"), ("f8_e5m2", "saturate"),
               ("f8_e8m0", "nonfinite"), ("f16", "nonfinite"), ("bf16", "nonfinite")]


def conversions():
    digests = {}
    for source, bits in (("f32", sampled_f32()), ("bf16", all_bf16())):
        for to, rounding in CONVERSIONS:
            codes = torch_codes(bits, to, rounding)
            if to == "bf16":  # its NaNs keep their payload here: left out
                codes = np.where(np.isnan(bits.view(np.float32)), 0, codes)
            digest = hashlib.sha256(codes.tobytes()).digest()
            digests[f"{source}.{to}.{rounding}"] = np.frombuffer(digest, np.uint8).copy()
    return digests


def magnitudes():
    """[steps, tensors]: drifting, growing, steps of zeros, one infinity, steps in which it is not used, extremes."""
    rng = np.random.default_rng(17)
    a = np.exp(rng.normal(0, 1, (STEPS, TENSORS)))
    a[:, 1] *= 2.0 ** np.arange(STEPS)  # outliers that grow
    a[5:9, 2] = 0
    a[20, 3] = np.inf
    a[31, 3] = 0
    a[::3, 4] = -1  # not used
    a[:, 5] *= 10.0 ** rng.uniform(-44, 38, STEPS)
    return a.astype(np.float32)


def replay(seen, length, choice, margin, largest, power_of_two):
    scales = np.zeros((STEPS, TENSORS), np.float32)
    history = np.zeros((length, TENSORS), np.float32)
    for n in range(TENSORS):
        state = DelayedScaling(length, choice, margin, largest, power_of_two)
        for step in range(STEPS):
            if seen[step, n] >= 0:
                state.see(f32(float(seen[step, n]) / 2))  # two micro-batches, the larger last
                state.see(float(seen[step, n]))
            state.end_step()
            scales[step, n] = state.scale
        history[:, n] = state.magnitudes
    return scales, history


def delayed_scaling():
    seen = magnitudes()
    tensors = {"magnitudes": seen}
    for name, configuration in CONFIGURATIONS.items():
        tensors[f"{name}.scales"], tensors[f"{name}.history"] = replay(seen, *configuration)
    return tensors


def loss_scale():
    """torch.amp.GradScaler's own update: [steps] whether all gradients were finite, and the scale after each."""
    rng = np.random.default_rng(9)
    finite = (rng.random(400) > 0.06).astype(np.uint8)
    finite[100:140], finite[200:260] = 0, 1
    scale, good = torch.full((1,), 65536.0), torch.zeros(1, dtype=torch.int32)
    scales = []
    for step in finite:
        torch._amp_update_scale_(scale, good, torch.tensor([float(step == 0)]), 2.0, 0.5, 7)
        scales.append(scale.item())
    return {"finite": finite, "scales": np.array(scales, np.float32)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the files instead of writing them")
    arguments = parser.parse_args()
    wrong = 0
    for name, tensors in (("conversions", conversions()), ("delayed_scaling", delayed_scaling()),
                          ("loss_scale", loss_scale())):
        content = safetensors.numpy.save({k: np.ascontiguousarray(v) for k, v in tensors.items()})
        path = FOLDER / f"{name}.safetensors"
        if not arguments.check:
            path.write_bytes(content)
        good = path.exists() and path.read_bytes() == content
        print(f"{'ok  ' if good else 'FAIL'}  {path.name}: {len(content)} bytes")
        wrong += not good
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
