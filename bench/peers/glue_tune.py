# SPDX-License-Identifier: Apache-2.0
"""A classifier of an encoder, fine-tuned by a plain PyTorch loop with transformers: the protocol of recipes/tune/glue, every batch
padded to its longest text, f32 or bf16 autocast. Prints JSON lines {"name", "samples", "unit"}: examples/s of training, and the
number on what is held out, by seed."""
import argparse
import json
import time

import torch
import transformers


def read(path):
    return [json.loads(line) for line in open(path)]


class Batches:
    """Ids, which of two texts they are of, and labels, padded to the longest."""

    def __init__(self, tokenizer, lines):
        pairs = [line["pair"] for line in lines] if "pair" in lines[0] else None
        self.tokenizer = tokenizer
        self.made = tokenizer([line["text"] for line in lines], pairs, padding=False, truncation=True, max_length=512)
        self.labels = torch.tensor([line["label"] for line in lines])

    def of(self, numbers):
        batch = self.tokenizer.pad({name: [values[i] for i in numbers.tolist()] for name, values in self.made.items()}, return_tensors="pt")
        return dict(batch), self.labels[numbers]


def score(metric, right, said):
    counts = [[int(((right == i) & (said == j)).sum()) for j in (0, 1)] for i in (0, 1)]
    (tn, fp), (fn, tp) = counts
    if metric == "accuracy":
        return float((right == said).float().mean())
    if metric == "f1":
        return 2 * tp / max(1, 2 * tp + fp + fn)
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / product ** 0.5 if product else 0.0


def main():
    p = argparse.ArgumentParser()
    for name in ("model", "train", "held", "metric"):
        p.add_argument(f"--{name}", required=True)
    p.add_argument("--seeds", type=int, nargs="+", required=True)
    for name, default in (("epochs", 3), ("batch", 16), ("threads", 1)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--lr", type=float, default=4e-5)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    transformers.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(a.model)
    train, held = (Batches(tokenizer, read(path)) for path in (a.train, a.held))
    speeds, scores = [], []
    for seed in a.seeds:
        torch.manual_seed(seed)
        model = transformers.AutoModelForSequenceClassification.from_pretrained(a.model, num_labels=2, dtype=torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=a.lr, betas=(0.9, 0.98), eps=1e-6, weight_decay=0, fused=True)
        examples = len(train.labels)
        steps = a.epochs * -(-examples // a.batch)
        schedule = transformers.get_cosine_schedule_with_warmup(optimizer, steps // 10, steps)
        autocast = torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16")
        model.train()
        begin = time.perf_counter()
        for _ in range(a.epochs):
            order = torch.randperm(examples)
            for first in range(0, examples, a.batch):
                batch, labels = train.of(order[first:first + a.batch])
                with autocast:
                    loss = model(**batch, labels=labels).loss
                loss.backward()
                optimizer.step()
                schedule.step()
                optimizer.zero_grad(set_to_none=True)
        speeds.append(a.epochs * examples / (time.perf_counter() - begin))
        model.eval()
        said = []
        with torch.no_grad(), autocast:
            for first in range(0, len(held.labels), 64):
                batch, _ = held.of(torch.arange(first, min(first + 64, len(held.labels))))
                said.append(model(**batch).logits.argmax(-1))
        scores.append(score(a.metric, held.labels, torch.cat(said)))
    print(json.dumps({"name": f"transformers.{a.dtype}.examples_per_second", "samples": speeds, "unit": "examples/s"}))
    print(json.dumps({"name": f"transformers.{a.dtype}.{a.metric}", "samples": scores, "unit": a.metric}))


if __name__ == "__main__":
    main()
