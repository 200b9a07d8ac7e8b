#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One recipe, one result: python3 exactness_test.py PROGRAM"""
import json
import os
import signal
import unittest

from program import ENDLESS, PATIENCE, RoadTest, wait_for


class Exactness(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("base")

    def test_the_same_recipe_twice(self):
        self.train("twice")
        self.same("twice", "base")

    def test_threads_and_micro_batches(self):
        for overrides in (["run.threads=2"], ["run.threads=3"], ["train.micro_batch=1"], ["train.micro_batch=2", "run.threads=2"],
                          ["train.micro_batch=8"], ["memory.recompute=full"], ["memory.recompute=selective"]):
            out = "o-" + "-".join(overrides)
            self.train(out, *overrides)
            self.same(out, "base")

    def test_bf16_of_odd_lengths(self):
        """Pairs of the bf16 chain begin anew with every sequence, however sequences are spread."""
        bf16 = ("precision.parameters=bf16", "precision.compute=bf16", "model.context=15")
        self.train("bf16", *bf16)
        for overrides in (["run.threads=3"], ["train.micro_batch=1"], ["train.micro_batch=2"], ["memory.recompute=full"],
                          ["parallel.tensor=2"], ["parallel.pipeline=2", "train.micro_batch=1"]):
            out = "bf16-" + "-".join(overrides)
            self.train(out, *bf16, *overrides)
            self.same(out, "bf16")

    def test_another_seed_is_another_result(self):
        self.train("seed", "run.seed=2")
        self.assertNotEqual(self.state("seed"), self.state("base"))

    def test_stopped_after_every_step_and_resumed(self):
        for steps in range(1, 13):
            self.train("stopped", f"train.steps={steps}", "optimizer.schedule=constant", "train.epochs=-1")
        self.train("constant", "optimizer.schedule=constant")
        self.assertEqual([m[:2] for m in self.losses("stopped")], [m[:2] for m in self.losses("constant")])
        self.assertEqual(self.state("stopped"), self.state("constant"))

    def test_a_wish_to_stop_saves_and_resumes(self):
        process = self.start("wish", *ENDLESS)
        self.assertTrue(wait_for(lambda: self.logged("wish") > 0, process))
        process.send_signal(signal.SIGTERM)
        said = process.communicate(timeout=PATIENCE)[1]
        self.assertEqual(process.returncode, 143, said)
        self.goes_on("wish")

    def test_a_finished_run_does_nothing(self):
        before = {p: os.stat(p).st_mtime_ns for p in (self.folder / "base" / "checkpoints").rglob("*")}
        status = json.loads(self.train("base"))["status"]
        self.assertEqual(status, "already finished")
        self.assertEqual(before, {p: os.stat(p).st_mtime_ns for p in (self.folder / "base" / "checkpoints").rglob("*")})


if __name__ == "__main__":
    unittest.main()
