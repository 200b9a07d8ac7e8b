# SPDX-License-Identifier: Apache-2.0
"""A chat model tuned on chats of one answer by a plain PyTorch loop with transformers, and peft's factors: the assistant's turn is
learned, batches are of examples of like length (the order that pads least), padded to their longest. Prints JSON lines {"name",
"samples", "unit"}: tokens that are learned a second, of each part of the steps, and the most memory that was resident."""
import argparse
import json
import resource
import time

import peft
import torch
import transformers

PARTS = 5


def read(tokenizer, path):
    """(ids, how many of the first are not learned) of each line."""
    made = []
    for line in open(path):
        messages = json.loads(line)["messages"]
        asked = tokenizer.apply_chat_template(messages[:-1], add_generation_prompt=True, tokenize=False)
        whole = asked + messages[-1]["content"] + tokenizer.eos_token
        ids = tokenizer(whole, add_special_tokens=False)["input_ids"]
        made.append((ids, len(tokenizer(asked, add_special_tokens=False)["input_ids"])))
    return made


def batch_of(examples, pad):
    longest = max(len(ids) for ids, _ in examples)
    ids = torch.full((len(examples), longest), pad)
    labels, mask = torch.full_like(ids, -100), torch.zeros_like(ids)
    for row, (one, asked) in enumerate(examples):
        ids[row, :len(one)] = torch.tensor(one)
        labels[row, asked:len(one)] = ids[row, asked:len(one)]
        mask[row, :len(one)] = 1
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def model_of(a):
    stored = torch.float32 if a.dtype in ("f32", "autocast") else torch.bfloat16
    model = transformers.AutoModelForCausalLM.from_pretrained(a.model, dtype=stored, attn_implementation="sdpa")
    if a.method == "lora":
        model = peft.get_peft_model(model, peft.LoraConfig(r=a.rank, lora_alpha=2 * a.rank, target_modules="all-linear", task_type="CAUSAL_LM"))
    return model.train()


def main():
    p = argparse.ArgumentParser()
    for name in ("model", "data"):
        p.add_argument(f"--{name}", required=True)
    for name, default in (("batch", 16), ("rank", 16), ("steps", 40), ("threads", 1)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--method", choices=("full", "lora"), required=True)
    p.add_argument("--dtype", choices=("f32", "autocast", "bf16"), default="autocast")
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    transformers.logging.set_verbosity_error()
    torch.manual_seed(1)
    tokenizer = transformers.AutoTokenizer.from_pretrained(a.model)
    examples = sorted(read(tokenizer, a.data), key=lambda example: len(example[0]))
    batches = [examples[first:first + a.batch] for first in range(0, len(examples), a.batch)]
    batches = [batches[i] for i in torch.randperm(len(batches))[:a.steps].tolist()]
    model = model_of(a)
    trained = [w for w in model.parameters() if w.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-5, weight_decay=0, fused=True)
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "autocast")
    timed = []
    for examples in batches:
        begin = time.perf_counter()
        with autocast:
            loss = model(**batch_of(examples, tokenizer.pad_token_id or 0)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        timed.append((sum(len(ids) - asked for ids, asked in examples), time.perf_counter() - begin))
    timed = timed[min(2, len(timed) - 1):]  # the first steps make room
    parts = [timed[i::PARTS] for i in range(PARTS) if timed[i::PARTS]]
    rates = [sum(count for count, _ in part) / sum(seconds for _, seconds in part) for part in parts]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"name": f"peft.{a.dtype}.learned_per_second", "samples": rates, "unit": "tokens/s"}))
    print(json.dumps({"name": f"peft.{a.dtype}.resident", "samples": [peak], "unit": "MiB"}))


if __name__ == "__main__":
    main()
