#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`evaluate tasks` against lm-eval's own `hf` model in float32, on the same files.

Each task is lm-eval's definition, with its data set exchanged for local JSONL. Compared are: every prompt and
continuation, every right answer (by the hashes of samples files), every number and its error. Numbers that count answers
(acc, acc_norm, exact_match) and their errors must be equal to the last bit. Those of log-probabilities, which lm-eval adds
up in float32, to a relative 2e-6, and as lm-eval prints them (four decimals). Where an answer differs, both log-probabilities
are shown: a tie within float32 is named and allowed, nothing else.

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


class Comparison:
    def __init__(self, checks, scores):
        self.checks, self.scores = checks, scores

    def task(self, task, shots, mine, theirs, my_samples, their_samples):
        name = f"{task}, {shots} shots"
        keys = [k for k in theirs if "," in k and not k.startswith("sample")]
        self.checks.expect(f"{name}: the same numbers", sorted(keys) == sorted(k for k in mine if "," in k), str(sorted(keys)))
        for part in ("doc_hash", "prompt_hash", "target_hash"):
            wrong = [s["doc_id"] for s, t in zip(my_samples, their_samples, strict=True) if s[part] != t[part]]
            self.checks.expect(f"{name}: {part} of {len(their_samples)} samples", not wrong, f"differ in {wrong[:5]}" if wrong else "")
        differ = self.answers(name, my_samples, their_samples)
        for key in keys:
            self.number(f"{name}: {key}", key.split(",")[0].removesuffix("_stderr"), mine[key], theirs[key], differ)

    def number(self, name, metric, mine, theirs, differ):
        if isinstance(theirs, str) or isinstance(mine, str):
            return self.checks.expect(name, mine == theirs, f"{mine}")
        if metric in COUNTS:
            good = mine == float(theirs)
            return self.checks.expect(name, good or differ > 0, f"{mine!r}" + ("" if good else f" and {theirs!r}: {differ} ties"))
        relative = abs(mine - theirs) / abs(theirs)
        same = f"{mine:.4f}" == f"{theirs:.4f}"
        return self.checks.expect(name, relative <= RELATIVE, f"{mine:.10g}, relative {relative:.1e}, printed {'alike' if same else 'differently'}")

    def answers(self, name, mine, theirs):
        """Documents whose values differ; each must be a tie in float32."""
        differ, worst, texts = [], 0.0, 0
        for a, b in zip(mine, theirs, strict=True):
            pairs = list(zip(a["filtered_resps"], b["filtered_resps"], strict=True))
            if pairs and isinstance(pairs[0][0], list):
                worst = max([worst, *(abs(float(x[0]) - float(y[0])) / max(abs(float(y[0])), 1) for x, y in pairs)])
            elif "exact_match" in b["metrics"]:
                texts += a["resps"] == b["resps"]
            if any(a[m] != b[m] for m in b["metrics"] if m in COUNTS):
                differ.append((a, b))
        if worst > 0:
            self.checks.expect(f"{name}: log-probabilities", worst <= 1e-5, f"largest relative difference {worst:.1e}")
        elif "exact_match" in theirs[0]["metrics"]:
            self.checks.expect(f"{name}: texts", texts == len(theirs), f"{texts} of {len(theirs)} the same")
        for a, b in differ:
            scores = [float(x[0]) for x in a["filtered_resps"]]
            best = sorted(scores)[-2:]
            tie = abs(best[-1] - best[0]) <= 2e-5 * max(1, abs(best[0]))
            self.checks.expect(f"{name}: document {a['doc_id']} is a tie", tie, f"{a['filtered_resps']} and {b['filtered_resps']}")
        return len(differ)


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
    comparison = Comparison(checks, {})
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
