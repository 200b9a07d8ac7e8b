#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""GPT-2 folders of Hugging Face transformers, in and out.

In:   a random GPT2LMHeadModel saved by transformers is scored and continued by megalith: log
      probabilities within 1e-5 of transformers in float32, greedy ids and text equal
Out:  it is converted to a megalith folder and back: every tensor keeps its bits; and a model that
      megalith trained is converted for transformers: its logits within 1e-5 of ours

    transformers_oracle.py --megalith build/release/megalith --text FILE
"""
import json
import pathlib
import shutil
import sys
import tempfile

import safetensors.torch
import torch
import transformers
from tokenizers import Tokenizer

from comparison import TEXT, Checks, make_corpus, model_arguments, run, train

BOUND = 1e-5
VOCABULARY = 500
PROMPTS = ["The ", "a", "What is it that", " of the", "\n"]


def random_model(folder, tokenizer, tied, seed):
    """Larger weights than at a real start, so that greedy choices are clear and positions matter."""
    torch.manual_seed(seed)
    end = Tokenizer.from_file(str(tokenizer)).token_to_id("<|endoftext|>")
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=48, n_layer=3, n_head=4, initializer_range=0.08,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=end, eos_token_id=end, tie_word_embeddings=tied)
    model = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() == 1:  # biases and norms too, which start at 0 and 1
                weight.add_(torch.randn_like(weight) * 0.1)
    model.save_pretrained(folder)
    shutil.copy(tokenizer, folder / "tokenizer.json")
    return model


def logprobs_of(model, ids):
    """log p(ids[i + 1] | ids[..i]) by transformers, in the type of its weights."""
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1]
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids[1:])[:, None])[:, 0].tolist()


def compare_scores(checks, name, program, checkpoint, model, folder):
    """Many random contexts of every length, so that every id is a target somewhere."""
    generator = torch.Generator().manual_seed(1)
    lines = [torch.randint(VOCABULARY, (n,), generator=generator).tolist() for n in [2, 3, 17] + [64] * 30]
    file = folder / "ids.jsonl"
    file.write_text("".join(json.dumps({"ids": ids}) + "\n" for ids in lines))
    ours = [line["logprobs"] for line in run(program, "evaluate", "score", "--checkpoint", checkpoint, "--input", file)]
    theirs = [logprobs_of(model, ids) for ids in lines]
    worst = max(abs(a - b) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))
    exact = model.double()
    true = [logprobs_of(exact, ids) for ids in lines]
    model.float()
    error = max(abs(a - b) for x, y in zip(ours, true) for a, b in zip(x, y))
    their_error = max(abs(a - b) for x, y in zip(theirs, true) for a, b in zip(x, y))
    checks.expect(f"{name}: log probabilities", worst <= BOUND,
                  f"within {worst:.1e} of transformers in float32 (from float64: ours {error:.1e}, theirs {their_error:.1e})")


def compare_greedy(checks, name, program, checkpoint, model, tokenizer_file):
    tokenizer = Tokenizer.from_file(str(tokenizer_file))
    for prompt in PROMPTS:
        ours = run(program, "generate", "--checkpoint", checkpoint, "--prompt", prompt, "--max-new-tokens", 24,
                   "--temperature", 0)[0]
        ids = torch.tensor([tokenizer.encode(prompt).ids])
        with torch.no_grad():
            output = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=24, do_sample=False,
                                    pad_token_id=model.config.eos_token_id)
        theirs = [i for i in output[0, ids.shape[1]:].tolist() if i != model.config.eos_token_id]
        good = ours["ids"] == theirs and ours["text"] == tokenizer.decode(theirs)
        checks.expect(f"{name}: greedy text after {prompt!r}", good, repr(ours["text"])[:50])


def compare_round_trip(checks, name, program, theirs, folder):
    """To a megalith folder and back: the same tensors, to the bit."""
    run(program, "convert", "--from", theirs, "--to", folder / f"{name}-megalith", "--format", "megalith")
    back = folder / f"{name}-back"
    run(program, "convert", "--from", folder / f"{name}-megalith", "--to", back, "--format", "hf")
    before = safetensors.torch.load_file(theirs / "model.safetensors")
    after = safetensors.torch.load_file(back / "model.safetensors")
    same = before.keys() == after.keys() and all(torch.equal(before[key], after[key]) for key in before)
    checks.expect(f"{name}: there and back, to the bit", same, f"{len(after)} tensors")
    return back


def compare_trained(checks, program, text, folder):
    prefix, tokenizer = make_corpus(program, text, folder, VOCABULARY)
    out, foreign = folder / "run", folder / "trained-hf"
    train(program, folder / "recipe.yaml", {
        "run": {"out": str(out), "name": "trained"},
        "model": {"layers": 2, "hidden": 64, "heads": 4, "context": 64},
        "data": {"train": str(prefix), "tokenizer": str(tokenizer)},
        "train": {"steps": 60, "global_batch": 8, "micro_batch": 8},
        "optimizer": {"lr": 3e-3, "schedule": "cosine", "warmup_steps": 10},
    })
    run(program, "convert", "--from", out, "--to", foreign, "--format", "hf")
    model, loading = transformers.GPT2LMHeadModel.from_pretrained(foreign, output_loading_info=True)
    checks.expect("trained here: transformers loads every tensor",
                  not any(loading[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")))
    compare_scores(checks, "trained here, its run folder", program, out, model.eval(), folder)
    compare_scores(checks, "trained here, its Hugging Face folder", program, foreign, model, folder)
    compare_greedy(checks, "trained here", program, out, model, foreign / "tokenizer.json")
    ids = Tokenizer.from_file(str(foreign / "tokenizer.json")).encode("The candle burns.").ids
    loaded = transformers.AutoTokenizer.from_pretrained(foreign)("The candle burns.")["input_ids"]
    checks.expect("trained here: AutoTokenizer reads the folder", loaded == ids, f"{len(ids)} ids")


def main():
    arguments = model_arguments(__doc__, TEXT)
    checks = Checks()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        tokenizer = folder / "first.json"
        run(arguments.megalith, "tokenizer", "train", "--input", arguments.text, "--vocab-size", VOCABULARY,
            "--output", tokenizer)
        for kind, tied in (("tied", True), ("untied", False)):
            theirs = folder / kind
            model = random_model(theirs, tokenizer, tied, seed=3)
            compare_scores(checks, kind, arguments.megalith, theirs, model, folder)
            compare_greedy(checks, kind, arguments.megalith, theirs, model, tokenizer)
            back = compare_round_trip(checks, kind, arguments.megalith, theirs, folder)
            again = transformers.GPT2LMHeadModel.from_pretrained(back).eval()
            compare_scores(checks, f"{kind}, there and back", arguments.megalith, back, again, folder)
        compare_trained(checks, arguments.megalith, arguments.text, folder)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
