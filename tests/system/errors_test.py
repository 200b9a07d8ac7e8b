#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every failure is one line and the right exit code: python3 errors_test.py PROGRAM"""
import shutil
import unittest

from program import RoadTest, run


class Errors(RoadTest):
    def fails(self, code, *arguments, say=()):
        message = run(*arguments, code=code)
        self.assertEqual(message.count("\n"), 1, message)
        self.assertTrue(message.startswith("megalith: "), message)
        for word in say:
            self.assertIn(word, message)

    def test_usage(self):
        self.fails(2)
        self.fails(2, "trian")
        self.fails(2, "train")
        self.fails(2, "train", self.recipe, "--no-such-option")
        self.fails(2, "generate", "--checkpoint", self.folder, "--prompt", "x")
        self.fails(2, "tokenizer", "encode", "--tokenizer", "absent.json", "--input", "absent.txt", say=["absent.json"])

    def test_recipe_faults_come_all_at_once(self):
        self.fails(2, "train", self.recipe, "--set", "model.layrs=2", "--set", "optimizer.lr=fast", "--set", "model.heads=5",
                   say=["model.layers", "optimizer.lr", "model.heads"])

    def test_what_is_not_built_is_refused_by_name(self):
        keys = {"parallel.zero": 2, "parallel.context": 2, "parallel.expert": 4, "memory.offload": "activations"}
        words = self.command("refused", *(f"{key}={value}" for key, value in keys.items()), "model.heads=5")[2:]
        for command in ("train", "plan"):
            self.fails(2, command, *words, say=[*keys, "is not built", "model.heads"])
        self.fails(2, "train", self.recipe, "--set", "parallel.zero=3", say=["parallel.zero"])
        self.fails(2, "plan", self.recipe, "--set", "parallel.sequence=true", "--set", "parallel.tensor=2",
                   "--set", "model.context=31", say=["parallel.sequence"])

    def test_a_changed_recipe_is_not_resumed(self):
        self.train("changed", "train.steps=4")
        message = self.train("changed", "train.steps=8", "optimizer.lr=2e-2", code=2)
        self.assertIn("optimizer.lr", message)

    def test_damaged_checkpoints(self):
        self.train("damaged", "train.steps=8")
        checkpoints = self.folder / "damaged" / "checkpoints"
        newest = checkpoints / "step-00000008"
        state = next(newest.glob("*.safetensors"))
        content = bytearray(state.read_bytes())
        content[len(content) // 2] ^= 1
        state.write_bytes(content)
        self.fails(3, "generate", "--checkpoint", newest, "--prompt", "the", say=[state.name])
        # The one before takes over, and the run ends as if nothing had been.
        self.train("damaged", "train.steps=8")
        self.train("whole", "train.steps=8")
        self.assertEqual(self.state("damaged"), self.state("whole"))
        for folder in checkpoints.iterdir():
            (folder / "manifest.json").write_text("{}")
        self.assertIn("none of", self.train("damaged", "train.steps=9", code=3))

    def test_damaged_data(self):
        for suffix in ("bin", "idx"):
            shutil.copy(self.folder / f"corpus.{suffix}", self.folder / f"torn.{suffix}")
        with open(self.folder / "torn.bin", "r+b") as file:
            file.truncate(1000)
        self.assertIn("torn", self.train("torn", f"data.train={self.folder / 'torn'}", code=3))

    def test_bad_input(self):
        (self.folder / "binary.txt").write_bytes(b"ok\xff\xfe")
        self.fails(2, "tokenizer", "encode", "--tokenizer", self.folder / "tokenizer.json", "--input", self.folder / "binary.txt",
                   say=["binary.txt"])
        (self.folder / "ids.json").write_text('{"ids": [1, -2]}')
        self.fails(2, "tokenizer", "decode", "--tokenizer", self.folder / "tokenizer.json", "--input", self.folder / "ids.json",
                   say=["ids.json"])
        self.fails(2, "pack", "--tokenizer", self.folder / "tokenizer.json", "--input", self.folder / "binary.txt", "--output",
                   self.folder / "bad", say=["binary.txt"])
        self.assertFalse((self.folder / "bad.bin").exists())


if __name__ == "__main__":
    unittest.main()
