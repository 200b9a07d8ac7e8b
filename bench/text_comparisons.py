# SPDX-License-Identifier: Apache-2.0
"""Tokenizers and packing, beside tiktoken and tokenizers; and the texts that all comparisons take."""
import os
import random
import subprocess
import time

from record import ROOT


def text_of(r, size):
    """`size` bytes: WordNet's entries over and over, lines in another order each time."""
    path = r.work / f"text_{size}.txt"
    if not path.exists():
        lines = []
        for part in ("noun", "verb", "adj", "adv"):
            lines += subprocess.run(["awk", "-f", ROOT / "tools/wordnet_text.awk", f"/usr/share/wordnet/data.{part}"],
                                    capture_output=True, text=True, check=True).stdout.splitlines(keepends=True)
        order = random.Random(1)
        with open(path, "w") as file:
            left = size
            while left > 0:
                order.shuffle(lines)
                for line in lines:
                    file.write(line)
                    left -= len(line.encode())
                    if left <= 0:
                        break
    return path


def tokenizer_of(r):
    path = r.work / "tokenizer.json"
    if not path.exists():
        subprocess.run([r.megalith, "tokenizer", "train", "--input", text_of(r, r.size(12_000_000, 500_000)), "--vocab-size",
                        str(r.size(32768, 1024)), "--output", path], check=True, capture_output=True)
    return path


def tokenizer(r):
    """English; Unicode of many scripts; texts without one space, the worst case of pair merging, of one letter, of random
    ones and of repeated English: each beside random words."""
    order = random.Random(2)
    mixed = r.work / "mixed.txt"
    blocks = [(0x20, 0x7E), (0xA1, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x905, 0x939),
              (0x3041, 0x3096), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0x1F300, 0x1F5FF)]
    with open(mixed, "w", encoding="utf-8") as file:
        for _ in range(r.size(1_000_000, 5_000)):  # as much as of English
            low, high = order.choice(blocks)
            word = "".join(chr(order.randint(low, high)) for _ in range(order.randint(1, 9)))
            file.write(word + order.choice("       \n"))  # lines: what several threads divide
    size = r.size(4_000_000, 100_000)
    letters = b"abcdefghijklmnopqrstuvwxyz"
    english = text_of(r, r.size(12_000_000, 500_000))
    made = {"random": bytes(order.choice(letters + b"    \n") for _ in range(size)), "worst_one_letter": b"a" * size,
            "worst_random_letters": bytes(order.choice(letters) for _ in range(size)),
            "worst_english": bytes(b for b in english.read_bytes()[:2 * size] if b in letters)[:size]}
    for name, content in made.items():
        (r.work / f"{name}.txt").write_bytes(content)
    texts = {"english": english, "mixed": mixed}
    for name, path in texts.items():
        for _ in range(r.rounds):
            r.bench(f"tokenizer_{name}", "tokenizer", "--tokenizer", tokenizer_of(r), "--input", path)
            r.peer(f"tokenizer_{name}", "tokenizers_peers.py", "encode", "--tokenizer", tokenizer_of(r), "--input", path, "--samples",
                   r.size(3, 1), threads=1)
        ours = f"tokenizer_{name}.tokenizer.encode.1_threads"
        r.rate(f"encoding {name} against tiktoken", ours, f"tokenizer_{name}.tiktoken.encode")
        r.rate(f"encoding {name} against tokenizers", ours, f"tokenizer_{name}.tokenizers.encode")
        if r.threads > 1:
            r.note(f"=> encoding {name}: {r.threads} threads "
                   f"{r.median(f'tokenizer_{name}.tokenizer.encode.speedup'):.2f}x of one")
    for _ in range(r.rounds):
        for name in made:
            r.bench(f"tokenizer_{name}", "tokenizer", "--tokenizer", tokenizer_of(r), "--input", r.work / f"{name}.txt", threads=1)
    rates = {name: r.median(f"tokenizer_{name}.tokenizer.encode.1_threads") for name in made}
    if None in rates.values():
        r.note("=> worst texts: not all were measured")
        return
    slowest = min((name for name in made if name != "random"), key=rates.get)
    r.note(f"=> {slowest} takes {rates['random'] / rates[slowest]:.2f}x the time per byte of random words")


def tokenizer_models(r):
    """Each kind of model on one thread beside the library that its file belongs to."""
    small, text, size = text_of(r, r.size(4_000_000, 200_000)), text_of(r, r.size(12_000_000, 500_000)), r.size(8192, 500)
    for kind in ("wordpiece", "unigram"):
        subprocess.run([r.megalith, "tokenizer", "train", "--kind", kind, "--input", small, "--vocab-size", str(size), "--output", r.work / f"{kind}.json"],
                       check=True, capture_output=True)
    for file in ("sentencepiece-bpe.model", "sentencepiece-unigram.model", "cl100k.tiktoken"):
        r.peer("", "vocabulary_peers.py", "make", "--file", r.work / file, "--input", small, "--tokenizer", tokenizer_of(r), "--vocab-size", size)
    rivals = {"wordpiece.json": "tokenizers", "unigram.json": "tokenizers", "sentencepiece-bpe.model": "sentencepiece",
              "sentencepiece-unigram.model": "sentencepiece", "cl100k.tiktoken": "tiktoken"}
    for file, rival in rivals.items():
        if not (r.work / file).exists():
            r.note(f"=> {file}: the rival that makes it is not there")
            continue
        label = f"tokenizer_models.{file.split('.')[0]}"
        pattern = ("--pattern", "cl100k") if rival == "tiktoken" else ()
        for _ in range(r.rounds):
            r.bench(label, "tokenizer", "--tokenizer", r.work / file, *pattern, "--input", text, threads=1)
            r.peer(label, "vocabulary_peers.py", "encode", "--file", r.work / file, "--input", text, "--samples", r.size(5, 1), threads=1)
        r.rate(f"encoding by {file}, one thread", f"{label}.tokenizer.encode.1_threads", f"{label}.{rival}.encode")


def timed(r, name, command):
    """Seconds and peak resident memory of one of our commands."""
    r.say(command)
    before = time.monotonic()
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - before
    if status != 0:
        r.note(f"{name} ended with status {status}")
        r.failed.append(name)
        return
    r.add(f"{name}.seconds", [seconds], "s")
    r.add(f"{name}.peak_resident", [usage.ru_maxrss / 2**20], "GiB")


def tokenizer_training(r):
    text, vocab = text_of(r, r.size(100_000_000, 500_000)), r.size(32768, 1024)
    for _ in range(r.rounds):
        timed(r, "tokenizer_train", [r.megalith, "tokenizer", "train", "--input", text, "--vocab-size", vocab, "--output",
                                     r.work / "trained.json", "--threads", r.threads])
        r.peer("", "tokenizers_peers.py", "train", "--input", text, "--vocab-size", vocab)
    r.rate("tokenizer training, 100 MB", "tokenizer_train.seconds", "tokenizers.train", faster=False)
    r.rate("its memory", "tokenizer_train.peak_resident", "tokenizers.train.peak_resident", faster=False)


def pack(r):
    size = r.size(2_000_000_000, 1_000_000)
    text = text_of(r, size)
    for _ in range(r.rounds):
        r.bench("pack", "tokenizer", "--tokenizer", tokenizer_of(r), "--input", text_of(r, r.size(100_000_000, 500_000)))
        timed(r, "pack", [r.megalith, "pack", "--tokenizer", tokenizer_of(r), "--input", text, "--document", "line", "--output",
                          r.work / "packed", "--threads", r.threads])
    if r.median("pack.seconds") is None:
        return
    rate = size / 1e6 / r.median("pack.seconds")
    encode = r.median(f"pack.tokenizer.encode.{r.threads}_threads")
    r.note(f"=> pack of 2 GB: {rate:.1f} MB/s, {100 * rate / encode:.0f} % of encoding by {r.threads} threads, "
           f"{r.median('pack.peak_resident'):.2f} GiB resident at most")
    for suffix in ("bin", "idx"):
        (r.work / f"packed.{suffix}").unlink()
    text.unlink()


def corpus_of(r):
    if not (r.work / "corpus.bin").exists():
        subprocess.run([r.megalith, "pack", "--tokenizer", tokenizer_of(r), "--input", text_of(r, r.size(12_000_000, 500_000)),
                        "--document", "line", "--output", r.work / "corpus"], check=True, capture_output=True)
    return r.work / "corpus"
