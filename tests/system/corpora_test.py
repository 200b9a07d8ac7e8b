#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged and enormous corpora under a run: python3 corpora_test.py PROGRAM

Which entry of an index is damaged in which way is the business of src/data/indexed_test.cpp; here: what a run says, and that it
reads no more of a corpus than it needs."""
import resource
import shutil
import struct
import unittest

from refusals import HUGE, MEMORY, Refusing


class Corpora(Refusing):
    def test_corpora(self):
        idx, binary = (self.folder / "corpus.idx").read_bytes(), (self.folder / "corpus.bin").read_bytes()
        header = struct.unpack_from("<QBQQ", idx, 9)
        bad = self.folder / "bad"

        def corpus(index, tokens, may_leave=()):
            self.put("bad.idx", index)
            self.put("bad.bin", tokens)
            self.refused("train", self.recipe, "--set", f"run.out={self.folder / 'x'}", "--set", f"data.train={bad}", codes=(3,), say=["bad."], may_leave=may_leave)
            shutil.rmtree(self.folder / "x", ignore_errors=True)

        for cut in (0, 8, 9, 17, 18, 26, 33, 34, 35, len(idx) // 2, len(idx) - 1):
            corpus(idx[:cut], binary)
        corpus(idx + b"\0", binary)
        corpus(idx, binary[:-1])
        corpus(idx, b"")
        corpus(idx, binary + b"\0\0")
        for offset, form, values in ((0, "<B", [0x4E]), (9, "<Q", [0, 2, 1 << 56]), (17, "<B", [0, 1, 2, 4, 5, 6, 7, 9, 255]), (18, "<Q", [header[2] + 1, 1 << 62, (1 << 64) - 1]),
                                     (26, "<Q", [0, header[3] + 1, 1 << 63])):
            for value in values:
                changed = bytearray(idx)
                struct.pack_into(form, changed, offset, value)
                corpus(bytes(changed), binary)
        # Ids beyond the vocabulary are met when they are read: the run has begun, and knows its corpus.
        corpus(idx, b"\xff\xff" * (len(binary) // 2), may_leave=(self.folder / "x", self.folder / "bad.fingerprint"))
        # The end of the training part is read from the middle of the index.
        sequences, documents = header[2], header[3] - 1
        first = documents - documents // 10  # that is held out
        lengths, pointers, indices = 34, 34 + 4 * sequences, 34 + 12 * sequences
        begin = struct.unpack_from("<q", idx, pointers + 8 * first)[0]
        for offset, form, values in ((lengths + 4 * (first - 1), "<i", [-1, 2**31 - 1]), (pointers + 8 * first, "<q", [begin - 2, begin + 1, 0, 2**63 - 1]),
                                     (indices + 8 * first, "<q", [first - 2, first + 2, 2**63 - 1])):
            for value in values:
                changed = bytearray(idx)
                struct.pack_into(form, changed, offset, value)
                corpus(bytes(changed), binary)
        empty = idx[:18] + struct.pack("<QQq", 0, 1, 0)
        corpus(empty, binary)
        self.put("bad.idx", empty)
        self.put("bad.bin", b"")
        self.refused("train", self.recipe, "--set", f"run.out={self.folder / 'x'}", "--set", f"data.train={bad}", say=[bad, "0 document"])
        for content in (self.put("bad.idx", idx), self.put("bad.bin", binary), self.folder / "bad.fingerprint"):
            content.unlink()

    def test_enormous_corpora(self):
        """A corpus may have any size: what is read of it is bounded. Two files that are not of one are refused."""
        idx, binary = (self.folder / "corpus.idx").read_bytes(), (self.folder / "corpus.bin").read_bytes()
        bad, out = self.folder / "enormous", self.folder / "x"
        options = (f"data.train={bad}", "data.validation_fraction=0", "train.validate_every=0", "train.steps=1")
        parts = self.folder / "enormous.idx", self.folder / "enormous.bin"

        def put(index, tokens):
            for path, (size, pieces) in zip(parts, (index, tokens)):
                with open(path, "wb") as file:
                    file.truncate(size)  # sparse
                    for offset, piece in pieces:
                        file.seek(offset)
                        file.write(piece)

        def loss_or_refusal(refused):
            if refused:
                self.refused(*self.command(out, *options)[1:-1], codes=(3,), say=["enormous."])
                return None
            self.train(out, *options)
            self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10, MEMORY)
            losses = self.losses(out)
            shutil.rmtree(out)
            return losses

        put((len(idx), [(0, idx)]), (len(binary), [(0, binary)]))
        small = loss_or_refusal(False)
        # 400 million empty documents before one that holds everything.
        count = 400_000_000
        ends = 34 + 12 * count
        index = (ends + 8 * (count + 1), [(0, idx[:18] + struct.pack("<QQ", count, count + 1)), (34 + 4 * (count - 1), struct.pack("<i", len(binary) // 2)),
                                          (ends + 8 * count, struct.pack("<q", count))])
        put(index, (len(binary), [(0, binary)]))
        self.assertEqual(loss_or_refusal(False), small)
        put((HUGE, [(0, idx)]), (len(binary), [(0, binary)]))
        loss_or_refusal(True)
        # Three documents, two of them of as many tokens as one may have.
        most = 2**31 - 1
        index = idx[:18] + struct.pack("<QQiiiqqqqqqq", 3, 4, most, most, HUGE // 2 - 2 * most, 0, 2 * most, 4 * most, 0, 1, 2, 3)
        put((len(index), [(0, index)]), (HUGE, []))
        loss_or_refusal(False)
        put((len(idx), [(0, idx)]), (HUGE, [(0, binary)]))
        loss_or_refusal(True)
        for path in parts:
            path.unlink()


if __name__ == "__main__":
    unittest.main()
