#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""500 steps on real text in bf16 and in f32: the final losses are within 1 %.

The same recipe, seed and data order twice; only the storage of weights and activations differs. Final:
the held-out loss after the last step, and the mean training loss of the last 20 steps.

    bf16_oracle.py --megalith build/release/megalith --text FILE
"""
import argparse
import pathlib
import sys
import tempfile

from comparison import Checks, make_corpus, train

STEPS, LAST, BOUND = 500, 20, 0.01


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--text", required=True, help="a text file to train on")
    arguments = parser.parse_args()
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
    for kind, f32 in final["f32"].items():
        bf16 = final["bf16"][kind]
        checks.expect(f"bf16 against f32: {kind} after {STEPS} steps", abs(bf16 / f32 - 1) <= BOUND,
                      f"{bf16:.5f} against {f32:.5f}, {100 * (bf16 / f32 - 1):+.3f} % (at most 1 %)")
        checks.expect(f"bf16 is not f32: {kind}", bf16 != f32)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
