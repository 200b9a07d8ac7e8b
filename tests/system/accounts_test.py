#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Where a run's time goes, on a disk that is slow at a chosen call and by a clock that jumps:
python3 accounts_test.py PROGRAM FILE_FAULTS CLOCK_JUMPS (the libraries of tests/faults, preloaded)"""
import json
import os
import pathlib
import signal
import sys
import unittest

CLOCK_JUMPS = str(pathlib.Path(sys.argv.pop(3)).resolve())
FILE_FAULTS = str(pathlib.Path(sys.argv.pop(2)).resolve())
from event_file import times_of  # noqa: E402
from program import ENDLESS, RoadTest, ended, pack_spiking_corpus, wait_for  # noqa: E402  (takes its own argument away)

LATE = 0.5
CONSTANT = "optimizer.schedule=constant"  # else a shorter run is another one


class Accounts(RoadTest):
    def preloaded(self, library, out, *overrides, **environment):
        result = ended(self.command(out, *overrides), env={**os.environ, "LD_PRELOAD": library, **environment})
        self.assertEqual(result.returncode, 0, result.stderr)

    def late(self, out, place, call, nth, *overrides):
        """Runs while the n-th `call` on `place` takes LATE seconds longer."""
        self.preloaded(FILE_FAULTS, out, *overrides, MEGA_FAULTS=f"{place}|{call}|+{int(1000 * LATE)}|{nth}")

    def buckets(self, out):
        accounts = json.loads((self.folder / out / "run.json").read_text())["accounts"]
        self.assertAlmostEqual(sum(accounts["buckets"].values()), accounts["wall_seconds"], delta=0.005 * accounts["wall_seconds"])
        self.assertGreaterEqual(min(accounts["buckets"].values()), 0)
        return accounts["buckets"]

    def state_file(self, out, step):
        return next((self.folder / out / "checkpoints" / f"step-{step:08}").glob("*.safetensors"))

    def test_a_slow_save_is_a_save(self):
        out = self.folder / "save"
        self.late("save", out / "checkpoints", "sync", 2, "checkpoint.async=false")
        self.assertGreater(self.buckets("save")["checkpoint"], LATE)

    def test_the_wait_for_a_slow_writer_is_part_of_the_stall(self):
        """Saved in the background, and the next step waits for it: the steps are far shorter than one fsync here."""
        out = self.folder / "stall"
        process = self.start("stall", *ENDLESS, "checkpoint.every=4",
                             env={**os.environ, "LD_PRELOAD": FILE_FAULTS, "MEGA_FAULTS": f"{out / 'checkpoints'}|sync|+{int(1000 * LATE)}|1+"})

        def recorded():
            try:
                return json.loads((out / "run.json").read_text()).get("checkpoint")
            except (OSError, ValueError):
                return None

        saved = wait_for(recorded, process)
        process.kill()
        said = process.communicate()[1]
        self.assertTrue(saved, said)
        self.assertGreater(recorded()["stall_seconds"], LATE)

    def test_reading_slower_than_training_is_a_wait_for_data(self):
        """Two samples for each step, a third of a second for each."""
        self.preloaded(FILE_FAULTS, "data", "train.steps=6", "train.global_batch=2", "train.micro_batch=1", "train.validate_every=0",
                       "checkpoint.every=0", MEGA_FAULTS=f"{self.folder / 'corpus.bin'}|read|+300|1+")
        self.assertGreater(self.buckets("data")["data_wait"], 0.3)

    def test_a_slow_load_is_a_load(self):
        self.train("load", "train.steps=4", CONSTANT)
        before = self.buckets("load")["load"]
        self.late("load", self.state_file("load", 4), "read", 2, "train.steps=8", CONSTANT)
        self.assertGreater(self.buckets("load")["load"] - before, LATE)

    def test_a_slow_way_back_is_a_load_and_its_steps_are_lost(self):
        recipe = (*pack_spiking_corpus(self.folder), "checkpoint.keep=100", "train.spike=rewind")
        self.train("rewind", *recipe)
        whole = self.buckets("rewind")
        self.assertGreater(whole["lost_steps"], 0)
        # The checkpoint from which on one rewind more is counted is the one after the first way back.
        counted = {}
        for folder in (self.folder / "rewind" / "checkpoints").glob("step-*"):
            state = json.loads((folder / "manifest.json").read_text())["state"]
            counted[state["step"]] = state["guard"]["rewinds"]
        back = max(step for step, rewinds in counted.items() if rewinds == 0)
        self.late("slow", self.folder / "slow" / "checkpoints" / f"step-{back:08}" / self.state_file("rewind", back).name, "read", 2, *recipe)
        self.assertEqual(self.losses("slow"), self.losses("rewind"))
        self.assertGreater(self.buckets("slow")["load"], LATE)

    def test_a_clock_that_jumps_by_a_day_does_no_harm(self):
        out = self.folder / "jumps"
        process = self.start("jumps", *ENDLESS, env={**os.environ, "LD_PRELOAD": CLOCK_JUMPS})
        saved = wait_for(lambda: any((out / "checkpoints").glob("step-*")), process)
        process.kill()
        said = process.communicate()[1]
        self.assertTrue(saved, said)
        self.assertEqual(process.returncode, -signal.SIGKILL, said)
        self.goes_on("jumps", lambda *run: self.preloaded(CLOCK_JUMPS, *run))
        (events,) = out.glob("events.out.tfevents.*")
        times = times_of(events)
        self.assertGreater(max(times) - min(times), 80000, "the clock did not jump")
        self.buckets("jumps")


if __name__ == "__main__":
    unittest.main()
