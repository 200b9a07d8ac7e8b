#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of encoder-decoders (T5, T5 1.1, mT5), in and out, compared with the family's own class.

In:       random models of awkward shapes: log probabilities of targets given texts; the root mean square error of all against
          float64 is at most 1.5 times that of transformers in float32
Text:     what greedy decoding makes of a text, token for token, with its own cache for both kinds of attention
Out:      to a megalith folder and back: every tensor keeps its bits, the class opens it without a word, and its logits are
          those of the first folder to the bit
Ours:     a model that megalith trained on spans is the same one in its class, and writes the same text there
Refused:  what a class can be asked for and has no code here is an error that names the key

Ends with a line per family: the largest error and the largest ratio of its models.

    t5_oracle.py --megalith build/release/megalith
"""
import copy
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

import torch
import transformers

from comparison import Checks, model_arguments, run, summary, train
from decoder_folders import BOUND, VOCABULARY, in_double, tensors_of

SMALL = {"d_model": 40, "num_heads": 4, "d_kv": 12, "d_ff": 52, "num_layers": 3}
CLASSES = {"t5": transformers.T5ForConditionalGeneration, "mt5": transformers.MT5ForConditionalGeneration}
MODELS = {
    "t5": {
        "1.0: tied, ReLU": SMALL,
        "1.1: untied, gated GELU": SMALL | {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"},
        "1.1 of transformers 4": SMALL | {"tie_word_embeddings": False, "feed_forward_proj": "gated-gelu"},
        "1.0 of transformers 4": SMALL,
        "a deeper decoder, few buckets, odd widths": SMALL | {"num_layers": 2, "num_decoder_layers": 5, "num_heads": 3,
                                                              "d_model": 42, "relative_attention_num_buckets": 8,
                                                              "relative_attention_max_distance": 20},
        "gated SiLU, norms that bite": SMALL | {"feed_forward_proj": "gated-silu", "layer_norm_epsilon": 0.03,
                                                "num_decoder_layers": 1},
        "tied without a scale": SMALL | {"tie_word_embeddings": False, "own_head": False},
    },
    "mt5": {
        "plain": SMALL,
        "plain of transformers 4": SMALL,
        "tied": SMALL | {"own_head": False},
        "a long reach": SMALL | {"relative_attention_num_buckets": 64, "relative_attention_max_distance": 40, "d_kv": 5},
    },
}
REFUSED = {
    "t5": {"feed_forward_proj": "gated-mish", "architectures": ["T5EncoderModel"], "is_encoder_decoder": False,
           "add_cross_attention": True, "num_decoder_layers": -1, "relative_attention_num_buckets": 33},
    "mt5": {"feed_forward_proj": "gated-mish"},
}


def config_of(family, settings):
    config = transformers.AutoConfig.for_model(family, **(
        {"vocab_size": VOCABULARY, "pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0} | settings))
    return config


def random_model(folder, family, settings, as_before=False):
    """`as_before`: with the keys of transformers 4; `own_head` of the settings: the projection is not the table of tokens. Weights
    so large that positions and every part matter to the logits."""
    torch.manual_seed(3)
    settings = dict(settings)
    untied = settings.pop("own_head", family == "mt5" or not settings.get("tie_word_embeddings", True))
    model = CLASSES[family](config_of(family, settings)).eval()
    with torch.no_grad():
        if untied:
            model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.shared.weight) * 0.3)
        for name, weight in model.named_parameters():
            if weight.dim() == 1:
                weight.add_(torch.randn_like(weight) * 0.2)
            elif "relative_attention_bias" in name:
                weight.copy_(torch.randn_like(weight))
            elif name != "lm_head.weight":
                weight.copy_(torch.randn_like(weight) * (0.2 if "SelfAttention" in name or "EncDec" in name else 0.3))
    model.save_pretrained(folder)
    if as_before:  # transformers 5 says that all are tied, and ties them unless the file has both
        file = folder / "config.json"
        config = json.loads(file.read_text()) | {"tie_word_embeddings": not untied}
        config.pop("scale_decoder_outputs", None)
        file.write_text(json.dumps(config))


def opened(folder, family):
    model, loading = CLASSES[family].from_pretrained(folder, output_loading_info=True)
    faults = [key for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if loading[key]]
    return copy.deepcopy(model).eval(), faults


def random_lines():
    """Lengths around a block of keys, and beyond the largest distance that has a bucket of its own."""
    generator = torch.Generator().manual_seed(1)
    return [{"ids": torch.randint(2, VOCABULARY, (n,), generator=generator).tolist(),
             "target_ids": torch.randint(2, VOCABULARY, (m,), generator=generator).tolist()}
            for n, m in [(1, 1), (2, 5), (64, 3), (5, 65), (130, 17), (17, 140), (200, 200)] * 2]


def logprobs_of(model, lines):
    rows = []
    for line in lines:
        target = torch.tensor([line["target_ids"]])
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([line["ids"]]), labels=target).logits[0]
        rows.append(torch.log_softmax(logits, -1).gather(1, target[0][:, None])[:, 0].double())
    return torch.cat(rows)


def ours(program, checkpoint, file, *options):
    answers = run(program, "evaluate", "score", "--checkpoint", checkpoint, "--input", file, "--threads", 1, *options)
    return torch.cat([torch.tensor(answer["logprobs"], dtype=torch.float64) for answer in answers])


def write_tokenizer(folder, sentinels=0):
    """A word for each id; the last ones are sentinels."""
    words = VOCABULARY - sentinels
    names = ["<pad>", "</s>"] + [f"w{i}" for i in range(2, words)] + [f"<extra_id_{i}>" for i in range(sentinels)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": {name: i for i, name in enumerate(names)}, "unk_token": "<pad>"}}))


def compare_text(checks, name, program, folder, model, lines):
    write_tokenizer(folder)
    wrong, tokens = [], 0
    for line in lines[:7]:
        with torch.no_grad():
            greedy = model.generate(torch.tensor([line["ids"]]), max_new_tokens=24, do_sample=False, num_beams=1,
                                    use_cache=False)[0, 1:].tolist()  # its cache knows the encoder's number of layers
        greedy = greedy[:greedy.index(1)] if 1 in greedy else greedy
        prompt = " ".join(f"w{i}" for i in line["ids"])
        found = run(program, "generate", "--checkpoint", folder, "--prompt", prompt, "--max-new-tokens", 24,
                    "--temperature", 0, "--threads", 1)[0]
        tokens += len(greedy)
        if found["ids"] != greedy:
            wrong.append(f"{found['ids']} for {greedy}")
    checks.expect(f"{name}: greedy text", not wrong, "; ".join(wrong) or f"{tokens} tokens")


def compare_scores(checks, name, program, folder, model, lines, file):
    """Ours, those of the class in float32, and the errors of both against float64."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    double = copy.deepcopy(model).double()
    with in_double(double):
        true = logprobs_of(double, lines)
    first = logprobs_of(model, lines)
    found = ours(program, folder, file)
    error, narrow = (math.sqrt(float(((x - true) ** 2).mean())) for x in (found, first))
    checks.expect(f"{name}: {len(true)} log probabilities", error <= BOUND * narrow,
                  f"rms {error:.2e}, transformers in float32 {narrow:.2e}, ratio {error / narrow:.2f}")
    return found, first, (error, narrow)


def compare_trained(checks, program, family, folder):
    """From a recipe, through a tokenizer with sentinels."""
    draws = random.Random(5)
    write_tokenizer(folder, sentinels=12)
    text, tokenizer, prefix, out, foreign = (folder / part for part in ("words.txt", "tokenizer.json", "corpus", "run", "hf"))
    text.write_text("".join(" ".join(f"w{draws.randrange(2, 60)}" for _ in range(20)) + "\n" for _ in range(200)))
    name = f"{family}, trained here"
    try:
        run(program, "pack", "--tokenizer", tokenizer, "--input", text, "--document", "line", "--output", prefix)
        train(program, folder / "recipe.yaml", {
            "run": {"out": str(out), "name": "trained"},
            "model": {"family": family, "layers": 2, "decoder_layers": 3, "hidden": 48, "heads": 4, "ffn": 56, "context": 256,
                      "init_std": 0.2},
            "data": {"train": str(prefix), "tokenizer": str(tokenizer)},
            "train": {"objective": "spans", "sequence_length": 32, "steps": 20, "global_batch": 4, "micro_batch": 4},
            "optimizer": {"lr": 1e-2, "schedule": "constant"},
        })
        run(program, "convert", "--from", out, "--to", foreign, "--format", "hf")
        model, faults = opened(foreign, family)
        checks.expect(f"{name}: its class takes every tensor", not faults, ", ".join(faults))
        lines = random_lines()
        compare_scores(checks, name, program, foreign, model, lines, folder / "lines.jsonl")
        compare_text(checks, name, program, foreign, model, lines)
    except SystemExit as refusal:  # of the program, with its message
        checks.expect(name, False, str(refusal))


def compare_model(checks, name, program, family, settings, folder):
    theirs, middle, back, file = (folder / part for part in ("theirs", "middle", "back", "lines.jsonl"))
    folder.mkdir()
    try:
        random_model(theirs, family, settings, as_before=name.endswith("4"))
        lines = random_lines()
        model, _ = opened(theirs, family)
        found, first, errors = compare_scores(checks, name, program, theirs, model, lines, file)
        for layout in (["--ranks", 2, "--set", "parallel.pipeline=2"],):
            checks.expect(f"{name}: the same bits on {layout[-1]}", torch.equal(ours(program, theirs, file, *layout), found))
        compare_text(checks, name, program, theirs, model, lines)
        run(program, "convert", "--from", theirs, "--to", middle, "--format", "megalith")
        run(program, "convert", "--from", middle, "--to", back, "--format", "hf")
        before, after = tensors_of(theirs), tensors_of(back)
        for stack in ("encoder", "decoder"):  # what releases hold a second time
            before.pop(f"{stack}.embed_tokens.weight", None)
        differ = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
        checks.expect(f"{name}: there and back, to the bit", not differ, ", ".join(differ) or f"{len(after)} tensors")
        checks.expect(f"{name}: the megalith folder gives the same bits", torch.equal(ours(program, middle, file), found))
        checks.expect(f"{name}: so does the folder that came back", torch.equal(ours(program, back, file), found))
        again, faults = opened(back, family)
        checks.expect(f"{name}: its class takes every tensor, and gives the same bits",
                      not faults and torch.equal(logprobs_of(again, lines), first), ", ".join(faults))
        return errors
    except SystemExit as refusal:  # of the program, with its message
        checks.expect(name, False, str(refusal))
        return None


def compare_refusals(checks, program, family, folder):
    random_model(folder / "refused", family, next(iter(MODELS[family].values())))
    file, lines = folder / "refused/config.json", folder / "ids.jsonl"
    config = json.loads(file.read_text())
    write_tokenizer(folder / "refused")

    def refused(what, needed, line, *command):
        lines.write_text(line + "\n")
        result = subprocess.run([program, "evaluate", *command, "--checkpoint", folder / "refused", "--input", lines],
                                capture_output=True, text=True, check=False)
        checks.expect(f"{family}: {what} is refused by name", result.returncode == 2 and needed in result.stderr,
                      result.stderr.strip()[-100:])

    for key, value in REFUSED[family].items():
        file.write_text(json.dumps(config | {key: value}))
        refused(key, "buckets" if "buckets" in key else key, '{"ids": [3], "target_ids": [4]}', "score")
    file.write_text(json.dumps(config))
    refused("a line without a target", "target", '{"ids": [3]}', "score")
    refused("a target outside of the vocabulary", "vocabulary", '{"ids": [3], "target_ids": [131]}', "score")
    refused("an embedding", "encoder-decoder", '{"ids": [3]}', "embed")
    refused("perplexity of a text", "target", "w3 w4", "perplexity")


def main():
    arguments = model_arguments(__doc__)
    checks, lines = Checks(), []
    for family, models in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            errors = [compare_model(checks, f"{family}, {kind}", arguments.megalith, family, settings, folder / str(number))
                      for number, (kind, settings) in enumerate(models.items())]
            compare_refusals(checks, arguments.megalith, family, folder)
            compare_trained(checks, arguments.megalith, family, folder)
        errors = [error for error in errors if error is not None]
        if errors:
            lines.append(summary(family, errors))
    print("\n".join(lines))
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
