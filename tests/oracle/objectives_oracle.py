#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training objectives, worked out once more from what docs/guide/objectives.md and the heads of src/objectives/*.h say of them.

The order of samples (objective_samples.py) and what is hidden, replaced and cut (objective_changes.py) are computed anew
from philox_draws.py; texts are encoded by Hugging Face tokenizers, losses computed by transformers in float64, by sequence:

masked   tokens and whole words of a WordPiece vocabulary, documents as sequences of their own, cut at the ends of samples
         or packed whole: the loss of the first step and a validation loss
pairs    sentence pairs beside hidden tokens, both kinds, and the two means: the same
spans    spans that are hidden behind sentinels, and a decoder that says them: the same
middle   fill-in-the-middle of a byte-level vocabulary: the same

One token more or less moves a loss by 1e-5 and more, float32 by 1e-8.

    objectives_oracle.py --megalith build/release/megalith --text FILE
"""
import argparse
import json
import pathlib
import sys
import tempfile

import numpy
import tokenizers
import torch
import transformers

from comparison import Checks, make_corpus, run, train
from objective_changes import both_sides, masked, rearranged, span_counts
from objective_samples import LENGTH, SEED, Pairs, Samples
from philox_draws import key_of, permuted

BOUND = 1e-7  # relative
BATCH, VALIDATED = 8, 14


def loss_of(model, sequences):
    """Mean over all targets but -100 of (ids, targets)."""
    total, count = 0.0, 0
    with torch.no_grad():
        for ids, targets in sequences:
            wanted = [t for t, target in enumerate(targets) if target != -100]
            if not wanted:
                continue
            logprobs = model(input_ids=torch.tensor([ids])).logits[0].log_softmax(-1)
            total -= sum(logprobs[t, targets[t]].item() for t in wanted)
            count += len(wanted)
    return total / count


def recipe_of(folder, prefix, tokenizer, model, train_section):
    data = {"train": str(prefix), "validation": str(prefix), "tokenizer": str(tokenizer)}
    return {"run": {"out": str(folder / "run"), "seed": SEED, "threads": 2},
            "model": model | {"layers": 2, "hidden": 32, "heads": 4, "context": LENGTH}, "data": data,
            # The rate is 0: the weights that are saved are those that the losses are of.
            "train": train_section | {"steps": 1, "global_batch": BATCH, "validate_every": 1, "validate_samples": VALIDATED},
            "optimizer": {"lr": 0.0, "schedule": "constant"}}


def compare(checks, name, program, folder, recipe, model_class, sequences_of):
    """`sequences_of` (key, tokens) of a sample: the (ids, targets) that its loss is of."""
    what = recipe.pop("what")
    [line] = train(program, folder / "recipe.json", recipe)
    run(program, "convert", "--from", folder / "run", "--to", folder / "model", "--format", "hf")
    model = model_class.from_pretrained(folder / "model", dtype=torch.float64).eval()
    samples = Samples(recipe["data"]["train"], what, recipe["data"].get("sequences") == "documents")
    for which, count, said, sample in (("step", BATCH, line["loss"], samples.of_training),
                                       ("validation", VALIDATED, line["validation_loss"], samples.of_validation)):
        ours = [pair for number in range(count) for pair in sequences_of(*sample(number))]
        expected = loss_of(model, ours)
        error = abs(said - expected) / expected
        checks.expect(f"{name}, {which}", error <= BOUND, f"{said:.9f}, error {error:.1e}")


NAMES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def wordpiece(text, folder):
    """A vocabulary of BERT's kind, in the folder's tokenizer.json."""
    trained = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    trained.normalizer, trained.pre_tokenizer = tokenizers.normalizers.BertNormalizer(), tokenizers.pre_tokenizers.BertPreTokenizer()
    trained.train([str(text)], tokenizers.trainers.WordPieceTrainer(vocab_size=700, special_tokens=NAMES, show_progress=False))
    trained.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    trained.decoder = tokenizers.decoders.WordPiece()
    trained.save(str(folder / "tokenizer.json"))
    return trained


def compare_masked(checks, program, text, folder):
    trained = wordpiece(text, folder)
    run(program, "pack", "--tokenizer", folder / "tokenizer.json", "--input", text, "--document", "line", "--special-tokens",
        "--output", folder / "corpus")
    special, end = set(range(len(NAMES))), 3
    ordinary = [i for i in range(trained.get_vocab_size()) if i not in special]
    for unit, begins in (("tokens", lambda i: True), ("whole words", lambda i: not trained.id_to_token(i).startswith("##"))):
        def sequences(key, tokens, begins=begins):
            ids, targets = masked(tokens[:LENGTH], key, special, NAMES.index("[MASK]"), ordinary, begins)
            ends = [t + 1 for t in range(LENGTH) if tokens[t] == end and t + 1 < LENGTH] + [LENGTH]
            for begin, stop in zip([0, *ends], ends):
                yield ids[begin:stop], targets[begin:stop]

        with tempfile.TemporaryDirectory(dir=folder) as inner:
            recipe = recipe_of(pathlib.Path(inner), folder / "corpus", folder / "tokenizer.json", {"family": "bert"},
                               {"objective": "masked", "masking": {"whole_words": unit != "tokens"}})
            recipe["data"] |= {"document_mask": True, "reset_positions": True}
            compare(checks, f"masked {unit}", program, pathlib.Path(inner), recipe | {"what": b"masking"},
                    transformers.BertForMaskedLM, sequences)

    def whole(key, pieces):
        ids, targets = masked([i for piece in pieces for i in piece[:-1]], key, special, NAMES.index("[MASK]"), ordinary,
                              lambda i: True)
        begin = 0
        for piece in pieces:
            stop = begin + len(piece) - 1
            yield ids[begin:stop], targets[begin:stop]
            begin = stop

    with tempfile.TemporaryDirectory(dir=folder) as inner:
        recipe = recipe_of(pathlib.Path(inner), folder / "corpus", folder / "tokenizer.json", {"family": "bert"},
                           {"objective": "masked"})
        recipe["data"] |= {"sequences": "documents"}
        compare(checks, "masked, whole documents", program, pathlib.Path(inner), recipe | {"what": b"masking"},
                transformers.BertForMaskedLM, whole)


def pair_losses(model, samples, hide):
    """(sum of both means, the second)."""
    tokens = count = pairs = 0
    with torch.no_grad():
        for key, pair, types, label, texts in samples:
            ids, targets = hide([*pair, *(i for text in texts for i in text)], key)
            begin = 0
            for length in (len(pair), *(len(text) for text in texts)):
                piece = slice(begin, begin + length)
                said = model(input_ids=torch.tensor([ids[piece]]),
                             token_type_ids=torch.tensor([types if begin == 0 else [0] * length]))
                if begin == 0:
                    pairs -= (said.sop_logits if "sop_logits" in said else said.seq_relationship_logits)[0].log_softmax(-1)[label].item()
                logprobs = said.prediction_logits[0].log_softmax(-1)
                for at, target in enumerate(targets[piece]):
                    if target != -100:
                        tokens -= logprobs[at, target].item()
                        count += 1
                begin += length
    return tokens / count + pairs / len(samples), pairs / len(samples)


def compare_pairs(checks, program, text, folder):
    trained = wordpiece(text, folder)
    special = set(range(len(NAMES)))
    ordinary = [i for i in range(trained.get_vocab_size()) if i not in special]
    lines = [line.strip() for line in text.read_text().splitlines() if line.strip()]
    rng = numpy.random.RandomState(5)
    with (folder / "sentences.txt").open("w") as out:  # documents of 1 to 9 lines
        for line in lines:
            out.write(line[:300] + ("\n\n" if rng.rand() < 0.2 else "\n"))
    run(program, "pack", "--tokenizer", folder / "tokenizer.json", "--input", folder / "sentences.txt", "--document", "paragraph",
        "--sentences", "--output", folder / "sentences")

    def hide(ids, key):
        return masked(ids, key, special, NAMES.index("[MASK]"), ordinary, lambda i: True)

    for kind, family, model_class in (("next", "bert", transformers.BertForPreTraining),
                                      ("order", "bert", transformers.BertForPreTraining),
                                      ("order", "albert", transformers.AlbertForPreTraining)):
        samples = Pairs(folder / "sentences", kind, NAMES.index("[CLS]"), NAMES.index("[SEP]"))
        with tempfile.TemporaryDirectory(dir=folder) as inner:
            inner = pathlib.Path(inner)
            recipe = recipe_of(inner, folder / "sentences", folder / "tokenizer.json", {"family": family},
                               {"objective": "masked", "sentence_pairs": kind})
            [line] = train(program, inner / "recipe.json", recipe)
            run(program, "convert", "--from", inner / "run", "--to", inner / "model", "--format", "hf")
            model = model_class.from_pretrained(inner / "model", dtype=torch.float64).eval()
            for which, count, keys, sample in (("step", BATCH, ("loss", "pair_loss"), samples.of_training),
                                               ("validation", VALIDATED, ("validation_loss", "validation_pair_loss"),
                                                samples.of_validation)):
                for key, expected in zip(keys, pair_losses(model, [sample(number) for number in range(count)], hide)):
                    error = abs(line[key] - expected) / expected
                    checks.expect(f"pairs {kind} of {family}, {which} {key}", error <= BOUND, f"{line[key]:.9f}, error {error:.1e}")


def compare_spans(checks, program, text, folder):
    prefix, plain = make_corpus(program, text, folder, 400)
    tokenizer = json.loads(plain.read_text())
    names = ["<pad>", *(f"<extra_id_{i}>" for i in range(9, -1, -1))]  # ids that descend, as T5's
    for n, name in enumerate(names):
        tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 400 + n, "content": name})
    (folder / "spans.json").write_text(json.dumps(tokenizer))
    sentinels, end = list(range(410, 400, -1)), tokenizer["added_tokens"][0]["id"]
    tokens = numpy.fromfile(f"{prefix}.bin", dtype="<u2").astype(int).tolist()
    for rate, mean in ((0.15, 3.0), (0.3, 2.5)):
        counts = span_counts(rate, mean)
        count = (len(tokens) - 1) // counts[0]
        with tempfile.TemporaryDirectory(dir=folder) as inner:
            inner = pathlib.Path(inner)
            recipe = recipe_of(inner, prefix, folder / "spans.json", {"family": "t5", "decoder_start": 400},
                               {"objective": "spans", "spans": {"rate": rate, "mean_length": mean}})
            [line] = train(program, inner / "recipe.json", recipe)
            run(program, "convert", "--from", inner / "run", "--to", inner / "model", "--format", "hf")
            model = transformers.T5ForConditionalGeneration.from_pretrained(inner / "model", dtype=torch.float64).eval()
            order = key_of(SEED, b"data order", 0, 0)
            for which, said, number, places, seed in (
                    ("step", line["loss"], BATCH, lambda n: permuted(order, count, n), SEED),
                    ("validation", line["validation_loss"], VALIDATED, lambda n: n, 0)):
                total = 0.0
                for n in range(number):
                    index = places(n)
                    sides = both_sides(tokens[index * counts[0]:(index + 1) * counts[0]],
                                       key_of(seed, b"spans", 0, 0, index), counts, sentinels, end)
                    ids, targets = map(torch.tensor, sides)
                    start = torch.tensor([names.index("<pad>") + 400])
                    with torch.no_grad():
                        logits = model(input_ids=ids[None], decoder_input_ids=torch.cat([start, targets[:-1]])[None]).logits[0]
                    total -= logits.log_softmax(-1)[torch.arange(len(targets)), targets].mean().item()
                error = abs(said - total / number) / said
                checks.expect(f"spans {rate} of {mean}, {which}", error <= BOUND, f"{said:.9f}, error {error:.1e}")


def compare_middle(checks, program, text, folder):
    prefix, plain = make_corpus(program, text, folder, 400)
    tokenizer = json.loads(plain.read_text())
    for n, name in enumerate(("<fim_prefix>", "<fim_middle>", "<fim_suffix>")):
        tokenizer["added_tokens"].append(tokenizer["added_tokens"][0] | {"id": 400 + n, "content": name})
    (folder / "middle.json").write_text(json.dumps(tokenizer))
    theirs = tokenizers.Tokenizer.from_file(str(folder / "middle.json"))

    def whole(key, pieces):
        for piece in pieces:
            yield piece[:-1], [-100 if i is None else i for i in piece[1:]]

    with tempfile.TemporaryDirectory(dir=folder) as inner:
        run(program, "pack", "--tokenizer", plain, "--input", text, "--document", "line", "--output", pathlib.Path(inner) / "lines")
        recipe = recipe_of(pathlib.Path(inner), pathlib.Path(inner) / "lines", plain, {"family": "llama"}, {})
        recipe["data"] |= {"sequences": "documents"}
        compare(checks, "causal, whole documents", program, pathlib.Path(inner), recipe | {"what": b"none"},
                transformers.LlamaForCausalLM, whole)
    for spm_rate in (0.0, 0.5):
        def sequences(key, tokens, spm_rate=spm_rate):
            tokens = rearranged(tokens, key, theirs, 0.8, spm_rate)
            yield tokens[:-1], tokens[1:]

        with tempfile.TemporaryDirectory(dir=folder) as inner:
            recipe = recipe_of(pathlib.Path(inner), prefix, folder / "middle.json", {"family": "llama"},
                               {"fim": {"rate": 0.8, "spm_rate": spm_rate}})
            compare(checks, f"middle, suffix first at {spm_rate}", program, pathlib.Path(inner),
                    recipe | {"what": b"fill in the middle"}, transformers.LlamaForCausalLM, sequences)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--megalith", required=True)
    parser.add_argument("--text", required=True)
    options = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    checks = Checks()
    with tempfile.TemporaryDirectory() as temporary:
        for name, compare_one in (("masked", compare_masked), ("pairs", compare_pairs), ("spans", compare_spans),
                                  ("middle", compare_middle)):
            folder = pathlib.Path(temporary) / name
            folder.mkdir()
            compare_one(checks, options.megalith, pathlib.Path(options.text), folder)
    return checks.exit_code()


if __name__ == "__main__":
    sys.exit(main())
