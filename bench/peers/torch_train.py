# SPDX-License-Identifier: Apache-2.0
"""A GPT-2 training step in PyTorch at its best: scaled_dot_product_attention, fused AdamW, clipping, f32 or bf16
autocast, eager or torch.compile. Prints one JSON line per step: {"name", "value", "unit"} in tokens/s.

Same shape as the recipe: pre-norm blocks, GELU (tanh), learned positions, tied head."""
import argparse
import json
import time

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(self.norm_1(x)).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norm_2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, vocab, layers, hidden, heads, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.blocks = nn.ModuleList(Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids) + self.positions.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.tokens.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def main():
    p = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024),
                          ("micro-batch", 4), ("micro-batches", 1), ("warm-up", 2), ("samples", 5)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    name = f"torch.{a.dtype}.{'compile' if a.compile else 'eager'}"
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    model = Model(a.vocab, a.layers, a.hidden, a.heads, a.context)
    run = torch.compile(model) if a.compile else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    data = [torch.randint(a.vocab, (2, a.micro_batch, a.context)) for _ in range(a.micro_batches)]

    def step():
        for ids, targets in data:
            with torch.autocast("cpu", torch.bfloat16, enabled=a.dtype == "bf16"):
                loss = run(ids, targets)
            (loss / len(data)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(a.warm_up):  # and compiles
        step()
    for _ in range(a.samples):
        begin = time.monotonic()
        step()
        rate = a.micro_batch * a.micro_batches * a.context / (time.monotonic() - begin)
        print(json.dumps({"name": name, "value": rate, "unit": "tokens/s"}), flush=True)
    with open("/proc/self/status") as status:
        peak = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    print(json.dumps({"name": f"{name}.peak_resident", "value": peak / 2**20, "unit": "GiB"}), flush=True)


if __name__ == "__main__":
    main()
