# SPDX-License-Identifier: Apache-2.0
"""Which tokens each sample of a corpus has: of a fixed length, of whole documents packed, and of sentence pairs."""
import pathlib

import numpy

from philox_draws import WORD, key_of, permuted, philox
from sentence_rows import sentence_rows

SEED, LENGTH = 77, 48


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
