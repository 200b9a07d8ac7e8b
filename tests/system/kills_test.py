#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Kills without number: python3 kills_test.py PROGRAM [KILLS] [TEST]

Tiny runs are killed at random moments, begun again, killed again, until each has ended; then each must equal the run that nothing
happened to. KILLS (1000 unless given) are made by each test, and said, with those before the first step, in a save and behind the
last step: of 200 and more some are each. After every kill: no checkpoint is lost, all that are there are whole, and no more than
checkpoint.every steps are done twice."""
import collections
import random
import subprocess
import sys
import time
import unittest

from event_file import steps_of
from program import RoadTest, ended, pack_spiking_corpus, run

KILLS = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdigit() else 1000


class Base(RoadTest):
    def setUp(self):
        self.draw = random.Random(11)
        self.kills = 0

    def timed(self, out, *overrides, layout=()):
        """The seconds of a run that nothing happens to."""
        begin = time.monotonic()
        ended([*self.command(out, *overrides), *layout], check=True)
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

    def until_it_ends(self, out, command, seconds, event=None):
        """Starts a run that takes `seconds` until it has ended, and kills it at any moment, or every other time when `event(process)`
        returns. Yields after each kill whether it was that."""
        def any_moment(_):
            time.sleep(self.draw.uniform(0, 1.1 * seconds))
            return ""

        best, in_vain = -1, 0
        while True:
            at_event = event is not None and self.draw.random() < 0.5
            if not self.killed(command, event if at_event else any_moment):
                return
            yield at_event
            self.checkpoints_are_whole(out)
            in_vain = 0 if self.newest(out) > best else in_vain + 1
            best = max(best, self.newest(out))
            if in_vain == 5:  # the machine has become slower
                seconds, in_vain = 1.5 * seconds, 0

    def checkpoints_are_whole(self, out):
        for folder in self.steps(out).values():
            run("generate", "--checkpoint", folder, "--prompt", "the", "--max-new-tokens", 1)

    def equals_whole(self, out):
        self.same(out, "whole")
        (events,) = (self.folder / out).glob("events.out.tfevents.*")
        self.assertEqual(steps_of(events, "lm loss"), [m["step"] for m in self.metrics("whole")])

    def steps(self, out):
        """The folders of checkpoints, by step."""
        return {int(path.name[5:]): path for path in (self.folder / out / "checkpoints").glob("step-*")}

    def newest(self, out):
        return max(self.steps(out), default=-1)


class Kills(Base):
    def test_one_process(self):
        self.runs_are_whole()

    def test_ranks(self):
        self.runs_are_whole("--ranks", "4", "--set", "parallel.tensor=2", "--set", "parallel.pipeline=2")

    def runs_are_whole(self, *layout):
        runs = worst = 0
        seconds = self.timed("whole")
        if layout:
            seconds = self.timed("layout", layout=layout)
        met = collections.Counter()
        while self.kills < KILLS:
            out, every, before = f"run-{runs}", self.draw.choice([1, 2, 3, 5]), -1
            runs += 1
            for _ in self.until_it_ends(out, [*self.command(out, f"checkpoint.every={every}"), *layout], seconds):
                now = self.newest(out)
                self.assertGreaterEqual(now, before, "a checkpoint was lost")
                redone = self.logged(out) - max(now, 0)
                worst = max(worst, redone)
                self.assertLessEqual(redone, every)
                before = now
                met.update(self.moments_of(out))
            self.equals_whole(out)
        self.assertGreaterEqual(self.kills, KILLS)
        print(f"{self.kills} kills in {runs} runs ({', '.join(f'{n} {what}' for what, n in met.items())}): 0 checkpoints lost, "
              f"at most {worst} steps done twice")
        if KILLS >= 200:  # else chance may leave one out
            for moment in ("before the first step", "in a save", "behind the last step"):
                self.assertGreater(met[moment], KILLS // 100, met)

    def moments_of(self, out):
        """What the run was doing when it was killed, by what it left."""
        if any((self.folder / out / "checkpoints").glob(".tmp-*/*")):
            yield "in a save"
        if self.logged(out) == 0:
            yield "before the first step"
        if self.logged(out) == self.logged("whole"):
            yield "behind the last step"


class Rewinds(Base):
    """Kills of a run that goes back before its loss spikes: while it does, just after, and whenever."""

    def test_rewinds(self):
        recipe = (*pack_spiking_corpus(self.folder), "train.spike=rewind")
        seconds = self.timed("whole", *recipe)
        self.assertGreater(self.newest_state("whole")["guard"]["rewinds"], 0)
        runs = at_rewinds = 0
        while self.kills < KILLS:
            out, runs = f"run-{runs}", runs + 1
            at_rewinds += sum(self.until_it_ends(out, self.command(out, *recipe), seconds, self.at_rewind))
            self.equals_whole(out)
            self.assertEqual(self.newest_state(out)["guard"], self.newest_state("whole")["guard"])
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


if __name__ == "__main__":
    unittest.main()
