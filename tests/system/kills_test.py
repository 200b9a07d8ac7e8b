#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A thousand kills: python3 kills_test.py PROGRAM

Tiny runs are killed at random moments (start, steps, saves, the last step), begun again, killed again, until each has
ended; then each must equal the run that nothing happened to. After every kill: no checkpoint is lost, and no more
than checkpoint.every steps are done twice."""
import os
import random
import signal
import subprocess
import time
import unittest

from event_file import steps_of
from program import PROGRAM, RoadTest

KILLS = int(os.environ.get("MEGA_KILLS", "1000"))
STEPS = 12


class Kills(RoadTest):
    def command(self, out, every):
        return [PROGRAM, "train", str(self.recipe), "--set", f"run.out={self.folder / out}", "--set",
                f"checkpoint.every={every}", "--set", f"train.steps={STEPS}", "--json"]

    def newest(self, out):
        folder = self.folder / out / "checkpoints"
        names = [p.name for p in folder.glob("step-*")] if folder.exists() else []
        return max((int(name[5:]) for name in names), default=-1)

    def logged(self, out):
        path = self.folder / out / "metrics.jsonl"
        return len([line for line in path.read_bytes().split(b"\n")[:-1] if line]) if path.exists() else 0

    def test_kills(self):
        draw = random.Random(11)
        kills = runs = worst = 0
        begin = time.monotonic()
        subprocess.run(self.command("base", 3), check=True, capture_output=True)
        whole = time.monotonic() - begin
        base_losses, base_state = self.losses("base"), self.state("base")
        while kills < KILLS:
            out, every = f"run-{runs}", draw.choice([1, 2, 3, 5])
            runs += 1
            before = -1
            while True:
                process = subprocess.Popen(self.command(out, every), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                time.sleep(draw.uniform(0, 1.1 * whole))
                process.send_signal(signal.SIGKILL)
                error = process.communicate()[1].decode()
                if process.returncode == 0:
                    break
                self.assertEqual(process.returncode, -signal.SIGKILL, error)
                self.assertNotIn("passing over", error)  # every checkpoint that ever was is whole
                kills += 1
                now, done = self.newest(out), self.logged(out)
                self.assertGreaterEqual(now, before, "a checkpoint was lost")
                redone = done - max(now, 0)
                worst = max(worst, redone)
                self.assertLessEqual(redone, every)
                before = now
            self.assertEqual(self.losses(out), base_losses)
            self.assertEqual(self.state(out), base_state)
            (events,) = (self.folder / out).glob("events.out.tfevents.*")
            self.assertEqual(steps_of(events, "lm loss"), list(range(1, STEPS + 1)))
        print(f"{kills} kills in {runs} runs: 0 checkpoints lost, at most {worst} steps done twice")


if __name__ == "__main__":
    unittest.main()
