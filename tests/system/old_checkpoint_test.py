#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A run folder saved before architectures had a version: python3 old_checkpoint_test.py PROGRAM

fixtures/run_before_specs: three steps of the program at commit b03075e with RECIPE. The first four losses are that program's own; the
later ones and the state are those of AdamW by linear interpolation (kernels/optimizer/adamw.h)."""
import pathlib
import shutil
import tempfile
import unittest

from program import run, run_json

FIXTURE = pathlib.Path(__file__).parent / "fixtures" / "run_before_specs"
RECIPE = """
run: {out: OUT, seed: 7, threads: 1}
model: {layers: 1, hidden: 8, heads: 4, kv_heads: 2, ffn: 24, context: 16, dropout: 0.1, attention: materialised}
data: {train: DIR/t, tokenizer: DIR/tok.json}
train: {steps: 6, global_batch: 4}
checkpoint: {every: 3, keep: 9}
optimizer: {schedule: constant, lr: 0.01}
"""
LOSSES = ["0x1.64d4375p+2", "0x1.603253a8p+2", "0x1.583ac958p+2", "0x1.52c9b7ep+2", "0x1.4980144p+2", "0x1.4852273p+2"]
STATE = "d56e33ba00546b1f3233c6fee6f30efe6d747f1073a68c55dcbd196a0249132a"
NLL = 68.57024955749512


def corpus_text():
    words = "the cat sat on a mat and saw one big red dog run far away from its old home".split()
    x, out = 1, []
    for _ in range(4000):
        x = (x * 1103515245 + 12345) % 2**31
        out.append(words[(x >> 16) % len(words)])
    return " ".join(out)


class OldCheckpoint(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)
        shutil.copytree(FIXTURE, self.folder / "run")

    def test_it_scores_as_it_did(self):
        (self.folder / "lines.jsonl").write_text('{"text":"the cat sat on a mat"}\n')
        self.assertEqual(run_json("evaluate", "score", "--checkpoint", self.folder / "run", "--input",
                                  self.folder / "lines.jsonl")["nll"], NLL)

    def test_it_resumes_to_the_bit(self):
        (self.folder / "t.txt").write_text(corpus_text())
        shutil.copy(FIXTURE / "checkpoints" / "step-00000003" / "tokenizer.json", self.folder / "tok.json")
        run("pack", "--tokenizer", self.folder / "tok.json", "--input", self.folder / "t.txt", "--output", self.folder / "t")
        recipe = self.folder / "recipe.yaml"
        recipe.write_text(RECIPE.replace("OUT", str(self.folder / "run")).replace("DIR", str(self.folder)))
        last = run_json("train", recipe)
        self.assertEqual((last["step"], last["loss_hex"]), (6, LOSSES[-1]))
        metrics = (self.folder / "run" / "metrics.jsonl").read_text().splitlines()
        self.assertEqual([line.split('"loss_hex":"')[1].split('"')[0] for line in metrics], LOSSES)
        self.assertIn(STATE, (self.folder / "run" / "run.json").read_text())


if __name__ == "__main__":
    unittest.main()
