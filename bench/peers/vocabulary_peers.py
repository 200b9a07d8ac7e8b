# SPDX-License-Identifier: Apache-2.0
"""Encoding by the library that a tokenizer's file belongs to, MB/s: Hugging Face tokenizers (tokenizer.json), sentencepiece
(.model), tiktoken (ranks of cl100k's pattern). Or the making of the last two kinds of files. Prints JSON lines."""
import argparse
import base64
import json
import os
import time

from tokenizers_peers import bytes_of_characters, lines_of, say

CL100K = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""


def ranks_of(path):
    lines = (line.split() for line in open(path, "rb").read().splitlines() if line)
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def roads(path, text):
    """Each library's ways to encode a text, the fastest of which counts."""
    lines = lines_of(text)
    if path.endswith(".json"):
        import tokenizers
        tokenizer = tokenizers.Tokenizer.from_file(path)
        return {"tokenizers": [lambda: tokenizer.encode_batch_fast(lines, add_special_tokens=False)]}
    if path.endswith(".model"):
        import sentencepiece
        model = sentencepiece.SentencePieceProcessor(model_file=path)
        return {"sentencepiece": [lambda: model.encode(text), lambda: model.encode(lines, num_threads=1)]}
    import tiktoken
    encoding = tiktoken.Encoding("rival", pat_str=CL100K, mergeable_ranks=ranks_of(path), special_tokens={})
    return {"tiktoken": [lambda: encoding.encode_ordinary(text), lambda: [encoding.encode_ordinary(line) for line in lines]]}


def encode(path, file, samples):
    text = open(file, encoding="utf-8", newline="").read()
    size = len(text.encode()) / 1e6

    def seconds(run):
        begin = time.monotonic()
        run()
        return time.monotonic() - begin
    for name, ways in roads(path, text).items():
        best = min(ways, key=seconds)  # the first passes warm all of them
        for _ in range(samples):
            say(f"{name}.encode", size / seconds(best), "MB/s")


def make(path, file, tokenizer, vocab_size):
    if path.endswith(".tiktoken"):
        table = bytes_of_characters()
        tokens = (bytes(table[c] for c in word) for word in json.load(open(tokenizer))["model"]["vocab"]
                  if word != "<|endoftext|>" and all(c in table for c in word))
        with open(path, "wb") as out:
            for rank, token in enumerate(tokens):
                out.write(base64.b64encode(token) + b" %d\n" % rank)
        return
    import sentencepiece
    kind = "bpe" if path.endswith("bpe.model") else "unigram"
    sentencepiece.SentencePieceTrainer.train(input=file, model_prefix=path.removesuffix(".model"), model_type=kind, vocab_size=vocab_size,
                                             hard_vocab_limit=False, minloglevel=2)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("work", choices=("encode", "make"))
    p.add_argument("--file", required=True, help="the tokenizer")
    p.add_argument("--input", required=True)
    p.add_argument("--tokenizer", help="a tokenizer.json whose tokens become ranks")
    p.add_argument("--vocab-size", type=int, default=8192)
    p.add_argument("--samples", type=int, default=5)
    p.add_argument("--threads", type=int, required=True)
    a = p.parse_args()
    # Read when the library is loaded.
    os.environ["RAYON_NUM_THREADS"], os.environ["TOKENIZERS_PARALLELISM"] = str(a.threads), "true"
    encode(a.file, a.input, a.samples) if a.work == "encode" else make(a.file, a.input, a.tokenizer, a.vocab_size)


if __name__ == "__main__":
    main()
