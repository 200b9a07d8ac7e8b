#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`megalith pack` against megatron-core's IndexedDataset, both ways.

Ours read by theirs: every document of a packed corpus, read by IndexedDataset, equals the ids of
`megalith tokenizer encode` of that document plus the end-of-document id. Theirs read by ours: the
same documents written by IndexedDatasetBuilder give the same two files, byte for byte, so our reader
sees no difference between them. Documents of every kind: empty, one character, long, not English.

    indexed_oracle.py --megalith build/release/megalith --tokenizer tokenizer.json

Needs megatron-core, torch and numpy. Prints one line per check and ends with 1 if any failed.
"""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile


def run(program, *arguments):
    result = subprocess.run(
        [program, *map(str, arguments), "--json"], capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        sys.exit(f"{program} {' '.join(map(str, arguments))}: exit {result.returncode}: {result.stderr}")
    return json.loads(result.stdout)


def make_documents():
    """Texts of many lengths and scripts; the same ones on every run."""
    rng = random.Random(20240229)
    words = "the of and Straße naïve 東京 Привет 😀 x=1;\n \t 3.14 don't\r\n".split(" ")
    documents = ["a", "", "\n", " ", "ä" * 1000]
    for length in (1, 2, 3, 10, 100, 1000, 20000):
        documents += [" ".join(rng.choices(words, k=length)) for _ in range(5)]
    return documents


class Checks:
    def __init__(self):
        self.failed = 0

    def expect(self, name, good, detail=""):
        print(f"{'ok' if good else 'FAILED'}  {name}{'' if good else ': ' + detail}")
        self.failed += 0 if good else 1


def end_of_document_id(tokenizer_path):
    tokenizer = json.loads(pathlib.Path(tokenizer_path).read_text(encoding="utf-8"))
    ids = {token["content"]: token["id"] for token in tokenizer.get("added_tokens", [])}
    for name in ("<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>"):
        if name in ids:
            return ids[name]
    sys.exit(f"{tokenizer_path}: no end-of-document token")


def vocabulary_size(tokenizer_path):
    tokenizer = json.loads(pathlib.Path(tokenizer_path).read_text(encoding="utf-8"))
    ids = [token["id"] for token in tokenizer.get("added_tokens", [])]
    return max(ids + list(tokenizer["model"]["vocab"].values())) + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--megalith", required=True, help="the program")
    parser.add_argument("--tokenizer", required=True, help="a tokenizer.json")
    arguments = parser.parse_args()

    import numpy
    import torch
    from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder

    checks = Checks()
    documents = make_documents()
    end = end_of_document_id(arguments.tokenizer)
    vocabulary = vocabulary_size(arguments.tokenizer)
    with tempfile.TemporaryDirectory() as folder_name:
        folder = pathlib.Path(folder_name)
        lines = folder / "documents.jsonl"
        lines.write_text(
            "".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in documents),
            encoding="utf-8",
        )
        ours = folder / "ours"
        result = run(
            arguments.megalith, "pack", "--tokenizer", arguments.tokenizer, "--input", lines,
            "--output", ours,
        )
        expected = []
        for i, text in enumerate(documents):
            path = folder / f"{i}.txt"
            path.write_bytes(text.encode("utf-8"))
            encoded = run(
                arguments.megalith, "tokenizer", "encode", "--tokenizer", arguments.tokenizer,
                "--input", path,
            )
            expected.append(encoded["ids"] + [end])

        dataset = IndexedDataset(str(ours))
        checks.expect("documents", len(dataset) == len(documents) == result["documents"], str(result))
        checks.expect(
            "document indices",
            list(dataset.document_indices) == list(range(len(documents) + 1)),
        )
        checks.expect("tokens", int(dataset.sequence_lengths.sum()) == result["tokens"], str(result))
        for i, ids in enumerate(expected):
            checks.expect(f"document {i}", list(map(int, dataset[i])) == ids, repr(documents[i][:40]))

        theirs = folder / "theirs"
        dtype = DType.optimal_dtype(vocabulary)
        builder = IndexedDatasetBuilder(f"{theirs}.bin", dtype=dtype)
        for ids in expected:
            builder.add_document(torch.from_numpy(numpy.array(ids, dtype=numpy.int64)), [len(ids)])
        builder.finalize(f"{theirs}.idx")
        for suffix in (".bin", ".idx"):
            same = pathlib.Path(f"{ours}{suffix}").read_bytes() == pathlib.Path(
                f"{theirs}{suffix}"
            ).read_bytes()
            checks.expect(f"{suffix} byte for byte ({dtype.__name__})", same)
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
