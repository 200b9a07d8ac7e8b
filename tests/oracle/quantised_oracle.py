#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights in blocks of 8 and 4 bits, written and read.

Bytes:    matrices that `convert --quantize` and `--quantize-tensor` write are those of the Python package gguf, byte for byte,
          tables of tokens and of logits in q8_0 where the others have 4 bits
Held:     a file's blocks, held as they are, score with the bits of the same values widened to f32 by gguf, in a folder; so does
          `--quantize` on the model that the file was made from
Run:      llama.cpp's probabilities of the tokens of a text, from SmolLM2-135M-Instruct (Q4_1) widened to f32, give a perplexity
          within 0.1 % of megalith's from the blocks; with the blocks themselves llama.cpp rounds activations to 8 bits, and
          the bound is 2 %
Fast:     `--numerics fast` moves the perplexity of SmolLM2 by less than 1 %

    quantised_oracle.py --megalith build/release/megalith --text FILE
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy
import transformers

from comparison import Checks, model_arguments, run
from decoder_folders import random_lines, random_model
from gguf_files import SIZES, config_of, real_file, write_out, writer_like

WIDE = SIZES | {"hidden_size": 128, "intermediate_size": 320, "head_dim": 32, "num_hidden_layers": 3}
CHOICES = {"blk.*.ffn_down.weight": "Q8_0", "blk.1.attn_q.weight": "Q4_1", "output.weight": "F16"}
VOCABULARY = ("token_embd.weight", "output.weight")
HERE = pathlib.Path(__file__).parent


def wanted_kind(name, data, quantised, choices):
    if data.ndim < 2:
        return "F32"
    for pattern, kind in choices.items():
        if name == pattern or (pattern.startswith("blk.*") and name.startswith("blk.") and name.endswith(pattern[5:])):
            return kind
    return "Q8_0" if name in VOCABULARY and quantised.startswith("Q4") else quantised


def compare_bytes(checks, program, folder):
    random_model(folder / "model", config_of("llama", WIDE))
    run(program, "convert", "--from", folder / "model", "--to", folder / "wide.gguf", "--format", "gguf")
    before = {tensor.name: numpy.array(tensor.data) for tensor in gguf.GGUFReader(folder / "wide.gguf").tensors}
    for quantised in ("Q8_0", "Q4_0", "Q4_1"):
        for choices in ({}, CHOICES):
            file = folder / f"{quantised}{'-chosen' if choices else ''}.gguf"
            options = [word for pattern, kind in choices.items() for word in ("--quantize-tensor", f"{pattern}={kind.lower()}")]
            run(program, "convert", "--from", folder / "model", "--to", file, "--format", "gguf", "--quantize", quantised.lower(), *options)
            differ, matrices = [], 0
            for tensor in gguf.GGUFReader(file).tensors:
                data = before[tensor.name]
                kind = gguf.GGMLQuantizationType[wanted_kind(tensor.name, data, quantised, choices)]
                wanted = data if kind.name == "F32" else data.astype(numpy.float16) if kind.name == "F16" else gguf.quantize(data, kind)
                matrices += data.ndim == 2
                if tensor.tensor_type != kind or tensor.data.tobytes() != wanted.tobytes():
                    differ.append(tensor.name)
            checks.expect(f"{file.stem}: bytes of gguf", not differ and matrices == 23, f"{matrices} matrices {', '.join(differ)}")


def widen_file(file, target):
    """The same model with every tensor as gguf widens it."""
    reader = gguf.GGUFReader(file)
    writer = writer_like(reader, target, "general.file_type", "general.quantization_version")
    for tensor in reader.tensors:
        data = numpy.array(tensor.data)
        writer.add_tensor(tensor.name, numpy.ascontiguousarray(gguf.dequantize(data, tensor.tensor_type), numpy.float32))
    write_out(writer)


def scores(program, checkpoint, lines, file, *options):
    file.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in lines))
    return [line["logprobs"] for line in run(program, "evaluate", "score", "--checkpoint", checkpoint, "--input", file, *options)]


def compare_held(checks, program, folder):
    lines = random_lines(64, 131)
    for quantised in ("Q8_0", "Q4_0", "Q4_1"):
        file, wide = folder / f"{quantised}.gguf", folder / f"{quantised}-widened.gguf"
        widen_file(file, wide)
        held = scores(program, file, lines, folder / "lines.jsonl")
        checks.expect(f"{quantised}: scores of the values that gguf widens to, to the bit", held == scores(program, wide, lines, folder / "lines.jsonl"))
        asked = scores(program, folder / "model", lines, folder / "lines.jsonl", "--quantize", quantised.lower())
        checks.expect(f"{quantised}: --quantize on the model, to the bit", held == asked)
        ranks = scores(program, file, lines, folder / "lines.jsonl", "--set", "parallel.tensor=2", "--set", "parallel.pipeline=2")
        checks.expect(f"{quantised}: four ranks, to the bit", held == ranks)


def llama_cpp(file, ids):
    """llama.cpp's log probabilities of ids[i] after ids[:i], where it tells them."""
    result = subprocess.run([sys.executable, HERE / "llama_cpp_probabilities.py", file, "3000"], input=json.dumps(ids),
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        return None
    return json.loads(result.stdout.splitlines()[-1])


def compare_real(checks, program, folder, text):
    file = real_file(folder)
    checks.expect("SmolLM2: the package is there", file is not None)
    if file is None:
        return
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    ids = tokenizer(text).input_ids[:160]
    wide = folder / "smollm2-widened.gguf"
    widen_file(file, wide)
    mine = scores(program, file, [ids], folder / "text.jsonl")[0]
    checks.expect("SmolLM2: scores of the widened values, to the bit", scores(program, wide, [ids], folder / "text.jsonl")[0] == mine)
    # With blocks llama.cpp rounds activations to 8 bits too, which the values alone do not ask for.
    for name, model, bound in (("the widened values", wide, 1e-3), ("the blocks", file, 2e-2)):
        theirs = llama_cpp(model, ids)
        checks.expect(f"SmolLM2: llama.cpp runs {name}", theirs is not None)
        if theirs is None:
            continue
        pairs = [(mine[i - 1], value) for i, value in theirs["logprobs"] if value is not None]
        nll = [-sum(values) / len(pairs) for values in zip(*pairs)]
        ratio = math.exp(nll[0] - nll[1])
        checks.expect(f"SmolLM2: perplexity of llama.cpp with {name} within {100 * bound:g} %", len(pairs) > 100 and abs(ratio - 1) < bound,
                      f"{len(pairs)} tokens, {math.exp(nll[0]):.4f} against {math.exp(nll[1]):.4f}")
    fast = scores(program, file, [ids], folder / "text.jsonl", "--numerics", "fast")[0]
    change = math.exp((sum(mine) - sum(fast)) / len(mine))
    checks.expect("SmolLM2: fast numerics", abs(change - 1) < 1e-2, f"perplexity times {change:.5f}")


def main():
    arguments = model_arguments(__doc__, ("--text", {"required": True, "help": "read by SmolLM2"}))
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        compare_bytes(checks, arguments.megalith, folder)
        compare_held(checks, arguments.megalith, folder)
        compare_real(checks, arguments.megalith, folder, pathlib.Path(arguments.text).read_text()[:4000])
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
