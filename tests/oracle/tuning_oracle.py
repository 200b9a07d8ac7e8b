#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning compared with peft and transformers: the same model, start, examples and AdamW, 50 steps in float32.

Tokens:    what is read of the examples and learned of them is what the tokenizers library and a template say
LoRA:      losses of every step, and the factors after the last: the distance from peft in float64 is at most 1.5 times that of peft
           in float32; of several families and targets, whose modules are one product of ours or several
Full:      the same of all weights, against transformers
Results:   the adapter's folder opens in peft, whose logits are those of the trained module

    tuning_oracle.py --megalith build/release/megalith
"""
import copy
import json
import math
import pathlib
import tempfile

import peft
import safetensors.torch
import tokenizers
import torch
import transformers

from comparison import TEXT, Checks, model_arguments, run
from decoder_folders import BOUND, in_double

VOCABULARY, STEPS, RATE, EXAMPLES = 300, 50, 3e-3, 12
SIZES = {"vocab_size": VOCABULARY, "max_position_embeddings": 96, "eos_token_id": VOCABULARY - 1}
GROUPED = SIZES | {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2}
MODELS = {
    "llama": GROUPED,
    "qwen2": GROUPED,
    "gemma2": GROUPED | {"head_dim": 16},
    "gpt2": SIZES | {"n_positions": 96, "n_embd": 48, "n_layer": 3, "n_head": 4, "attn_pdrop": 0, "embd_pdrop": 0, "resid_pdrop": 0},
}
CASES = {
    "llama": [{"targets": ["q_proj", "v_proj"], "rank": 4, "alpha": 8},
              {"targets": ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"], "rank": 5, "alpha": 15},
              {"targets": ["up_proj", "down_proj"], "rank": 4, "alpha": 8, "rslora": True}],
    "qwen2": [{"targets": ["q_proj", "k_proj", "v_proj", "gate_proj"], "rank": 4, "alpha": 8}],
    "gemma2": [{"targets": ["q_proj", "v_proj", "up_proj"], "rank": 4, "alpha": 8}],
    "gpt2": [{"targets": ["c_attn", "c_proj", "c_fc"], "rank": 4, "alpha": 8}],
}


def write_examples(path, text):
    lines = [line.strip() for line in pathlib.Path(text).read_text(errors="ignore").splitlines() if len(line.split()) >= 8]
    with open(path, "w") as file:
        for line in lines[100:100 + EXAMPLES]:
            words = line.split()[:14]
            cut = len(words) // 2
            file.write(json.dumps({"prompt": " ".join(words[:cut]), "completion": " " + " ".join(words[cut:])}) + "\n")


def read_examples(path, tokenizer_file):
    """(ids, first learned) of each."""
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_file))
    for line in path.read_text().splitlines():
        example = json.loads(line)
        whole = tokenizer.encode(example["prompt"] + example["completion"]).ids
        prompt = tokenizer.encode(example["prompt"]).ids
        same = next((i for i, (a, b) in enumerate(zip(prompt, whole)) if a != b), len(prompt))
        yield whole + [VOCABULARY - 1], same


def trained(model, examples, dtype):
    """Losses of the steps; the model is changed. All examples in every step: the mean over what is learned."""
    model = model.to(dtype)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0)
    count = sum(len(ids) - max(first, 1) for ids, first in examples)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0
        for ids, first in examples:
            row = torch.tensor([ids])
            logits = model(input_ids=row[:, :-1]).logits[0, max(first, 1) - 1:]
            loss = torch.nn.functional.cross_entropy(logits, row[0, max(first, 1):], reduction="sum") / count
            loss.backward()
            total += loss.item()
        losses.append(total)
        optimizer.step()
    return losses


def opened(folder):
    return copy.deepcopy(transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)).eval()


def factors_of(model):
    return {name.replace(".default", ""): p.detach().double() for name, p in model.named_parameters() if p.requires_grad}


def distance(a, exact):
    """Root of the sum of squares over all tensors, relative to their size."""
    return math.sqrt(sum(((a[name] - exact[name]) ** 2).sum().item() for name in exact) /
                     sum((exact[name] ** 2).sum().item() for name in exact))


def apart(a, exact):
    return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, exact)) / len(exact))


class Tuning:
    def __init__(self, program, folder, family, text, checks):
        self.program, self.folder, self.family, self.checks = program, folder, family, checks
        self.base = folder / "base"
        torch.manual_seed(3)
        config = transformers.AutoConfig.for_model(family, **MODELS[family])
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(self.base)
        run(program, "tokenizer", "train", "--input", text, "--vocab-size", VOCABULARY, "--output", self.base / "tokenizer.json")
        self.data = folder / "examples.jsonl"
        write_examples(self.data, text)
        self.examples = list(read_examples(self.data, self.base / "tokenizer.json"))
        self.recipe = folder / "recipe.yaml"
        # Every example is a sample of its own, and a step has them all.
        length = max(len(ids) for ids, _ in self.examples) - 1
        half = min(len(ids) for ids, _ in self.examples) - 1
        assert 2 * half > length, "examples of unlike lengths are packed"
        self.recipe.write_text(f"""
tune: {{model: {self.base}, data: {self.data}}}
train: {{steps: {STEPS}, sequence_length: {length}, global_batch: {EXAMPLES}, micro_batch: 4}}
optimizer: {{lr: {RATE}, schedule: constant, beta1: 0.9, beta2: 0.999, weight_decay: 0, clip: 0}}
run: {{threads: 1}}
""")

    def tune(self, out, **settings):
        words = [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]
        last, = run(self.program, "tune", self.recipe, "--set", f"run.out={self.folder / out}", *words)
        return [float.fromhex(json.loads(line)["loss_hex"]) for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def compare(self, name, ours, our_weights, make, get):
        exact, plain = make(), make()
        with in_double(exact.double()):
            exact_losses = trained(exact, self.examples, torch.float64)
        plain_losses = trained(plain, self.examples, torch.float32)
        for what, mine, theirs in (("losses", apart(ours, exact_losses), apart(plain_losses, exact_losses)),
                                   ("weights", distance(our_weights, get(exact)), distance(get(plain), get(exact)))):
            self.checks.expect(f"{self.family}, {name}: {what}", mine <= BOUND * theirs,
                               f"{mine:.2e}, in float32 there {theirs:.2e}, ratio {mine / theirs:.2f}")
        self.checks.expect(f"{self.family}, {name}: it learned", exact_losses[-1] < 0.99 * exact_losses[0],
                           f"{exact_losses[0]:.3f} to {exact_losses[-1]:.3f}")

    def lora(self, case):
        name = f"lora {','.join(case['targets'])} rank {case['rank']}{' rslora' if case.get('rslora') else ''}"
        out = "lora-" + "-".join(case["targets"])
        settings = {"tune__method": "lora", "tune__rank": case["rank"], "tune__alpha": case["alpha"],
                    "tune__rslora": str(case.get("rslora", False)).lower(), "tune__targets": f"[{', '.join(case['targets'])}]"}
        self.tune(out + "-start", **settings, train__steps=0)
        losses = self.tune(out, **settings)

        def make(adapter=f"{out}-start"):
            return peft.PeftModel.from_pretrained(opened(self.base), self.folder / adapter / "adapter", is_trainable=True)

        result = safetensors.torch.load_file(self.folder / out / "adapter/adapter_model.safetensors")
        self.compare(name, losses, {key: value.double() for key, value in result.items()}, make, factors_of)
        # What is written opens in peft, and says there what it says here.
        model = make(out).eval()
        ids = self.examples[0][0]
        with torch.no_grad():
            theirs = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].double(), -1)
        line = self.folder / "line.jsonl"
        line.write_text(json.dumps({"ids": ids}) + "\n")
        ours, = run(self.program, "evaluate", "score", "--checkpoint", self.base, "--adapter", self.folder / out / "adapter", "--input", line)
        worst = max(abs(a - theirs[i, ids[i + 1]].item()) for i, a in enumerate(ours["logprobs"]))
        self.checks.expect(f"{self.family}, {name}: read by peft", worst < 1e-4, f"{worst:.1e}")

    def full(self):
        losses = self.tune("full")
        hf = self.folder / "full-hf"
        run(self.program, "convert", "--from", self.folder / "full", "--to", hf, "--format", "hf")

        def get(model):
            return {name: p.detach().double() for name, p in model.named_parameters()}

        self.compare("full", losses, get(opened(hf)), lambda: opened(self.base).train(), get)


def main():
    arguments = model_arguments(__doc__, TEXT, ("family", {"nargs": "*", "help": "default: all"}))
    checks = Checks()
    for family in arguments.family or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            tuning = Tuning(arguments.megalith, pathlib.Path(folder), family, arguments.text, checks)
            for case in CASES[family]:
                tuning.lora(case)
            tuning.full()
    raise SystemExit(checks.exit_code())


if __name__ == "__main__":
    main()
