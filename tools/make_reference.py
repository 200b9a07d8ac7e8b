#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes tests/golden/pytorch/*.safetensors: what PyTorch says about tiny models.

gpt2_*.safetensors, llama_grouped.safetensors  one pass in float64: logits, loss, norm and every
    parameter's gradient
trajectory.safetensors, llama_grouped_trajectory.safetensors  200 steps of AdamW with clipping and a
    cosine schedule: the weights after them in float64 and how far PyTorch in float32 ends from there

    make_reference.py [NAME...]          writes them, or those named
    make_reference.py --check [NAME...]  makes them anew and compares with what is stored

Inputs are formulas (tests/oracle/torch_decoder.py). Each file names the program and the versions
that made it in its metadata. A number that a comparison allows is explained where it stands.
"""
import argparse
import functools
import math
import pathlib
import sys

import numpy
import safetensors.numpy
import torch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/oracle"))
from torch_decoder import Shape, formula_samples, formula_weights, logits, mean_loss  # noqa: E402

VERSION = "1"  # of this program: raise it when what it computes changes
FOLDER = ROOT / "tests/golden/pytorch"
PASSES = {
    "gpt2_tied": Shape(),
    # Queries in groups of two per key/value head, its own output table, some tokens without loss.
    "gpt2_grouped_untied": Shape(kv_heads=2, tied=False),
    # Heads that together are wider than the stream; rotary positions.
    "llama_grouped": Shape("llama", hidden=24, kv_heads=2, ffn=40, tied=False),
}
# The norm to clip at: about half of the steps are.
TRAJECTORIES = {
    "trajectory": (PASSES["gpt2_tied"], 1.75),
    "llama_grouped_trajectory": (PASSES["llama_grouped"], 1.35),
}
STEPS, BATCH, WARMUP, PEAK, FLOOR, DECAY = 200, 4, 20, 3e-3, 3e-4, 0.1
BETAS, EPS = (0.9, 0.95), 1e-8


def one_pass(shape, dtype):
    samples = formula_samples(shape, 0, 2)
    samples[0, 3], samples[1, -1] = 0, shape.vocab - 1  # first and last row of the table, as input and target
    weight = torch.ones(2, shape.context, dtype=dtype)
    if not shape.tied:
        weight[0, -12:] = weight[1, -4:] = 0  # 16 tokens of 32, few in one sample, many in the other
    weights = {name: w.requires_grad_() for name, w in formula_weights(shape, dtype).items()}
    out = logits(shape, weights, samples[:, :-1])
    loss = mean_loss(out, samples[:, 1:], weight)
    loss.backward()
    norm = torch.linalg.vector_norm(torch.stack([w.grad.norm() for w in weights.values()]))
    tensors = {"logits": out.detach(), "loss": loss.detach().view(1), "grad_norm": norm.view(1)}
    tensors |= {f"gradient.{name}": w.grad for name, w in weights.items()}
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def make_pass(shape):
    """Gradients are stored in float32: half a rounding beside the tens that a bound allows."""
    exact, narrow = one_pass(shape, torch.float64), one_pass(shape, torch.float32)
    tensors = {}
    for name, tensor in exact.items():
        scale = numpy.linalg.norm(tensor)
        tensors[f"float32_error.{name}"] = numpy.array([numpy.linalg.norm(narrow[name] - tensor) / scale])
        tensors[name] = tensor.astype(numpy.float32) if name.startswith("gradient.") else tensor
    return tensors


def rate(step):
    if step <= WARMUP:
        return PEAK * step / WARMUP
    return FLOOR + (PEAK - FLOOR) * 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (STEPS - WARMUP)))


def train(shape, clip, dtype):
    """Weights, losses and gradient norms (before clipping) of the whole run."""
    weights = {name: w.requires_grad_() for name, w in formula_weights(shape, dtype).items()}
    groups = [
        {"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": DECAY},
        {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=PEAK, betas=BETAS, eps=EPS)
    ones = torch.ones(BATCH, shape.context, dtype=dtype)
    losses, norms = [], []
    for step in range(1, STEPS + 1):
        samples = formula_samples(shape, (step - 1) * BATCH, BATCH)
        optimizer.zero_grad()
        loss = mean_loss(logits(shape, weights, samples[:, :-1]), samples[:, 1:], ones)
        loss.backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(weights.values(), clip)))
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
        losses.append(loss.item())
    return {name: w.detach().double().numpy() for name, w in weights.items()}, losses, norms


def distance(a, b):
    return math.sqrt(sum(float(((a[name] - b[name]) ** 2).sum()) for name in b))


def make_trajectory(shape, clip):
    """Weights are stored in float32; their rounding is in `rounding`, far below the distances."""
    exact, losses, norms = train(shape, clip, torch.float64)
    narrow, _, _ = train(shape, clip, torch.float32)
    start = formula_weights(shape, torch.float64)
    stored = {name: w.astype(numpy.float32) for name, w in exact.items()}
    tensors = {f"weight.{name}": w for name, w in stored.items()}
    tensors["loss"], tensors["grad_norm"] = numpy.array(losses), numpy.array(norms)
    tensors["float32_distance"] = numpy.array([distance(narrow, exact)])
    tensors["moved"] = numpy.array([distance({n: w.numpy() for n, w in start.items()}, exact)])
    tensors["rounding"] = numpy.array([distance({n: w.astype(numpy.float64) for n, w in stored.items()}, exact)])
    return tensors


MAKERS = {name: functools.partial(make_pass, shape) for name, shape in PASSES.items()}
MAKERS |= {name: functools.partial(make_trajectory, *values) for name, values in TRAJECTORIES.items()}


def check(name, fresh):
    """Stored against fresh: other versions and machines round differently, in float64 by 1e-12 of a
    tensor's norm in one pass, and by what 200 steps make of that. float32's own errors vary with the
    order of its sums; a factor of two is the same figure. That of one number is one rounding or a few
    of them, and may be none."""
    stored = safetensors.numpy.load_file(FOLDER / f"{name}.safetensors")
    bad = [] if stored.keys() == fresh.keys() else ["names differ"]
    for key in stored.keys() & fresh.keys():
        a, b = stored[key].astype(numpy.float64), fresh[key].astype(numpy.float64)
        if key in ("float32_error.loss", "float32_error.grad_norm"):
            good = max(a[0], b[0]) <= 4 * 2.0**-24
        elif key.startswith("float32_") or key == "rounding":
            good = bool((a <= 2 * b).all() and (b <= 2 * a).all())
        else:
            bound = 2.0**-24 if stored[key].dtype == numpy.float32 else 1e-9 if name in TRAJECTORIES else 1e-12
            good = bool(numpy.linalg.norm(a - b) <= bound * numpy.linalg.norm(b))
        bad += [] if good else [key]
    print(f"{'ok' if not bad else 'FAILED'}  {name} is what torch {torch.__version__} says"
          f"{': not ' + ', '.join(bad) if bad else f' ({len(stored)} tensors)'}")
    return not bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("name", nargs="*", default=list(MAKERS), help="of a file; default all")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    good = True
    for name in arguments.name:
        tensors = MAKERS[name]()
        if arguments.check:
            good &= check(name, tensors)
            continue
        path = FOLDER / f"{name}.safetensors"
        safetensors.numpy.save_file(tensors, path, metadata={
            "program": "tools/make_reference.py", "version": VERSION,
            "torch": torch.__version__, "numpy": numpy.__version__})
        print(f"{path}: {path.stat().st_size} bytes")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
