#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Gradients of every family against PyTorch's of the family's own class.

A model of each family is made from a recipe, moved off its start by one step, so that biases and norms matter too, and
trained for a second step: with optimizer.beta1 = 0 the first moment that the checkpoint holds is the gradient of that step,
bit for bit. Put in the place of the weights it is exported as they are, so that names, places of rows and tied tables are
those of the class, which opens it. That class computes the gradients of the same samples at the same weights, in float64 and
in float32. An error is that of a layer (weight and bias together), over the norm of its gradient:

- the root mean square of all layers' errors is at most 1.5 times that of float32;
- every layer's error is within the bound that tests/golden/pytorch_test.cpp derives for GPT-2.

Samples, masks, spans and their order are worked out by objective_samples.py and objective_changes.py. Ends with a line per family.

    gradients_oracle.py --megalith build/release/megalith [FAMILY...]
"""
import copy
import hashlib
import json
import math
import pathlib
import struct
import sys
import tempfile

import numpy
import safetensors.numpy
import torch
import transformers

import crammed_model  # noqa: F401 (its classes are transformers' then)
from comparison import FAMILIES, Checks, model_arguments, run, train
from decoder_folders import BOUND, in_double
from objective_changes import both_sides, masked, span_counts
from objective_samples import LENGTH, SEED, Samples
from philox_draws import key_of, permuted

BATCH, VOCABULARY = 8, 131
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SPANS = {"rate": 0.4, "mean_length": 2.0}
SPAN_COUNTS = span_counts(*SPANS.values())
SENTINELS = [f"<extra_id_{i}>" for i in range(SPAN_COUNTS[2])]
SIZES = {"layers": 3, "hidden": 48, "heads": 4, "ffn": 56, "context": LENGTH, "vocab": VOCABULARY, "init_std": 0.1}
GROUPED = {"kv_heads": 2, "head_dim": 16}
LLAMA3 = {"rope": {"scaling": "llama3", "factor": 8.0, "original_context": 16}}
YARN = {"rope": {"scaling": "yarn", "factor": 4.0, "original_context": 16}}
FACTORS = {"short_factors": [1.0, 1.1, 1.3, 1.7, 1.9, 2.3], "long_factors": [1.0, 1.5, 2.5, 4.0, 5.0, 6.0]}

# What each has besides SIZES: the family's own layers, and some of what can be asked of them.
DECODERS = {
    "gpt2": {"plain": {}, "untied": {"tied": False}},
    "llama": {"groups, llama3": GROUPED | LLAMA3, "biases, tied": {"bias": True, "tied": True}},
    "gpt_neox": {"plain": {}, "serial, whole turns": {"parallel_block": False, "rope": {"dim": 12}, "tied": True}},
    "mistral": {"a window": GROUPED | {"window": 9}, "tied, yarn": {"tied": True, "kv_heads": 1, **YARN}},
    "qwen2": {"plain": {"kv_heads": 2}, "tied": GROUPED | {"tied": True}},
    "qwen3": {"plain": GROUPED, "tied": {"kv_heads": 1, "tied": True}},
    "gemma": {"plain": {"kv_heads": 2}, "untied": GROUPED | {"tied": False}},
    "gemma2": {"a window": GROUPED | {"window": 9}, "untied": {"window": 5, "kv_heads": 1, "tied": False}},
    "gemma3_text": {"a window": GROUPED | {"window": 9, "layers": 7}, "untied": {"kv_heads": 1, "window": 5, "layers": 6, "tied": False}},
    "phi3": {"a window": {"kv_heads": 2, "window": 9},
             "longrope, tied": {"tied": True, "rope": {"scaling": "longrope", "original_context": 16, **FACTORS}}},
    "olmo2": {"plain": {}, "groups, tied": {"kv_heads": 2, "tied": True}},
    "starcoder2": {"plain": {"kv_heads": 2}, "a window, untied": {"kv_heads": 1, "window": 9, "tied": False}},
}
ENCODERS = {
    "bert": {"plain": {}, "untied": {"tied": False}},
    "roberta": {"plain": {}, "untied": {"tied": False}},
    "albert": {"plain": {}, "untied": {"tied": False}},
    "modernbert": {"a window": {"window": 7, "layers": 4}, "untied": {"tied": False, "layers": 4, "window": 5}},
    "crammed": {"plain": {}, "learned positions, biases, no gates": {"position": "learned", "bias": True, "mlp": "plain"}},
}
GATED = {"mlp": "gated", "activation": "gelu_tanh"}
ENCODER_DECODERS = {
    "t5": {"1.0": {}, "1.0, untied": {"tied": False}, "1.1": GATED | {"tied": False},
           "1.1, tied, a longer decoder": GATED | {"decoder_layers": 4, "head_dim": 16}},
    "mt5": {"plain": {}, "a shorter decoder": {"decoder_layers": 2, "heads": 3}},
}
# A single number, whose gradient is a sum that may cancel, counts with the rows that it is added to, as biases do with weights.
BESIDE = {"encoder.embedding.pos_embedding": "encoder.embedding.word_embedding"}
OBJECTIVES = {"causal": DECODERS, "masked": ENCODERS, "spans": ENCODER_DECODERS}
CLASSES = {"causal": transformers.AutoModelForCausalLM, "masked": transformers.AutoModelForMaskedLM,
           "spans": transformers.AutoModelForSeq2SeqLM}


def special_tokens(objective):
    return ["<pad>", "</s>", *SENTINELS] if objective == "spans" else SPECIAL


def write_corpus(prefix, objective, batches=2):
    """One document of ordinary tokens, as megatron-core's IndexedDataset has it: so many batches and a token."""
    count = batches * BATCH * (SPAN_COUNTS[0] if objective == "spans" else LENGTH) + 1
    ids = numpy.random.default_rng(SEED).integers(len(special_tokens(objective)), VOCABULARY, count).astype("<u2")
    prefix.with_suffix(".bin").write_bytes(ids.tobytes())
    uint16 = 8
    prefix.with_suffix(".idx").write_bytes(b"MMIDIDX\0\0" + struct.pack("<QBQQiqqq", 1, uint16, 1, 2, count, 0, 0, 1))


def write_tokenizer(file, objective):
    """For its special tokens alone."""
    special = special_tokens(objective)
    names = special + [f"w{i}" for i in range(VOCABULARY - len(special))]
    added = [{"id": i, "content": name, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
             for i, name in enumerate(special)]
    file.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None, "decoder": {"type": "WordPiece", "prefix": "##",
                                                                                         "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": special[1], "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": {name: i for i, name in enumerate(names)}}}))


def spans_of(prefix, number):
    """(what the encoder reads, what the decoder reads, targets) of a sample in the order of training."""
    raw, names = SPAN_COUNTS[0], special_tokens("spans")
    tokens = numpy.fromfile(prefix.with_suffix(".bin"), dtype="<u2").astype(int).tolist()
    index = permuted(key_of(SEED, b"data order", 0, 0), (len(tokens) - 1) // raw, number)
    encoder, targets = both_sides(tokens[index * raw:(index + 1) * raw], key_of(SEED, b"spans", 0, 0, index), SPAN_COUNTS,
                                  [names.index(name) for name in SENTINELS], names.index("</s>"))
    return encoder, [names.index("<pad>"), *targets[:-1]], targets


def batch_of(prefix, objective):
    """(what the class is called with, targets) of the second step, each [BATCH, tokens]; -100 where nothing is predicted."""
    samples = Samples(prefix, b"masking", whole=False)
    rows = []
    for number in range(BATCH, 2 * BATCH):
        if objective == "spans":
            rows.append(spans_of(prefix, number))
            continue
        key, tokens = samples.of_training(number)
        if objective == "masked":
            rows.append(masked(tokens[:LENGTH], key, set(range(len(SPECIAL))), SPECIAL.index("[MASK]"),
                               list(range(len(SPECIAL), VOCABULARY)), lambda i: True))
        else:
            rows.append((tokens[:-1], tokens[1:]))
    *inputs, targets = (torch.tensor(part) for part in zip(*rows))
    return dict(zip(("input_ids", "decoder_input_ids"), inputs)), targets


def digest(data):
    return hashlib.sha256(data).hexdigest()


def write_gradients(step, folder):
    """A checkpoint whose weights are the first moments of another: docs/design/0003-checkpoint-format.md, version 1."""
    held = {}
    for file in step.glob("*.safetensors"):
        held |= safetensors.numpy.load_file(file)
    prefix = "adamw.m."
    gradients = {name.removeprefix(prefix): tensor for name, tensor in held.items() if name.startswith(prefix)}
    folder.mkdir()
    file = folder / "state-00001-of-00001.safetensors"
    safetensors.numpy.save_file(gradients, file)
    tensors = [{"name": name, "dtype": "f32", "shape": list(tensor.shape), "sha256": digest(tensor.tobytes()),
                "pieces": [{"file": file.name, "dim": 0, "begin": 0, "count": tensor.shape[0]}]}
               for name, tensor in sorted(gradients.items())]
    lines = "".join("\t".join([t["name"], t["dtype"], ",".join(map(str, t["shape"])), t["sha256"]]) + "\n" for t in tensors)
    manifest = json.loads((step / "manifest.json").read_text())
    files = [{"name": file.name, "bytes": file.stat().st_size, "sha256": digest(file.read_bytes())}]
    manifest |= {"format_version": 1, "files": files, "tensors": tensors, "state_sha256": digest(lines.encode())}
    text = json.dumps(manifest)
    (folder / "manifest.json").write_text(text)
    (folder / "COMMIT").write_text(digest(text.encode()) + "\n")


def gradients_of(model, inputs, targets):
    """By name, in float64; nothing of parameters that the class has and does not read."""
    model.zero_grad()
    logits = model(**inputs).logits
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten()).backward()
    return {name: weight.grad.double() for name, weight in model.named_parameters() if weight.grad is not None}


def path_roundings(model, stacks):
    """What tests/golden/pytorch_test.cpp counts, for the widest case here: norms of both kinds, heads that turn; of two stacks the
    layers of both, cross attention in the second's."""
    def chain(k):
        return math.sqrt(k / 2)

    sizes = SIZES | model
    head_dim = sizes.get("head_dim", sizes["hidden"] // sizes["heads"])
    core = head_dim * sizes["heads"]
    qkv = core + 2 * head_dim * sizes.get("kv_heads", sizes["heads"])
    norm, softmax, activation, residual, turn = 6, 6, 8, 1, 5
    attention = norm + residual + softmax + chain(sizes["hidden"]) + chain(head_dim)
    both = attention + turn + norm + residual + activation + chain(sizes["hidden"])
    forward = both + chain(core) + chain(sizes["ffn"]) + chain(LENGTH)
    backward = both + chain(sizes["ffn"]) + chain(qkv) + 2 * chain(LENGTH)
    head = 2 * norm + softmax + chain(sizes["hidden"]) + chain(VOCABULARY)
    cross = 2 * attention + chain(core) + chain(qkv) + 3 * chain(LENGTH)
    layers = sizes["layers"] * (forward + backward)
    if stacks == 2:
        layers += sizes.get("decoder_layers", sizes["layers"]) * (forward + backward + cross)
    return layers + head + chain(BATCH * LENGTH)


def norms_of(squares, beside):
    """{layer: norms of our error, of theirs and of the gradient} of sums of squares by parameter."""
    layers = {}
    for key, parts in squares.items():
        layer = key.rpartition(".")[0]
        layers.setdefault(beside.get(layer, layer), []).append(parts)
    return {layer: [math.sqrt(sum(part)) for part in zip(*tensors)] for layer, tensors in layers.items()}


def compare_model(checks, name, program, family, model, folder):
    objective = next(name for name, families in OBJECTIVES.items() if family in families)
    prefix, tokenizer = folder / "corpus", folder / "tokenizer.json"
    write_corpus(prefix, objective)
    write_tokenizer(tokenizer, objective)
    train(program, folder / "recipe.yaml", {
        "run": {"out": str(folder / "run"), "seed": SEED, "threads": 1},
        "model": {"family": family} | SIZES | model, "data": {"train": str(prefix), "tokenizer": str(tokenizer)},
        "train": {"objective": objective, "steps": 2, "global_batch": BATCH} | ({"spans": SPANS} if objective == "spans" else {}),
        "optimizer": {"lr": 0.01, "schedule": "constant", "beta1": 0.0, "weight_decay": 0.0, "clip": 0.0},
        "checkpoint": {"every": 1, "keep": 2}})
    first, second = (folder / f"run/checkpoints/step-0000000{step}" for step in (1, 2))
    write_gradients(second, folder / "gradients")
    run(program, "convert", "--from", first, "--to", folder / "model", "--format", "hf")
    run(program, "convert", "--from", folder / "gradients", "--to", folder / "exported", "--format", "hf")
    auto = CLASSES[objective]
    narrow = auto.from_pretrained(folder / "model", dtype=torch.float32).eval()
    exported, loading = auto.from_pretrained(folder / "exported", dtype=torch.float64, output_loading_info=True)
    ours = {key: weight.detach() for key, weight in exported.named_parameters() if key not in loading["missing_keys"]}
    wide = copy.deepcopy(narrow).double()
    inputs, targets = batch_of(prefix, objective)
    with in_double(wide):
        exact = gradients_of(wide, inputs, targets)
    theirs = gradients_of(narrow, inputs, targets)
    missing = exact.keys() - ours.keys()
    checks.expect(f"{name}: a gradient of every parameter", not missing, ", ".join(sorted(missing)) or f"{len(exact)} tensors")
    squares = {key: [float(tensor.square().sum()) for tensor in (ours[key] - exact[key], theirs[key] - exact[key], exact[key])]
               for key in sorted(exact.keys() - missing)}
    norms, apart = norms_of(squares, BESIDE), norms_of(squares, {})
    error, narrow_error = (math.sqrt(sum((norm[i] / norm[2])**2 for norm in norms.values()) / len(norms)) for i in (0, 1))
    checks.expect(f"{name}: errors of {len(norms)} layers", error <= BOUND * narrow_error,
                  f"rms {error:.2e}, float32 {narrow_error:.2e}, ratio {error / narrow_error:.2f}")
    worst = max(apart, key=lambda layer: apart[layer][0] / apart[layer][2])
    largest, bound = apart[worst][0] / apart[worst][2], path_roundings(model, 2 if objective == "spans" else 1) * 2.0**-24
    checks.expect(f"{name}: every layer within GPT-2's bound", largest <= bound,
                  f"{largest:.1e} of {bound:.1e} ({worst}; float32 {apart[worst][1] / apart[worst][2]:.1e})")
    return error, narrow_error, largest / bound


def main():
    arguments = model_arguments(__doc__, FAMILIES)
    checks, lines = Checks(), []
    families = DECODERS | ENCODERS | ENCODER_DECODERS
    for family in arguments.family or families:
        errors = []
        for kind, model in families[family].items():
            with tempfile.TemporaryDirectory() as folder:
                name = f"{family}, {kind}"
                try:
                    errors.append(compare_model(checks, name, arguments.megalith, family, model, pathlib.Path(folder)))
                except SystemExit as refusal:  # of the program, with its message
                    checks.expect(name, False, str(refusal))
        if errors:
            ours, theirs, _ = max(errors)
            lines.append(f"{family}: {len(errors)} models, largest error {ours:.2e} (transformers in float32 {theirs:.2e}), "
                         f"largest ratio {max(a / b for a, b, _ in errors):.2f}, worst layer {max(e[2] for e in errors):.2f} of its bound")
    print("\n".join(lines))
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
