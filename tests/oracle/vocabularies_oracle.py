#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tokenizers in other files than tokenizer.json with the libraries that these belong to: SentencePiece models
(published ones, and trained here with every option), tiktoken's ranks, Mistral's tekken.json, and Unigram in a GGUF file.

Ids of whole texts and of 1 MB of hostile Unicode, and the texts of those ids, of shuffled and of random ones, must be
equal; also after `megalith tokenizer convert`, whose tokenizer.json Hugging Face must open.

    vocabularies_oracle.py --megalith build/release/megalith --text-dir ../shared/data/text --packages FOLDER

FOLDER has the packages llama-index-core, mistral-common, llama-models and dashscope as pip downloads them.
"""
import argparse
import base64
import json
import pathlib
import random
import sys
import tempfile
import zipfile

import sentencepiece
import tiktoken
from gguf import GGUFWriter
from mistral_common.tokens.tokenizers.base import SpecialTokenPolicy
from mistral_common.tokens.tokenizers.tekken import Tekkenizer
from tokenizer_oracle import Megalith, Report, every_code_point, hostile_text
from tokenizers import Tokenizer

# Kinds of models to train: what SentencePiece's trainer is told.
TRAINED = {
    "unigram": {},
    "unigram, bytes and users' pieces": dict(byte_fallback=True, user_defined_symbols=["the cat", "<|x|>", "\u4e2d\u6587", "ing"]),
    "unigram, case folded": dict(normalization_rule_name="nmt_nfkc_cf", control_symbols=["<2ja>"]),
    "unigram, spaces kept": dict(remove_extra_whitespaces=False, allow_whitespace_only_pieces=True, normalization_rule_name="identity"),
    "unigram, spaces behind": dict(treat_whitespace_as_suffix=True),
    "BPE": dict(model_type="bpe"),
    "BPE, bytes and users' pieces": dict(model_type="bpe", byte_fallback=True, user_defined_symbols=["the cat", "<|x|>", "\u4e2d\u6587", "ing"]),
    "BPE, nothing changed": dict(model_type="bpe", normalization_rule_name="identity", add_dummy_prefix=False, remove_extra_whitespaces=False,
                                 split_by_whitespace=False),
    "BPE, spaces behind": dict(model_type="bpe", treat_whitespace_as_suffix=True, normalization_rule_name="nfkc"),
    "characters": dict(model_type="char"),
}
TIKTOKEN = {
    "cl100k": ("llama_index/core/_static/tiktoken_cache/9b5ad71b2ce5302211f9c61530b329a4922fc6a4", "cl100k_base"),
    "o200k": ("llama_index/core/_static/tiktoken_cache/fb374d419588a4632f3f557e76b4b70aebbca790", "o200k_base"),
    "llama3": ("llama_models/llama3/tokenizer.model", None),
    "qwen2": ("dashscope/resources/qwen.tiktoken", None),
}
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


class Comparison:
    def __init__(self, program, folder, texts):
        self.report, self.megalith, self.folder = Report(), Megalith(program, folder), folder
        self.texts = {path.name: (path, path.read_bytes().decode()) for path in texts}

    def run(self, *arguments):
        return self.megalith.run(*arguments)

    def compare(self, name, arguments, encode, decode, decode_kept, size):
        """`decode` leaves special tokens out, `decode_kept` does not (None: the library has no such thing)."""
        converted = self.folder / "converted.json"
        self.run("convert", *arguments, "--output", converted)
        try:
            Tokenizer.from_file(str(converted))
            self.report.check(f"{name}: Hugging Face opens its tokenizer.json", True, True)
        except Exception as fault:  # whatever the library raises
            self.report.check(f"{name}: Hugging Face opens its tokenizer.json", str(fault)[:80], "")
        draw = random.Random(11)
        for label, (path, text) in self.texts.items():
            expected = encode(text)
            self.report.check(f"{name}, {label}: ids", self.run("encode", *arguments, "--input", path)["ids"], expected)
            self.report.check(f"{name}, {label}: ids after it was converted",
                              self.run("encode", "--tokenizer", converted, "--input", path)["ids"], expected)
            shuffled = expected[:20000]
            draw.shuffle(shuffled)
            anything = [draw.randrange(size) for _ in range(20000)]
            for kind, ids in (("", expected), (" of shuffled ids", shuffled), (" of any ids", anything)):
                file = self.folder / "ids.json"
                file.write_text(json.dumps(ids))
                if decode is not None:
                    self.report.check(f"{name}, {label}: text{kind}", self.run("decode", *arguments, "--input", file)["text"], decode(ids))
                if decode_kept is not None:
                    self.report.check(f"{name}, {label}: text{kind}, special kept",
                                      self.run("decode", *arguments, "--input", file, "--keep-special")["text"], decode_kept(ids))


def compare_sentencepiece(comparison, name, path):
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    comparison.compare(name, ("--tokenizer", path), model.encode, model.decode, None, model.vocab_size())
    return model


def train_sentencepiece(folder, number, text, options):
    prefix = folder / f"trained-{number}"
    kind = {"model_type": "unigram", "vocab_size": 4000, "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2, **options}
    if kind["model_type"] == "char":
        kind["vocab_size"] = 500
    sentencepiece.SentencePieceTrainer.train(input=str(text), model_prefix=str(prefix), **kind)
    return prefix.with_suffix(".model")


def bytes_field(message, number):
    """The field of a protocol buffer: the package's own reader asks for a newer runtime than tritonclient allows."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(message):
        key = varint()
        if key & 7 == 2:
            length = varint()
            at += length
            if key >> 3 == number:
                return message[at - length:at]
        elif key & 7 == 0:
            varint()
        else:
            at += 8 if key & 7 == 1 else 4
    raise LookupError(f"field {number}")


def compare_gguf_unigram(comparison, model, folder):
    """A trained Unigram model as llama.cpp's files carry T5's: special tokens are found in a text, and an end added."""
    path = folder / "unigram.gguf"
    writer = GGUFWriter(path, "t5")
    count = model.vocab_size()
    kinds = [2 if model.is_unknown(i) else 3 if model.is_control(i) else 1 for i in range(count)]
    writer.add_tokenizer_model("t5")
    writer.add_token_list([model.id_to_piece(i) for i in range(count)])
    writer.add_token_scores([model.get_score(i) for i in range(count)])
    writer.add_token_types(kinds)
    writer.add_unk_token_id(model.unk_id())
    writer.add_eos_token_id(model.eos_id())
    normalizer_spec = bytes_field(model.serialized_model_proto(), 3)
    writer.add_precompiled_charsmap(bytes_field(normalizer_spec, 2))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    for label, (file, text) in comparison.texts.items():
        if any(piece in text for piece in ("<unk>", "<s>", "</s>")):
            continue
        comparison.report.check(f"Unigram in a GGUF file, {label}: ids", comparison.run("encode", "--tokenizer", path, "--input", file)["ids"],
                                model.encode(text) + [model.eos_id()])


def encoding_of(pattern, path, published):
    lines = (line.split() for line in path.read_bytes().splitlines() if line)
    ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    if published is not None:
        from tiktoken_ext import openai_public
        openai_public.load_tiktoken_bpe = lambda *_, **__: ranks
        return tiktoken.Encoding(**getattr(openai_public, published)())
    count = len(ranks)
    if pattern == "llama3":
        first = ["begin_of_text", "end_of_text", "reserved_special_token_0", "reserved_special_token_1", "finetune_right_pad_id", "step_id",
                 "start_header_id", "end_header_id", "eom_id", "eot_id", "python_tag", "image"]
        names = [f"<|{n}|>" for n in first + [f"reserved_special_token_{i}" for i in range(2, 246)]]
        regex = LLAMA3
    else:
        names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205))]
        regex = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
    return tiktoken.Encoding(pattern, pat_str=regex, mergeable_ranks=ranks, special_tokens={n: count + i for i, n in enumerate(names)})


def compare_tiktoken(comparison, packages):
    for pattern, (place, published) in TIKTOKEN.items():
        path = packages / place
        encoding = encoding_of(pattern, path, published)
        known = sorted(set(encoding._mergeable_ranks.values()) | set(encoding._special_tokens.values()))
        gaps = len(known) != known[-1] + 1
        comparison.compare(f"tiktoken {pattern}", ("--tokenizer", path, "--pattern", pattern),
                           lambda text: encoding.encode(text, allowed_special="all"), None, encoding.decode,
                           len(encoding._mergeable_ranks) if gaps else known[-1] + 1)


def compare_tekken(comparison, path):
    model = Tekkenizer.from_file(path)
    comparison.compare(path.name, ("--tokenizer", path), lambda text: model.encode(text, bos=False, eos=False),
                       lambda ids: model.decode(ids, special_token_policy=SpecialTokenPolicy.IGNORE),
                       lambda ids: model.decode(ids, special_token_policy=SpecialTokenPolicy.KEEP), model.n_words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--text-dir", type=pathlib.Path, required=True, help="a folder of *.txt; the last one is trained on")
    parser.add_argument("--packages", type=pathlib.Path, required=True, help="a folder of *.whl")
    parser.add_argument("--hostile-bytes", type=int, default=1_000_000)
    parser.add_argument("--only", default="", help="a part of the names of what is compared")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        packages = folder / "packages"
        for wheel in sorted(arguments.packages.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(packages)
        hostile, every = folder / "hostile.txt", folder / "every.txt"
        hostile.write_bytes(hostile_text(arguments.hostile_bytes, seed=4).encode())
        every.write_bytes(every_code_point().encode())
        texts = sorted(arguments.text_dir.glob("*.txt"))
        comparison = Comparison(arguments.megalith, folder, [*texts, hostile, every])
        wanted = lambda name: arguments.only in name
        for path in sorted((packages / "mistral_common/data").glob("*.model*")):
            if wanted(path.name):
                compare_sentencepiece(comparison, path.name, path)
        for number, (name, options) in enumerate(TRAINED.items()):
            if not wanted(name):
                continue
            model = compare_sentencepiece(comparison, name, train_sentencepiece(folder, number, texts[-1], options))
            if name == "unigram":
                compare_gguf_unigram(comparison, model, folder)
        if wanted("tiktoken"):
            compare_tiktoken(comparison, packages)
        for path in sorted((packages / "mistral_common/data").glob("tekken_*.json")):
            if wanted(path.name):
                compare_tekken(comparison, path)
    print(f"{comparison.report.passed} passed, {comparison.report.failed} failed")
    sys.exit(comparison.report.failed > 0)


if __name__ == "__main__":
    main()
