#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of every family of decoders but Llama (llama_oracle.py), in and out.

In:       random models of awkward shapes, made by the family's own class, are scored by megalith: the root mean
          square error of all log probabilities against float64 is at most 1.5 times that of transformers in float32
Out:      to a megalith folder and back: every tensor keeps its bits, AutoModelForCausalLM opens it without a word,
          and its logits are those of the first folder to the bit
Ours:     a model that megalith made from a recipe which names the family is the same one in transformers; greedy text
          is that of transformers, and log probabilities through the cache are those of scoring within 1e-5
Refused:  what a class can be asked for and has no code here is an error that names the key

Ends with a line per family: the largest error and the largest ratio of its models.

    families_oracle.py --megalith build/release/megalith --text FILE [FAMILY...]
"""
import copy
import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from tokenizers import Tokenizer

from comparison import FAMILIES, TEXT, Checks, make_corpus, model_arguments, run, summary, train
from decoder_folders import VOCABULARY, compare_model, compare_scores, opened, random_model, scored

LAYERS = 3
GROUPED = {"hidden_size": 40, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
           "intermediate_size": 44, "max_position_embeddings": 64}
EVEN = {"hidden_size": 48, "num_attention_heads": 6, "num_key_value_heads": 3, "intermediate_size": 77,
        "max_position_embeddings": 64}
ALONE = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 60, "max_position_embeddings": 64}
MIXED = {"layer_types": ["full_attention", "sliding_attention", "full_attention"], "sliding_window": 5}
FACTORS = {"short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 1.5, 2.5, 4.0]}


def rope(kind, base=10000.0, **settings):
    return {"rope_type": kind, "rope_theta": base} | settings


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=16)
LLAMA3 = rope("llama3", 5e5, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=16)
LATE = {"use_sliding_window": True, "sliding_window": 7, "max_window_layers": 1}

# What each has besides a vocabulary of 131 and three layers.
MODELS = {
    "gpt2": {
        "plain": {"n_embd": 32, "n_head": 4, "n_positions": 64},
        "odd heads, exact GELU": {"n_embd": 30, "n_head": 3, "n_inner": 77, "n_positions": 64, "activation_function": "gelu"},
        "untied, a long context": {"n_embd": 40, "n_head": 5, "n_positions": 96, "tie_word_embeddings": False},
    },
    "mistral": {
        "a window": GROUPED | {"sliding_window": 9},
        "no window, tied": GROUPED | {"sliding_window": None, "tie_word_embeddings": True},
        "one key for all, exact GELU": EVEN | {"num_key_value_heads": 1, "head_dim": 20, "hidden_act": "gelu"},
        "linear": GROUPED | {"rope_parameters": rope("linear", 5e4, factor=2.5)},
        "yarn": GROUPED | {"rope_parameters": YARN, "sliding_window": 20},
    },
    "qwen2": {
        "plain": EVEN,
        "heads apart from hidden, tied": GROUPED | {"tie_word_embeddings": True},
        "windows from the second layer on": EVEN | LATE,
        "a window in the middle": EVEN | MIXED | {"use_sliding_window": True},
        "yarn": EVEN | {"rope_parameters": YARN | {"rope_theta": 1e6}, "hidden_act": "quick_gelu"},
        "dynamic": EVEN | {"rope_parameters": rope("dynamic", factor=3.0)},
    },
    "qwen3": {
        "plain": GROUPED,
        "biases, tied": GROUPED | {"attention_bias": True, "tie_word_embeddings": True, "rms_norm_eps": 0.03},
        "windows": GROUPED | LATE,
        "llama3": GROUPED | {"rope_parameters": LLAMA3},
    },
    "gemma": {
        "plain": GROUPED,
        "one key for all, the older name of GELU": EVEN | {"num_key_value_heads": 1, "head_dim": 16, "hidden_act": "gelu"},
        "untied, biases": GROUPED | {"tie_word_embeddings": False, "attention_bias": True},
    },
    "gemma2": {
        "plain": EVEN | {"head_dim": 10, "sliding_window": 9},
        "caps that bite": EVEN | {"head_dim": 10, "sliding_window": 9, "attn_logit_softcapping": 3.0,
                                  "final_logit_softcapping": 4.0, "query_pre_attn_scalar": 7},
        "no caps": EVEN | {"head_dim": 10, "attn_logit_softcapping": None, "final_logit_softcapping": None},
        "layer types, biases, untied": EVEN | MIXED | {"head_dim": 10, "attention_bias": True, "tie_word_embeddings": False},
    },
    "gemma3_text": {
        "three local layers": EVEN | {"head_dim": 10, "sliding_window": 9},
        "seven layers": EVEN | {"head_dim": 10, "sliding_window": 9, "num_hidden_layers": 7},
        "angles far apart": EVEN | MIXED | {"head_dim": 10, "query_pre_attn_scalar": 8, "rope_parameters": {
            "full_attention": rope("linear", 5e5, factor=8.0), "sliding_attention": rope("default", 100.0)}},
        "a cap of logits, biases": EVEN | MIXED | {"head_dim": 10, "final_logit_softcapping": 4.0, "attention_bias": True},
    },
    "phi3": {
        "plain": ALONE,
        "groups, a window": EVEN | {"sliding_window": 9},
        "a part of each head": EVEN | {"rope_parameters": rope("default", partial_rotary_factor=0.75)},
        "longrope": ALONE | {"max_position_embeddings": 96, "original_max_position_embeddings": 32,
                             "rope_parameters": rope("longrope", **FACTORS)},
        "longrope, factors of its own, tied": ALONE | {
            "max_position_embeddings": 96, "original_max_position_embeddings": 32, "tie_word_embeddings": True,
            "rope_parameters": rope("longrope", attention_factor=1.25, factor=2.0, **FACTORS)},
    },
    "gpt_neox": {
        "plain": {**ALONE, "num_attention_heads": 4},
        "serial, half of each head": ALONE | {"use_parallel_residual": False,
                                              "rope_parameters": rope("default", partial_rotary_factor=0.5)},
        "no biases of attention, tied": ALONE | {"attention_bias": False, "tie_word_embeddings": True},
        "odd heads, whole turns, tanh GELU": ALONE | {"hidden_size": 30, "num_attention_heads": 3, "hidden_act": "gelu_pytorch_tanh",
                                                      "rope_parameters": rope("linear", factor=2.0, partial_rotary_factor=1.0)},
    },
    "starcoder2": {
        "plain": EVEN,
        "no biases, a window": EVEN | {"use_bias": False, "sliding_window": 9},
        "untied, one key for all": EVEN | {"tie_word_embeddings": False, "num_key_value_heads": 1},
    },
    "olmo2": {
        "plain": ALONE,
        "groups": EVEN,
        "biases, tied": EVEN | {"attention_bias": True, "tie_word_embeddings": True},
        "yarn": EVEN | {"rope_parameters": YARN},
    },
}


def as_transformers_4_wrote(config):
    """rope_theta beside rope_scaling, no lists of layers."""
    parameters = config.pop("rope_parameters")
    config.pop("layer_types", None)
    if "full_attention" in parameters:
        config["rope_local_base_freq"] = parameters["sliding_attention"]["rope_theta"]
        config["sliding_window_pattern"] = 6
        parameters = parameters["full_attention"]
    base, part = parameters.pop("rope_theta"), parameters.pop("partial_rotary_factor", None)
    if config["model_type"] == "gpt_neox":
        config["rotary_emb_base"], config["rotary_pct"] = base, part
    else:
        config["rope_theta"] = base
        if part is not None:
            config["partial_rotary_factor"] = part
    if parameters["rope_type"] != "default":
        parameters.pop("original_max_position_embeddings", None)
        config["rope_scaling"] = {"type": parameters.pop("rope_type")} | parameters


# Those of MODELS that are read in transformers 4's spelling too, where it is another.
OLDER = {"mistral": "linear", "qwen2": "windows from the second layer on", "qwen3": "plain", "gemma": "plain",
         "gemma2": "plain", "gemma3_text": "seven layers", "phi3": "longrope", "gpt_neox": "serial, half of each head",
         "starcoder2": "no biases, a window", "olmo2": "plain"}
REFUSED = {
    "gpt2": {"scale_attn_by_inverse_layer_idx": True, "add_cross_attention": True},
    "mistral": {"auto_map": {"AutoModel": "code.Model"}, "quantization_config": {"bits": 4}, "hidden_act": "mish"},
    "qwen2": {"rope_scaling": {"type": "mrope", "mrope_section": [2, 1, 1]}},
    "qwen3": {"layer_types": ["full_attention", "chunked_attention", "full_attention"]},
    "gemma": {"use_bidirectional_attention": True},
    "gemma2": {"use_bidirectional_attention": True},
    "gemma3_text": {"attn_logit_softcapping": 50.0},
    "phi3": {"lm_head_bias": True},
    "gpt_neox": {"hidden_act": "mish"},
    "starcoder2": {"norm_type": "rms_norm"},
    "olmo2": {"clip_qkv": 8.0},
}


def config_of(family, settings):
    return transformers.AutoConfig.for_model(family, **({
        "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "initializer_range": 0.2, "bos_token_id": 1,
        "eos_token_id": 2, "pad_token_id": 0} | copy.deepcopy(settings)))


def compare_refusals(checks, program, family, folder):
    random_model(folder / "refused", config_of(family, next(iter(MODELS[family].values()))))
    file = folder / "refused/config.json"
    config = json.loads(file.read_text())
    (folder / "ids.jsonl").write_text('{"ids": [1, 2]}\n')
    for key, value in REFUSED[family].items():
        file.write_text(json.dumps(config | {key: value}))
        result = subprocess.run([program, "evaluate", "score", "--checkpoint", folder / "refused", "--input", folder / "ids.jsonl"],
                                capture_output=True, text=True, check=False)
        named = "rope" if key.startswith("rope") else key
        checks.expect(f"{family}: {key} is refused by name", result.returncode == 2 and named in result.stderr,
                      result.stderr.strip().split(": ", 2)[-1][:100])


def compare_generation(checks, name, program, checkpoint, model, tokenizer_file, folder):
    """Text beyond the window; a prompt is read in one go, what follows token by token."""
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    for prompt in ("The ", "What is it that"):
        ours = run(program, "generate", "--checkpoint", checkpoint, "--prompt", prompt, "--max-new-tokens", 30,
                   "--temperature", 0, "--threads", 1)[0]
        ids = tokenizer.encode(prompt).ids
        whole = scored(program, checkpoint, [ids + ours["ids"]], folder / "ids.jsonl")[len(ids) - 1:]
        # generate takes its logarithms in double, score in float32: bits of logits are cached_decoding_test.cpp's.
        worst = max((abs(a - b) for a, b in zip(whole.tolist(), ours["logprobs"])), default=0.0)
        checks.expect(f"{name}: through the cache as without it after {prompt!r}", worst <= 1e-5,
                      f"{len(whole)} tokens within {worst:.1e}")
        with torch.no_grad():
            output = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long),
                                    max_new_tokens=30, do_sample=False, pad_token_id=0)[0, len(ids):].tolist()
        ends = model.config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        checks.expect(f"{name}: greedy text after {prompt!r}", ours["ids"] == [i for i in output if i not in ends],
                      f"{len(ours['ids'])} tokens")


def compare_trained(checks, program, text, family, folder):
    """From a recipe with the family's own layers, its sizes and nothing else."""
    prefix, tokenizer = make_corpus(program, text, folder, 400)
    out, foreign, name = folder / "run", folder / "run-hf", f"{family}, trained here"
    groups = {} if family in ("gpt2", "gpt_neox") else {"kv_heads": 2}
    # A window of 4096 would see everything.
    window = {"window": 9} if family in ("mistral", "gemma2", "gemma3_text") else {}
    train(program, folder / "recipe.yaml", {
        "run": {"out": str(out), "name": "trained"},
        "model": {"family": family, "layers": 7, "hidden": 48, "heads": 4, "ffn": 56, "context": 64, **groups, **window},
        "data": {"train": str(prefix), "tokenizer": str(tokenizer)},
        "train": {"steps": 20, "global_batch": 4, "micro_batch": 4},
        "optimizer": {"lr": 1e-2, "schedule": "constant"},
    })
    run(program, "convert", "--from", out, "--to", foreign, "--format", "hf")
    model, faults = opened(foreign)
    checks.expect(f"{name}: its class takes every tensor", not faults, ", ".join(faults))
    compare_scores(checks, f"{name}, its run folder", program, out, model, folder)
    compare_scores(checks, f"{name}, its Hugging Face folder", program, foreign, model, folder)
    compare_generation(checks, name, program, foreign, model, tokenizer, folder)


def compare_family(checks, program, text, family, folder):
    """[(rms of ours, rms of transformers in float32)]"""
    errors = []
    for number, (kind, settings) in enumerate(MODELS[family].items()):
        errors.append(compare_model(checks, f"{family}, {kind}", program, config_of(family, settings), folder / str(number)))
    if family in OLDER:
        older = config_of(family, MODELS[family][OLDER[family]])
        compare_model(checks, f"{family}, release 4's keys", program, older, folder / "older", edit=as_transformers_4_wrote)
    compare_model(checks, f"{family}, bf16", program, config_of(family, next(iter(MODELS[family].values()))), folder / "bf16",
                  torch.bfloat16)
    compare_refusals(checks, program, family, folder)
    try:
        compare_trained(checks, program, text, family, folder)
    except SystemExit as refusal:
        checks.expect(f"{family}, trained here", False, str(refusal))
    return [error for error in errors if error is not None]


def main():
    arguments = model_arguments(__doc__, TEXT, FAMILIES)
    checks, lines = Checks(), []
    for family in arguments.family or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            errors = compare_family(checks, arguments.megalith, arguments.text, family, pathlib.Path(folder))
        if errors:
            lines.append(summary(family, errors))
    print("\n".join(lines))
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
