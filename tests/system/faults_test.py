#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run on a disk that fails, hangs or is slow: python3 faults_test.py PROGRAM LIBRARY

LIBRARY is tests/faults/file_faults, preloaded: the n-th call of a kind below the checkpoints is another than it was."""
import errno
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

LIBRARY = str(pathlib.Path(sys.argv.pop(2)).resolve())
from program import ENDLESS, PATIENCE, RoadTest, ended, wait_for  # noqa: E402  (takes its own argument away)

# Of the second save, while a save has 7 to 12 of them.
SYNC_OF_THE_SECOND_SAVE = 13
# Of the validation corpus, behind what its fingerprint takes of it; a validation reads more.
READ_OF_THE_FIRST_VALIDATION = 6


class Disk(RoadTest):
    def faulty(self, place, call, what, nth):
        """The environment in which the n-th `call` below `place` does `what`."""
        return {**os.environ, "LD_PRELOAD": LIBRARY, "MEGA_FAULTS": f"{place}|{call}|{what}|{nth}"}

    def checkpoints(self, out):
        return self.folder / out / "checkpoints"

    def whole_checkpoints(self, out):
        return sorted(path.parent.name for path in self.checkpoints(out).glob("step-*/COMMIT"))


class SavesThatFail(Disk):
    """The run ends with exit 1 and one line that names the cause, keeps what was saved before, and goes on from there."""

    CONSTANT = "optimizer.schedule=constant"  # else a shorter run is another one

    FAULTS = (("write", errno.EIO), ("write", errno.ENOSPC), ("sync", errno.EIO), ("close", errno.EIO), ("rename", errno.EIO), ("open", errno.EMFILE))

    def test_the_run_ends_with_the_cause_and_goes_on_later(self):
        self.ends_and_goes_on(self.FAULTS)

    def test_and_so_do_all_its_ranks(self):
        self.ends_and_goes_on(self.FAULTS[:3], "parallel.tensor=2", "parallel.pipeline=2")

    def ends_and_goes_on(self, faults, *layout):
        kind = "-".join(layout)
        self.train(f"whole{kind}", self.CONSTANT)
        for call, error in faults:
            with self.subTest(call=call, error=errno.errorcode[error]):
                name = f"run-{call}-{error}{kind}"
                self.train(name, self.CONSTANT, "train.steps=4", *layout)  # a checkpoint to lose
                result = ended(self.command(name, self.CONSTANT, *layout), env=self.faulty(self.checkpoints(name), call, error, 6))
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
                lines = [line for line in result.stderr.splitlines() if line.startswith("megalith: ")]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn(os.strerror(error), lines[0])
                self.assertEqual(lines[0].count("saving step"), 1, lines[0])
                if layout:
                    self.assertRegex(lines[0], r"^megalith: rank \d on \S+ failed in step \d+ after calling \w+ '.*' of group 'saving': ")
                self.assertIn("step-00000004", self.whole_checkpoints(name))
                self.train(name, self.CONSTANT, *layout)
                self.same(name, f"whole{kind}")

    def test_a_disk_that_is_full_for_the_files_beside_the_checkpoints(self):
        self.train("whole", self.CONSTANT)
        for what in ("metrics.jsonl", "events.*", "run.json"):
            with self.subTest(what=what):
                name = f"full-{what[:3]}"
                self.train(name, self.CONSTANT, "train.steps=4")
                # The second line; of what is written whole the third: lock, recipe.yaml, run.json.
                place, nth = (self.folder / name, 3) if what == "run.json" else (next((self.folder / name).glob(what)), 2)
                result = ended(self.command(name, self.CONSTANT), env=self.faulty(place, "write", errno.ENOSPC, nth))
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
                lines = [line for line in result.stderr.splitlines() if line.startswith("megalith: ")]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertTrue(lines[0].startswith(f"megalith: {place}"), lines[0])
                self.assertRegex(lines[0], r": No space left on device: \d+ bytes more do not fit; make room$")
                self.assertEqual(self.whole_checkpoints(name), ["step-00000004"])
                self.train(name, self.CONSTANT)
                self.same(name, "whole")


class RanksThatHang(Disk):
    """Ranks that are threads: one that never comes back cannot keep the others, or the process."""

    # More than healthy ranks keep each other waiting; without saves, for which a disk may need its time.
    DEADLINE = 10

    def test_a_rank_that_hangs_outside_of_its_calls_is_named_and_ends_all(self):
        self.train("hangs", *ENDLESS, "train.steps=4", "parallel.tensor=2")
        overrides = (*ENDLESS, "parallel.tensor=2", "checkpoint.every=0", f"parallel.deadline_seconds={self.DEADLINE}")
        begin = time.monotonic()
        result = ended(self.command("hangs", *overrides), env=self.faulty(self.folder / "corpus.bin", "read", "hang", 150))
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertLess(time.monotonic() - begin, PATIENCE / 2)
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("megalith: ")]
        self.assertRegex(line, rf"rank (\d) on \S+ in step \d+, \w+ '.*' .*: waited {self.DEADLINE} s, the deadline; "
                               rf"rank (\d) has not started it, its last call was .*; "
                               rf"rank \2 has not ended {self.DEADLINE} s later, its last call was \w+ '.*'; the process ends all the same$")
        self.goes_on("hangs")


class SlowDisks(Disk):
    """Signals at moments that a disk makes last."""

    def test_the_second_signal_leaves_at_once_and_harms_nothing(self):
        """Whichever two they are and whatever the run does, here while its disk hangs: else the first might do."""
        for part in ("bin", "idx"):
            shutil.copy(self.folder / f"corpus.{part}", self.folder / f"held.{part}")
        recipe = (*ENDLESS, "checkpoint.every=1", f"data.validation={self.folder / 'held'}", "data.validation_fraction=0", "train.validate_every=2")
        self.train("whole", *recipe, "train.steps=6")
        self.train("load", *recipe, "train.steps=2")
        (state,) = self.checkpoints("load").glob("step-00000002/*.safetensors")
        index, held = self.folder / "corpus.idx", self.folder / "held.bin"
        for out, first, second, fault, reached in (
                ("index", signal.SIGINT, signal.SIGTERM, (index, "read", "hang", 2), lambda process: self.has_open(process, index)),
                ("load", signal.SIGTERM, signal.SIGINT, (state, "read", "hang", 2), lambda process: self.has_open(process, state)),
                ("validation", signal.SIGINT, signal.SIGINT, (held, "read", "hang", READ_OF_THE_FIRST_VALIDATION), lambda _: self.logged("validation") == 1),
                ("save", signal.SIGTERM, signal.SIGTERM, (self.checkpoints("save"), "sync", "hang", SYNC_OF_THE_SECOND_SAVE), lambda _: self.logged("save") >= 2)):
            with self.subTest(out=out):
                before = self.logged(out)
                process = self.start(out, *recipe, env=self.faulty(*fault))
                try:
                    self.assertTrue(wait_for(lambda: reached(process) and self.sleeps(process), process))
                    process.send_signal(first)
                    # Two that wait to be taken are one.
                    self.assertTrue(wait_for(lambda: not self.has_waiting(process, first), process))
                    process.send_signal(second)
                    said = process.communicate(timeout=PATIENCE)[1]
                finally:
                    process.kill()
                self.assertEqual(process.returncode, -second, said)
                self.assertEqual(self.whole_checkpoints(out), {"index": [], "load": ["step-00000001", "step-00000002"]}.get(out, ["step-00000001"]))
                self.assertGreaterEqual(self.logged(out), before)
                self.train(out, *recipe, "train.steps=6")
                self.same(out, "whole")

    @staticmethod
    def sleeps(process):
        """No thread of it has had anything to do for a while."""
        for _ in range(20):
            try:
                states = {path.read_text().rpartition(")")[2].split()[0] for path in pathlib.Path(f"/proc/{process.pid}/task").glob("*/stat")}
            except OSError:
                return False
            if states != {"S"}:
                return False
            time.sleep(0.002)
        return True

    @staticmethod
    def has_waiting(process, number):
        """It has been sent this signal, and no thread of it has taken it yet."""
        lines = pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines()
        return any(int(line.split()[1], 16) >> (number - 1) & 1 for line in lines if line.startswith(("SigPnd:", "ShdPnd:")))

    def test_a_wish_to_stop_while_a_resume_loads(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            out = f"loading-{number}"
            self.train(out, *ENDLESS, "train.steps=2")
            before = self.losses(out)
            (state,) = self.checkpoints(out).glob("step-*/*.safetensors")
            loads_on = self.folder / f"{out}-loads-on"
            process = self.start(out, *ENDLESS, env=self.faulty(state, "read", f"until:{loads_on}", 2))
            self.assertTrue(wait_for(lambda: self.has_open(process, state), process))
            process.send_signal(number)
            self.assertTrue(wait_for(lambda: not self.has_waiting(process, number), process))
            loads_on.touch()
            said = process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(process.returncode, 128 + number, said)
            self.assertEqual(self.losses(out), before)
            self.assertEqual(self.whole_checkpoints(out), ["step-00000002"])
            self.goes_on(out)

    @staticmethod
    def has_open(process, path):
        try:
            return any(os.readlink(entry) == str(path) for entry in pathlib.Path(f"/proc/{process.pid}/fd").iterdir())
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
