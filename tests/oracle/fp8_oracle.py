#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights in FP8, written and read, for several families.

Codes:    what `convert --quantize fp8` writes is PyTorch's cast of each row over its scale, byte for byte; scales are the least
          bf16 numbers that keep a row within e4m3; the rest is what convert writes without it
Rows:     log probabilities of that folder, against float64 sums over the numbers that codes and scales stand for
Tensors:  the same of a scale for each tensor, as AutoFP8 wrote them, with scales of inputs beside
Blocks:   a folder in DeepSeek's layout (weight_scale_inv, blocks of 32 x 48), which transformers opens and dequantises itself
Held:     `--quantize fp8` on the model scores the bits of the folder that was made from it; so do four ranks

    fp8_oracle.py --megalith build/release/megalith [FAMILY...]
"""
import json
import pathlib
import shutil
import sys
import tempfile

import safetensors.torch
import torch

from comparison import FAMILIES, Checks, model_arguments, run
from decoder_folders import compare_scores, opened, random_lines, random_model, scored
from gguf_files import SIZES, config_of

WIDE = SIZES | {"hidden_size": 128, "intermediate_size": 320, "head_dim": 32, "num_hidden_layers": 3}
NAMES = "llama", "qwen2", "qwen3", "gemma2", "phi3"
BLOCK = 32, 48
LARGEST = 448.0


def scales_of(rows):
    """float32 [rows, 1]: amax / 448, up to a bf16 number."""
    wanted = rows.abs().amax(1, keepdim=True) / LARGEST
    rounded = wanted.bfloat16()
    up = (rounded.view(torch.int16) + 1).view(torch.bfloat16)
    return torch.where(rounded.float() < wanted, up, rounded).float()


def is_product(name, tensor):
    return tensor.dim() == 2 and ".layers." in name


def compare_codes(checks, name, plain, folder):
    before = safetensors.torch.load_file(plain / "model.safetensors")
    after = safetensors.torch.load_file(folder / "model.safetensors")
    wanted = {}
    for key, tensor in before.items():
        wanted[key] = tensor
        if is_product(key, tensor):
            wanted[f"{key}_scale"] = scales_of(tensor)
            wanted[key] = (tensor / wanted[f"{key}_scale"]).to(torch.float8_e4m3fn)
    differ = [key for key in wanted.keys() | after.keys() if key not in after or key not in wanted or after[key].dtype != wanted[key].dtype
              or not torch.equal(after[key].contiguous().view(torch.uint8), wanted[key].contiguous().view(torch.uint8))]
    checks.expect(f"{name}: codes and scales of PyTorch, to the bit", not differ, f"{len(after)} tensors {', '.join(sorted(differ))}")
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    checks.expect(f"{name}: what is not in FP8 is named", config["ignore"] == ["lm_head"] and config["quant_method"] == "compressed-tensors",
                  json.dumps(config["ignore"]))


def written_as(folder, source, change, quantization):
    """A copy of the folder with its tensors changed and another quantization_config (None: none)."""
    shutil.copytree(source, folder)
    tensors = safetensors.torch.load_file(source / "model.safetensors")
    safetensors.torch.save_file({key: tensor.contiguous() for key, tensor in change(tensors).items()}, folder / "model.safetensors",
                                metadata={"format": "pt"})
    config = json.loads((source / "config.json").read_text())
    config.pop("quantization_config", None)
    if quantization is not None:
        config["quantization_config"] = quantization
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def numbers(tensors):
    """What codes and scales of rows or tensors stand for."""
    wide = {key: tensor.double() for key, tensor in tensors.items() if "_scale" not in key}
    for key in wide:
        if f"{key}_scale" in tensors:
            wide[key] = wide[key] * tensors[f"{key}_scale"].double().reshape(-1, 1)
    return {key: tensor.float() for key, tensor in wide.items()}


def of_tensors(tensors):
    """Every product with one scale, as AutoFP8 wrote them."""
    changed = dict(tensors)
    for key, tensor in tensors.items():
        if is_product(key, tensor):
            scale = tensor.abs().max() / LARGEST
            changed[key] = (tensor / scale).to(torch.float8_e4m3fn)
            changed[f"{key}_scale"] = scale.reshape(1)
            changed[key.removesuffix("weight") + "input_scale"] = torch.tensor([0.03])
    return changed


def of_blocks(tensors):
    changed = dict(tensors)
    for key, tensor in tensors.items():
        if is_product(key, tensor):
            rows, columns = tensor.shape
            down, across = -(-rows // BLOCK[0]), -(-columns // BLOCK[1])
            padded = torch.zeros(down * BLOCK[0], across * BLOCK[1])
            padded[:rows, :columns] = tensor
            scales = padded.reshape(down, BLOCK[0], across, BLOCK[1]).abs().amax((1, 3)) / LARGEST
            wide = scales.repeat_interleave(BLOCK[0], 0).repeat_interleave(BLOCK[1], 1)[:rows, :columns]
            changed[key] = (tensor / wide).to(torch.float8_e4m3fn)
            changed[f"{key}_scale_inv"] = scales
    return changed


def compare_family(checks, name, program, folder):
    folder.mkdir()
    random_model(folder / "theirs", config_of(name, WIDE))
    run(program, "convert", "--from", folder / "theirs", "--to", folder / "plain", "--format", "hf")
    run(program, "convert", "--from", folder / "theirs", "--to", folder / "rows", "--quantize", "fp8")
    compare_codes(checks, name, folder / "plain", folder / "rows")
    wide = written_as(folder / "wide", folder / "rows", numbers, None)
    compare_scores(checks, f"{name}, rows", program, folder / "rows", opened(wide)[0], folder)
    lines = random_lines(64)
    held = scored(program, folder / "rows", lines, folder / "ids.jsonl")
    for what, checkpoint, options in (("--quantize fp8 on the model", folder / "theirs", ("--quantize", "fp8")),
                                      ("four ranks", folder / "rows", ("--set", "parallel.tensor=2", "--set", "parallel.pipeline=2"))):
        checks.expect(f"{name}: {what}, to the bit", torch.equal(held, scored(program, checkpoint, lines, folder / "ids.jsonl", *options)))

    tensors = written_as(folder / "tensors", folder / "plain", of_tensors, {"quant_method": "fp8", "activation_scheme": "static"})
    wide = written_as(folder / "tensors-wide", tensors, numbers, None)
    compare_scores(checks, f"{name}, tensors", program, tensors, opened(wide)[0], folder)


def compare_blocks(checks, program, folder):
    """Sizes in whole blocks, which transformers wants."""
    folder.mkdir()
    random_model(folder / "theirs", config_of("llama", WIDE | {"hidden_size": 192, "intermediate_size": 288, "head_dim": 48}))
    blocks = written_as(folder / "blocks", folder / "theirs", of_blocks,
                        {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": list(BLOCK)})
    model, faults = opened(blocks, torch.float32)
    checks.expect("blocks: transformers takes every tensor", not faults, ", ".join(faults))
    compare_scores(checks, "blocks", program, blocks, model, folder)


def main():
    arguments = model_arguments(__doc__, FAMILIES)
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for family in arguments.family or NAMES:
            compare_family(checks, family, arguments.megalith, folder / family)
        compare_blocks(checks, arguments.megalith, folder / "blocks")
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
