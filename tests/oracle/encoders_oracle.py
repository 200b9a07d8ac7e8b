#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Folders of every family of encoders, in and out (families_oracle.py has the decoders).

In:       random models of awkward shapes, made by the family's own class: log probabilities of masked tokens, logits of
          classes of sequences and of tokens, of begins and ends of answers, numbers, and last hidden states; the root mean
          square error of each against float64 is at most 1.5 times that of transformers in float32
Out:      to a megalith folder and back: every tensor keeps its bits, the family's class opens it without a word, and its
          outputs are those of the first folder to the bit
Refused:  what a class can be asked for and has no code here is an error that names the key

Ends with a line per family: the largest error and the largest ratio of its models.

    encoders_oracle.py --megalith build/release/megalith [FAMILY...]
"""
import copy
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers

import crammed_model
from comparison import FAMILIES, Checks, model_arguments, run, summary
from decoder_folders import BOUND, VOCABULARY, in_double, tensors_of

SMALL = {"hidden_size": 40, "num_attention_heads": 4, "intermediate_size": 52, "max_position_embeddings": 64,
         "num_hidden_layers": 3}
MASK = 3
LABELS = {0: "no", 1: "perhaps", 2: "yes"}

# What each has besides a vocabulary of 131.
MODELS = {
    "bert": {
        "plain": SMALL,
        "odd heads, three types, tanh GELU": SMALL | {"hidden_size": 42, "num_attention_heads": 3, "type_vocab_size": 3,
                                                      "hidden_act": "gelu_pytorch_tanh"},
        "untied, norms that bite": SMALL | {"tie_word_embeddings": False, "layer_norm_eps": 0.03, "hidden_act": "relu"},
    },
    "roberta": {
        "untied": SMALL | {"tie_word_embeddings": False, "max_position_embeddings": 66},
        "plain": SMALL | {"type_vocab_size": 1, "max_position_embeddings": 66},
        "other padding, SiLU": SMALL | {"type_vocab_size": 2, "pad_token_id": 4, "hidden_act": "silu",
                                        "max_position_embeddings": 69},
    },
}
MODELS["modernbert"] = {
    "plain": SMALL | {"local_attention": 12, "num_hidden_layers": 4},
    "every bias, all global": SMALL | {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "classifier_bias": True,
                                       "layer_types": ["full_attention"] * 3, "classifier_activation": "silu"},
    "untied, pooled by the mean, types of layers": SMALL | {
        "tie_word_embeddings": False, "decoder_bias": False, "classifier_pooling": "mean", "local_attention": 7,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"], "hidden_activation": "gelu_pytorch_tanh",
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 500.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 100.0}}},
}
MODELS["albert"] = {
    "plain": SMALL | {"embedding_size": 24, "num_hidden_layers": 4, "hidden_act": "gelu_pytorch_tanh"},
    "two groups, untied": SMALL | {"embedding_size": 44, "num_hidden_layers": 5, "num_hidden_groups": 2, "hidden_act": "gelu",
                                   "tie_word_embeddings": False},
}
MODELS["crammed"] = {
    "plain": {},
    "every bias, a transform, learned positions": {
        "use_bias": True, "decoder_bias": True, "skip_head_transform": False, "nonlin": "SiLU", "attention": {"qkv_bias": True},
        "embedding": {"pos_embedding": "learned"}},
    "odd heads, no other norms, norms that bite": {
        "hidden_size": 42, "attention": {"num_attention_heads": 3}, "embedding": {"embedding_dim": 42, "normalization": False},
        "norm_eps": 0.03, "final_norm": False, "nonlin": "ReLUglu"},
    "no positions": {"embedding": {"pos_embedding": None}, "skip_head_transform": False},
}
REFUSED = {
    "bert": {"position_embedding_type": "relative_key", "is_decoder": True, "hidden_act": "mish",
             "architectures": ["BertForMultipleChoice"]},
    "roberta": {"position_embedding_type": "relative_key_query", "is_decoder": True, "hidden_act": "mish"},
    "albert": {"inner_group_num": 2, "is_decoder": True, "hidden_act": "mish"},
    "crammed": {"arch.nonlin": "Mishglu", "arch.norm": "RMSNorm", "arch.attention.rotary_embedding": True,
                "arch.embedding.pos_embedding": "sinusoidal", "architectures": ["ScriptableLMForSequenceClassification"]},
    "modernbert": {"classifier_pooling": "max", "hidden_activation": "mish", "layer_types": ["chunked_attention"] * 4},
}
# Biases that a class has and does not read where its projection is untied, and those that it reads.
UNREAD = {"cls.predictions.bias": "cls.predictions.decoder.bias", "lm_head.bias": "lm_head.decoder.bias",
          "predictions.bias": "predictions.decoder.bias"}
# What each kind of head is opened as, asked for, and gives for a line.
HEADS = {
    "masked": (transformers.AutoModelForMaskedLM, ["score", "--masked", "--mask-id", MASK], "logprobs"),
    "rows": (transformers.AutoModel, ["embed", "--pooling", "mean"], "embedding"),
    "first rows": (transformers.AutoModel, ["embed", "--pooling", "cls"], "embedding"),
    "classes": (transformers.AutoModelForSequenceClassification, ["classify"], "logits"),
    "a number": (transformers.AutoModelForSequenceClassification, ["classify"], "logits"),
    "classes of tokens": (transformers.AutoModelForTokenClassification, ["classify"], "logits"),
    "spans": (transformers.AutoModelForQuestionAnswering, ["classify"], "logits"),
}
OF_TOKENS = ("classes of tokens", "spans")
# Of the class's own heads all but these.
NO_HEADS = {"crammed": ("classes", "a number", "classes of tokens", "spans")}


def config_of(family, settings, head):
    if family == "crammed":
        return crammed_model.CrammedConfig(crammed_model.merged(crammed_model.ARCH, settings), pad_token_id=0)
    labels = {"classes": {"id2label": LABELS}, "classes of tokens": {"id2label": LABELS},
              "a number": {"num_labels": 1}}.get(head, {})
    return transformers.AutoConfig.for_model(family, **({
        "vocab_size": VOCABULARY, "initializer_range": 0.2, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
        | copy.deepcopy(settings) | labels))


def random_model(folder, config, auto):
    """Weights so large that positions, types and every part matter to the outputs."""
    torch.manual_seed(3)
    model = auto.from_config(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() == 1:  # biases and norms too, which start at 0 and 1
                weight.add_(torch.randn_like(weight) * 0.2)
        unread = [(name, weight) for name, weight in model.named_parameters() if name in UNREAD]
        for name, weight in unread:
            if UNREAD[name] in dict(model.named_parameters()):  # an untied projection has its own
                weight.copy_(model.get_parameter(UNREAD[name]))
    model.save_pretrained(folder)


def opened(folder, auto, dtype="auto"):
    model, loading = auto.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    faults = [key for key in ("missing_keys", "unexpected_keys", "mismatched_keys") if loading[key]]
    return copy.deepcopy(model).eval(), faults


def random_lines(config, count):
    """Without the padding token, which moves positions in some classes."""
    generator = torch.Generator().manual_seed(1)
    types = getattr(config, "type_vocab_size", 0)
    pad = config.pad_token_id
    lines = []
    for n in ([1, 2, 17, 40, 64, 64] * 20)[:count]:
        ids = [pad + 1 if i == pad else i for i in torch.randint(config.vocab_size, (n,), generator=generator).tolist()]
        line = {"ids": ids}
        if types > 1 and n > 2:
            line["type_ids"] = torch.randint(types, (n,), generator=generator).tolist()
        lines.append(line)
    return lines


def output_of(model, head, line):
    """What the program prints, flat, in the type of the model's weights."""
    ids = torch.tensor([line["ids"]])
    extra = {"token_type_ids": torch.tensor([line["type_ids"]])} if "type_ids" in line else {}
    with torch.no_grad():
        if head == "masked":
            n = ids.shape[1]
            masked = ids.repeat(n, 1)
            masked[range(n), range(n)] = MASK
            extra = {key: value.repeat(n, 1) for key, value in extra.items()}
            logits = model(masked, **extra).logits[range(n), range(n)]
            return torch.log_softmax(logits, -1).gather(1, ids[0][:, None])[:, 0].double()
        if head in ("rows", "first rows"):
            rows = model(ids, **extra).last_hidden_state[0]
            return (rows.mean(0) if head == "rows" else rows[0]).double()
        if head == "spans":
            said = model(ids, **extra)
            return torch.stack((said.start_logits[0], said.end_logits[0]), -1).flatten().double()
        return model(ids, **extra).logits[0].flatten().double()


def outputs_of(model, head, lines):
    return torch.cat([output_of(model, head, line) for line in lines])


def answers(program, checkpoint, head, lines, file):
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    _, (command, *options), key = HEADS[head]
    return run(program, "evaluate", command, "--checkpoint", checkpoint, "--input", file, "--threads", 1, *options), key


def ours(program, checkpoint, head, lines, file):
    found, key = answers(program, checkpoint, head, lines, file)
    return torch.cat([torch.tensor(answer[key], dtype=torch.float64).flatten() for answer in found])


def compare_labels(checks, name, program, folder, head, lines, file):
    found, _ = answers(program, folder, head, lines, file)
    wrong = 0
    for answer in found:
        logits = torch.tensor(answer["logits"])
        best = [LABELS[i] for i in logits.reshape(-1, len(LABELS)).argmax(-1).tolist()]
        wrong += answer["label"] != (best if head == "classes of tokens" else best[0])
    checks.expect(f"{name}: labels", wrong == 0, f"{len(found)} lines")


def compare_model(checks, name, program, config, head, folder):
    auto = HEADS[head][0]
    theirs, middle, back = folder / "theirs", folder / "middle", folder / "back"
    folder.mkdir()
    try:
        random_model(theirs, config, auto)
        lines, file = random_lines(config, 6 if head in ("masked", *OF_TOKENS) else 96), folder / "lines.jsonl"
        model, _ = opened(theirs, auto)
        double = copy.deepcopy(model).double()
        with in_double(double):
            true = outputs_of(double, head, lines)
        first = outputs_of(model, head, lines)
        found = ours(program, theirs, head, lines, file)
        error, narrow = (math.sqrt(float(((x - true) ** 2).mean())) for x in (found, first))
        checks.expect(f"{name}: {len(true)} numbers", error <= BOUND * narrow,
                      f"rms {error:.2e}, transformers in float32 {narrow:.2e}, ratio {error / narrow:.2f}")
        if head in ("classes", "classes of tokens"):
            compare_labels(checks, name, program, theirs, head, lines, file)
        run(program, "convert", "--from", theirs, "--to", middle, "--format", "megalith")
        run(program, "convert", "--from", middle, "--to", back, "--format", "hf")
        before, after = tensors_of(theirs), tensors_of(back)
        differ = [key for key in sorted(before.keys() | after.keys()) if before.get(key) != after.get(key)]
        checks.expect(f"{name}: there and back, to the bit", not differ, ", ".join(differ) or f"{len(after)} tensors")
        checks.expect(f"{name}: the megalith folder gives the same bits",
                      torch.equal(ours(program, middle, head, lines, file), found))
        again, faults = opened(back, auto)
        checks.expect(f"{name}: its class takes every tensor, and gives the same bits",
                      not faults and torch.equal(outputs_of(again, head, lines), first), ", ".join(faults))
        return error, narrow
    except SystemExit as refusal:  # of the program, with its message
        checks.expect(name, False, str(refusal))
        return None


def compare_refusals(checks, program, family, folder):
    random_model(folder / "refused", config_of(family, next(iter(MODELS[family].values())), "masked"),
                 transformers.AutoModelForMaskedLM)
    file = folder / "refused/config.json"
    config = json.loads(file.read_text())
    (folder / "ids.jsonl").write_text('{"ids": [1, 2]}\n')

    def refused(what, needed, *command):
        result = subprocess.run([program, "evaluate", *command, "--checkpoint", folder / "refused", "--input",
                                 folder / "ids.jsonl"], capture_output=True, text=True, check=False)
        checks.expect(f"{family}: {what} is refused by name", result.returncode == 2 and needed in result.stderr,
                      result.stderr.strip()[-100:])

    for key, value in REFUSED[family].items():
        change = value
        for part in reversed(key.split(".")):
            change = {part: change}
        file.write_text(json.dumps(crammed_model.merged(config, change)))
        refused(key, key, "score", "--masked", "--mask-id", str(MASK))
    file.write_text(json.dumps(config))
    refused("scoring the next token", "--masked", "score")
    refused("a class without a head for it", "language_model", "classify")


def compare_family(checks, program, family, folder):
    """[(rms of ours, rms of transformers in float32)]"""
    errors = []
    for number, (kind, settings) in enumerate(MODELS[family].items()):
        for head in HEADS:
            if head in NO_HEADS.get(family, ()):
                continue
            name = f"{family}, {kind}, {head}"
            errors.append(compare_model(checks, name, program, config_of(family, settings, head), head,
                                        folder / f"{number}-{head.replace(' ', '-')}"))
    compare_refusals(checks, program, family, folder)
    return [error for error in errors if error is not None]


def main():
    arguments = model_arguments(__doc__, FAMILIES)
    checks, lines = Checks(), []
    for family in arguments.family or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            errors = compare_family(checks, arguments.megalith, family, pathlib.Path(folder))
        if errors:
            lines.append(summary(family, errors))
    print("\n".join(lines))
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
