#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Steps that are not finite and losses that spike: python3 guards_test.py PROGRAM"""
import json
import unittest

from program import RoadTest, pack_spiking_corpus, run

# Ranks, as threads: what guards a run decides alike on all of them.
RANKS = ("parallel.tensor=2", "parallel.pipeline=2")


class NotFinite(RoadTest):
    """A corpus with a stretch of end-of-document tokens, which carry no loss: steps of one sample that have none."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        text = cls.folder / "holes.txt"
        text.write_text("".join("the cat sees the dog.\n" * 20 + "<|endoftext|>" * 40 + "\n" for _ in range(6)))
        run("pack", "--tokenizer", cls.folder / "tokenizer.json", "--input", text, "--document", "file", "--output",
            cls.folder / "holes")
        cls.holes = (f"data.train={cls.folder / 'holes'}", "data.end_of_document_loss=false", "train.global_batch=1",
                     "train.micro_batch=1", "train.validate_every=0", "data.validation_fraction=0", "train.steps=60",
                     "train.spike=ignore")

    def test_stop(self):
        message = self.train("stop", *self.holes, "checkpoint.every=1", code=93)
        self.assertIn("first: the input: the loss weights", message)
        metrics = self.metrics("stop")
        self.assertIsNone(metrics[-1]["loss"])
        kept = sorted(p.name for p in (self.folder / "stop" / "checkpoints").iterdir())
        self.assertEqual(kept[-1], f"step-{metrics[-1]['step'] - 1:08}")
        # It would happen again, and says so again.
        again = self.train("stop", *self.holes, "checkpoint.every=1", code=93)
        self.assertEqual(again.splitlines()[-1], message.splitlines()[-1])
        ranks = self.train("stop", *self.holes, *RANKS, "checkpoint.every=1", code=93)
        self.assertIn(message.splitlines()[-1].removeprefix("megalith: ").split("; lower")[0] + " on rank", ranks)

    def test_skip_leaves_the_state_as_it_was_and_is_counted_over_resumes(self):
        skip = (*self.holes, "train.not_finite=skip", "train.not_finite_limit=50", "checkpoint.every=1", "checkpoint.keep=100")
        self.train("skip", *skip)
        metrics = self.metrics("skip")
        bad = [m["step"] for m in metrics if m["loss"] is None]
        self.assertGreater(len(bad), 3)
        self.assertEqual([m["step"] for m in metrics], list(range(1, 61)))
        digest = {}
        for folder in (self.folder / "skip" / "checkpoints").iterdir():
            digest[int(folder.name[5:])] = json.loads((folder / "manifest.json").read_text())["state_sha256"]
        for step in range(2, 61):
            self.assertEqual(digest[step] == digest[step - 1], step in bad, step)
        # Cut anywhere, the same.
        for steps in (bad[0] - 1, bad[0], bad[2] + 1, 60):
            self.train("cut", *skip, f"train.steps={steps}", "optimizer.schedule=constant")
        self.train("uncut", *skip, "optimizer.schedule=constant")
        self.same("cut", "uncut")
        self.train("ranks", *skip, *RANKS)
        self.same("ranks", "skip")
        self.assertIn("train.not_finite_limit", self.train("limit", *skip, "train.not_finite_limit=2", code=93))

    def test_a_rate_that_is_too_high_is_named(self):
        message = self.train("rate", "optimizer.lr=1000", "optimizer.weight_decay=1000000", "optimizer.warmup_steps=0", code=93)
        self.assertRegex(message, r"first: (weight|activation|gradient) \S+|is not finite after the update")


class Spikes(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data = pack_spiking_corpus(cls.folder)

    def test_rewind_leaves_the_samples_out_and_repeats_to_the_bit(self):
        self.train("ignore", *self.data, "train.spike=ignore")
        self.train("warn", *self.data, "train.spike=warn")
        self.assertEqual(self.losses("warn"), self.losses("ignore"))
        self.train("whole", *self.data, "train.spike=rewind")
        state = self.newest_state("whole")["guard"]
        self.assertGreater(state["rewinds"], 0)
        self.assertGreater(state["skipped_samples"], 0)
        self.assertEqual([m["step"] for m in self.metrics("whole")], list(range(1, 81)))
        self.assertEqual(self.metrics("whole")[-1]["samples"], 160 + state["skipped_samples"])
        self.assertLess(max(m["loss"] for m in self.metrics("whole")[20:]),
                        max(m["loss"] for m in self.metrics("ignore")[20:]))
        for steps in (3, 17, 18, 19, 33, 34, 52, 80):  # stops that are no regular checkpoints
            self.train("cut", *self.data, "train.spike=rewind", f"train.steps={steps}")
        self.same("cut", "whole")
        self.assertEqual(self.newest_state("cut")["guard"], state)
        self.train("ranks", *self.data, *RANKS, "train.spike=rewind")
        self.same("ranks", "whole")
        self.assertEqual(self.newest_state("ranks")["guard"], state)
        self.assertIn("train.spike_limit", self.train("limit", *self.data, "train.spike=rewind", "train.spike_limit=0", code=93))

    def test_rewinds_come_to_an_end(self):
        # A run that has a spike wherever it goes, many between two checkpoints.
        said = self.train("spikes", "train.spike=rewind", "train.spike_limit=3", "train.spike_window=8", "train.spike_factor=1",
                          "checkpoint.every=5", "train.steps=400", "optimizer.lr=3", "optimizer.schedule=constant", code=93)
        self.assertIn("rewound 3 times", said)


if __name__ == "__main__":
    unittest.main()
