#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damaged checkpoints of a real run, through the program: python3 damage_test.py PROGRAM

Which bytes are damaged, byte by byte, is the business of src/checkpoint/reader_test.cpp; here: what the person is
told, that the checkpoint before takes over, and that the run then ends as if nothing had been."""
import os
import resource
import shutil
import unittest

from program import RoadTest, ended, run
from refusals import HUGE, MEMORY

CONSTANT = "optimizer.schedule=constant"  # or a run of 8 steps would not be the beginning of one of 12


class Sound(RoadTest):
    """A sound run before each test."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.run_folder = cls.folder / "run"
        cls.train("run", "train.steps=8", CONSTANT)
        cls.train("other", "train.steps=8", "run.seed=9", CONSTANT)
        cls.train("whole", CONSTANT)
        cls.newest = cls.run_folder / "checkpoints" / "step-00000008"
        cls.older = cls.run_folder / "checkpoints" / "step-00000004"
        cls.foreign = cls.folder / "other" / "checkpoints" / "step-00000008"
        shutil.copytree(cls.run_folder, cls.folder / "sound")

    def setUp(self):
        self.restore()

    def restore(self):
        shutil.rmtree(self.run_folder)
        shutil.copytree(self.folder / "sound", self.run_folder)


class Damage(Sound):
    def refused(self, name, tensor=False):
        """Loading says exit 3 and names the file (and the tensor)."""
        message = run("generate", "--checkpoint", self.newest, "--prompt", "the", "--max-new-tokens", 1, code=3)
        self.assertEqual(message.count("\n"), 1, message)
        self.assertIn(name, message)
        if tensor:
            self.assertRegex(message, "tensor |header")

    def taken_over(self, name):
        """A resume announces that it passes over the damaged checkpoint, and the one before leads to the same end."""
        result = ended(self.command("run", CONSTANT))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("passing over the damaged checkpoint", result.stderr)
        self.assertIn(name, result.stderr)
        self.same("run", "whole")

    def test_flipped_and_cut(self):
        for path in sorted(self.newest.iterdir()):
            original = path.read_bytes()
            state = path.suffix == ".safetensors"
            for part in range(8):
                at = min(len(original) - 1, len(original) * part // 7)
                damaged = bytearray(original)
                damaged[at] ^= 1 << (part % 8)
                path.write_bytes(damaged)
                if path.name != "recipe.yaml":  # verified by who reads it: a resume
                    self.refused(path.name, state)
                path.write_bytes(original[:at])
                self.refused(path.name, state)
            path.write_bytes(original + b"\0")
            self.refused(path.name, state)
            path.write_bytes(original)
        run("generate", "--checkpoint", self.newest, "--prompt", "the", "--max-new-tokens", 1)

    def test_files_that_grew_without_end(self):
        for name in sorted(path.name for path in self.newest.iterdir()):
            with self.subTest(name):
                size = (self.newest / name).stat().st_size
                os.truncate(self.newest / name, HUGE)  # sparse
                self.refused(name)
                if name in ("COMMIT", "manifest.json", "recipe.yaml"):  # each met at another place
                    self.taken_over(name)
                    self.restore()
                else:
                    os.truncate(self.newest / name, size)
                self.assertLess(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss << 10, MEMORY)

    def test_missing_foreign_and_swapped_files(self):
        state = next(self.newest.glob("*.safetensors")).name
        damages = {
            "deleted": lambda: (self.newest / state).unlink(),
            "of another step": lambda: shutil.copy(self.older / state, self.newest / state),
            "of another run": lambda: shutil.copy(self.foreign / state, self.newest / state),
            "duplicated": lambda: shutil.copy(self.newest / state, self.newest / "tokenizer.json"),
            "a folder": lambda: ((self.newest / state).unlink(), (self.newest / state).mkdir()),
            "a link": lambda: ((self.newest / state).unlink(), (self.newest / state).symlink_to(self.older / state)),
        }
        for what, damage in damages.items():
            self.restore()
            with self.subTest(what):
                damage()
                name = "tokenizer.json" if what == "duplicated" else state
                self.refused(name)
                self.taken_over(name)

    def test_manifest_and_commit_of_others(self):
        for name in ("manifest.json", "COMMIT"):
            for source in (self.older, self.foreign):
                shutil.copy(source / name, self.newest / name)
                self.refused("manifest.json")
                self.taken_over("manifest.json")
                self.restore()
        # All of a checkpoint under another step's name.
        shutil.rmtree(self.newest)
        shutil.copytree(self.older, self.newest)
        self.refused("manifest.json")
        self.taken_over("renamed")
        self.restore()

    def test_when_none_is_whole(self):
        for folder in (self.newest, self.older):
            (folder / "COMMIT").unlink()
        before = sorted(p for p in self.run_folder.rglob("*") if p.name != "lock")
        message = self.train("run", CONSTANT, code=3)
        self.assertIn("none of 2 checkpoints is whole", message)
        self.assertEqual(sorted(p for p in self.run_folder.rglob("*") if p.name != "lock"), before)
        self.restore()


class LostWork(Sound):
    """A start never takes what is left of a run for nothing."""

    def contents(self, folder):
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    def refused_whole(self, *say):
        """Exit 3 in one line, and every file stays as it was."""
        before = self.contents(self.run_folder)
        message = self.train("run", CONSTANT, code=3)
        lines = [line for line in message.splitlines() if line.startswith("megalith: ")]
        self.assertEqual(len(lines), 1, message)
        for word in say:
            self.assertIn(word, lines[0])
        self.assertEqual(self.contents(self.run_folder), before)

    def restarted(self, *words):
        result = ended([*self.command("run", CONSTANT), "--restart"])
        self.assertEqual(result.returncode, 0, result.stderr)
        for word in words:
            self.assertEqual(result.stderr.count(word), 1, result.stderr)
        self.same("run", "whole")

    def test_when_nothing_names_the_checkpoints_as_such(self):
        for folder in (self.newest, self.older):
            (folder / "COMMIT").unlink()
            (folder / "manifest.json").unlink()
        self.refused_whole("none of 2 checkpoints is whole", "--restart")

    def test_when_the_checkpoints_are_gone(self):
        shutil.rmtree(self.run_folder / "checkpoints")
        self.refused_whole("a checkpoint of step 8", "--restart", "old-1")
        # Also when all that told of them is gone, and when nothing else is left.
        (self.run_folder / "run.json").rename(self.run_folder / "away")
        self.refused_whole("metrics.jsonl", "step 8", "--restart")
        (self.run_folder / "away").rename(self.run_folder / "run.json")
        for name in ("metrics.jsonl", "samples.jsonl"):
            (self.run_folder / name).unlink()
        self.refused_whole("a checkpoint of step 8", "--restart")

    def test_a_line_that_nobody_knows_is_not_cut(self):
        shutil.rmtree(self.run_folder)
        self.run_folder.mkdir()
        (self.run_folder / "metrics.jsonl").write_text('{"mine": 1}\n')
        self.refused_whole("metrics.jsonl")

    def test_restart_keeps_the_old_files_aside(self):
        (self.run_folder / "notes.txt").write_text("mine")
        (self.run_folder / "old-2").mkdir()
        for old in ("old-1", "old-3"):
            before = self.contents(self.run_folder)
            self.restarted(f"{self.run_folder / old}")
            kept = self.contents(self.run_folder / old)
            self.assertEqual(kept, {path: before[path] for path in kept})
            self.assertEqual({path.parts for path in kept}, {path.parts for path in before if path.name not in ("lock", "notes.txt")
                                                             and not path.parts[0].startswith("old-")})
            self.assertEqual(len(list((self.run_folder / old).glob("events.*"))), 1)
            self.assertEqual((self.run_folder / "notes.txt").read_text(), "mine")
        # What is kept there is a run folder.
        run("generate", "--checkpoint", self.run_folder / "old-1", "--prompt", "the", "--max-new-tokens", 1)
        shutil.rmtree(self.run_folder)
        self.restarted()  # nothing to keep
        self.assertFalse((self.run_folder / "old-1").exists())


if __name__ == "__main__":
    unittest.main()
