#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The program beside what a user would take instead, in one run on the same cores; called by script/bench.

Every comparison runs its sides in turn, several times round, on as many threads as there are cores, so that a slow minute of the
machine meets all of them alike.
The record holds the machine, the versions, every command, every sample and the medians; it is written as it comes, so
that what was measured before an interruption stays. With --tiny every comparison runs on sizes that say nothing, in a
minute or two: to see that all of it works."""
import argparse
import datetime
import os
import pathlib
import subprocess
import sys
import tempfile

from encoder_comparisons import bert, bert_natural, embed, t5_generate, t5_train
from model_comparisons import decode, demo, gemm, llama, llama_decode, long, longest, memory, prompt, train
from precision_comparisons import fp8_curves, fp8_decode, fp8_steps, fp8_tune
from quantised_comparisons import lookup, quantised
from record import BUSY, PATIENCE, PEERS, ROOT, Record, idle_load, machine
from run_comparisons import save, start
from serving_comparisons import late_prompt, serve_adapters, serve_memory, server_step, serving, shared_prefix
from text_comparisons import pack, tokenizer, tokenizer_models, tokenizer_training
from tune_comparisons import chat_tune, glue_tune, qlora

COMPARISONS = {f.__name__: f for f in (gemm, train, llama, llama_decode, demo, long, longest, memory, decode, prompt, tokenizer, tokenizer_models, tokenizer_training,
                                       pack, save, start, embed, bert, bert_natural, t5_train, t5_generate, serving, late_prompt,
                                       shared_prefix, server_step, serve_memory, serve_adapters, quantised, lookup, fp8_curves, fp8_tune, fp8_steps, fp8_decode, glue_tune,
                                       chat_tune, qlora)}
# The rows of the table of goals, by the comparison that measures them.
ROWS = {"1": [train], "2": [train], "3": [memory], "4": [demo], "5": [long, longest], "6": [gemm], "7": [decode], "8": [prompt],
        "9": [tokenizer], "10": [tokenizer_training], "11": [pack], "12": [save], "13": [save], "14": [start, save]}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--megalith", required=True)
    p.add_argument("--python", help="of the environment with the rivals; without it there are none")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--tiny", action="store_true", help="sizes that say nothing, to see that all of it works")
    p.add_argument("--patience", type=float, default=PATIENCE, help="seconds to wait for an idle machine before each comparison")
    p.add_argument("--record", required=True)
    p.add_argument("names", nargs="*", metavar="NAME", help=", ".join(COMPARISONS) + ", or a row 1 to 14")
    a = p.parse_args()
    for name in a.names:
        if name not in ROWS and name not in COMPARISONS:
            p.error(f"no comparison {name}; there are {', '.join(COMPARISONS)}, and rows 1 to 14")
    wanted = [c for n in a.names or COMPARISONS for c in ROWS.get(n, [COMPARISONS.get(n)])]
    commit = subprocess.run(["git", "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, cwd=ROOT).stdout.strip()
    # A record that is being written is no change of what is measured.
    changed = subprocess.run(["git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results"], capture_output=True,
                             text=True, cwd=ROOT).stdout.strip()
    commit += "-dirty" if changed else ""
    versions = subprocess.run([a.megalith, "doctor", "--json"], capture_output=True, text=True).stdout.strip()
    rivals = (PEERS / "requirements.txt").read_text().splitlines()[1:] if a.python else []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/tmp")) as folder, open(a.record, "a") as file:
        r = Record(a.megalith, a.python, a, pathlib.Path(folder), file)
        r.write(f"# {datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d %H:%M} UTC\n\n{machine()}\n\n"
                f"megalith {commit}: {versions}\n\nrivals: {', '.join(rivals)}\n\nthreads of every side, unless said: {r.threads}")
        for comparison in dict.fromkeys(wanted):
            load = idle_load(0.0 if r.tiny else a.patience)
            r.note(f"\n## {comparison.__name__}, load {load:.1f}{'' if load < BUSY else ': NOT an idle machine'}")
            comparison(r)
        r.write("")
    print(a.record, file=sys.stderr)
    if r.failed:
        print("did not run: " + "; ".join(r.failed), file=sys.stderr)
    return 1 if r.failed else 0


if __name__ == "__main__":
    sys.exit(main())
