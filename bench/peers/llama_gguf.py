# SPDX-License-Identifier: Apache-2.0
"""A GPT-2 or a Llama with made-up weights as a GGUF file."""
import argparse

import gguf
import numpy as np


def write_settings(writer, a):
    """What both architectures say of themselves, and a tokenizer of as many words as the table has rows."""
    writer.add_context_length(a.context)
    writer.add_embedding_length(a.hidden)
    writer.add_feed_forward_length(a.ffn or 4 * a.hidden)
    writer.add_block_count(a.layers)
    writer.add_head_count(a.heads)
    if a.family == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_head_count_kv(a.kv_heads or a.heads)
        writer.add_layer_norm_rms_eps(1e-5)
        writer.add_rope_dimension_count(a.hidden // a.heads)
        writer.add_rope_freq_base(10000.0)
    if a.tokenizer_of:
        copy_tokenizer(writer, a.tokenizer_of)
        return
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"<{i}>" for i in range(a.vocab)])
    writer.add_token_types([gguf.TokenType.NORMAL] * a.vocab)
    writer.add_token_merges(["< 0"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)


def copy_tokenizer(writer, path):
    for field in gguf.GGUFReader(path).fields.values():
        if not field.name.startswith("tokenizer."):
            continue
        kind = field.types[0]
        writer.add_key_value(field.name, field.contents(), kind, field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None)


def matrices_of_a_block(a):
    """Name, rows, columns."""
    h = a.hidden
    if a.family == "gpt2":
        return (("attn_qkv", 3 * h, h), ("attn_output", h, h), ("ffn_up", 4 * h, h), ("ffn_down", h, 4 * h))
    kv = h // a.heads * (a.kv_heads or a.heads)
    return (("attn_q", h, h), ("attn_k", kv, h), ("attn_v", kv, h), ("attn_output", h, h), ("ffn_gate", a.ffn, h),
            ("ffn_up", a.ffn, h), ("ffn_down", h, a.ffn))


def write_model(path, a):
    """Names and keys of llama.cpp's "gpt2" and "llama" architectures."""
    writer = gguf.GGUFWriter(path, a.family)
    write_settings(writer, a)
    rng = np.random.default_rng(1)

    def matrix(name, rows, columns):
        values = rng.standard_normal((rows, columns), dtype=np.float32) * 0.02
        if a.dtype == "f32":
            writer.add_tensor(name, values)
        elif a.dtype != "bf16":  # blocks; of 4 bits, the tables of the vocabulary have 8, as in llama.cpp's own files
            is_table = name in ("token_embd.weight", "output.weight")
            kind = gguf.GGMLQuantizationType["Q8_0" if is_table else a.dtype.upper()]
            writer.add_tensor(name, gguf.quantize(values, kind), raw_dtype=kind)
        else:  # bf16: the upper halves, rounded to nearest even
            bits = values.view(np.uint32)
            halves = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
            writer.add_tensor(name, halves.view(np.uint8).reshape(rows, 2 * columns),
                              raw_dtype=gguf.GGMLQuantizationType.BF16)

    def vector(name, n, value):
        writer.add_tensor(name, np.full(n, value, dtype=np.float32))

    has_biases = a.family == "gpt2"

    def norm(name):
        vector(f"{name}.weight", a.hidden, 1)
        if has_biases:
            vector(f"{name}.bias", a.hidden, 0)

    matrix("token_embd.weight", a.vocab, a.hidden)
    matrix("output.weight", a.vocab, a.hidden)
    if a.family == "gpt2":
        writer.add_tensor("position_embd.weight", rng.standard_normal((a.context, a.hidden), dtype=np.float32) * 0.02)
    for i in range(a.layers):
        norm(f"blk.{i}.attn_norm")
        norm(f"blk.{i}.ffn_norm")
        for name, rows, columns in matrices_of_a_block(a):
            matrix(f"blk.{i}.{name}.weight", rows, columns)
            if has_biases:
                vector(f"blk.{i}.{name}.bias", rows, 0)
    norm("output_norm")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_shape(p):
    for name, default in (("layers", 12), ("hidden", 768), ("heads", 12), ("vocab", 50304), ("context", 1024)):
        p.add_argument(f"--{name}", type=int, default=default)
    p.add_argument("--family", choices=("gpt2", "llama"), default="gpt2")
    p.add_argument("--kv-heads", type=int, help="llama; as many as heads unless given")
    p.add_argument("--ffn", type=int, help="llama")
    p.add_argument("--dtype", choices=("f32", "bf16", "q8_0", "q4_0", "q4_1"), default="bf16")
    p.add_argument("--tokenizer-of", help="another GGUF file, whose vocabulary is as large; default: one of made-up words")


def main():
    p = argparse.ArgumentParser(description=__doc__)
    add_shape(p)
    p.add_argument("--output", required=True)
    a = p.parse_args()
    write_model(a.output, a)


if __name__ == "__main__":
    main()
