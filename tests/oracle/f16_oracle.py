#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training in f16 against torch.amp.GradScaler, torch.optim.AdamW and PyTorch's gradients.

A GPT-2 that overflows at a loss scale of 65536 is trained in f16, with a checkpoint of every step. With optimizer.beta1 = 0
the first moment that a checkpoint holds is the gradient of its step, without the scale, bit for bit; a step that changed
nothing had none that was finite. These gradients, times the scale of their step, are put before GradScaler:

- its scale before every step is the one in metrics.jsonl, and it leaves out the steps that are left out here;
- AdamW, which it calls for the others, and clipping make the masters of the checkpoints;
- the steps that are left out overflow in PyTorch's float16 too;
- gradients of steps that were applied are as near to float64's, of the same f16 weights, as those of PyTorch in float16.

    f16_oracle.py --megalith build/release/megalith
"""
import copy
import math
import pathlib
import sys
import tempfile

import safetensors.numpy
import torch
import transformers

from comparison import Checks, model_arguments, run, train
from decoder_folders import BOUND, in_double
from gradients_oracle import BATCH, SEED, SIZES, gradients_of, write_corpus, write_gradients
from objective_samples import Samples

STEPS, COMPARED = 40, 6
LR, CLIP, DECAY, BETA2, EPS = 0.01, 1.0, 0.1, 0.95, 1e-8
SCALE = {"initial_scale": 65536, "growth_interval": 6, "hysteresis": 1, "min_scale": 1}
UNIT = 2.0**-24


def recipe(folder, prefix):
    return {
        "run": {"out": str(folder / "run"), "seed": SEED, "threads": 1},
        "model": {"family": "gpt2"} | SIZES | {"init_std": 1.0}, "data": {"train": str(prefix)},
        "train": {"steps": STEPS, "global_batch": BATCH},
        "optimizer": {"lr": LR, "schedule": "constant", "beta1": 0.0, "beta2": BETA2, "eps": EPS, "weight_decay": DECAY, "clip": CLIP},
        "precision": {"parameters": "f16", "compute": "f16", "fp16": SCALE},
        "checkpoint": {"every": 1, "keep": STEPS + 1}}


def state_of(folder, step):
    """(masters, first moments) of a checkpoint, by name."""
    held = {}
    for file in (folder / f"run/checkpoints/step-{step:08}").glob("*.safetensors"):
        held |= safetensors.numpy.load_file(file)
    tensors = {name: torch.from_numpy(tensor.copy()) for name, tensor in held.items()}
    return ({name: tensor for name, tensor in tensors.items() if not name.startswith("adamw.")},
            {name.removeprefix("adamw.m."): tensor for name, tensor in tensors.items() if name.startswith("adamw.m.")})


def compare_decisions(checks, folder, start, lines):
    """GradScaler and AdamW on the gradients of the run."""
    weights = {name: torch.nn.Parameter(tensor) for name, tensor in start.items()}
    groups = [{"params": [w for w in weights.values() if w.dim() >= 2], "weight_decay": DECAY},
              {"params": [w for w in weights.values() if w.dim() < 2], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=LR, betas=(0.0, BETA2), eps=EPS)
    scaler = torch.amp.GradScaler("cpu", init_scale=SCALE["initial_scale"], growth_interval=SCALE["growth_interval"])
    scaler.scale(torch.zeros(1))
    scales, left_out, worst, norms = [], [], 0.0, 0.0
    for step, line in enumerate(lines, 1):
        scales.append(scaler.get_scale())
        masters, gradients = state_of(folder, step)
        finite = line["grad_norm"] is not None
        factor = min(1.0, CLIP / (line["grad_norm"] + 1e-6)) if finite else 1.0
        for name, weight in weights.items():
            weight.grad = gradients[name] / factor * scales[-1]
            if not finite:
                weight.grad.view(-1)[0] = math.inf
        before = {name: weight.detach().clone() for name, weight in weights.items()}
        scaler.unscale_(adamw)
        norm = torch.nn.utils.clip_grad_norm_(weights.values(), CLIP)
        scaler.step(adamw)
        scaler.update()
        if all(torch.equal(before[name], weight) for name, weight in weights.items()):
            left_out.append(step)
        if finite:
            norms = max(norms, abs(float(norm) / line["grad_norm"] - 1))
        with torch.no_grad():
            for name, weight in weights.items():
                worst = max(worst, float(((weight - masters[name]).abs() / (masters[name].abs() + 5 * LR)).max()))
                weight.copy_(masters[name])  # each step by itself
    skipped = [line["step"] for line in lines if line["grad_norm"] is None]
    ours = [line["loss_scale"] for line in lines]
    grown = sum(b == 2 * a for a, b in zip(ours, ours[1:]))
    checks.expect("a run whose first step overflows at 65536, and whose scale grows again",
                  skipped[:1] == [1] and ours[0] == 65536 and grown > 0, f"{len(skipped)} steps left out, {grown} times doubled")
    checks.expect("scales are GradScaler's", ours == scales, f"{STEPS} steps, from {min(ours):g} to {max(ours):g}")
    checks.expect("steps left out are GradScaler's", skipped == left_out, str(left_out))
    checks.expect("counts of steps left out", [line["overflowed_steps"] for line in lines] ==
                  [sum(s <= line["step"] for s in left_out) for line in lines])
    checks.expect("norms before clipping", norms <= 1e-5, f"largest difference {norms:.1e}")
    # A few roundings of a weight and of its change, which is not above lr / sqrt(1 - beta2), under 5 lr.
    checks.expect("masters are AdamW's", worst <= 16 * UNIT, f"largest difference {worst / UNIT:.1f} units of rounding")
    return skipped


def halves(model, inputs, targets, scale):
    """Gradients in float16, their losses scaled; not finite where they overflow."""
    model.zero_grad()
    logits = model(**inputs).logits
    (torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten()) * scale).backward()
    return {name: weight.grad.double() / scale for name, weight in model.named_parameters()}


def compare_overflows(checks, program, folder, prefix, lines, skipped):
    """The steps that were left out overflow in PyTorch's float16 too, at the scale that they had here."""
    samples = Samples(prefix, b"masking", whole=False)
    for step in skipped:
        at = folder / f"overflow{step}"
        run(program, "convert", "--from", folder / f"run/checkpoints/step-{step - 1:08}", "--to", at, "--format", "hf", "--dtype", "f16")
        half = transformers.AutoModelForCausalLM.from_pretrained(at, dtype=torch.float16).eval()
        rows = [samples.of_training(number)[1] for number in range((step - 1) * BATCH, step * BATCH)]
        inputs, targets = {"input_ids": torch.tensor([row[:-1] for row in rows])}, torch.tensor([row[1:] for row in rows])
        scale = lines[step - 1]["loss_scale"]
        found = halves(half, inputs, targets, scale)
        checks.expect(f"step {step}: overflows at a scale of {scale:g}", any(not torch.isfinite(g).all() for g in found.values()))


def compare_gradients(checks, program, folder, prefix, lines, skipped):
    """Of the first steps that were applied. Errors are of all parameters together, over the norm of the gradient."""
    samples = Samples(prefix, b"masking", whole=False)
    applied = [line["step"] for line in lines if line["step"] not in skipped][:COMPARED]
    largest, at_least = 0.0, math.inf
    for step in applied:
        line, at = lines[step - 1], folder / f"of{step}"
        at.mkdir()
        checkpoints = folder / "run/checkpoints"
        write_gradients(checkpoints / f"step-{step:08}", at / "gradients")
        run(program, "convert", "--from", checkpoints / f"step-{step - 1:08}", "--to", at / "model", "--format", "hf", "--dtype", "f16")
        run(program, "convert", "--from", at / "gradients", "--to", at / "exported", "--format", "hf", "--dtype", "f32")
        auto = transformers.AutoModelForCausalLM
        half = auto.from_pretrained(at / "model", dtype=torch.float16).eval()
        ours = dict(auto.from_pretrained(at / "exported", dtype=torch.float64).named_parameters())
        wide = copy.deepcopy(half).double()
        rows = [samples.of_training(number)[1] for number in range((step - 1) * BATCH, step * BATCH)]
        inputs, targets = {"input_ids": torch.tensor([row[:-1] for row in rows])}, torch.tensor([row[1:] for row in rows])
        with in_double(wide):
            exact = gradients_of(wide, inputs, targets)
        factor = min(1.0, CLIP / (line["grad_norm"] + 1e-6))
        norm = math.sqrt(sum(float(g.square().sum()) for g in exact.values()))

        def error(gradients):
            return math.sqrt(sum(float((gradients[name] - g).square().sum()) for name, g in exact.items())) / norm

        mine = error({name: ours[name].detach() / factor for name in exact})
        scale = line["loss_scale"]
        theirs = math.inf
        while not math.isfinite(theirs) and scale >= 1:  # whose gradients of weights overflow earlier
            theirs, scale = error(halves(half, inputs, targets, scale)), scale / 2
        largest, at_least = max(largest, mine / theirs), min(at_least, theirs)
        checks.expect(f"step {step}: gradients", mine <= BOUND * theirs,
                      f"error {mine:.2e}, PyTorch in float16 {theirs:.2e}, norm {line['grad_norm']:.6g} of {norm:.6g}")


def main():
    program = model_arguments(__doc__).megalith
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = folder / "corpus"
        write_corpus(prefix, "causal", STEPS)
        start = folder / "start"
        start.mkdir()
        train(program, start / "recipe.yaml", recipe(start, prefix), train__steps=0)
        lines = train(program, folder / "recipe.yaml", recipe(folder, prefix))
        skipped = compare_decisions(checks, folder, state_of(start, 0)[0], lines)
        (folder / "run/checkpoints/step-00000000").symlink_to(start / "run/checkpoints/step-00000000")
        compare_overflows(checks, program, folder, prefix, lines, skipped)
        compare_gradients(checks, program, folder, prefix, lines, skipped)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
