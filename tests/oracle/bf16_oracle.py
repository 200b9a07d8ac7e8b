#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bf16 against f32 and against PyTorch in bf16.

500 steps on real text in bf16 and in f32: the final losses are within 1 %. The same recipe, seed and data order twice;
only the storage of weights and activations differs. Final: the held-out loss after the last step, and the mean training
loss of the last 20 steps.

Log probabilities in bf16 of the model that this trained, and of a random Llama: their root mean square error against
float64 is at most 1.5 times that of transformers in bf16, of a model in bfloat16 or under autocast, whichever is nearer.

    bf16_oracle.py --megalith build/release/megalith --text FILE
"""
import argparse
import copy
import math
import pathlib
import sys
import tempfile

import torch
import transformers

from comparison import Checks, make_corpus, run, train
from decoder_folders import BOUND as ERROR_BOUND, in_double, logprobs_of, opened, random_lines, random_model, scored

STEPS, LAST, BOUND = 500, 20, 0.01


def compare_error(checks, name, program, checkpoint, folder):
    """A folder of bf16 weights."""
    model, _ = opened(checkpoint, torch.bfloat16)
    lines = random_lines(model.config.max_position_embeddings, model.config.vocab_size)
    double = copy.deepcopy(model).double()
    with in_double(double):
        true = logprobs_of(double, lines)
    wide = copy.deepcopy(model).float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        automatic = logprobs_of(wide, lines)

    def rms(x):
        return math.sqrt(float(((x - true) ** 2).mean()))

    ours = rms(scored(program, checkpoint, lines, folder / "ids.jsonl", "--dtype", "bf16"))
    theirs, cast = rms(logprobs_of(model, lines)), rms(automatic)
    checks.expect(f"{name}: log probabilities in bf16", ours <= ERROR_BOUND * min(theirs, cast),
                  f"rms {ours:.2e}, transformers in bfloat16 {theirs:.2e}, under autocast {cast:.2e}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--text", required=True, help="a text file to train on")
    arguments = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix, tokenizer = make_corpus(arguments.megalith, arguments.text, folder, 1000)
        recipe = {
            "run": {"out": str(folder / "run"), "name": "bf16"},
            "model": {"layers": 2, "hidden": 128, "heads": 4, "context": 64},
            "data": {"train": str(prefix), "tokenizer": str(tokenizer), "validation_fraction": 0.05},
            "train": {"steps": STEPS, "global_batch": 16, "micro_batch": 16, "validate_every": STEPS,
                      "validate_samples": 128},
            "optimizer": {"lr": 3e-3, "schedule": "cosine", "warmup_steps": 50},
        }
        final = {}
        for precision in ("f32", "bf16"):
            lines = train(arguments.megalith, folder / "recipe.yaml", recipe, run__out=folder / precision,
                          precision__parameters=precision, precision__compute=precision)
            checks.expect(f"{precision}: it learns", lines[-1]["loss"] < 0.75 * lines[0]["loss"],
                          f"{lines[0]['loss']:.4f} to {lines[-1]['loss']:.4f}")
            final[precision] = {
                "held-out loss": lines[-1]["validation_loss"],
                f"mean loss of the last {LAST} steps": sum(line["loss"] for line in lines[-LAST:]) / LAST,
            }
        run(arguments.megalith, "convert", "--from", folder / "bf16", "--to", folder / "trained", "--format", "hf", "--dtype",
            "bf16")
        compare_error(checks, "GPT-2, trained here", arguments.megalith, folder / "trained", folder)
        config = transformers.LlamaConfig(
            vocab_size=131, hidden_size=64, intermediate_size=172, num_hidden_layers=4, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, initializer_range=0.1)
        random_model(folder / "random", config, torch.bfloat16)
        compare_error(checks, "Llama, random", arguments.megalith, folder / "random", folder)
    for kind, f32 in final["f32"].items():
        bf16 = final["bf16"][kind]
        checks.expect(f"bf16 against f32: {kind} after {STEPS} steps", abs(bf16 / f32 - 1) <= BOUND,
                      f"{bf16:.5f} against {f32:.5f}, {100 * (bf16 / f32 - 1):+.3f} % (at most 1 %)")
        checks.expect(f"bf16 is not f32: {kind}", bf16 != f32)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
