# SPDX-License-Identifier: Apache-2.0
"""What the comparisons share: arguments, calling the program, a small corpus, and one line per check."""
import argparse
import json
import subprocess
import sys


TEXT = "--text", {"required": True, "help": "a text file to train on"}
FAMILIES = "family", {"nargs": "*", "help": "default: all"}


def model_arguments(description, *options):
    """--megalith and `options`, of a comparison with transformers, which keeps quiet and computes on one thread."""
    import torch  # other comparisons do without these
    import transformers

    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True, help="the program")
    for name, settings in options:
        parser.add_argument(name, **settings)
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return parser.parse_args()


class Checks:
    """Prints `ok    name: figure` or `FAIL  name: figure` and counts."""

    def __init__(self):
        self.failed = 0

    def expect(self, name, good, figure=""):
        print(f"{'ok  ' if good else 'FAIL'}  {name}{': ' if figure else ''}{figure}", flush=True)
        self.failed += 0 if good else 1

    def exit_code(self):
        return 1 if self.failed else 0


def summary(name, errors):
    """Of [(ours, that of transformers in float32)], both against float64: a row of docs/models.md."""
    ours, theirs = max(errors)
    return (f"{name}: {len(errors)} models, largest error {ours:.2e} (transformers in float32 {theirs:.2e}), "
            f"largest ratio {max(a / b for a, b in errors):.2f}")


def run(program, *arguments):
    """The --json lines of a command, as a list; its message and the end of this program when it fails."""
    result = subprocess.run([program, *map(str, arguments), "--json"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        sys.exit(f"megalith {' '.join(map(str, arguments))}: exit {result.returncode}: {result.stderr}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def make_corpus(program, text, folder, vocabulary):
    """Trains a tokenizer on a text file and packs the file, a document per line; PREFIX and tokenizer."""
    tokenizer, prefix = folder / "tokenizer.json", folder / "corpus"
    run(program, "tokenizer", "train", "--input", text, "--vocab-size", vocabulary, "--output", tokenizer)
    run(program, "pack", "--tokenizer", tokenizer, "--input", text, "--document", "line", "--output", prefix)
    return prefix, tokenizer


def train(program, recipe_file, recipe, **overrides):
    """Writes `recipe` (YAML is a superset of JSON) and trains; the lines of metrics.jsonl."""
    recipe_file.write_text(json.dumps(recipe))
    sets = [part for key, value in overrides.items() for part in ("--set", f"{key.replace('__', '.')}={value}")]
    run(program, "train", recipe_file, *sets)
    out = overrides.get("run__out", recipe["run"]["out"])
    with open(f"{out}/metrics.jsonl", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]
