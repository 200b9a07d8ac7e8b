#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes under mpirun: the bits of one rank, and every rank ends when one fails:
python3 mpi_test.py PROGRAM [LIBRARY] [--long]

LIBRARY is tests/faults/file_faults, preloaded in one rank: its writes below the checkpoints fail."""
import errno
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

FAULTS = str(pathlib.Path(sys.argv.pop(2)).resolve()) if len(sys.argv) > 2 and sys.argv[2].endswith(".so") else ""
from program import PROGRAM, RoadTest, run, text  # noqa: E402
from layouts_test import LONG, RECIPE  # noqa: E402

MPIRUN = shutil.which("mpirun")
PLUGIN = pathlib.Path(PROGRAM).parent / "libmegalith_mpi.so"
ENVIRONMENT = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
               "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
               "OMPI_MCA_hwloc_base_binding_policy": "none"}

# Of runs that end somewhere: no step depends on the last.
ENDLESS = ["train.validate_every=0", "checkpoint.every=2", "optimizer.schedule=constant"]


def ranks_of(mpirun):
    """The processes of the program that mpirun has started, by rank."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") != PROGRAM or f"PPid:\t{mpirun.pid}\n" not in (folder / "status").read_text():
                continue
            for word in (folder / "environ").read_bytes().split(b"\0"):
                if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(word.split(b"=")[1])] = int(folder.name)
        except OSError:
            pass
    return found


@unittest.skipUnless(MPIRUN, "mpirun is not installed")
@unittest.skipUnless(PLUGIN.exists(), f"{PLUGIN.name} is not built")
class Mpi(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recipe.write_text(RECIPE.replace("DIR", str(cls.folder)).replace("STEPS", "8"))
        cls.train(cls, "base")

    def command(self, out, *overrides):
        words = [word for o in overrides for word in ("--set", o)]
        # One thread a rank: polling processes leave little room for more on a small machine.
        return [PROGRAM, "train", str(self.recipe), "--set", f"run.out={self.folder / out}", "--set", "run.threads=1", *words, "--json"]

    def start(self, *programs):
        """One mpirun of several (ranks, command)."""
        line = [MPIRUN]
        for i, (ranks, command) in enumerate(programs):
            line += ([":"] if i else []) + ["-n", str(ranks), *command]
        return subprocess.Popen(line, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def mpi(self, ranks, out, *overrides, code=0):
        process = self.start((ranks, self.command(out, *overrides)))
        stdout, stderr = process.communicate(timeout=120)
        self.assertEqual(process.returncode, code, stderr)
        return stdout if code == 0 else stderr

    def assert_same(self, out):
        self.assertEqual(self.losses(out), self.losses("base"))
        self.assertEqual(self.state(out), self.state("base"))

    def test_processes_give_the_bits_of_one_rank(self):
        for ranks, layout in ((2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2", "checkpoint.async=false"]),
                              (4, ["parallel.tensor=2", "parallel.data=2"])):
            out = "-".join(layout)
            with self.subTest(out):
                self.assertEqual(json.loads(self.mpi(ranks, out, *layout))["status"], "finished")
                self.assert_same(out)

    @unittest.skipUnless(LONG, "eight processes")
    def test_eight_processes_with_everything(self):
        self.mpi(8, "all", "parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2", "parallel.sequence=true", "parallel.zero=1",
                 "memory.recompute=selective")
        self.assert_same("all")

    def test_ranks_without_a_layout_are_data_ranks_and_threads_go_on(self):
        self.mpi(2, "handed", "train.steps=4")
        self.train("handed", "parallel.tensor=2")
        self.assert_same("handed")

    def test_the_wrong_number_of_ranks_is_refused(self):
        message = self.mpi(2, "wrong", "parallel.tensor=4", code=2)
        self.assertIn("2 ranks are there", message)

    def test_another_recipe_on_one_rank_is_named(self):
        process = self.start((1, self.command("odd", "parallel.tensor=2")), (1, self.command("odd", "parallel.tensor=2", "run.seed=5")))
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn("the recipe differs between ranks", stderr)

    def test_other_data_on_one_rank_is_named(self):
        for place, lines in (("here", 600), ("there", 500)):
            (self.folder / place).mkdir()
            (self.folder / place / "text.txt").write_text(text(lines))
            run("pack", "--tokenizer", self.folder / "tokenizer.json", "--input", self.folder / place / "text.txt",
                "--document", "line", "--output", self.folder / place / "text")
        command = self.command("apart", "parallel.tensor=2", "data.train=text")
        process = self.start((1, ["-wdir", str(self.folder / "here"), *command]), (1, ["-wdir", str(self.folder / "there"), *command]))
        _, stderr = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn("the data differs between ranks", stderr)

    def running(self, out, *overrides):
        """A long run of two ranks that has made its first steps."""
        process = self.start((2, self.command(out, "parallel.tensor=2", "train.steps=100000", *ENDLESS, *overrides)))
        metrics = self.folder / out / "metrics.jsonl"
        until = time.monotonic() + 60
        while time.monotonic() < until and not (metrics.exists() and metrics.read_text().count("\n") >= 3):
            time.sleep(0.05)
        return process

    def ends(self, process, seconds):
        try:
            return process.communicate(timeout=seconds)[1]
        finally:
            if process.poll() is None:
                process.kill()

    def whole_and_goes_on(self, out):
        """The checkpoints are whole: a relaunch goes on from one, to the bits of a run of one rank."""
        steps = [f"train.steps={len(self.metrics(out)) + 4}", *ENDLESS]
        self.mpi(2, out, "parallel.tensor=2", *steps)
        self.train(f"{out}-at-once", *steps)
        self.assertEqual(self.losses(out), self.losses(f"{out}-at-once"))
        self.assertEqual(self.state(out), self.state(f"{out}-at-once"))

    def test_a_killed_rank_ends_all(self):
        process = self.running("killed")
        os.kill(ranks_of(process)[1], signal.SIGKILL)
        self.ends(process, 20)
        self.assertNotEqual(process.returncode, 0)
        self.whole_and_goes_on("killed")

    def test_a_stopped_rank_is_named_by_the_others(self):
        process = self.running("stopped", "parallel.deadline_seconds=2")
        os.kill(ranks_of(process)[1], signal.SIGSTOP)
        message = self.ends(process, 20)
        self.assertEqual(process.returncode, 1, message)
        self.assertRegex(message, r"megalith: rank 0 on \S+ in step \d+, \w+ '.*' .*: waited 2 s, the deadline; rank 1 on \S+ (has not started it|does not take or send its data)")
        self.whole_and_goes_on("stopped")

    @unittest.skipUnless(FAULTS, "no library of faults was given")
    def test_a_rank_whose_save_fails_is_named_and_ends_all(self):
        layout = ("parallel.tensor=2", "parallel.data=2", "checkpoint.every=2")
        self.mpi(4, "failing", *layout, "train.steps=2")
        command = self.command("failing", *layout)
        preload = ["-x", f"LD_PRELOAD={FAULTS}", "-x", f"MEGA_FAULTS={self.folder / 'failing' / 'checkpoints'}|write|{errno.EIO}|1"]
        process = self.start((2, command), (1, [*preload, *command]), (1, command))
        message = self.ends(process, 60)
        self.assertEqual(process.returncode, 1, message)
        self.assertIn(os.strerror(errno.EIO), message)
        self.assertRegex(message, r"rank 2 on \S+")
        self.mpi(4, "failing", *layout)
        self.assert_same("failing")

    def test_a_signal_saves_and_ends_all(self):
        process = self.running("wish")
        os.kill(ranks_of(process)[1], signal.SIGTERM)
        message = self.ends(process, 30)
        self.assertEqual(process.returncode, 143, message)
        self.whole_and_goes_on("wish")


if __name__ == "__main__":
    unittest.main()
