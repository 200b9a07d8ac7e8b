#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`evaluate tasks` against lm-eval's own `hf` model in float32, on the same files.

Each task is lm-eval's definition, with its data set exchanged for local JSONL. Compared are: every prompt, continuation and
right answer (by the hashes of samples files), every answer, every number and its error. What counts answers (acc, acc_norm,
exact_match, whether a continuation is the most likely one), of each document and of the set with its error, must be equal to the
last bit. Log-probabilities, which lm-eval adds up in float32, to a relative 1e-5, and numbers made of them to 2e-6.

    tasks_oracle.py --megalith build/release/megalith --model ../shared/data/models/stories260K --data ../shared/data
"""
import argparse
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["HF_DATASETS_OFFLINE"] = os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from comparison import Checks  # noqa: E402
import task_sets  # noqa: E402

COUNTS = ("acc", "acc_norm", "acc_bytes", "exact_match", "mcc", "f1")
RELATIVE = 2e-6
# task -> (file under lm_eval/tasks, splits, shots to compare with)
TASKS = {
    "lambada_openai": ("lambada/lambada_openai.yaml", ("test",), (0,)),
    "lambada_standard": ("lambada/lambada_standard.yaml", ("test",), (0,)),
    "hellaswag": ("hellaswag/hellaswag.yaml", ("validation",), (0,)),
    "piqa": ("piqa/piqa.yaml", ("validation",), (0,)),
    "arc_challenge": ("arc/arc_challenge.yaml", ("train", "validation", "test"), (0, 3)),
    "arc_easy": ("arc/arc_easy.yaml", ("train", "validation", "test"), (0,)),
    "winogrande": ("winogrande/default.yaml", ("train", "validation"), (0, 2)),
    "boolq": ("super_glue/boolq/default.yaml", ("train", "validation"), (0,)),
    "race": ("race/race.yaml", ("test",), (0, 1)),
    "openbookqa": ("openbookqa/openbookqa.yaml", ("train", "validation", "test"), (0, 6)),
    "wikitext": ("wikitext/wikitext.yaml", ("train", "validation", "test"), (0,)),
    "gsm8k": ("gsm8k/gsm8k.yaml", ("train", "test"), (0, 1)),
    "triviaqa": ("triviaqa/default.yaml", ("train", "validation"), (0, 4)),
}
SUBJECTS = ("anatomy", "astronomy", "marketing", "world_religions")
GENERATED = {"gsm8k": 60, "triviaqa": 60}  # documents: lm-eval writes them slowly


def their_tasks(package, data, folder):
    """lm-eval's tasks with local files, as YAML that includes its own."""
    folder.mkdir()
    for task, (file, splits, _) in TASKS.items():
        files = {split: str(data / f"{task}_{split}.jsonl") for split in splits}
        other = {f"{split}_split": None for split in ("training", "validation", "test") if {"training": "train"}.get(split, split) not in splits}
        config = {"include": str(package / "tasks" / file), "task": f"local_{task}", "tag": None, "dataset_path": "json",
                  "dataset_name": None, "dataset_kwargs": {"data_files": files}, **other}
        (folder / f"local_{task}.yaml").write_text(json.dumps(config))
    for subject in SUBJECTS:
        for split in ("test", "dev"):
            task_sets.write(folder / f"{subject}_{split}.jsonl", [d for d in task_sets.lines(data / f"mmlu_{split}.jsonl") if d["subject"] == subject])
        config = {"include": str(package / f"tasks/mmlu/default/mmlu_{subject}.yaml"), "task": f"local_mmlu_{subject}", "tag": None,
                  "dataset_path": "json", "dataset_name": None,
                  "dataset_kwargs": {"data_files": {split: str(folder / f"{subject}_{split}.jsonl") for split in ("test", "dev")}}}
        (folder / f"local_mmlu_{subject}.yaml").write_text(json.dumps(config))


def ours(program, model, data, tasks, folder, *options):
    began = time.monotonic()
    done = subprocess.run([program, "evaluate", "tasks", "--checkpoint", model, "--tasks", ",".join(tasks), "--data", data, "--output", folder,
                           "--json", *map(str, options)], capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        sys.exit(f"megalith evaluate tasks {','.join(tasks)} {options}: exit {done.returncode}: {done.stderr}")
    results = json.loads(pathlib.Path(glob.glob(f"{folder}/*/results_*.json")[0]).read_text())
    samples = {}
    for task in tasks:
        found = glob.glob(f"{folder}/*/samples_{task}_*.jsonl")
        samples[task] = task_sets.lines(found[0]) if found else []
    return results, samples, seconds


def pair_of(answer):
    """Log-probability and whether it is the most likely, of an answer as either side logs it; of a whole text the first alone."""
    logprob, *greedy = answer if isinstance(answer, (list, tuple)) else (answer,)
    return float(logprob), [str(g) for g in greedy]


class Comparison:
    def __init__(self, checks):
        self.checks = checks

    def task(self, task, shots, mine, theirs, my_samples, their_samples):
        name = f"{task}, {shots} shots"
        keys = [k for k in theirs if "," in k and not k.startswith("sample")]
        self.checks.expect(f"{name}: the same numbers", sorted(keys) == sorted(k for k in mine if "," in k), str(sorted(keys)))
        pairs = list(zip(my_samples, their_samples, strict=True))
        for part in ("doc_hash", "prompt_hash", "target_hash", *(m for m in their_samples[0]["metrics"] if m in COUNTS)):
            self.alike(f"{name}: {part}", pairs, lambda sample, part=part: sample[part])
        if task in GENERATED:
            self.alike(f"{name}: texts", pairs, lambda sample: sample["resps"])
        else:
            self.answers(name, pairs)
        for key in keys:
            self.number(f"{name}: {key}", key.split(",")[0].removesuffix("_stderr"), mine[key], theirs[key])

    def alike(self, name, pairs, part_of):
        wrong = [(a["doc_id"], part_of(a), part_of(b)) for a, b in pairs if part_of(a) != part_of(b)]
        self.checks.expect(f"{name} of {len(pairs)} samples", not wrong, f"{len(wrong)} differ: {str(wrong[:4])[:400]}" if wrong else "")

    def answers(self, name, pairs):
        worst, where, greedy = 0.0, None, []
        for a, b in pairs:
            for mine, theirs in zip(map(pair_of, a["filtered_resps"]), map(pair_of, b["filtered_resps"]), strict=True):
                relative = abs(mine[0] - theirs[0]) / max(abs(theirs[0]), 1)
                if relative >= worst:
                    worst, where = relative, (a["doc_id"], mine[0], theirs[0])
                if mine[1] != theirs[1]:
                    greedy.append((a["doc_id"], mine, theirs))
        self.checks.expect(f"{name}: log-probabilities", worst <= 1e-5, f"largest relative difference {worst:.1e}, {where}")
        self.checks.expect(f"{name}: which are the most likely", not greedy, str(greedy[:4]) if greedy else "")

    def number(self, name, metric, mine, theirs):
        if isinstance(theirs, str) or isinstance(mine, str):
            return self.checks.expect(name, mine == theirs, f"{mine}")
        if metric in COUNTS:
            good = mine == float(theirs)
            return self.checks.expect(name, good, f"{mine!r}" + ("" if good else f" and {theirs!r}"))
        relative = abs(mine - theirs) / abs(theirs)
        same = f"{mine:.4f}" == f"{theirs:.4f}"
        return self.checks.expect(name, relative <= RELATIVE, f"{mine:.10g}, relative {relative:.1e}, printed {'alike' if same else 'differently'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True)
    parser.add_argument("--model", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--tasks", help="some of them, with commas between; default: all")
    parser.add_argument("--limit", type=int, help="documents of each task")
    parser.add_argument("--batch-size", type=int, default=16, help="of lm-eval")
    parser.add_argument("--bootstrap", type=int, default=2000)
    arguments = parser.parse_args()
    import lm_eval
    import lm_eval.tasks
    import torch
    import transformers
    from lm_eval.models.huggingface import HFLM

    transformers.logging.set_verbosity_error()
    os.environ["DISABLE_MULTIPROC"] = "1"
    checks = Checks()
    comparison = Comparison(checks)
    package = pathlib.Path(lm_eval.__file__).parent
    chosen = arguments.tasks.split(",") if arguments.tasks else [*TASKS, "mmlu"]
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        data = folder / "data"
        data.mkdir()
        task_sets.own_sets(arguments.data, data)
        task_sets.made_sets(arguments.data, data)
        their_tasks(package, data, folder / "yaml")
        manager = lm_eval.tasks.TaskManager(include_path=str(folder / "yaml"), include_defaults=False)
        tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=f"{arguments.model}/tokenizer.json", bos_token="<s>", eos_token="</s>",
                                                         pad_token="</s>")
        network = transformers.AutoModelForCausalLM.from_pretrained(arguments.model, dtype=torch.float32)
        their_model = HFLM(pretrained=network, tokenizer=tokenizer, batch_size=arguments.batch_size)
        totals = {"ours": 0.0, "lm-eval": 0.0}
        for task in chosen:
            names = [f"mmlu_{s}" for s in SUBJECTS] if task == "mmlu" else [task]
            for shots in (0, 5) if task == "mmlu" else TASKS[task][2]:
                limit = arguments.limit or GENERATED.get(task)
                options = ("--shots", shots, "--bootstrap", arguments.bootstrap, *(("--limit", limit) if limit else ()))
                began = time.monotonic()
                theirs = lm_eval.simple_evaluate(model=their_model, tasks=[f"local_{n}" for n in names], task_manager=manager, num_fewshot=shots,
                                                 limit=limit, bootstrap_iters=arguments.bootstrap, log_samples=True)
                seconds = time.monotonic() - began
                results, samples, mine = ours(arguments.megalith, arguments.model, data, names, folder / f"out-{task}-{shots}", *options)
                totals["ours"] += mine
                totals["lm-eval"] += seconds
                print(f"{task}, {shots} shots: lm-eval {seconds:.1f} s, here {mine:.1f} s with its start: {seconds / mine:.1f} times as fast", flush=True)
                for one in names:
                    their_samples = sorted(theirs["samples"][f"local_{one}"], key=lambda s: (s["filter"], s["doc_id"]))
                    my_samples = sorted(samples[one], key=lambda s: (s["filter"], s["doc_id"]))
                    comparison.task(one, shots, results["results"][one], theirs["results"][f"local_{one}"], my_samples, their_samples)
        print(f"all: lm-eval {totals['lm-eval']:.1f} s, here {totals['ours']:.1f} s")
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
