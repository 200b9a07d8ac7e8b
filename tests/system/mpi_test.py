#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ranks as processes under mpirun: the bits of one rank, and every rank ends when one fails:
python3 mpi_test.py PROGRAM [LIBRARY] [--long]

LIBRARY is tests/faults/file_faults, preloaded in one rank: a call of its on files fails, or ends it."""
import errno
import json
import math
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

FAULTS = str(pathlib.Path(sys.argv.pop(2)).resolve()) if len(sys.argv) > 2 and sys.argv[2].endswith(".so") else ""
import mpirun  # noqa: E402
from program import ENDLESS, PATIENCE, PROGRAM, RoadTest, run, text, wait_for  # noqa: E402
from layouts_test import LAYOUTS, LONG, RECIPE, STEPS, VARIANTS  # noqa: E402

PLUGIN = pathlib.Path(PROGRAM).parent / "libmegalith_mpi.so"
# What the long test takes of layouts_test's layouts: each technique, and all of them.
PROCESSES = ["t2", "t4", "t2-sequence", "t2-full", "p2", "p2-selective", "p2-recompute_layers", "p2-chunks", "p3", "p3-gpipe", "p4", "d2", "d2-zero",
             "d4", "d4-zero", "t2p2d2-all"]

# For ranks that wait in vain: more than healthy ones keep each other waiting on machines that are slow and busy.
DEADLINE = 20

# How rank 0 begins to say that it waits, or why it no longer does: in a step, or in a save that goes on beside the next.
RANK_0 = r"megalith: (rank 0 on \S+ failed in step \d+ after .*: )?(saving step \d+ failed: )?rank 0 on \S+ in step \d+, \w+ '.*' .*: "


def size_of(layout):
    return math.prod(int(word.split("=")[1]) for word in layout if word.startswith(("parallel.tensor=", "parallel.pipeline=", "parallel.data=")))


def ranks_of(launcher):
    """The processes of the program that mpirun has started, by rank."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(folder / "exe") != PROGRAM or f"PPid:\t{launcher.pid}\n" not in (folder / "status").read_text():
                continue
            for word in (folder / "environ").read_bytes().split(b"\0"):
                if word.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(word.split(b"=")[1])] = int(folder.name)
        except OSError:
            pass
    return found


@unittest.skipUnless(mpirun.MPIRUN, "mpirun is not installed")
@unittest.skipUnless(PLUGIN.exists(), f"{PLUGIN.name} is not built")
class Processes(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recipe.write_text(RECIPE.replace("DIR", str(cls.folder)).replace("STEPS", str(STEPS)))
        cls.train("base")

    @classmethod
    def command(cls, out, *overrides, program=PROGRAM):
        # One thread a rank: polling processes leave little room for more on a small machine.
        return super().command(out, "run.threads=1", *overrides, program=program)

    def mpi(self, ranks, out, *overrides, code=0):
        process = mpirun.start((ranks, self.command(out, *overrides)))
        stdout, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, code, stderr)
        return stdout if code == 0 else stderr

    def running(self, out, *overrides):
        """An endless run of two ranks that has made its first steps."""
        process = mpirun.start((2, self.command(out, "parallel.tensor=2", *ENDLESS, "checkpoint.every=2", *overrides)))
        if not wait_for(lambda: self.logged(out) >= 3, process):
            self.fail(mpirun.ended(process, 1)[1])
        return process

    def ends(self, process):
        return mpirun.ended(process, PATIENCE)[1]

    def whole_and_goes_on(self, out):
        """The checkpoints are whole: a relaunch goes on from one, to the bits of a run of one rank."""
        self.goes_on(out, lambda *run: self.mpi(2, *run, "parallel.tensor=2"))

    def resumed(self, out, fault, *overrides):
        """A run of two that goes on, while on rank 0 alone reading its checkpoints is as `fault` says."""
        command = self.command(out, *overrides)
        preload = ["-x", f"LD_PRELOAD={FAULTS}", "-x", f"MEGA_FAULTS={self.folder / out / 'checkpoints'}|read|{fault}"]
        process = mpirun.start((1, [*preload, *command]), (1, command))
        return process, self.ends(process)


class Mpi(Processes):
    def test_processes_give_the_bits_of_one_rank(self):
        for ranks, layout in ((2, ["parallel.tensor=2"]), (2, ["parallel.pipeline=2", "checkpoint.async=false"]),
                              (4, ["parallel.tensor=2", "parallel.data=2"])):
            out = "-".join(layout)
            with self.subTest(out):
                self.assertEqual(json.loads(self.mpi(ranks, out, *layout))["status"], "finished")
                self.same(out, "base")

    def test_ranks_without_a_layout_are_data_ranks_and_threads_go_on(self):
        self.mpi(2, "handed", "train.steps=4")
        self.train("handed", "parallel.tensor=2")
        self.same("handed", "base")

    def test_the_wrong_number_of_ranks_is_refused(self):
        message = self.mpi(2, "wrong", "parallel.tensor=4", code=2)
        self.assertIn("2 ranks are there", message)

    def test_another_recipe_on_one_rank_is_named(self):
        process = mpirun.start((1, self.command("odd", "parallel.tensor=2")), (1, self.command("odd", "parallel.tensor=2", "run.seed=5")))
        _, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn("the recipe differs between ranks", stderr)

    def test_other_data_on_one_rank_is_named(self):
        for place, lines in (("here", 600), ("there", 500)):
            (self.folder / place).mkdir()
            (self.folder / place / "text.txt").write_text(text(lines))
            run("pack", "--tokenizer", self.folder / "tokenizer.json", "--input", self.folder / place / "text.txt",
                "--document", "line", "--output", self.folder / place / "text")
        command = self.command("apart", "parallel.tensor=2", "data.train=text")
        process = mpirun.start((1, ["-wdir", str(self.folder / "here"), *command]), (1, ["-wdir", str(self.folder / "there"), *command]))
        _, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn("the data differs between ranks", stderr)

    def test_processes_read_as_one_rank(self):
        lines = self.folder / "lines.jsonl"
        lines.write_text('{"text": "the cat sees the dog"}\n{"text": "a"}\n')
        score = [PROGRAM, "evaluate", "score", "--checkpoint", str(self.folder / "base"), "--input", str(lines)]
        process = mpirun.start((2, [*score, "--set", "parallel.tensor=2"]))
        stdout, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertEqual(stdout, run(*score[1:]))
        other = self.folder / "other.jsonl"
        other.write_text('{"text": "the cat"}\n')
        process = mpirun.start((1, score), (1, [*score[:-1], str(other)]))
        _, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn("the input differs between ranks", stderr)

    def test_a_text_that_its_grammar_breaks_off_ends_every_rank_alike(self):
        many = self.folder / "many.json"
        many.write_text(json.dumps({"anyOf": [{"properties": {"a": {"const": i}}, "required": ["a"]} for i in range(3000)]}))
        generate = [PROGRAM, "generate", "--checkpoint", str(self.folder / "base"), "--prompt", "the", "--json-schema", str(many), "--set", "parallel.tensor=2"]
        statuses = self.folder / "statuses"
        process = mpirun.start((2, ["sh", "-c", 'file=$1; shift; "$@"; echo $? >> $file', "sh", str(statuses), *generate]))
        _, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(statuses.read_text().split(), ["2", "2"], stderr)
        self.assertEqual(stderr.count("many.json"), 1, stderr)

    def test_what_a_launcher_does_not_say_is_asked_for_by_its_option(self):
        """One of PMIx alone names no number of ranks; a command without a recipe has no parallel.* in a file to set."""
        lines = self.folder / "two.jsonl"
        lines.write_text('{"text": "the dog"}\n')
        unsaid = ["env", "-u", "OMPI_COMM_WORLD_RANK", "-u", "OMPI_COMM_WORLD_SIZE"]
        score = [PROGRAM, "evaluate", "score", "--checkpoint", str(self.folder / "base"), "--input", str(lines)]
        for more, code in (((), 2), (("--ranks", "2"), 0)):
            process = mpirun.start((2, [*unsaid, *score, *more]))
            stdout, stderr = mpirun.ended(process, PATIENCE)
            self.assertEqual(process.returncode, code, stderr)
            if code:
                self.assertIn("give --ranks 2", stderr)
            else:
                self.assertEqual(stdout, run(*score[1:]))

    def test_another_version_on_one_rank_is_named(self):
        version = run("--version").split()[1]
        other = self.folder / "other-version"
        other.mkdir()
        shutil.copy(PLUGIN, other)
        program = pathlib.Path(PROGRAM).read_bytes()
        name = f"{version}\0".encode()
        self.assertIn(name, program)
        odd = other / "megalith"
        odd.write_bytes(program.replace(name, f"{'9' * len(version)}\0".encode()))
        odd.chmod(0o755)
        process = mpirun.start((1, self.command("versions", "parallel.tensor=2")), (1, self.command("versions", "parallel.tensor=2", program=str(odd))))
        _, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertRegex(stderr, r"megalith: rank \d on \S+ failed .*: the program's version differs between ranks: "
                                 rf"rank 0 of group 'world' has '{re.escape(version)}', rank 1 has '9+'")
        self.assertFalse((self.folder / "versions").exists())

    def test_a_killed_rank_ends_all(self):
        process = self.running("killed")
        os.kill(ranks_of(process)[1], signal.SIGKILL)
        message = self.ends(process)
        self.assertNotEqual(process.returncode, 0)
        # The others are killed before they can speak: mpirun does.
        self.assertRegex(message, r"process rank 1 with PID \d+ on node \S+ exited on signal 9")
        self.whole_and_goes_on("killed")

    def faulty(self, out, error):
        """Rank 1 of two, whose 150th read of the data fails: some steps behind the start."""
        corpus = self.folder / f"data-{out}"
        corpus.mkdir()
        for suffix in (".bin", ".idx"):
            shutil.copy(self.folder / f"corpus{suffix}", corpus)
        command = self.command(out, "parallel.tensor=2", *ENDLESS, "checkpoint.every=2", f"data.train={corpus / 'corpus'}")
        preload = ["-x", f"LD_PRELOAD={FAULTS}", "-x", f"MEGA_FAULTS={corpus}|read|{error}|150"]
        process = mpirun.start((1, command), (1, [*preload, *command]))
        return process, self.ends(process)

    @unittest.skipUnless(FAULTS, "no library of faults was given")
    def test_a_rank_that_throws_in_a_step_is_named_and_ends_all(self):
        for attempt in range(5):
            name = f"throws-{attempt}"
            process, message = self.faulty(name, errno.EIO)
            self.assertEqual(process.returncode, 1, message)
            # Rank 1 may end so early that mpirun ends rank 0 before it can speak.
            if re.search(f"megalith: {RANK_0}", message) or not re.search(r"Process name: \[\[\d+,1\],1\]", message):
                break
        cause = rf"rank 1 on \S+ failed in step \d+ after calling \w+ '.*' of group '\w+': .*corpus.bin.*{os.strerror(errno.EIO)}"
        self.assertRegex(message, f"megalith: {cause}")
        self.assertRegex(message, f"{RANK_0}stopped because {cause}")
        self.whole_and_goes_on(name)

    @unittest.skipUnless(FAULTS, "no library of faults was given")
    def test_a_rank_that_exits_ends_all(self):
        process, message = self.faulty("exits", "exit")
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(message, r"Process name: \[\[\d+,1\],1\]\s+Exit code: +7")  # mpirun's own words
        self.whole_and_goes_on("exits")

    def test_a_stopped_rank_is_named_by_the_others(self):
        # Without saves, in which ranks wait for a disk that may be slow.
        process = self.running("stopped", "checkpoint.every=0", f"parallel.deadline_seconds={DEADLINE}")
        os.kill(ranks_of(process)[1], signal.SIGSTOP)
        message = self.ends(process)
        self.assertEqual(process.returncode, 1, message)
        self.assertRegex(message, rf"{RANK_0}waited {DEADLINE} s, the deadline; rank 1 on \S+ (has not started it|does not take or send its data)")
        self.whole_and_goes_on("stopped")

    @unittest.skipUnless(FAULTS, "no library of faults was given")
    def test_a_rank_that_hangs_in_its_check_of_the_newest_checkpoint_is_named(self):
        self.mpi(2, "hangs", "parallel.tensor=2", *ENDLESS, "train.steps=2")
        process, message = self.resumed("hangs", "hang|7", *ENDLESS, "parallel.tensor=2", f"parallel.deadline_seconds={DEADLINE}")
        self.assertEqual(process.returncode, 1, message)
        self.assertRegex(message, rf"megalith: rank 1 on \S+, all_gather 'newest checkpoint' .*: waited {DEADLINE} s, the deadline; "
                                  r"rank 0 on \S+ has not started it")
        self.whole_and_goes_on("hangs")

    @unittest.skipUnless(FAULTS, "no library of faults was given")
    def test_a_rank_whose_save_fails_is_named_and_ends_all(self):
        layout = ("parallel.tensor=2", "parallel.data=2", "checkpoint.every=2")
        self.mpi(4, "failing", *layout, "train.steps=2")
        command = self.command("failing", *layout)
        preload = ["-x", f"LD_PRELOAD={FAULTS}", "-x", f"MEGA_FAULTS={self.folder / 'failing' / 'checkpoints'}|write|{errno.EIO}|1"]
        process = mpirun.start((2, command), (1, [*preload, *command]), (1, command))
        message = self.ends(process)
        self.assertEqual(process.returncode, 1, message)
        self.assertIn(os.strerror(errno.EIO), message)
        self.assertRegex(message, r"rank 2 on \S+")
        self.mpi(4, "failing", *layout)
        self.same("failing", "base")

    def test_a_signal_saves_and_ends_all(self):
        process = self.running("wish")
        os.kill(ranks_of(process)[1], signal.SIGTERM)
        message = self.ends(process)
        self.assertEqual(process.returncode, 143, message)
        self.whole_and_goes_on("wish")


@unittest.skipUnless(LONG, "--long was not given")
class MpiLong(Processes):
    def test_every_layout_gives_the_bits_of_one_rank(self):
        for variant, changes in VARIANTS.items():
            serial = f"serial-{variant}"
            self.train(serial, *changes)
            for name in PROCESSES:
                out = f"{variant}-{name}"
                with self.subTest(out):
                    self.mpi(size_of(LAYOUTS[name]), out, *changes, *LAYOUTS[name])
                    self.assertEqual(len(self.losses(out)), STEPS)
                    self.same(out, serial)

    @unittest.skipUnless(FAULTS, "no library of faults was given")
    def test_a_rank_that_takes_long_for_its_check_is_waited_for(self):
        # Its check takes longer than the deadline, each of its parts less; whole tensors, which are read at once.
        large = ("model.hidden=384", "parallel.pipeline=2", *ENDLESS)
        self.mpi(2, "slow", *large, "train.steps=2")
        process, message = self.resumed("slow", "+400|1+", *large, "train.steps=4", f"parallel.deadline_seconds={DEADLINE}")
        self.assertEqual(process.returncode, 0, message)
        # Else nobody had to wait for longer than the deadline.
        accounts = json.loads((self.folder / "slow" / "run.json").read_text())["accounts"]
        self.assertGreater(accounts["buckets"]["load"], 2 * DEADLINE)
        self.train("slow-at-once", *large, "train.steps=4")
        self.same("slow", "slow-at-once")


if __name__ == "__main__":
    unittest.main()
