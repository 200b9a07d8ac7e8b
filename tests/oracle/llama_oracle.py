#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Llama folders of Hugging Face transformers, in and out.

In:     random LlamaForCausalLM folders of awkward shapes are scored by megalith: the root mean square
        error of all log probabilities against float64 is at most 1.5 times that of transformers in
        float32. Angles are float32 in transformers whatever the model's type, so they are part of
        what a model is
Out:    each is converted to a megalith folder and back: every tensor keeps its bits, LlamaForCausalLM
        opens it without a word, and its logits are those of the first folder to the bit
Ours:   what megalith trained, with every scaling of rotary positions, is the same model in transformers

Ends with the largest error and the largest ratio of all models.

    llama_oracle.py --megalith build/release/megalith --text FILE
"""
import copy
import pathlib
import sys
import tempfile

import torch
import transformers

import torch_decoder
from comparison import TEXT, Checks, make_corpus, model_arguments, run, summary, train
from decoder_folders import VOCABULARY, compare_model, compare_scores, in_double, opened

LAYERS = 3
PLAIN = {"hidden_size": 40, "num_attention_heads": 5, "intermediate_size": 88, "max_position_embeddings": 64}
FACTORS = {"short_factor": [1.0, 1.1, 1.3, 1.7], "long_factor": [1.0, 1.5, 2.5, 4.0]}


def scaled(kind, context=64, **settings):
    rope = {"rope_type": kind, "rope_theta": 10000.0} | settings
    return PLAIN | {"max_position_embeddings": context, "rope_parameters": rope}


# What each has besides a vocabulary of 131 and three layers. Heads of 8, where not said otherwise.
MODELS = {
    "plain": PLAIN,
    "heads wider than the stream": PLAIN | {"head_dim": 24},
    "heads narrower than the stream": PLAIN | {"hidden_size": 45, "head_dim": 6},
    "6 heads in 3 groups": PLAIN | {"hidden_size": 42, "num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": 8},
    "5 heads in one group": PLAIN | {"num_key_value_heads": 1},
    "one head, odd MLP": PLAIN | {"hidden_size": 34, "num_attention_heads": 1, "intermediate_size": 77},
    "tied": PLAIN | {"tie_word_embeddings": True},
    "biases of attention": PLAIN | {"attention_bias": True},
    "biases of MLP": PLAIN | {"mlp_bias": True},
    "all biases, tied, 2 groups": PLAIN | {"hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2,
                                           "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True},
    "large epsilon": PLAIN | {"rms_norm_eps": 0.03},
    "rope_theta 500000": scaled("default", rope_theta=500000.0, context=96),
    "linear": scaled("linear", factor=2.5),
    "dynamic": scaled("dynamic", factor=3.0),
    "llama3": scaled("llama3", context=96, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                     original_max_position_embeddings=24),
    "llama3, no original": scaled("llama3", context=96, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0),
    "yarn": scaled("yarn", context=96, factor=4.0, original_max_position_embeddings=24),
    "yarn, its own ramp": scaled("yarn", context=96, factor=4.0, original_max_position_embeddings=24, beta_fast=2.0,
                                 beta_slow=0.25, truncate=False, attention_factor=1.25),
    "longrope": scaled("longrope", context=96, original_max_position_embeddings=32, **FACTORS),
    "longrope, factor of the contexts": scaled("longrope", context=96, factor=3.0,
                                               original_max_position_embeddings=32, **FACTORS),
    "longrope, another factor": scaled("longrope", context=96, factor=8.0, original_max_position_embeddings=32, **FACTORS),
    "longrope, attention_factor": scaled("longrope", context=96, attention_factor=1.125,
                                         original_max_position_embeddings=32, **FACTORS),
    "longrope, no original": scaled("longrope", context=96, factor=2.0, **FACTORS),
}


def as_transformers_4_wrote(config):
    scaling = config.pop("rope_parameters")
    config["rope_theta"] = scaling.pop("rope_theta")
    config["rope_scaling"] = {"type": scaling.pop("rope_type")} | scaling


# Configurations that transformers takes and does not write itself.
EDITED = {
    "release 4's keys": (MODELS["linear"], as_transformers_4_wrote),
    "release 4's keys, llama3": (MODELS["llama3"], as_transformers_4_wrote),
    "no head_dim": (PLAIN, lambda config: config.pop("head_dim")),
    "no rope keys": (PLAIN, lambda config: config.pop("rope_parameters")),
    "yarn, factor null": (MODELS["yarn"], lambda config: config["rope_parameters"].update(factor=None)),
    "longrope, factor null": (MODELS["longrope"], lambda config: config["rope_parameters"].update(factor=None)),
    "rope_scaling goes before rope_parameters": (
        PLAIN, lambda config: config.update(rope_scaling={"rope_type": "linear", "factor": 3.0})),
}
SCALINGS = {
    "none": {},
    "linear": {"factor": 2.0},
    "dynamic": {"factor": 2.0},
    "llama3": {"factor": 8.0, "original_context": 24},
    "yarn": {"factor": 4.0, "original_context": 24},
    "longrope": {"original_context": 32, **{key + "s": value for key, value in FACTORS.items()}},
}


def config_of(settings):
    return transformers.LlamaConfig(**({
        "vocab_size": VOCABULARY, "num_hidden_layers": LAYERS, "initializer_range": 0.2, "bos_token_id": 1,
        "eos_token_id": 2} | copy.deepcopy(settings)))


def compare_decoder(checks):
    """What tools/make_reference.py calls Llama is transformers' one (angles are float32 there)."""
    shape = torch_decoder.Shape("llama", hidden=24, kv_heads=2, ffn=40, tied=False)
    weights = torch_decoder.formula_weights(shape, torch.float64)
    config = transformers.LlamaConfig(
        vocab_size=shape.vocab, hidden_size=shape.hidden, num_hidden_layers=shape.layers, num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads, head_dim=shape.head_dim, intermediate_size=shape.ffn,
        max_position_embeddings=shape.context, rms_norm_eps=shape.norm_eps, tie_word_embeddings=False)
    model = transformers.LlamaForCausalLM(config).eval().double()
    state = {"model.embed_tokens.weight": weights["embedding.weight"], "model.norm.weight": weights["final_norm.weight"],
             "lm_head.weight": weights["head.weight"]}
    for i in range(shape.layers):
        ours, theirs = f"layers.{i}.", f"model.layers.{i}."
        qkv = weights[ours + "attention.qkv.weight"].view(shape.kv_heads, -1, shape.head_dim, shape.hidden)
        for part, rows in (("q", qkv[:, :-2]), ("k", qkv[:, -2]), ("v", qkv[:, -1])):
            state[f"{theirs}self_attn.{part}_proj.weight"] = rows.reshape(-1, shape.hidden)
        state[theirs + "self_attn.o_proj.weight"] = weights[ours + "attention.output.weight"]
        state[theirs + "mlp.gate_proj.weight"] = weights[ours + "mlp.gate_up.weight"][0::2]
        state[theirs + "mlp.up_proj.weight"] = weights[ours + "mlp.gate_up.weight"][1::2]
        state[theirs + "mlp.down_proj.weight"] = weights[ours + "mlp.down.weight"]
        state[theirs + "input_layernorm.weight"] = weights[ours + "norm_1.weight"]
        state[theirs + "post_attention_layernorm.weight"] = weights[ours + "norm_2.weight"]
    model.load_state_dict(state)
    ids = torch_decoder.formula_samples(shape, 0, 2)[:, :-1]
    with in_double(model), torch.no_grad():
        worst = float((model(ids).logits - torch_decoder.logits(shape, weights, ids)).abs().max())
    # The turn of a head by a rounded angle of at most `context`, and its rounded sine.
    bound = (shape.context + 1) * 2.0**-24
    checks.expect("torch_decoder's Llama is LlamaForCausalLM", worst <= bound,
                  f"logits within {worst:.1e} (at most {bound:.1e})")


def compare_trained(checks, program, text, folder):
    """Exports say everything that the model is: every scaling, and what a recipe alone can set."""
    prefix, tokenizer = make_corpus(program, text, folder, 400)
    for scaling, settings in SCALINGS.items():
        name, out, foreign = f"trained here, {scaling}", folder / scaling, folder / f"{scaling}-hf"
        try:
            train(program, folder / "recipe.yaml", {
                "run": {"out": str(out), "name": "trained"},
                "model": {"family": "llama", "layers": 2, "hidden": 48, "heads": 4, "kv_heads": 2, "head_dim": 8, "ffn": 56,
                          "context": 64, "rope": {"scaling": scaling, **settings}},
                "data": {"train": str(prefix), "tokenizer": str(tokenizer)},
                "train": {"steps": 20, "global_batch": 4, "micro_batch": 4},
                "optimizer": {"lr": 1e-2, "schedule": "constant"},
            })
            run(program, "convert", "--from", out, "--to", foreign, "--format", "hf")
            model, faults = opened(foreign)
            checks.expect(f"{name}: its class takes every tensor", not faults, ", ".join(faults))
            compare_scores(checks, f"{name}, its run folder", program, out, model, folder)
            compare_scores(checks, f"{name}, its Hugging Face folder", program, foreign, model, folder)
        except SystemExit as refusal:
            checks.expect(name, False, str(refusal))


def main():
    arguments = model_arguments(__doc__, TEXT)
    checks = Checks()
    compare_decoder(checks)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        errors = [compare_model(checks, kind, arguments.megalith, config_of(settings), folder / str(number))
                  for number, (kind, settings) in enumerate(MODELS.items())]
        for number, (kind, (settings, edit)) in enumerate(EDITED.items()):
            compare_model(checks, kind, arguments.megalith, config_of(settings), folder / f"edited-{number}", edit=edit)
        compare_model(checks, "f16", arguments.megalith, config_of(PLAIN), folder / "f16", torch.float16)
        compare_model(checks, "bf16", arguments.megalith, config_of(PLAIN | {"attention_bias": True}), folder / "bf16", torch.bfloat16)
        compare_model(checks, "in shards", arguments.megalith, config_of(PLAIN), folder / "shards", max_shard_size="50KB")
        compare_trained(checks, arguments.megalith, arguments.text, folder)
    print(summary("llama", [error for error in errors if error is not None]))
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
