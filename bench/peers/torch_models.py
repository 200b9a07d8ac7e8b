# SPDX-License-Identifier: Apache-2.0
"""The rivals' models, written for PyTorch at its best: scaled_dot_product_attention, one product for queries, keys and values.

gpt2   pre-norm blocks, GELU (tanh), learned positions, tied head
llama  RMS norms, rotary positions, grouped heads, gated SiLU, no biases, a head of its own
bert   norms behind the sums, GELU, learned positions, token types; the transform and the tied head see predicted tokens alone
t5     v1.0: RMS norms, ReLU, no biases, relative positions shared by the layers, cross-attention, tied head with its factor

Each is called with a batch and gives its loss."""
import math

import torch
import torch.nn.functional as F
from torch import nn


def draw(model):
    for p in model.parameters():
        if p.dim() > 1:
            nn.init.normal_(p, std=0.02)


class Gpt2Block(nn.Module):
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


class Gpt2(nn.Module):
    def __init__(self, vocab, layers, hidden, heads, context):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden)
        self.blocks = nn.ModuleList(Gpt2Block(hidden, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(hidden)
        draw(self)

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
        draw(self)

    def forward(self, ids, targets):
        x = self.tokens(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), targets.view(-1))


class BertBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(hidden, 1e-12), nn.LayerNorm(hidden, 1e-12)
        self.qkv, self.out = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x, mask):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm_1(x + self.out(y.transpose(1, 2).reshape(b, s, h)))
        return self.norm_2(x + self.down(F.gelu(self.up(x))))


class Bert(nn.Module):
    def __init__(self, vocab, layers, hidden, heads, context):
        super().__init__()
        self.tokens, self.positions, self.types = nn.Embedding(vocab, hidden), nn.Embedding(context, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, 1e-12)
        self.blocks = nn.ModuleList(BertBlock(hidden, heads) for _ in range(layers))
        self.transform, self.transform_norm = nn.Linear(hidden, hidden), nn.LayerNorm(hidden, 1e-12)
        self.bias = nn.Parameter(torch.zeros(vocab))
        draw(self)

    def forward(self, ids, places, targets, lengths=None):
        """`places` [P]: of predicted tokens in the batch, flat. `lengths` [B]: of sequences that are padded."""
        s = ids.shape[1]
        mask = None if lengths is None else (torch.arange(s) < lengths[:, None])[:, None, None, :]
        x = self.norm(self.tokens(ids) + self.positions.weight[:s] + self.types.weight[0])
        for block in self.blocks:
            x = block(x, mask)
        x = self.transform_norm(F.gelu(self.transform(x.flatten(0, 1)[places])))
        return F.cross_entropy(F.linear(x, self.tokens.weight, self.bias).float(), targets)


def buckets(queries, keys, both_ways, count=32, most=128):
    """Of T5's relative positions, [queries, keys]."""
    distance = torch.arange(keys) - torch.arange(queries)[:, None]
    first = 0
    if both_ways:
        count //= 2
        first = (distance > 0) * count
        distance = distance.abs()
    else:
        distance = -distance.clamp(max=0)
    exact = count // 2
    far = exact + (torch.log(distance.clamp(min=1) / exact) / math.log(most / exact) * (count - exact)).long()
    return first + torch.where(distance < exact, distance, far.clamp(max=count - 1))


class T5Block(nn.Module):
    def __init__(self, hidden, heads, head_dim, ffn, crosses):
        super().__init__()
        inner = heads * head_dim
        self.heads = heads
        self.norm_1, self.norm_2 = nn.RMSNorm(hidden, 1e-6), nn.RMSNorm(hidden, 1e-6)
        self.qkv, self.out = nn.Linear(hidden, 3 * inner, bias=False), nn.Linear(inner, hidden, bias=False)
        self.up, self.down = nn.Linear(hidden, ffn, bias=False), nn.Linear(ffn, hidden, bias=False)
        if crosses:
            self.norm_cross = nn.RMSNorm(hidden, 1e-6)
            self.q, self.kv = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, 2 * inner, bias=False)
            self.out_cross = nn.Linear(inner, hidden, bias=False)

    def split(self, x, parts):
        return (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in x.chunk(parts, -1))

    def forward(self, x, bias, memory=None):
        q, k, v = self.split(self.qkv(self.norm_1(x)), 3)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype), scale=1.0)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        if memory is not None:
            [q], (k, v) = self.split(self.q(self.norm_cross(x)), 1), self.split(self.kv(memory), 2)
            x = x + self.out_cross(F.scaled_dot_product_attention(q, k, v, scale=1.0).transpose(1, 2).flatten(2))
        return x + self.down(F.relu(self.up(self.norm_2(x))))


class T5(nn.Module):
    def __init__(self, vocab, layers, hidden, heads, head_dim, ffn):
        super().__init__()
        self.tokens, self.hidden = nn.Embedding(vocab, hidden), hidden
        self.encoder = nn.ModuleList(T5Block(hidden, heads, head_dim, ffn, False) for _ in range(layers))
        self.decoder = nn.ModuleList(T5Block(hidden, heads, head_dim, ffn, True) for _ in range(layers))
        self.norm_encoder, self.norm_decoder = nn.RMSNorm(hidden, 1e-6), nn.RMSNorm(hidden, 1e-6)
        self.near_encoder, self.near_decoder = nn.Embedding(32, heads), nn.Embedding(32, heads)
        draw(self)

    def forward(self, ids, decoder_ids, targets):
        s, t = ids.shape[1], decoder_ids.shape[1]
        bias = self.near_encoder(buckets(s, s, True)).permute(2, 0, 1)
        x = self.tokens(ids)
        for block in self.encoder:
            x = block(x, bias)
        memory = self.norm_encoder(x)
        later = torch.full((t, t), -math.inf).triu(1)
        bias = self.near_decoder(buckets(t, t, False)).permute(2, 0, 1) + later
        x = self.tokens(decoder_ids)
        for block in self.decoder:
            x = block(x, bias, memory)
        logits = F.linear(self.norm_decoder(x) * self.hidden**-0.5, self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
