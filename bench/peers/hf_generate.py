# SPDX-License-Identifier: Apache-2.0
"""Greedy decoding and prompt processing of a GPT-2 or a Llama with made-up weights in Hugging Face transformers. Prints
JSON lines {"name", "value", "unit"} in tokens/s, one per sample."""
import argparse
import json
import time

import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def make_model(a):
    if a.family == "gpt2":
        return GPT2LMHeadModel(GPT2Config(n_layer=a.layers, n_embd=a.hidden, n_head=a.heads, vocab_size=a.vocab, n_positions=a.context,
                                          eos_token_id=None, bos_token_id=None, attn_implementation="sdpa"))
    return LlamaForCausalLM(LlamaConfig(
        num_hidden_layers=a.layers, hidden_size=a.hidden, num_attention_heads=a.heads, num_key_value_heads=a.kv_heads or a.heads,
        intermediate_size=a.ffn, vocab_size=a.vocab, max_position_embeddings=a.context, eos_token_id=None, bos_token_id=None,
        attn_implementation="sdpa"))


def main():
    p = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024),
                          ("prompt", 64), ("tokens", 512), ("samples", 3)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--family", choices=("gpt2", "llama"), default="gpt2")
    p.add_argument("--kv-heads", type=int, help="llama; as many as heads unless given")
    p.add_argument("--ffn", type=int, help="llama")
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
    a = p.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(a.threads)
    model = make_model(a).to(torch.bfloat16 if a.dtype == "bf16" else torch.float32).eval()
    prompt = torch.randint(a.vocab, (1, a.prompt))

    def generate(tokens):
        begin = time.monotonic()
        model.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=tokens, min_new_tokens=tokens,
                       do_sample=False, pad_token_id=0)
        return time.monotonic() - begin

    generate(8)
    for _ in range(a.samples):
        first = generate(1)
        rest = generate(a.tokens) - first
        for name, value in (("prompt", a.prompt / first), ("decode", (a.tokens - 1) / rest)):
            print(json.dumps({"name": f"transformers.{a.dtype}.{name}", "value": value, "unit": "tokens/s"}), flush=True)


if __name__ == "__main__":
    main()
