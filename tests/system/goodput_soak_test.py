#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run that is killed at random for a minute or two, against `plan --goodput`: python3 goodput_soak_test.py PROGRAM

What a step, a save and a restart take is measured on a run that nothing happens to; the mean time between kills on the one that is
killed. The formula then says what part of the time was work that lasted: within 3 points of what was."""
import json
import random
import subprocess
import time
import unittest

from program import RoadTest, run_json

# A step of some milliseconds, a save each 100 of them, a kill each three seconds, 40 seconds of work.
EVERY, BETWEEN_KILLS, WORK = 100, 3.0, 40.0
SHAPE = (f"checkpoint.every={EVERY}", "checkpoint.async=false", "train.validate_every=0", "optimizer.schedule=constant")


class Soak(RoadTest):
    def buckets(self, out):
        return json.loads((self.folder / out / "run.json").read_text())["accounts"]["buckets"]

    def calibrate(self):
        """Seconds of a step with what is beside it, of a save, and from a kill to the next step."""
        self.train("calm", *SHAPE, "train.steps=1000")
        before, begin = self.buckets("calm"), time.monotonic()
        self.train("calm", *SHAPE, "train.steps=2000")
        resumed, after = time.monotonic() - begin, self.buckets("calm")
        of_steps = ("steps", "data_wait", "logging")
        in_steps, in_saves = (sum(after[name] - before[name] for name in names) for names in (of_steps, ("checkpoint",)))
        # Once as long a way from a kill as from a command: what of a resumed run is neither steps nor saves.
        return in_steps / 1000, in_saves / (1000 / EVERY), resumed - in_steps - in_saves

    def test_what_lasts_is_what_was_planned(self):
        draw = random.Random(5)
        step, save, restart = self.calibrate()
        steps = round(WORK / step / EVERY) * EVERY
        command = self.command("killed", *SHAPE, f"train.steps={steps}")
        begin, kills = time.monotonic(), 0
        failure = begin + draw.expovariate(1 / BETWEEN_KILLS)
        while True:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                self.assertEqual(process.wait(max(failure - time.monotonic(), 0.001)), 0)
                break
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
                failure += draw.expovariate(1 / BETWEEN_KILLS)
        taken = time.monotonic() - begin - restart  # a planned run begins at work
        lasted = steps * step / taken
        planned = run_json("plan", "--goodput", "--gpus", 1, "--days", steps * step / 86400, "--mtbf-hours", taken / kills / 3600,
                           "--save-seconds", save, "--restart-seconds", restart, "--interval-minutes", EVERY * step / 60)
        print(f"step {1e3 * step:.2f} ms, save {1e3 * save:.1f} ms, restart {restart:.3f} s, {kills} kills in {taken:.1f} s: "
              f"lasted {100 * lasted:.2f} %, planned {100 * planned['goodput']:.2f} %", flush=True)
        self.assertGreater(kills, 5)
        self.assertAlmostEqual(lasted, planned["goodput"], delta=0.03)


if __name__ == "__main__":
    unittest.main()
