#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The layout does not change the bits, through the program: python3 layouts_test.py PROGRAM [--long]

Ranks are threads of one process here; processes are in mpi_test.py."""
import json
import subprocess
import sys
import unittest

LONG = "--long" in sys.argv
if LONG:
    sys.argv.remove("--long")

from program import RoadTest, ended, run  # noqa: E402

RECIPE = """
model: {layers: 4, hidden: 32, heads: 4, context: 16, dropout: 0.1}
data: {train: DIR/corpus, tokenizer: DIR/tokenizer.json, validation_fraction: 0.1, document_mask: true}
train: {steps: STEPS, global_batch: 16, micro_batch: 2, ramp_start: 8, ramp_increment: 8, ramp_samples: 32, validate_every: 4, validate_samples: 7}
optimizer: {lr: 1e-2, warmup_steps: 3, clip: 0.5, schedule: cosine, decay_steps: STEPS}
checkpoint: {every: 4}
parallel: {data_shards: 4}
run: {threads: 2}
"""

STEPS = 50 if LONG else 8

# tensor, pipeline, data, and more
LAYOUTS = {
    "t2": ["parallel.tensor=2"],
    "p2": ["parallel.pipeline=2"],
    "d2": ["parallel.data=2"],
    "t2p2d2": ["parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2"],
    "t2d2-sequence-zero": ["parallel.tensor=2", "parallel.data=2", "parallel.sequence=true", "parallel.zero=1"],
    "p2-chunks": ["parallel.pipeline=2", "parallel.chunks=2", "parallel.schedule=interleaved"],
    "p3-gpipe": ["parallel.pipeline=3", "parallel.schedule=gpipe"],
}
if LONG:
    LAYOUTS.update({
        "selective": ["memory.recompute=selective"],
        "full": ["memory.recompute=full"],
        "d4": ["parallel.data=4"],
        "d4-zero": ["parallel.data=4", "parallel.zero=1"],
        "p3": ["parallel.pipeline=3"],
        "t4": ["parallel.tensor=4"],
        "t2-sequence": ["parallel.tensor=2", "parallel.sequence=true"],
        "d2-zero": ["parallel.data=2", "parallel.zero=1"],
        "t2p2d2-all": ["parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2", "parallel.sequence=true",
                       "parallel.zero=1", "memory.recompute=selective"],
        "p2-recompute_layers": ["parallel.pipeline=2", "memory.recompute_layers=1"],
        "p4": ["parallel.pipeline=4"],
        "t4d2": ["parallel.tensor=4", "parallel.data=2"],
        "t2-full": ["parallel.tensor=2", "memory.recompute=full"],
        "p2-selective": ["parallel.pipeline=2", "memory.recompute=selective"],
        "d2-micro1": ["parallel.data=2", "train.micro_batch=1"],
        "t2p2d2-selective": ["parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2", "memory.recompute=selective"],
        "t2p4d2-full": ["parallel.tensor=2", "parallel.pipeline=4", "parallel.data=2", "memory.recompute=full"],
    })

VARIANTS = {
    "tied-f32": [],
    "untied-bf16": ["model.tied=false", "precision.parameters=bf16", "precision.compute=bf16"],
    "bf16-weights": ["precision.parameters=bf16"],  # and f32 activations
    "f16": ["precision.parameters=f16", "precision.compute=f16", "precision.fp16.initial_scale=16777216", "precision.fp16.growth_interval=2"],
}
# Of the default tier: every layout alone is held in room train; here they go through the program.
SHORT = {"tied-f32": ["t2p2d2", "t2d2-sequence-zero", "p3-gpipe", "p2-chunks"], "untied-bf16": ["t2p2d2", "t2d2-sequence-zero"],
         "bf16-weights": ["t2d2-sequence-zero"], "f16": ["t2p2d2", "t2d2-sequence-zero"]}
if LONG:
    VARIANTS.update({
        "untied-f32": ["model.tied=false"],
        "tied-bf16": ["precision.parameters=bf16", "precision.compute=bf16"],
        "bf16-activations": ["precision.compute=bf16"],  # and f32 weights
        "materialised-f32": ["model.attention=materialised"],
        "materialised-bf16": ["model.attention=materialised", "precision.parameters=bf16", "precision.compute=bf16"],
    })

# What is saved under the first of two is continued under the second: by variant.
if LONG:
    EVERY = ["one", "t2", "p2", "d2", "t2p2d2", "t2d2-sequence-zero"]
    # Each and the next are cut in other ways.
    FURTHER = ["p2-chunks", "t4", "d4-zero", "p3", "t2p2d2-all", "p4", "t4d2", "p3-gpipe", "d4", "t2p4d2-full"]
    RING = list(zip(FURTHER, FURTHER[1:] + FURTHER[:1]))
    CONTINUED = {"tied-f32": [(a, b) for a in EVERY for b in EVERY if a != b] + RING, "untied-bf16": RING,
                 "bf16-weights": [("t2d2-sequence-zero", "p2-chunks"), ("p2-chunks", "t4")], "f16": RING}
else:
    CONTINUED = {"tied-f32": [("p2-chunks", "t2d2-sequence-zero"), ("t2p2d2", "p2-chunks")],
                 "untied-bf16": [("t2d2-sequence-zero", "p3-gpipe")], "f16": [("t2d2-sequence-zero", "p3-gpipe")]}


class Layouts(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recipe.write_text(RECIPE.replace("DIR", str(cls.folder)).replace("STEPS", str(STEPS)))
        cls.train("base")

    def numbers(self, out):
        return [(m["step"], m["loss_hex"], m["grad_norm_hex"], m.get("validation_loss"), m.get("loss_scale"), m.get("overflowed_steps")) for m in self.metrics(out)]

    def serial(self, variant):
        """The folder of the run of one rank."""
        out = f"serial-{variant}"
        if not (self.folder / out).exists():
            self.train(out, *VARIANTS[variant])
        return out

    def assert_same(self, out, other="base"):
        self.assertEqual(self.numbers(out), self.numbers(other))
        self.assertEqual(self.state(out), self.state(other))

    def test_every_layout_gives_the_bits_of_one_rank(self):
        for variant, changes in VARIANTS.items():
            for name in LAYOUTS if LONG else SHORT[variant]:
                layout, out = LAYOUTS[name], f"{variant}-{name}"
                with self.subTest(out):
                    self.train(out, *changes, *layout)
                    self.assert_same(out, self.serial(variant))

    def test_saved_under_one_layout_continued_under_another(self):
        layouts = {"one": [], **LAYOUTS}
        half = STEPS // 8 * 4  # where the whole run validates too
        for variant, pairs in CONTINUED.items():
            changes = VARIANTS[variant]
            for a in {a for a, _ in pairs}:
                self.train(f"{variant}-from-{a}", f"train.steps={half}", *changes, *layouts[a])
            for a, b in pairs:
                with self.subTest(f"{variant}: {a} to {b}"):
                    out = self.folder / f"{variant}-{a}-to-{b}"
                    subprocess.run(["cp", "-a", self.folder / f"{variant}-from-{a}", out], check=True)
                    self.train(out.name, *changes, *layouts[b])
                    self.assert_same(out.name, self.serial(variant))

    def test_a_chain_of_five_layouts(self):
        chain = [LAYOUTS["t2p2d2"], [], LAYOUTS["p3-gpipe"], LAYOUTS["d2"], LAYOUTS["t2"]]
        for i, layout in enumerate(chain):
            # Saved in the foreground too.
            self.train("chain", f"train.steps={(i + 1) * STEPS // 5}", f"checkpoint.async={'true' if i % 2 else 'false'}", *layout)
        # Each end of a part validated; the training is the same.
        self.same("chain", "base")

    def test_samples_are_those_of_one_rank(self):
        samples = ["train.sample_every=4", "train.sample_prompts=['the cat', 'the']", "train.sample_tokens=8"]
        for name, layout in {"one": [], "t2p2d2": LAYOUTS["t2p2d2"]}.items():
            self.train(f"samples-{name}", *samples, *layout)
        texts = [(self.folder / f"samples-{name}" / "samples.jsonl").read_text() for name in ("one", "t2p2d2")]
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(len(texts[0].splitlines()), 2 * (STEPS // 4 + (STEPS % 4 > 0)))

    def test_a_budget_of_hours_ends_all_ranks_at_one_step(self):
        recipe = self.folder / "hours.yaml"
        for hours in (0.001, 0.01, 0.05):  # more where that is too little for a second step
            name = f"hours-{hours}"
            recipe.write_text(self.recipe.read_text().replace(f"{{steps: {STEPS}", f"{{hours: {hours}")
                              .replace(f"cosine, decay_steps: {STEPS}", "hours"))
            words = self.command(name, *LAYOUTS["t2p2d2"])
            self.assertEqual(json.loads(run("train", recipe, *words[3:]))["status"], "finished")
            metrics = self.metrics(name)
            if len(metrics) > 1:
                break
        self.assertGreater(len(metrics), 1)
        self.assertEqual([m["step"] for m in metrics], list(range(1, len(metrics) + 1)))

    def test_what_does_not_fit_into_memory_is_refused_for_all_ranks_together(self):
        message = self.train("large", "model.hidden=131072", "model.layers=64", "parallel.tensor=4", code=2)
        self.assertIn("does not fit into memory", message)
        self.assertEqual(message.count("\n"), 1)

    def test_ranks_are_those_asked_for(self):
        asked = self.command("asked")[1:]
        run(*asked, "--ranks", 2)  # data ranks
        self.assert_same("asked")
        message = run(*asked, "--ranks", 3, code=2)
        self.assertIn("parallel.tensor 1 x parallel.pipeline 3 x parallel.data 1 (3 ranks)", message)
        message = run(*asked, "--ranks", 4, "--set", "parallel.tensor=2", code=2)
        self.assertIn("4 ranks are there", message)

    def test_impossible_layouts_are_refused_all_faults_at_once(self):
        message = self.train("impossible", "parallel.tensor=3", "parallel.data=8", "parallel.pipeline=9", code=2)
        for word in ("parallel.tensor", "parallel.data", "parallel.pipeline 9", "layouts that fit"):
            self.assertIn(word, message)
        self.assertEqual(message.count("\n"), 1)
        self.assertFalse((self.folder / "impossible").exists())

    def test_the_layout_is_printed(self):
        result = ended(self.command("shown", "train.steps=1", "parallel.pipeline=2", "train.ramp_start=0", "train.ramp_increment=0",
                                    "train.ramp_samples=0")[:-1], check=True)
        self.assertIn("layout     2 ranks: tensor 1 x pipeline 2 x data 1", result.stderr)
        record = json.loads((self.folder / "shown" / "run.json").read_text())
        self.assertEqual({k: record["memory"]["measured"][k] for k in record["memory"]["planned"]}, record["memory"]["planned"])


if __name__ == "__main__":
    unittest.main()
