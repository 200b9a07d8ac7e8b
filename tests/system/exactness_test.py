#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One recipe, one result: python3 exactness_test.py PROGRAM"""
import json
import os
import signal
import subprocess
import time
import unittest

from program import PROGRAM, RoadTest


class Exactness(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train(cls, "base")

    def assert_same(self, out):
        self.assertEqual(self.losses(out), self.losses("base"))
        self.assertEqual(self.state(out), self.state("base"))

    def test_the_same_recipe_twice(self):
        self.train("twice")
        self.assert_same("twice")

    def test_threads_and_micro_batches(self):
        for overrides in (["run.threads=2"], ["run.threads=3"], ["train.micro_batch=1"], ["train.micro_batch=2", "run.threads=2"],
                          ["train.micro_batch=8"], ["memory.recompute=full"], ["memory.recompute=selective"]):
            out = "o-" + "-".join(overrides)
            self.train(out, *overrides)
            self.assert_same(out)

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
        out = self.folder / "wish"
        command = [PROGRAM, "train", str(self.recipe), "--set", f"run.out={out}", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (out / "metrics.jsonl").exists():
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        self.assertIn(process.wait(timeout=30), (0, 143))
        self.train("wish")
        self.assert_same("wish")

    def test_a_finished_run_does_nothing(self):
        before = {p: os.stat(p).st_mtime_ns for p in (self.folder / "base" / "checkpoints").rglob("*")}
        status = json.loads(self.train("base"))["status"]
        self.assertEqual(status, "already finished")
        self.assertEqual(before, {p: os.stat(p).st_mtime_ns for p in (self.folder / "base" / "checkpoints").rglob("*")})


if __name__ == "__main__":
    unittest.main()
