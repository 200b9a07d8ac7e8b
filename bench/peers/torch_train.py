# SPDX-License-Identifier: Apache-2.0
"""A training step of a GPT-2 or a Llama in PyTorch at its best: scaled_dot_product_attention, fused AdamW, clipping, f32
or bf16 autocast, eager or torch.compile. Prints one JSON line per step: {"name", "value", "unit"} in tokens/s.

Same shapes as the recipes. GPT-2: pre-norm blocks, GELU (tanh), learned positions, tied head. Llama: RMS norms, rotary
positions, grouped heads, gated SiLU, no biases, a head of its own."""
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


class LlamaBlock(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn):
        super().__init__()
        self.heads, self.kv_heads, size = heads, kv_heads, hidden // heads
        self.norm_1, self.norm_2 = nn.RMSNorm(hidden, 1e-5), nn.RMSNorm(hidden, 1e-5)
        self.qkv = nn.Linear(hidden, (heads + 2 * kv_heads) * size, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)
        self.gate_up, self.down = nn.Linear(hidden, 2 * ffn, bias=False), nn.Linear(ffn, hidden, bias=False)

    def forward(self, x, cos, sin):
        b, s, h = x.shape
        heads = self.qkv(self.norm_1(x)).view(b, s, self.heads + 2 * self.kv_heads, -1).transpose(1, 2)
        q, k, v = heads.split((self.heads, self.kv_heads, self.kv_heads), 1)
        q, k = ((t * cos + torch.cat((-t[..., t.shape[-1] // 2:], t[..., : t.shape[-1] // 2]), -1) * sin).to(v.dtype) for t in (q, k))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.out(y.transpose(1, 2).reshape(b, s, h))
        gate, up = self.gate_up(self.norm_2(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, vocab, layers, hidden, heads, kv_heads, ffn, context):
        super().__init__()
        self.tokens, self.head = nn.Embedding(vocab, hidden), nn.Linear(hidden, vocab, bias=False)
        self.blocks = nn.ModuleList(LlamaBlock(hidden, heads, kv_heads, ffn) for _ in range(layers))
        self.norm = nn.RMSNorm(hidden, 1e-5)
        size = hidden // heads
        angles = torch.outer(torch.arange(context), 10000.0 ** (-torch.arange(0, size, 2) / size)).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


def main():
    p = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024),
                          ("micro-batch", 4), ("micro-batches", 1), ("warm-up", 2), ("samples", 5)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--family", choices=("gpt2", "llama"), default="gpt2")
    p.add_argument("--kv-heads", type=int, help="llama; as many as heads unless given")
    p.add_argument("--ffn", type=int, help="llama")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="f32")
    p.add_argument("--compile", action="store_true")
    a = p.parse_args()
    name = f"torch.{a.dtype}.{'compile' if a.compile else 'eager'}"
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    if a.family == "gpt2":
        model = Model(a.vocab, a.layers, a.hidden, a.heads, a.context)
    else:
        model = Llama(a.vocab, a.layers, a.hidden, a.heads, a.kv_heads or a.heads, a.ffn, a.context)
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
