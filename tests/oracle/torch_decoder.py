# SPDX-License-Identifier: Apache-2.0
"""The decoder of this project, written plainly in PyTorch, and the exact inputs of its reference runs.

GPT-2's shape: pre-norm blocks, learned positions, GELU in its tanh form, biases (Radford et al. 2019).
Llama's: RMS norms, rotary positions, gated SiLU, no biases (Touvron et al. 2023).
Parameters are a dictionary under our names; attention.qkv holds, per key/value head, the rows of its
queries, its key, its value; mlp.gate_up alternates rows of gate and up. Weights and tokens come from
a hash of (name, index), so that both sides make the same numbers, exact in float32, and no file has
to hold them (golden/formula.h is the same).
"""
import dataclasses
import math

import numpy
import torch
import torch.nn.functional as F


@dataclasses.dataclass(frozen=True)
class Shape:
    family: str = "gpt2"
    layers: int = 2
    hidden: int = 32
    heads: int = 4
    kv_heads: int = 4
    head_dim: int = 8
    ffn: int = 128
    context: int = 16
    vocab: int = 101
    tied: bool = True
    norm_eps: float = float(numpy.float32(1e-5))  # scalars are float32 numbers on both sides
    rope_base: float = 10000

    def parameters(self):
        """Name and shape of every parameter; the vocabulary without padding."""
        llama, inner = self.family == "llama", self.heads * self.head_dim
        shapes = {"embedding.weight": (self.vocab, self.hidden)}
        if not llama:
            shapes["position.weight"] = (self.context, self.hidden)
        linears = {
            "attention.qkv": (inner + 2 * self.kv_heads * self.head_dim, self.hidden),
            "attention.output": (self.hidden, inner),
            "mlp.gate_up" if llama else "mlp.up": (2 * self.ffn if llama else self.ffn, self.hidden),
            "mlp.down": (self.hidden, self.ffn),
        }
        norms = {"norm_1": (self.hidden,), "norm_2": (self.hidden,)}
        parts = {f"layers.{i}.{part}": size for i in range(self.layers) for part, size in (norms | linears).items()}
        for part, size in (parts | {"final_norm": (self.hidden,)}).items():
            shapes[f"{part}.weight"] = size
            if not llama:
                shapes[f"{part}.bias"] = size[:1]
        if not self.tied:
            shapes["head.weight"] = (self.vocab, self.hidden)
        return shapes


def hashes(name, count):
    """64 well-mixed bits for each (name, index): FNV-1a of the name, then SplitMix64."""
    key = 0xCBF29CE484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001B3 % 2**64
    with numpy.errstate(over="ignore"):
        x = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(key)
        x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def formula_weights(shape, dtype):
    """Multiples of 2^-22 in [-1/8, 1/8); norm weights one more (then of 2^-22 still, exact in float32)."""
    weights = {}
    for name, size in shape.parameters().items():
        bits = (hashes(name, math.prod(size)) >> numpy.uint64(44)).astype(numpy.int64)
        values = (bits - 2**19) * 2.0**-22
        if "norm" in name and name.endswith("weight"):
            values = values + 1
        weights[name] = torch.tensor(values.reshape(size)).to(dtype)
    return weights


def formula_samples(shape, first, count):
    """ids [count, context + 1]: a noisy walk that a model can learn, from sample number `first` on."""
    length = shape.context + 1
    ids = numpy.empty((count, length), dtype=numpy.int64)
    draws = hashes("samples", (first + count) * length).reshape(-1, length)[first:]
    for row, draw in zip(ids, draws):
        row[0] = int(draw[0]) % shape.vocab
        for t in range(1, length):
            row[t] = (7 * row[t - 1] + 3 + int(draw[t]) % 3) % shape.vocab
    return torch.tensor(ids)


def turned(shape, x):
    """x [..., S, D] at positions 0, 1, ...: element i with element i + D / 2, as transformers turns
    Llama's heads. Frequencies are float32 numbers in every type, and the angle is one product in the
    type of x: in float32 transformers' bits, in float64 what the reference of the program computes."""
    pairs = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
    frequencies = (1.0 / shape.rope_base**pairs).to(x.dtype)
    angles = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * frequencies
    c, s = angles.cos(), angles.sin()
    first, second = x.chunk(2, -1)
    return torch.cat((first * c - second * s, second * c + first * s), -1)


def logits(shape, weights, ids):
    """ids [B, S] -> [B, S, vocab], in the type of the weights."""
    batch, length = ids.shape
    size, per_group = shape.head_dim, shape.heads // shape.kv_heads
    llama = shape.family == "llama"
    mask = torch.ones(length, length, dtype=torch.bool).tril()

    def linear(name, x):
        return F.linear(x, weights[name + ".weight"], weights.get(name + ".bias"))

    def norm(name, x):
        if llama:
            return weights[name + ".weight"] * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + shape.norm_eps))
        return F.layer_norm(x, (shape.hidden,), weights[name + ".weight"], weights[name + ".bias"], shape.norm_eps)

    def mlp(block, x):
        if llama:
            gate_up = linear(block + "mlp.gate_up", x)
            return linear(block + "mlp.down", F.silu(gate_up[..., 0::2]) * gate_up[..., 1::2])
        return linear(block + "mlp.down", F.gelu(linear(block + "mlp.up", x), approximate="tanh"))

    x = weights["embedding.weight"][ids]
    if not llama:
        x = x + weights["position.weight"][:length]
    for i in range(shape.layers):
        block = f"layers.{i}."
        qkv = linear(block + "attention.qkv", norm(block + "norm_1", x))
        qkv = qkv.view(batch, length, shape.kv_heads, per_group + 2, size).permute(0, 2, 3, 1, 4)
        q, k, v = qkv[:, :, :per_group], qkv[:, :, per_group:per_group + 1], qkv[:, :, per_group + 1:]
        if llama:
            q, k = turned(shape, q), turned(shape, k)
        scores = (q @ k.transpose(-1, -2)) * float(numpy.float32(1 / math.sqrt(size)))
        core = scores.masked_fill(~mask, -math.inf).softmax(-1) @ v
        core = core.permute(0, 3, 1, 2, 4).reshape(batch, length, shape.heads * size)
        x = x + linear(block + "attention.output", core)
        x = x + mlp(block, norm(block + "norm_2", x))
    table = weights["embedding.weight" if shape.tied else "head.weight"]
    return F.linear(norm("final_norm", x), table)


def mean_loss(all_logits, targets, loss_weights):
    """Over the weighted tokens."""
    losses = F.cross_entropy(all_logits.flatten(0, 1), targets.flatten(), reduction="none")
    return (losses * loss_weights.flatten()).sum() / loss_weights.sum()
