#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills without number: python3 kills_test.py PROGRAM [KILLS] [TEST]

Tiny runs are killed at random moments (start, steps, saves, rewinds, the last step), begun again, killed again, until
each has ended; then each must equal the run that nothing happened to. KILLS (1000 unless given) are made by each
test, and said. After every kill: no checkpoint is lost, and no more than checkpoint.every steps are done twice."""
import json
import random
import subprocess
import sys
import time
import unittest

from event_file import steps_of
from program import PROGRAM, RoadTest, pack_spiking_corpus

KILLS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1000


class Base(RoadTest):
    def setUp(self):
        self.draw = random.Random(11)
        self.kills = 0

    def command(self, out, *overrides):
        words = [word for o in (f"run.out={self.folder / out}", *overrides) for word in ("--set", o)]
        return [PROGRAM, "train", str(self.recipe), *words, "--json"]

    def whole(self, *overrides):
        """Makes the run "whole" that nothing happens to; its seconds."""
        begin = time.monotonic()
        subprocess.run(self.command("whole", *overrides), check=True, capture_output=True)
        return time.monotonic() - begin

    def killed(self, command, moment):
        """Starts the run and kills it when `moment(process)` returns. False when it had ended before."""
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        said = moment(process)
        process.kill()
        said += process.communicate()[1]
        self.assertIn(process.returncode, (0, -9), said)
        self.assertNotIn("passing over", said)  # every checkpoint that ever was is whole
        self.kills += process.returncode != 0
        return process.returncode != 0

    def at_random(self, seconds):
        """A moment of a start that takes `seconds` in all."""
        def moment(_):
            time.sleep(self.draw.uniform(0, 1.1 * seconds))
            return ""
        return moment

    def equals_whole(self, out):
        self.assertEqual(self.losses(out), self.losses("whole"))
        self.assertEqual(self.state(out), self.state("whole"))
        (events,) = (self.folder / out).glob("events.out.tfevents.*")
        self.assertEqual(steps_of(events, "lm loss"), [m["step"] for m in self.metrics("whole")])

    def newest(self, out):
        folder = self.folder / out / "checkpoints"
        names = [p.name for p in folder.glob("step-*")] if folder.exists() else []
        return max((int(name[5:]) for name in names), default=-1)

    def logged(self, out):
        path = self.folder / out / "metrics.jsonl"
        return len([line for line in path.read_bytes().split(b"\n")[:-1] if line]) if path.exists() else 0


class Kills(Base):
    def test_one_process(self):
        self.runs_are_whole()

    def test_ranks(self):
        self.runs_are_whole("--ranks", "4", "--set", "parallel.tensor=2", "--set", "parallel.pipeline=2")

    def runs_are_whole(self, *layout):
        runs = worst = 0
        seconds = self.whole()
        if layout:
            begin = time.monotonic()
            subprocess.run([*self.command("layout"), *layout], check=True, capture_output=True)
            seconds = time.monotonic() - begin
        while self.kills < KILLS:
            out, every, before = f"run-{runs}", self.draw.choice([1, 2, 3, 5]), -1
            runs += 1
            while self.killed([*self.command(out, f"checkpoint.every={every}"), *layout], self.at_random(seconds)):
                now = self.newest(out)
                self.assertGreaterEqual(now, before, "a checkpoint was lost")
                redone = self.logged(out) - max(now, 0)
                worst = max(worst, redone)
                self.assertLessEqual(redone, every)
                before = now
            self.equals_whole(out)
        self.assertGreaterEqual(self.kills, KILLS)
        print(f"{self.kills} kills in {runs} runs: 0 checkpoints lost, at most {worst} steps done twice")


class Rewinds(Base):
    """Kills of a run that goes back before its loss spikes: while it does, just after, and whenever."""

    def test_rewinds(self):
        recipe = (*pack_spiking_corpus(self.folder), "train.spike=rewind")
        seconds = self.whole(*recipe)
        self.assertGreater(self.guard("whole")["rewinds"], 0)
        runs = at_rewinds = 0
        while self.kills < KILLS:
            out, runs, more = f"run-{runs}", runs + 1, True
            while more:
                at_rewind = self.draw.random() < 0.5
                more = self.killed(self.command(out, *recipe), self.at_rewind if at_rewind else self.at_random(seconds))
                at_rewinds += at_rewind and more
            self.equals_whole(out)
            self.assertEqual(self.guard(out), self.guard("whole"))
        self.assertGreaterEqual(self.kills, KILLS)
        self.assertGreater(at_rewinds, KILLS // 10)
        print(f"{self.kills} kills in {runs} runs, {at_rewinds} of them at a rewind: every run as if nothing had been")

    def at_rewind(self, process):
        said = ""
        for line in process.stderr:
            said += line
            if "going back" in line:
                time.sleep(self.draw.uniform(0, 0.02))
                break
        return said

    def guard(self, out):
        newest = sorted((self.folder / out / "checkpoints").glob("step-*"))[-1]
        return json.loads((newest / "manifest.json").read_text())["state"]["guard"]


if __name__ == "__main__":
    unittest.main()
