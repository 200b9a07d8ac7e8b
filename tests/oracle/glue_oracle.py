#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`evaluate glue` against scikit-learn and SciPy, to 1e-12, on GLUE's development sets at hand with seeded predictions of several
qualities, and on made labels for tasks whose sets are not at hand; SQuAD's numbers against the definition of its official script.

    glue_oracle.py --megalith build/release/megalith --data ../shared/data
"""
import argparse
import collections
import json
import pathlib
import re
import string
import subprocess
import sys
import tempfile

import numpy as np
import scipy.stats
import sklearn.metrics

from comparison import Checks, run

TOLERANCE = 1e-12
INFERENCE = ["entailment", "neutral", "contradiction"]
# task -> (names or None, folder at hand, column of the label in its dev.tsv)
TASKS = {
    "cola": (["unacceptable", "acceptable"], "CoLA", 1), "sst2": (["negative", "positive"], "SST-2", 1),
    "mrpc": (["not_equivalent", "equivalent"], "MRPC", 0), "qqp": (["not_duplicate", "duplicate"], None, None), "stsb": (None, "STS-B", -1),
    "mnli": (INFERENCE, None, None), "mnli_mismatched": (INFERENCE, None, None), "qnli": (["entailment", "not_entailment"], None, None),
    "rte": (["entailment", "not_entailment"], "RTE", -1), "wnli": (["not_entailment", "entailment"], "WNLI", -1), "ax": (INFERENCE, None, None),
    "boolq": (["False", "True"], None, None), "cb": (["entailment", "contradiction", "neutral"], None, None),
    "copa": (["choice1", "choice2"], None, None), "wic": (["False", "True"], None, None), "wsc": (["False", "True"], None, None),
    "xnli": (INFERENCE, None, None)}


def labels_of(data, task, draw):
    """(labels, the benchmark's own file or None)"""
    names, folder, column = TASKS[task]
    if folder is None:
        return draw.integers(0, len(names), 500), None
    path = data / "glue" / folder / "dev.tsv"
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8-sig").splitlines()]
    values = [row[column] for row in (rows if task == "cola" else rows[1:])]
    if names is None:
        return np.array([float(v) for v in values]), path
    return np.array([names.index(v) if v in names else int(v) for v in values]), path


def expected(task, labels, said):
    accuracy = {"accuracy": sklearn.metrics.accuracy_score(labels, said)} if task != "stsb" else {}
    if task == "stsb":
        return {"pearson": scipy.stats.pearsonr(labels, said)[0], "spearmanr": scipy.stats.spearmanr(labels, said)[0]}
    if task in ("cola", "ax"):
        return {"matthews_correlation": sklearn.metrics.matthews_corrcoef(labels, said)}
    if task in ("mrpc", "qqp"):
        return {**accuracy, "f1": sklearn.metrics.f1_score(labels, said)}
    if task == "cb":
        return {**accuracy, "f1": sklearn.metrics.f1_score(labels, said, average="macro")}
    return accuracy


def compare(checks, program, folder, name, task, labels_file, said_file, labels, said):
    found = run(program, "evaluate", "glue", "--task", task, "--predictions", said_file, "--labels", labels_file)[0]
    wanted = expected(task, labels, said)
    worst = max(abs(found["metrics"][k] - v) for k, v in wanted.items())
    checks.expect(f"{name}: {', '.join(wanted)} of {len(labels)}", found["metrics"].keys() == wanted.keys() and found["examples"] == len(labels) and worst <= TOLERANCE,
                  f"{found['metrics']}, off by {worst:.1e}")


def compare_classes(checks, program, data, folder):
    for task, (names, _, _) in TASKS.items():
        draw = np.random.default_rng(11)
        labels, own = labels_of(data, task, draw)
        for quality in (0.0, 0.6, 0.95, 1.0):
            if names is None:
                said = np.round(labels + draw.normal(0, 3 * (1 - quality) + 0.01, len(labels)), 1 if quality == 0.6 else 6)
                written = [repr(float(v)) for v in said]
            else:
                said = np.where(draw.random(len(labels)) < quality, labels, draw.integers(0, len(names), len(labels)))
                written = [json.dumps({"logits": [0.5], "label": names[v]}) for v in said]
            said_file = folder / "said.jsonl"
            said_file.write_text("\n".join(written) + "\n")
            labels_file = own
            if own is None:
                labels_file = folder / "labels.jsonl"
                labels_file.write_text("".join(json.dumps({"idx": i, "label": int(v)}) + "\n" for i, v in enumerate(labels)))
            compare(checks, program, folder, f"{task} at {quality}", task, labels_file, said_file, labels, said)
    one = folder / "one.txt"
    one.write_text("1\n" * 300)
    labels, own = labels_of(data, "cola", None)
    one.write_text("1\n" * len(labels))
    compare(checks, program, folder, "cola, one class alone", "cola", own, one, labels, np.ones(len(labels), int))


def compare_multirc(checks, program, folder):
    draw = np.random.default_rng(3)
    rows = [{"paragraph": p, "question": q, "answer": a} for p in range(20) for q in range(3) for a in range(2 + (p + q) % 4)]
    labels, said = draw.integers(0, 2, len(rows)), draw.integers(0, 2, len(rows))
    for name, values in (("labels", labels), ("said", said)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps({"idx": r, "label": int(v)}) + "\n" for r, v in zip(rows, values)))
    groups = collections.defaultdict(list)
    for row, label, guess in zip(rows, labels, said):
        groups[row["paragraph"], row["question"]].append((label, guess))
    pairs = [tuple(zip(*g)) for g in groups.values()]
    wanted = {"exact_match": np.mean([a == b for a, b in pairs]),
              "f1_m": np.mean([sklearn.metrics.f1_score(a, b, average="macro") for a, b in pairs]), "f1_a": sklearn.metrics.f1_score(labels, said)}
    found = run(program, "evaluate", "glue", "--task", "multirc", "--predictions", folder / "said.jsonl", "--labels", folder / "labels.jsonl")[0]["metrics"]
    checks.expect("multirc", max(abs(found[k] - v) for k, v in wanted.items()) <= TOLERANCE, str(found))


def squad_words(text):
    text = "".join(c for c in text.lower() if c not in string.punctuation)
    return re.sub(r"\b(a|an|the)\b", " ", text).split()


def squad_f1(said, right):
    said, right = squad_words(said), squad_words(right)
    same = sum((collections.Counter(said) & collections.Counter(right)).values())
    if same == 0:
        return 0.0
    return 2 * (same / len(said)) * (same / len(right)) / (same / len(said) + same / len(right))


def compare_squad(checks, program, data, folder):
    file = data / "eval/xquad.en.json"
    draw = np.random.default_rng(5)
    said, exact, scores = {}, [], []
    for article in json.loads(file.read_text())["data"]:
        for paragraph in article["paragraphs"]:
            words = paragraph["context"].split()
            for question in paragraph["qas"]:
                right = [a["text"] for a in question["answers"]]
                begin = int(draw.integers(0, len(words)))
                choices = (right[0], "The " + right[0].upper() + ".", " ".join(words[begin:begin + 4]), "a " + right[0] + " – " + words[begin], "")
                answer = choices[int(draw.integers(0, len(choices)))]
                if draw.random() < 0.05:
                    exact.append(0.0)
                    scores.append(0.0)
                    continue  # no prediction
                said[question["id"]] = answer
                exact.append(float(any(squad_words(answer) == squad_words(r) for r in right)))
                scores.append(max(squad_f1(answer, r) for r in right))
    (folder / "said.json").write_text(json.dumps(said))
    found = run(program, "evaluate", "glue", "--task", "squad", "--predictions", folder / "said.json", "--labels", file)[0]
    wanted = {"exact_match": 100 * sum(exact) / len(exact), "f1": 100 * sum(scores) / len(scores)}
    checks.expect(f"SQuAD's numbers on XQuAD, {len(exact)} questions", found["examples"] == len(exact) and
                  max(abs(found["metrics"][k] - v) for k, v in wanted.items()) <= 100 * TOLERANCE, str(found["metrics"]))


def compare_submissions(checks, program, folder):
    said = folder / "said.txt"
    said.write_text("1\n0\n1\n")
    for task, file, wanted in (("rte", "RTE.tsv", ["not_entailment", "entailment", "not_entailment"]), ("sst2", "SST-2.tsv", ["1", "0", "1"]),
                               ("mnli_mismatched", "MNLI-mm.tsv", ["neutral", "entailment", "neutral"])):
        done = subprocess.run([program, "evaluate", "glue", "--task", task, "--predictions", said, "--output", folder / "submission"], check=False)
        text = (folder / "submission" / file).read_text() if done.returncode == 0 else ""
        checks.expect(f"{file} to submit", text.splitlines() == ["index\tprediction"] + [f"{i}\t{v}" for i, v in enumerate(wanted)])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        compare_classes(checks, arguments.megalith, arguments.data, folder)
        compare_multirc(checks, arguments.megalith, folder)
        compare_squad(checks, arguments.megalith, arguments.data, folder)
        compare_submissions(checks, arguments.megalith, folder)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
