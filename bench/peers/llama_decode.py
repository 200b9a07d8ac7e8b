# SPDX-License-Identifier: Apache-2.0
"""Decoding and prompt processing of a GPT-2 shape with made-up weights in llama.cpp (llama-cpp-python). Writes the model
as GGUF first. Prints JSON lines {"name", "value", "unit"} in tokens/s, one per sample."""
import argparse
import json
import os
import tempfile
import time

import gguf
import numpy as np
from llama_cpp import Llama


def write_model(path, a):
    """Names and keys of llama.cpp's "gpt2" architecture."""
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_context_length(a.context)
    writer.add_embedding_length(a.hidden)
    writer.add_feed_forward_length(4 * a.hidden)
    writer.add_block_count(a.layers)
    writer.add_head_count(a.heads)
    writer.add_layer_norm_eps(1e-5)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"<{i}>" for i in range(a.vocab)])
    writer.add_token_types([gguf.TokenType.NORMAL] * a.vocab)
    writer.add_token_merges(["< 0"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    rng = np.random.default_rng(1)

    def matrix(name, rows, columns):
        values = rng.standard_normal((rows, columns), dtype=np.float32) * 0.02
        if a.dtype == "f32":
            writer.add_tensor(name, values)
        else:  # bf16: the upper halves, rounded to nearest even
            bits = values.view(np.uint32)
            halves = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
            writer.add_tensor(name, halves.view(np.uint8).reshape(rows, 2 * columns),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)

    def vector(name, n, value):
        writer.add_tensor(name, np.full(n, value, dtype=np.float32))

    h = a.hidden
    matrix("token_embd.weight", a.vocab, h)
    matrix("output.weight", a.vocab, h)
    writer.add_tensor("position_embd.weight", rng.standard_normal((a.context, h), dtype=np.float32) * 0.02)
    for i in range(a.layers):
        for norm in ("attn_norm", "ffn_norm"):
            vector(f"blk.{i}.{norm}.weight", h, 1)
            vector(f"blk.{i}.{norm}.bias", h, 0)
        for name, rows, columns in (("attn_qkv", 3 * h, h), ("attn_output", h, h), ("ffn_up", 4 * h, h),
                                    ("ffn_down", h, 4 * h)):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
            vector(f"blk.{i}.{name}.bias", rows, 0)
    vector("output_norm.weight", h, 1)
    vector("output_norm.bias", h, 0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    p = argparse.ArgumentParser()
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024),
                          ("prompt", 64), ("tokens", 512), ("samples", 3)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--dtype", choices=("f32", "bf16"), default="bf16")
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        write_model(path, a)
        model = Llama(path, n_ctx=a.context, n_threads=a.threads, n_threads_batch=a.threads, n_batch=a.context,
                      n_ubatch=a.context, logits_all=False, verbose=False)
    prompt = [1 + i % 1000 for i in range(a.prompt)]
    for sample in range(a.samples + 1):
        model.reset()
        begin = time.monotonic()
        model.eval(prompt)
        middle = time.monotonic()
        for _ in range(a.tokens):
            model.eval([1])
        end = time.monotonic()
        if sample == 0:
            continue  # warms up
        for name, value in (("prompt", a.prompt / (middle - begin)), ("decode", a.tokens / (end - middle))):
            print(json.dumps({"name": f"llama.cpp.{a.dtype}.{name}", "value": value, "unit": "tokens/s"}), flush=True)


if __name__ == "__main__":
    main()
