#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Token classification and extractive question answering, compared with transformers and tokenizers: encoders of random weights, WordPiece and byte-level
BPE.

Learning:   what is read of words with tags (is_split_into_words; of byte-level BPE the text that they make) and of questions (windows of
            truncation="only_second" and stride, offsets) has the losses of ten steps of AdamW that the class in float64 has: within 1e-5
Tags:       precision, recall and F1 of entities and accuracy, as seqeval counts them, of what the tuned folder's own class says
Answers:    of every question of XQuAD, and of the same without every third answer, the text that the class's own outputs in float32 give by
            the rules of transformers' example (n-best 20, at most 30 tokens, the least none over windows); and SQuAD's numbers

    marks_oracle.py --megalith build/release/megalith --text words.txt [--data ../shared/data]
"""
import collections
import copy
import json
import pathlib
import random
import re
import string
import subprocess
import tempfile

import tokenizers
import torch
import transformers

from comparison import TEXT, Checks, model_arguments, run

STEPS, RATE, LENGTH, STRIDE = 10, 1e-3, 128, 32
LONG, SHARED = 192, 64  # windows that are answered in
LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "initializer_range": 0.3,
         "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0, "pad_token_id": 0}
TOKENS, QUESTIONS = transformers.AutoModelForTokenClassification, transformers.AutoModelForQuestionAnswering


def random_folder(folder, family, tokenizer_file, auto, **settings):
    torch.manual_seed(5)
    vocabulary = tokenizers.Tokenizer.from_file(str(tokenizer_file)).get_vocab_size()
    config = transformers.AutoConfig.for_model(family, **(SIZES | {"vocab_size": vocabulary, "max_position_embeddings": 514} | settings))
    auto.from_config(config).save_pretrained(folder)
    (folder / "tokenizer.json").write_bytes(pathlib.Path(tokenizer_file).read_bytes())


def opened(folder, auto, dtype):
    return copy.deepcopy(auto.from_pretrained(folder, dtype=torch.float32)).eval().to(dtype)


def step_losses(model, loss_of):
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        losses.append(loss.item())
        optimizer.step()
    return losses


def tuned(program, folder, out, data, task, labels):
    """The run's losses; all of the data in every step."""
    recipe = {"run": {"threads": 1, "seed": 1}, "model": {"dropout": 0},
              "tune": {"method": "classify", "task": task, "model": str(folder), "data": [str(data)], "labels": labels},
              "train": {"sequence_length": LENGTH, "micro_batch": 1, "validate_every": 0},
              "optimizer": {"lr": RATE, "beta1": 0.9, "beta2": 0.999, "eps": 1e-8, "weight_decay": 0, "clip": 0, "schedule": "constant"},
              "precision": {"parameters": "f32", "compute": "f32"}}
    if task == "question_answering":
        recipe["tune"] |= {"stride": STRIDE}
    file = out.with_suffix(".yaml")
    file.write_text(json.dumps(recipe))
    words = [program, "tune", file, "--set", f"run.out={out}-count", "--set", "train.steps=0", "--set", "train.global_batch=1", "--json"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stderr
    samples = re.search(r"learned\) in (\d+) samples", said)[1]
    run(program, "tune", file, "--set", f"run.out={out}", "--set", f"train.steps={STEPS}", "--set", f"train.global_batch={samples}")
    return [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]


def compare_losses(checks, name, ours, exact):
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours, exact))
    checks.expect(f"{name}: {len(ours)} losses", len(ours) == STEPS and worst < 1e-5, f"{exact[0]:.4f} to {exact[-1]:.4f}, relative error {worst:.1e}")


def tagged_texts(text, count):
    """Words of lines, and tags that have no meaning but some of every kind, ill-formed ones too."""
    draw = random.Random(2)
    lines = [line.split() for line in pathlib.Path(text).read_text(errors="ignore").splitlines() if len(line.split()) >= 6]
    return [(words[:10], [draw.choice(LABELS) for _ in words[:10]]) for words in lines[50:50 + count]]


def word_ids(tokenizer, words, joined):
    """(ids, the word of each or None)"""
    if not joined:
        encoding = tokenizer(words, is_split_into_words=True)
        return encoding["input_ids"], encoding.word_ids()
    ids, numbers = [], []
    for number, word in enumerate(words):
        new = tokenizer(f" {word}" if number else word, add_special_tokens=False)["input_ids"]
        ids, numbers = ids + new, numbers + [number] * len(new)
    return [tokenizer.cls_token_id, *ids, tokenizer.sep_token_id], [None, *numbers, None]


def read_tags(tokenizer, texts, joined):
    """(ids, class of each or -100)"""
    for words, tags in texts:
        ids, numbers = word_ids(tokenizer, words, joined)
        labels = [LABELS.index(tags[n]) if n is not None and n != before else -100 for before, n in zip([None, *numbers], numbers)]
        yield ids, labels


def tags_loss(examples):
    def loss(model):
        logits = torch.cat([model(torch.tensor([ids])).logits[0] for ids, _ in examples])
        return torch.nn.functional.cross_entropy(logits, torch.tensor([label for _, labels in examples for label in labels]))
    return loss


def entities(tags):
    """{(type, first, last)} of one text."""
    found, begin = set(), None
    for i, (before, here, after) in enumerate(zip(["O", *tags], tags, [*tags[1:], "O"])):
        if here == "O":
            continue
        if here[0] == "B" or before == "O" or before[2:] != here[2:]:
            begin = i
        if after == "O" or after[0] == "B" or after[2:] != here[2:]:
            found.add((here[2:], begin, i))
    return found


def tag_scores(wanted, said):
    right = sum(len(entities(a) & entities(b)) for a, b in zip(wanted, said))
    of_said, of_wanted = (sum(len(entities(tags)) for tags in all_of) for all_of in (said, wanted))
    precision, recall = right / of_said, right / of_wanted
    pairs = [pair for a, b in zip(wanted, said) for pair in zip(a, b)]
    return {"f1": 2 * precision * recall / (precision + recall), "precision": precision, "recall": recall,
            "accuracy": sum(a == b for a, b in pairs) / len(pairs)}


def compare_tags(checks, program, family, tokenizer_file, text, folder):
    joined = family == "roberta"
    settings = {"id2label": dict(enumerate(LABELS)), "label2id": {label: i for i, label in enumerate(LABELS)}}
    random_folder(folder / "tags", family, tokenizer_file, TOKENS, **settings, **({"pad_token_id": 1} if joined else {}))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file), cls_token="<s>" if joined else "[CLS]",
                                                     sep_token="</s>" if joined else "[SEP]")
    texts, data = tagged_texts(text, 24), folder / "tags.jsonl"
    data.write_text("".join(json.dumps({"tokens": words, "ner_tags": tags}) + "\n" for words, tags in texts))
    examples = list(read_tags(tokenizer, texts, joined))
    exact = step_losses(opened(folder / "tags", TOKENS, torch.float64), tags_loss(examples))
    ours = tuned(program, folder / "tags", folder / "tags-run", data, "token_classification", LABELS)
    compare_losses(checks, f"{family}: classes of words", ours, exact)
    run(program, "convert", "--from", folder / "tags-run", "--to", folder / "tags-hf", "--format", "hf")
    model, said = opened(folder / "tags-hf", TOKENS, torch.float32), []
    for ids, labels in examples:
        best = model(torch.tensor([ids])).logits[0].argmax(-1).tolist()
        said.append([LABELS[k] for k, label in zip(best, labels) if label != -100])
    wanted = [[LABELS[label] for label in labels if label != -100] for _, labels in examples]
    found = run(program, "evaluate", "tags", "--checkpoint", folder / "tags-hf", "--input", data, "--threads", 1)[0]["metrics"]
    true = tag_scores(wanted, said)
    checks.expect(f"{family}: entities", all(abs(found[name] - true[name]) < 1e-12 for name in true) and found.keys() == true.keys(),
                  " ".join(f"{name} {value:.4f}" for name, value in true.items()))


def questions_of(path, unanswered):
    """SQuAD's JSON, without every third answer where that is asked for."""
    data, number = json.loads(path.read_text()), 0
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                if unanswered:
                    question["is_impossible"] = number % 3 == 0
                    question["answers"] = [] if number % 3 == 0 else question["answers"]
                number += 1
    return data


def each_question(data):
    for article in data["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                yield paragraph["context"], question


def windows_of(tokenizer, context, question, length, stride):
    """tokenizers' own windows: (ids, types, places in the context or None)"""
    tokenizer.enable_truncation(length, stride=stride, strategy="only_second")
    first = tokenizer.encode(question.lstrip(), context)
    for window in [first, *first.overflowing]:
        places = [place if sequence == 1 and special == 0 else None
                  for place, sequence, special in zip(window.offsets, window.sequence_ids, window.special_tokens_mask)]
        yield window.ids, window.type_ids, places


def target_of(places, question):
    if not question["answers"]:
        return 0, 0
    begin = question["answers"][0]["answer_start"]
    end = begin + len(question["answers"][0]["text"])
    tokens = [t for t, place in enumerate(places) if place is not None]
    if places[tokens[0]][0] > begin or places[tokens[-1]][1] < end:
        return 0, 0
    return max(t for t in tokens if places[t][0] <= begin), min(t for t in tokens if places[t][1] >= end)


def outputs_of(model, ids, types):
    extra = {"token_type_ids": torch.tensor([types])} if model.config.type_vocab_size > 1 else {}
    said = model(torch.tensor([ids]), **extra)
    return said.start_logits[0], said.end_logits[0]


def answers_loss(windows):
    def loss(model):
        losses = []
        for ids, types, target in windows:
            starts, ends = outputs_of(model, ids, types)
            losses.append((torch.logsumexp(starts, 0) - starts[target[0]] + torch.logsumexp(ends, 0) - ends[target[1]]) / 2)
        return torch.stack(losses).mean()
    return loss


def best_answer(windows, outputs, context, may_be_none):
    candidates, none = [], min(starts[0] + ends[0] for starts, ends in outputs)
    for (_, _, places), (starts, ends) in zip(windows, outputs):
        for first in sorted(range(len(starts)), key=lambda t: -starts[t])[:20]:
            for last in sorted(range(len(ends)), key=lambda t: -ends[t])[:20]:
                if places[first] is None or places[last] is None or last < first or last - first + 1 > 30:
                    continue
                candidates.append((starts[first] + ends[last], places[first][0], places[last][1]))
    best = max(candidates, key=lambda one: one[0], default=None)
    if best is None or (may_be_none and none > best[0]):
        return ""
    return context[best[1]:best[2]]


def normal(answer):
    words = "".join(c for c in answer.lower() if c not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", words).split())


def squad(answer, right):
    """(exact match, F1) of version 2.0's script."""
    def f1(a, b):
        a, b = normal(a).split(), normal(b).split()
        if not a or not b:
            return float(a == b)
        same = sum((collections.Counter(a) & collections.Counter(b)).values())
        return 2 * same / (len(a) + len(b)) if same else 0.0
    right = right or [""]
    return max(float(normal(answer) == normal(one)) for one in right), max(f1(answer, one) for one in right)


def compare_answers(checks, program, family, tokenizer_file, source, folder, unanswered):
    name = f"{family}: answers{', some none' if unanswered else ''}"
    data, path = questions_of(source, unanswered), folder / f"set-{unanswered}.json"
    path.write_text(json.dumps(data))
    model, tokenizer = opened(folder / "answers", QUESTIONS, torch.float32), tokenizers.Tokenizer.from_file(str(tokenizer_file))
    run(program, "evaluate", "answers", "--checkpoint", folder / "answers", "--input", path, "--length", LONG, "--stride", SHARED, "--output", folder / "said.json")
    said, differ, scores, count = json.loads((folder / "said.json").read_text()), [], [], 0
    with torch.no_grad():
        for context, question in each_question(data):
            windows = list(windows_of(tokenizer, context, question["question"], LONG, SHARED))
            count += len(windows)
            outputs = [[column.tolist() for column in outputs_of(model, ids, types)] for ids, types, _ in windows]
            if best_answer(windows, outputs, context, unanswered) != said[question["id"]]:
                differ.append(question["id"])
            scores.append(squad(said[question["id"]], [answer["text"] for answer in question["answers"]]))
    # Sums of two outputs that differ by a rounding may go either way.
    checks.expect(f"{name}: {len(said)} questions in {count} windows", len(differ) <= len(said) // 200, f"{len(differ)} differ {differ[:3]}")
    found = run(program, "evaluate", "glue", "--task", "squad", "--predictions", folder / "said.json", "--labels", path)[0]["metrics"]
    true = [100 * sum(column) / len(scores) for column in zip(*scores)]
    checks.expect(f"{name}: numbers", all(abs(a - b) < 1e-9 for a, b in zip((found["exact_match"], found["f1"]), true)), str(found))


def compare_learned_answers(checks, program, family, tokenizer_file, source, folder):
    data = questions_of(source, True)
    data["data"] = data["data"][:1]
    data["data"][0]["paragraphs"] = data["data"][0]["paragraphs"][:2]
    path = folder / "learned.json"
    path.write_text(json.dumps(data))
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    windows = [(ids, types, target_of(places, question)) for context, question in each_question(data)
               for ids, types, places in windows_of(tokenizer, context, question["question"], LENGTH, STRIDE)]
    exact = step_losses(opened(folder / "answers", QUESTIONS, torch.float64), answers_loss(windows))
    ours = tuned(program, folder / "answers", folder / "answers-run", path, "question_answering", [])
    compare_losses(checks, f"{family}: {len(windows)} windows", ours, exact)


def main():
    arguments = model_arguments(__doc__, TEXT, ("--data", {"default": "../shared/data", "help": "with eval/xquad.en.json, and tokenizers"}))
    checks, data = Checks(), pathlib.Path(arguments.data)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        pieces = folder / "pieces.json"
        run(arguments.megalith, "tokenizer", "train", "--kind", "wordpiece", "--input", arguments.text, "--vocab-size", 6000, "--output", pieces)
        families = {"bert": pieces}
        if (data / "tokenizers/roberta-base/tokenizer.json").exists():
            families["roberta"] = data / "tokenizers/roberta-base/tokenizer.json"
        for family, tokenizer_file in families.items():
            place = folder / family
            place.mkdir()
            compare_tags(checks, arguments.megalith, family, tokenizer_file, arguments.text, place)
            source = data / "eval/xquad.en.json"
            if not source.exists():
                print(f"no {source}: no answers are compared", flush=True)
                continue
            random_folder(place / "answers", family, tokenizer_file, QUESTIONS, **({"pad_token_id": 1} if family == "roberta" else {}))
            compare_learned_answers(checks, arguments.megalith, family, tokenizer_file, source, place)
            for unanswered in (False, True):
                compare_answers(checks, arguments.megalith, family, tokenizer_file, source, place, unanswered)
    return checks.exit_code()


if __name__ == "__main__":
    raise SystemExit(main())
