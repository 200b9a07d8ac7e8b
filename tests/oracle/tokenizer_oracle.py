#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares `megalith tokenizer` with Hugging Face `tokenizers`: ids, text and training, both ways.

Each text is encoded by both with (1) a tokenizer that megalith trained and (2) one that `tokenizers`
trained, with the GPT-2 and the Llama-3 split pattern; ids must be equal, and so must the text of
those ids, of shuffled ids (broken UTF-8) and of ids with special tokens kept. The vocabulary and
merges of (1) and (2), trained on the same text, must be equal too. The same of published files
(--data-dir), and of small ones that show what each component does (tokenizer_files.py), also on every
code point.

    tokenizer_oracle.py --megalith build/release/megalith --text-dir ../shared/data/text --data-dir ../shared/data
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import tokenizer_files
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
VOCABULARY = 4000


def hostile_text(size, seed):
    """Unicode from everywhere, with the patterns' turning points planted densely."""
    draw = random.Random(seed)
    spaces = "\t\n\x0b\x0c\r \x85\xa0\u1680\u2000\u2009\u2028\u2029\u202f\u205f\u3000"
    pieces = [
        lambda: "'" + draw.choice(["s", "S", "\u017f", "t", "T", "re", "Re", "VE", "ve", "m", "ll", "lL", "d", "x", "l", "r", ""]),
        lambda: "".join(draw.choice(spaces) for _ in range(draw.randint(1, 6))),
        lambda: " " * draw.randint(1, 9),
        lambda: draw.choice(["\r\n", "\n", "\n\n", "\r", " \n", "\n ", "\t\n "]) * draw.randint(1, 3),
        lambda: "".join(draw.choice("0123456789\u0660\u00b2\u2167\u096b") for _ in range(draw.randint(1, 8))),
        lambda: draw.choice(["the", " the", "Hello", "na\u00efve", "\u00e9t\u00e9", " stra\u00dfe", "caf\u0065\u0301"]),
        lambda: "".join(draw.choice("!?.,;:()[]{}<>|/\\@#$%^&*-_=+~`\"'") for _ in range(draw.randint(1, 5))),
        lambda: draw.choice(["<|endoftext|>", "<|endoftext|", "<|endof<|endoftext|>text|>", " <|endoftext|> "]),
        lambda: "".join(chr(draw.randint(0x4E00, 0x9FFF)) for _ in range(draw.randint(1, 12))),
        lambda: "".join(chr(draw.randint(0x400, 0x4FF)) for _ in range(draw.randint(1, 12))),
        lambda: "".join(chr(draw.randint(0x600, 0x6FF)) for _ in range(draw.randint(1, 8))),
        lambda: "".join(chr(draw.randint(0x1F300, 0x1FAFF)) for _ in range(draw.randint(1, 3))) + "\u200d\ufe0f",
        lambda: "".join(chr(draw.randint(0x300, 0x36F)) for _ in range(draw.randint(1, 4))),
        lambda: chr(draw.randint(0, 0x1F)),
        lambda: "a" * draw.randint(30, 200),
    ]

    def anywhere():
        while True:
            code = draw.randint(0, 0x10FFFF)
            if not 0xD800 <= code < 0xE000:
                return chr(code)

    pieces.append(lambda: "".join(anywhere() for _ in range(draw.randint(1, 4))))
    parts, length = [], 0
    while length < size:
        parts.append(draw.choice(pieces)())
        length += len(parts[-1].encode())
    return "".join(parts)


def peer_tokenizer(pattern):
    tokenizer = Tokenizer(models.BPE())
    if pattern == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel()
    return tokenizer


def train_peer(pattern, text):
    tokenizer = peer_tokenizer(pattern)
    tokenizer.train_from_iterator([text], trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, ours, theirs):
        if ours == theirs:
            self.passed += 1
            print(f"ok    {name}")
            return
        self.failed += 1
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        print(f"FAIL  {name}: lengths {len(ours)} and {len(theirs)}, first difference at {at}: "
              f"{ours[max(0, at - 3):at + 5]!r} against {theirs[max(0, at - 3):at + 5]!r}")


class Megalith:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def run(self, *arguments):
        done = subprocess.run([self.program, "tokenizer", *map(str, arguments), "--json"],
                              capture_output=True)
        if done.returncode != 0:
            sys.exit(f"megalith tokenizer {arguments[0]} failed ({done.returncode}): {done.stderr.decode()}")
        return json.loads(done.stdout)

    def train(self, text_file, pattern):
        output = self.folder / f"ours-{pattern}.json"
        self.run("train", "--input", text_file, "--vocab-size", VOCABULARY, "--output", output,
                 "--pattern", pattern)
        return output

    def encode(self, tokenizer_file, text_file):
        return self.run("encode", "--tokenizer", tokenizer_file, "--input", text_file)["ids"]

    def encode_pair(self, tokenizer_file, text_file, pair_file):
        done = self.run("encode", "--tokenizer", tokenizer_file, "--input", text_file, "--pair", pair_file)
        return list(zip(done["ids"], done["type_ids"]))

    def decode(self, tokenizer_file, ids, keep_special):
        ids_file = self.folder / "ids.json"
        ids_file.write_text(json.dumps({"ids": ids}))
        flags = ["--keep-special"] if keep_special else []
        return self.run("decode", "--tokenizer", tokenizer_file, "--input", ids_file, *flags)["text"]


def compare(report, megalith, tokenizer_file, label, text_files):
    peer = Tokenizer.from_file(str(tokenizer_file))
    draw = random.Random(7)
    for text_file in text_files:
        text = text_file.read_bytes().decode("utf-8")
        name = f"{label} {text_file.name}"
        theirs = peer.encode(text).ids
        report.check(f"{name}: ids", megalith.encode(tokenizer_file, text_file), theirs)
        shuffled = theirs[:20000]
        draw.shuffle(shuffled)
        for keep in (False, True):
            for kind, ids in (("text", theirs), ("text of shuffled ids", shuffled)):
                report.check(f"{name}: {kind}{', special kept' if keep else ''}",
                             megalith.decode(tokenizer_file, ids, keep),
                             peer.decode(ids, skip_special_tokens=not keep))


def every_code_point():
    """Each of the planes that have characters, between a letter and a space."""
    codes = [*range(0x20000), *range(0x2A6D0, 0x2A720), *range(0x2F800, 0x2FA20), *range(0xE0000, 0xE0200), 0x10FFFF]
    return "".join(f"a{chr(code)} " for code in codes if not 0xD800 <= code < 0xE000)


def compare_pair(report, megalith, tokenizer_file, name, text_files):
    encoding = Tokenizer.from_file(str(tokenizer_file)).encode(*(f.read_bytes().decode("utf-8") for f in text_files))
    report.check(f"{name}: a pair and its types", megalith.encode_pair(tokenizer_file, *text_files),
                 list(zip(encoding.ids, encoding.type_ids)))


def compare_published(report, megalith, data, text_files):
    for name, path, cases in tokenizer_files.published(data, megalith.folder):
        compare(report, megalith, path, f"{name}:", text_files)
        compare_pair(report, megalith, path, name, (text_files[0], text_files[-2]))
        case_file = megalith.folder / "case.txt"
        for i, (text, ids) in enumerate(cases or []):
            case_file.write_bytes(text.encode())
            report.check(f"{name}: case {i}", megalith.encode(path, case_file)[1:-1], ids)
        if name == "bert-bge":
            yield path


def compare_components(report, megalith, bert, text_files):
    path = megalith.folder / "component.json"
    for name, tokenizer in (*tokenizer_files.normalizer_files(), *tokenizer_files.pre_tokenizer_files()):
        tokenizer.save(str(path))
        for text_file in text_files:
            text = text_file.read_bytes().decode("utf-8")
            if name in tokenizer_files.ONIGURUMA:
                # Debian's Oniguruma has Unicode 14, the peer's 16: only what Python's tables (14) know is compared.
                text = "".join(c for c in text if unicodedata.category(c) != "Cn")
                text_file = megalith.folder / "known.txt"
                text_file.write_bytes(text.encode())
            report.check(f"{name}, {text_file.name}: ids", megalith.encode(path, text_file), tokenizer.encode(text).ids)
    draw = random.Random(3)
    for name, tokenizer in tokenizer_files.decoder_files():
        tokenizer.save(str(path))
        for length in (1, 2, 3, 20000):
            ids = [draw.randrange(tokenizer.get_vocab_size()) for _ in range(length)]
            report.check(f"decoder {name}, {length} ids", megalith.decode(path, ids, False), tokenizer.decode(ids))
    for file in bert:
        tokenizer = Tokenizer.from_file(str(file))
        for name, processor in tokenizer_files.processor_files(tokenizer.get_vocab()):
            changed = json.loads(tokenizer.to_str())
            changed["post_processor"] = processor and json.loads(processor.__getstate__())
            path.write_text(json.dumps(changed))
            compare_pair(report, megalith, path, name, text_files)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--text-dir", type=pathlib.Path, required=True,
                        help="a folder of *.txt; the last one is trained on")
    parser.add_argument("--data-dir", type=pathlib.Path, default=pathlib.Path("absent"),
                        help="a folder with tokenizers/ and models/ that were published")
    parser.add_argument("--hostile-bytes", type=int, default=1_000_000)
    arguments = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        hostile = folder / "hostile.txt"
        hostile.write_bytes(hostile_text(arguments.hostile_bytes, seed=1).encode("utf-8"))
        text_files = [*sorted(arguments.text_dir.glob("*.txt")), hostile]
        if len(text_files) < 2:
            sys.exit(f"{arguments.text_dir}: no *.txt in it")
        train_file = text_files[-2]
        megalith = Megalith(arguments.megalith, folder)
        every = folder / "every.txt"
        every.write_bytes(every_code_point().encode())
        bert = list(compare_published(report, megalith, arguments.data_dir, [*text_files, every]))
        less = folder / "less.txt"
        less.write_bytes(hostile_text(arguments.hostile_bytes // 5, seed=2).encode("utf-8"))
        compare_components(report, megalith, bert, (less, every))
        for pattern in ("gpt2", "llama3"):
            for source in (train_file, hostile):
                ours = megalith.train(source, pattern)
                peer = train_peer(pattern, source.read_bytes().decode("utf-8"))
                theirs = folder / f"theirs-{pattern}.json"
                peer.save(str(theirs))
                ours_model = json.loads(Tokenizer.from_file(str(ours)).to_str())["model"]
                theirs_model = json.loads(peer.to_str())["model"]
                for part in ("vocab", "merges"):
                    report.check(f"{pattern} trained on {source.name}: {part}",
                                 list(ours_model[part]), list(theirs_model[part]))
                compare(report, megalith, ours, f"{pattern}, our file, {source.stem}:", text_files)
                compare(report, megalith, theirs, f"{pattern}, their file, {source.stem}:", text_files)
    print(f"{report.passed} passed, {report.failed} failed")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
