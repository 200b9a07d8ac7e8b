# SPDX-License-Identifier: Apache-2.0
"""Encoding by tiktoken and Hugging Face tokenizers with the vocabulary of a tokenizer.json, MB/s; or training by Hugging
Face tokenizers. Prints JSON lines {"name", "value", "unit"}."""
import argparse
import json
import os
import re
import resource
import time

def say(name, value, unit):
    print(json.dumps({"name": name, "value": value, "unit": unit}), flush=True)


def bytes_of_characters():
    """GPT-2's printable stand-ins for bytes, turned round."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table = {chr(b): b for b in kept}
    table.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in kept)})
    return table


def lines_of(text):
    return re.split(r"(?<=\n)(?=\S)", text)


def encode(path, text, samples):
    import tiktoken
    import tokenizers
    data = open(text, encoding="utf-8", newline="").read()
    size = len(data.encode()) / 1e6
    table = bytes_of_characters()
    vocabulary = json.load(open(path))["model"]["vocab"]
    ranks = {bytes(table[c] for c in word): i for word, i in vocabulary.items() if all(c in table for c in word)}
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    ours = tokenizers.Tokenizer.from_file(path)
    rival = tiktoken.Encoding("rival", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    expected = ours.encode(data[:100000], add_special_tokens=False).ids
    # The libraries' fastest roads: the text whole, into a list (into an array takes half as long again); lines (no run of
    # blanks is parted, so the tokens stay), without places.
    roads = {"tiktoken": lambda lines: [rival.encode_ordinary("".join(lines))],
             "tokenizers": lambda lines: ours.encode_batch_fast(lines, add_special_tokens=False)}
    head = lines_of(data[:100000])
    if [i for ids in roads["tiktoken"](head) for i in ids] != expected or [i for e in roads["tokenizers"](head) for i in e.ids] != expected:
        raise SystemExit("tiktoken and tokenizers disagree: not the same work")
    lines = lines_of(data)
    for name, run in roads.items():
        for _ in range(samples):
            begin = time.monotonic()
            run(lines)
            say(f"{name}.encode", size / (time.monotonic() - begin), "MB/s")


def train(text, vocab_size):
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    begin = time.monotonic()
    tokenizer.train([text], trainer)
    say("tokenizers.train", time.monotonic() - begin, "s")
    say("tokenizers.train.peak_resident", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, "GiB")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("work", choices=("encode", "train"))
    p.add_argument("--tokenizer")
    p.add_argument("--input", required=True)
    p.add_argument("--vocab-size", type=int, default=32768)
    p.add_argument("--samples", type=int, default=5)
    p.add_argument("--threads", type=int, required=True, help="of tokenizers; tiktoken has one")
    a = p.parse_args()
    # Read when the library is loaded.
    os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = str(a.threads), "true"
    encode(a.tokenizer, a.input, a.samples) if a.work == "encode" else train(a.input, a.vocab_size)


if __name__ == "__main__":
    main()
