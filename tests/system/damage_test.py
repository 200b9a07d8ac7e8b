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


class Damage(RoadTest):
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


if __name__ == "__main__":
    unittest.main()
