#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run whose saves fail, through the program: python3 faults_test.py PROGRAM LIBRARY

LIBRARY is tests/faults/file_faults, preloaded: the n-th call of a kind below the checkpoints fails. The run must end
with exit 1 and one line that names the cause, keep what was saved before, and go on from there the next time."""
import errno
import os
import pathlib
import subprocess
import sys
import unittest

LIBRARY = str(pathlib.Path(sys.argv.pop(2)).resolve())
from program import PROGRAM, RoadTest  # noqa: E402  (takes its own argument away)


class SavesThatFail(RoadTest):
    CONSTANT = "optimizer.schedule=constant"  # else a shorter run is another one

    FAULTS = (("write", errno.EIO), ("write", errno.ENOSPC), ("sync", errno.EIO), ("close", errno.EIO), ("rename", errno.EIO), ("open", errno.EMFILE))

    def test_the_run_ends_with_the_cause_and_goes_on_later(self):
        self.ends_and_goes_on(self.FAULTS)

    def test_and_so_do_all_its_ranks(self):
        self.ends_and_goes_on(self.FAULTS[:3], "parallel.tensor=2", "parallel.pipeline=2")

    def ends_and_goes_on(self, faults, *layout):
        kind = "-".join(layout)
        words = [word for o in (self.CONSTANT, *layout) for word in ("--set", o)]
        self.train(f"whole{kind}", self.CONSTANT)
        for call, error in faults:
            with self.subTest(call=call, error=errno.errorcode[error]):
                name = f"run-{call}-{error}{kind}"
                out = self.folder / name
                self.train(name, self.CONSTANT, "train.steps=4", *layout)  # a checkpoint to lose
                plan = f"{out / 'checkpoints'}|{call}|{error}|6"
                result = subprocess.run([PROGRAM, "train", str(self.recipe), "--set", f"run.out={out}", *words, "--json"], capture_output=True, text=True, timeout=120,
                                        env={**os.environ, "LD_PRELOAD": LIBRARY, "MEGA_FAULTS": plan})
                self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
                lines = [line for line in result.stderr.splitlines() if line.startswith("megalith: ")]
                self.assertEqual(len(lines), 1, result.stderr)
                self.assertIn(os.strerror(error), lines[0])
                self.assertEqual(lines[0].count("saving step"), 1, lines[0])
                if layout:
                    self.assertRegex(lines[0], r"^megalith: rank \d on \S+ failed in step \d+ after calling \w+ '.*' of group 'saving': ")
                complete = [path.parent.name for path in (out / "checkpoints").glob("step-*/COMMIT")]
                self.assertIn("step-00000004", complete)
                self.train(name, self.CONSTANT, *layout)
                self.assertEqual(self.losses(name), self.losses(f"whole{kind}"))
                self.assertEqual(self.state(name), self.state(f"whole{kind}"))


if __name__ == "__main__":
    unittest.main()
