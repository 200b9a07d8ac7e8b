#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Beam search of decoders and encoder-decoders, compared with transformers' in float32: the texts, best first, and their scores.

Random models of several families; for each the product of beams, length penalty, early stopping, penalty of repetition and ban of repeated
runs, on prompts of several lengths, with end tokens that come often.

    beams_oracle.py --megalith build/release/megalith
"""
import argparse
import itertools
import json
import pathlib
import sys
import tempfile

import torch
import transformers

import decoder_folders
import t5_oracle
from comparison import Checks, run
from decoder_folders import VOCABULARY

ENDS = [1, 20, 40, 60, 80, 100, 120]
DECODERS = {
    "gpt2": {"n_layer": 2, "n_embd": 48, "n_head": 4, "n_positions": 128},
    "llama": {"num_hidden_layers": 2, "hidden_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 64,
              "max_position_embeddings": 128},
}
LENGTHS = [1, 5, 70]
NEW_TOKENS = 12


def make_model(folder, family):
    if family == "t5":
        t5_oracle.random_model(folder, family, t5_oracle.SMALL)
        model, _ = t5_oracle.opened(folder, family)
    else:
        config = transformers.AutoConfig.for_model(family, vocab_size=VOCABULARY, bos_token_id=2, eos_token_id=1, pad_token_id=0,
                                                   initializer_range=0.3, **DECODERS[family])
        decoder_folders.random_model(folder, config)
        model, _ = decoder_folders.opened(folder)
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text()) if file.exists() else {}
    file.write_text(json.dumps(settings | {"eos_token_id": ENDS, "pad_token_id": 0}))
    t5_oracle.write_tokenizer(folder)
    return model


def theirs(model, ids, beams, penalty, stopping, repetition, ngram):
    with torch.no_grad():
        found = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), max_new_tokens=NEW_TOKENS, num_beams=beams,
                               num_return_sequences=beams, do_sample=False, length_penalty=penalty, early_stopping=stopping,
                               repetition_penalty=repetition, no_repeat_ngram_size=ngram, eos_token_id=ENDS, pad_token_id=0,
                               return_dict_in_generate=True, output_scores=True)
    begun = 1 if model.config.is_encoder_decoder else len(ids)
    texts = []
    for row, score in zip(found.sequences.tolist(), found.sequences_scores.tolist()):
        text = list(itertools.takewhile(lambda i: i not in ENDS, row[begun:]))
        texts.append((text, score))
    return texts


def ours(program, folder, ids, beams, penalty, stopping, repetition, ngram):
    made = run(program, "generate", "--checkpoint", folder, "--prompt", " ".join(f"w{i}" for i in ids), "--max-new-tokens", NEW_TOKENS,
               "--beams", beams, "--best", beams, "--length-penalty", penalty, "--early-stopping", str(stopping).lower(),
               "--repetition-penalty", repetition, "--no-repeat-ngram", ngram, "--threads", 1)[0]
    return [(one["ids"], one["score"]) for one in [made, *made.get("others", [])]]


def compare(checks, program, family, folder):
    model = make_model(folder, family)
    generator = torch.Generator().manual_seed(6)
    wrong, texts, ended, far = [], 0, 0, 0.0
    for beams, penalty, stopping, (repetition, ngram), length in itertools.product(
            (2, 5), (0.0, 1.0, 2.0, -0.5), (True, False, "never"), ((1.0, 0), (1.3, 2)), LENGTHS):
        ids = torch.randint(2, VOCABULARY, (length,), generator=generator).tolist()
        settings = (beams, penalty, stopping, repetition, ngram)
        a, b = ours(program, folder, ids, *settings), theirs(model, ids, *settings)
        texts += len(b)
        ended += sum(len(text) < NEW_TOKENS for text, _ in b)
        if [text for text, _ in a] != [text for text, _ in b]:
            wrong.append(f"{settings} {length} tokens: {a} for {b}")
        else:
            far = max(far, *(abs(x - y) / max(1, abs(y)) for (_, x), (_, y) in zip(a, b)))
    checks.expect(f"{family}: texts and their order", not wrong, "; ".join(wrong[:3]) or f"{texts} texts, {ended} of them ended")
    checks.expect(f"{family}: scores", far < 1e-4, f"{far:.1e} away at most")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megalith", required=True, type=pathlib.Path)
    parser.add_argument("--family", choices=(*DECODERS, "t5"))
    arguments = parser.parse_args()
    checks = Checks()
    for family in (*DECODERS, "t5"):
        if arguments.family in (None, family):
            with tempfile.TemporaryDirectory() as folder:
                compare(checks, arguments.megalith, family, pathlib.Path(folder))
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
