#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Training objectives, worked out once more from what docs/guide/objectives.md and the heads of src/objectives/*.h say of them.

The order of samples, what is hidden, replaced and cut (Philox4x32-10, its keys, the permutation of an epoch) are computed
here; texts are encoded by Hugging Face tokenizers and losses computed by transformers in float64, sequence by sequence:

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
import xxhash

from comparison import Checks, make_corpus, run, train
from sentence_rows import sentence_rows

BOUND = 1e-7  # relative
SEED, LENGTH, BATCH, VALIDATED = 77, 48, 8, 14
WORD = 1 << 32


def philox(key, low, high):
    x, k = [low % WORD, low >> 32, high % WORD, high >> 32], [key % WORD, key >> 32]
    for _ in range(10):
        p, q = 0xD2511F53 * x[0], 0xCD9E8D57 * x[2]
        x = [q >> 32 ^ x[1] ^ k[0], q % WORD, p >> 32 ^ x[3] ^ k[1], p % WORD]
        k = [(k[0] + 0x9E3779B9) % WORD, (k[1] + 0xBB67AE85) % WORD]
    return x


def low_half(block):
    return block[0] | block[1] << 32


def key_of(key, *parts):
    """A key of a name (bytes) or a number, of which further ones are made."""
    for part in parts:
        if isinstance(part, bytes):
            key = low_half(philox(key, xxhash.xxh3_64_intdigest(part), 0x6E616D65 << 32))
        else:
            key = low_half(philox(key, part, 0x76616C75 << 32))
    return key


def permuted(key, n, index):
    half = ((n - 1).bit_length() + 1) // 2
    while True:
        left, right = index >> half, index & (1 << half) - 1
        for number in range(8):
            mixed = low_half(philox(key, right, (0x7065726D << 32) + number)) & (1 << half) - 1
            left, right = right, left ^ mixed
        index = left << half | right
        if index < n:
            return index


def packed(parts, rows):
    """The (begin, end) of each row: the longest first, to the first row with room; then what is left, to those with most."""
    pieces = [(b, min(b + LENGTH, end)) for begin, end in parts for b in range(begin, end, LENGTH)]
    out, room, left = [[] for _ in range(rows)], [LENGTH] * rows, []

    def put(row, begin, end):
        out[row].append((begin, end))
        room[row] -= end - begin

    for begin, end in sorted(pieces, key=lambda piece: piece[0] - piece[1]):
        row = next((r for r in range(rows) if room[r] >= end - begin), None)
        if row is None:
            left.append((begin, end))
        else:
            put(row, begin, end)
    for begin, end in left:
        while begin < end:
            row = room.index(max(room))
            stop = min(end, begin + room[row])
            put(row, begin, stop)
            begin = stop
    return [sorted(row) for row in out]


class Samples:
    """(key, S + 1 tokens) of samples of a corpus: in the order of training, or of the file. `what` names the draws. Of whole
    documents a list of their tokens instead, each followed by its next one or None."""

    def __init__(self, prefix, what, whole):
        self.tokens = numpy.fromfile(f"{prefix}.bin", dtype="<u2").astype(int).tolist()
        self.count = (len(self.tokens) - 1) // LENGTH
        self.what, self.whole = what, whole
        index = pathlib.Path(f"{prefix}.idx").read_bytes()
        sequences = int.from_bytes(index[18:26], "little")
        self.ends = numpy.cumsum(numpy.frombuffer(index, "<i4", sequences, 34)).tolist()  # a document is a sequence

    def row(self, index):
        first = index - index % 64
        rows = min(64, self.count - first)
        low, high = first * LENGTH, (first + rows) * LENGTH
        parts = [(max(b, low), min(e, high)) for b, e in zip([0] + self.ends, self.ends) if max(b, low) < min(e, high)]
        ends = set(self.ends)
        return [self.tokens[b:e] + [None if e in ends else self.tokens[e]] for b, e in packed(parts, rows)[index - first]]

    def at(self, index, seed):
        key = key_of(seed, self.what, 0, 0, index)
        return key, self.row(index) if self.whole else self.tokens[index * LENGTH:(index + 1) * LENGTH + 1]

    def of_training(self, number):
        order = key_of(SEED, b"data order", 0, 0)
        return self.at(permuted(order, self.count, number), SEED)

    def of_validation(self, number):
        return self.at(number, 0)


def masked(ids, key, special, mask, ordinary, begins, rate=0.15, mask_share=0.8, random_share=0.1):
    """(ids, targets), -100 where nothing is predicted."""
    draws = [philox(key, t, 0) for t in range(len(ids))]
    left = sum(i not in special for i in ids)
    left = min(left, max(1, int(rate * left + 0.5)))
    longest, words, last = left, [], None
    for t, i in enumerate(ids):
        if i in special:
            last = None
        elif last is not None and not begins(i) and len(last) < longest:
            last.append(t)
        else:
            last = [t]
            words.append(last)
    out, targets = list(ids), [-100] * len(ids)
    for word in sorted(words, key=lambda w: (low_half(draws[w[0]]), w[0])):
        if len(word) > left:
            continue
        left -= len(word)
        for t in word:
            targets[t] = ids[t]
            if draws[t][2] < int(mask_share * WORD):
                out[t] = mask
            elif draws[t][2] < int((mask_share + random_share) * WORD):
                out[t] = ordinary[draws[t][3] * len(ordinary) >> 32]
    return out, targets


def byte_of():
    """GPT-2's alphabet of bytes, by character."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in kept]
    return {chr(b): b for b in kept} | {chr(256 + n): b for n, b in enumerate(others)}


def characters(text, spelled):
    """The bytes of each character of a text of tokens; a token with a part of one at either end is one itself."""
    alphabet = byte_of()
    pieces = [bytes(alphabet[c] for c in spelled(i)) for i in text]
    front = next((n for n, piece in enumerate(pieces) if piece[0] & 0xC0 != 0x80), len(pieces))
    for back in range(len(pieces), front - 1, -1):
        try:
            whole = b"".join(pieces[front:back]).decode()
            break
        except UnicodeDecodeError:
            pass
    return [*text[:front], *whole, *text[back:]]


def encoded(part, tokenizer):
    """Tokens of characters, those that are tokens already between them."""
    out, open_text = [], ""
    for character in [*part, None]:
        if isinstance(character, str):
            open_text += character
            continue
        out += tokenizer.encode(open_text, add_special_tokens=False).ids if open_text else []
        open_text = ""
        out += [] if character is None else [character]
    return out


def rearranged(tokens, key, tokenizer, rate, spm_rate):
    prefix, middle, suffix, end = (tokenizer.token_to_id(t) for t in ("<fim_prefix>", "<fim_middle>", "<fim_suffix>",
                                                                      "<|endoftext|>"))
    texts, out = [[]], []
    for token in tokens:
        texts[-1].append(token)
        if token == end:
            texts.append([])
    for number, text in enumerate(texts):
        ends = text[-1:] == [end]
        text = text[:-1] if ends else text
        draws = philox(key, number, 0)
        if text and draws[0] < int(rate * WORD):
            all_of_it = characters(text, tokenizer.id_to_token)
            cuts = sorted(d * (len(all_of_it) + 1) >> 32 for d in draws[2:])
            parts = [encoded(part, tokenizer) for part in (all_of_it[:cuts[0]], all_of_it[cuts[0]:cuts[1]], all_of_it[cuts[1]:])]
            changed = ([prefix, suffix, *parts[2], middle, *parts[0], *parts[1]] if draws[1] < int(spm_rate * WORD) else
                       [prefix, *parts[0], suffix, *parts[2], middle, *parts[1]])
            text = changed if len(changed) >= len(text) else text
        out += [*text, *([end] if ends else [])]
    return out[:len(tokens)]


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


class Pairs:
    """Samples of sentence pairs: (pair, types, label, texts behind it) of tokens not hidden yet, and the key of what is."""

    def __init__(self, prefix, kind, begin, separator):
        self.tokens = numpy.fromfile(f"{prefix}.bin", dtype="<u2").astype(int).tolist()
        index = pathlib.Path(f"{prefix}.idx").read_bytes()
        sequences, entries = (int.from_bytes(index[at:at + 8], "little") for at in (18, 26))
        self.lengths = numpy.frombuffer(index, "<i4", sequences, 34).tolist()
        self.begins = [0] + numpy.cumsum(self.lengths).tolist()
        self.documents = numpy.frombuffer(index, "<i8", entries, 34 + 12 * sequences).tolist()
        self.ends = {self.begins[d] for d in self.documents}
        self.kind, self.begin, self.separator = kind, begin, separator
        self.rows = {seed: sentence_rows(self.lengths, self.documents, LENGTH - 3, seed) for seed in (SEED, 0)}

    def at(self, index, seed):
        rows = self.rows[seed]
        begin, end, wanted, document = rows[index]
        key = key_of(seed, b"sentence pairs", 0, 0, index)
        draws = philox(key, 0, 0)
        parted = begin + 1 + (draws[0] * (end - begin - 1) >> 32)
        a, b = [self.begins[begin], self.begins[parted]], [self.begins[parted], self.begins[end]]
        label = int(draws[1] < WORD // 2)
        if label and self.kind == "order":
            a, b = b, a
        elif label:
            other = draws[2] * len(rows) >> 32
            while rows[other][3] == document:
                other = (other + 1) % len(rows)
            b = [self.begins[rows[other][0]], self.begins[rows[other][1]]]
        removed = 0
        while a[1] - a[0] + b[1] - b[0] > wanted:
            side = a if a[1] - a[0] > b[1] - b[0] else b
            if philox(key, removed // 4, 1)[removed % 4] < WORD // 2:
                side[0] += 1
            else:
                side[1] -= 1
            removed += 1
        pair = [self.begin, *self.tokens[a[0]:a[1]], self.separator, *self.tokens[b[0]:b[1]], self.separator]
        types = [0] * (a[1] - a[0] + 2) + [1] * (b[1] - b[0] + 1)
        texts, at = [], self.begins[end]
        for number in range(LENGTH - len(pair)):
            at %= len(self.tokens)
            if number == 0 or at in self.ends:
                texts.append([])
            texts[-1].append(self.tokens[at])
            at += 1
        return key_of(seed, b"masking", 0, 0, index), pair, types, label, texts

    def of_training(self, number):
        return self.at(permuted(key_of(SEED, b"data order", 0, 0), len(self.rows[SEED]), number), SEED)

    def of_validation(self, number):
        return self.at(number, 0)


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


def span_counts(rate, mean):
    """(tokens of the text, hidden ones, spans) of the longest text whose encoder's side has LENGTH tokens."""
    def of(raw):
        hidden = min(max(round(raw * rate), 1), raw - 1)
        return raw, hidden, max(1, round(hidden / mean))

    return max(counts for counts in map(of, range(2, 4 * LENGTH)) if counts[0] - counts[1] + counts[2] + 1 <= LENGTH)


def runs(key, word, tokens, parts):
    """Lengths of runs, cut at the gaps whose draws are smallest."""
    draws = [(block[word] | block[word + 1] << 32, gap) for gap in range(tokens - 1) for block in [philox(key, gap, 0)]]
    ends = sorted(gap + 1 for _, gap in sorted(draws)[:parts - 1]) + [tokens]
    return [end - begin for begin, end in zip([0, *ends], ends)]


def both_sides(text, key, counts, sentinels, end):
    """(what the encoder reads, what the decoder says)."""
    raw, hidden, spans = counts
    encoder, targets = [], []
    for kept, span, sentinel in zip(runs(key, 2, raw - hidden, spans), runs(key, 0, hidden, spans), sentinels):
        encoder += [*text[:kept], sentinel]
        targets += [sentinel, *text[kept:kept + span]]
        text = text[kept + span:]
    return [*encoder, end], [*targets, end]


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
