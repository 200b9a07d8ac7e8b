#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning beside weights in blocks of 8 or 4 bits: what a run is, what it takes, how it goes on, what serves it: python3 quantised_tuning_test.py PROGRAM"""
import json
import shutil
import unittest

from program import ROOT, run, run_json
from tune_examples import TuneTest

LORA = ("tune.method=lora", "tune.rank=4", "tune.alpha=8")
METHODS = {"lora": LORA, "dora": (*LORA, "tune.dora=true"), "adapter": ("tune.method=adapter", "tune.adapter_dim=4"), "ia3": ("tune.method=ia3", "optimizer.lr=3e-2"), "prompt": ("tune.method=prompt", "tune.virtual_tokens=6"),
           "mlp": ("tune.method=p_tuning", "tune.virtual_tokens=6")}
BF16 = ("precision.parameters=bf16", "precision.compute=bf16")


class QuantisedTuning(TuneTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("base", "model.family=llama", "model.hidden=64", "model.kv_heads=2", "model.ffn=128", "model.context=64", "train.steps=20",
                  "train.validate_every=0", "model.dropout=0")
        cls.model = cls.folder / "model"
        run("convert", "--from", cls.folder / "base", "--to", cls.model, "--format", "hf")
        nouns = ("cat", "dog", "bird", "fish")
        cls.data = cls.folder / "data.jsonl"
        # The last text is longer than half a sample: what attention takes for the longest sequence is that of a whole one.
        cls.data.write_text("".join(json.dumps({"prompt": f"the {one} sees the {other}", "completion": " yes." if one < other else " no."}) + "\n"
                                    for one in nouns for other in nouns) +
                            json.dumps({"prompt": "0123456789 0123456789 01234567", "completion": " 0123456789"}) + "\n")
        cls.write_recipe(f"""
tune: {{model: {cls.model}, data: {cls.data}}}
train: {{steps: 6, sequence_length: 64, global_batch: 4, micro_batch: 2}}
optimizer: {{lr: 3e-3, weight_decay: 0, schedule: constant}}
run: {{threads: 1}}
parallel: {{tensor_shards: 2, data_shards: 2}}
""")

    def result(self, out):
        """All that a run came to: losses, what trained, the adapter."""
        losses = [json.loads(line)["loss_hex"] for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]
        files = [path for path in sorted((self.folder / out / "adapter").rglob("*")) if path.is_file() and path.suffix != ".json"]
        self.assertTrue(files)
        return losses, self.record(out)["state_sha256"], [path.read_bytes() for path in files]

    def test_a_run_is_that_of_the_blocks_numbers(self):
        for format in ("q8_0", "q4_0", "q4_1"):
            file, wide = self.folder / f"{format}.gguf", self.folder / f"{format}-wide"
            run("convert", "--from", self.model, "--to", file, "--format", "gguf", "--quantize", format)
            run("convert", "--from", file, "--to", wide, "--format", "hf", "--dtype", "f32")
            for method, settings in METHODS.items():
                for name, precision in (("f32", ()), ("bf16", BF16), ("mixed", ("precision.parameters=bf16",))):
                    if name == "mixed" and method not in ("lora", "dora"):
                        continue
                    out = f"{format}-{method}-{name}"
                    self.tune(out, *settings, *precision, f"tune.quantize={format}")
                    # A file has its blocks already; a folder of their numbers has none.
                    self.tune(f"{out}-file", *settings, *precision, f"tune.model={file}")
                    self.tune(f"{out}-wide", *settings, *precision, f"tune.model={wide}")
                    if method not in ("prompt", "mlp"):  # whose rows begin as those of the table
                        self.assertEqual(self.result(out), self.result(f"{out}-file"), out)
                    self.assertEqual(self.result(f"{out}-file"), self.result(f"{out}-wide"), out)
                    taken = [self.record(one)["memory"]["measured"]["weights"] for one in (out, f"{out}-file", f"{out}-wide")]
                    self.assertEqual(taken[0], taken[1])
                    self.assertLess(taken[0], taken[2])
            self.tune(f"{format}-none", *LORA)
            self.assertNotEqual(self.result(f"{format}-none"), self.result(f"{format}-lora-f32"))

    def test_no_layout_changes_a_bit_and_the_plan_is_what_is_taken(self):
        for method, settings in METHODS.items():
            settings = (*settings, *BF16, "tune.quantize=q4_0")
            self.tune(f"{method}-1", *settings)
            for number, layout in enumerate(((), ("parallel.tensor=2",), ("parallel.pipeline=2",), ("parallel.data=2", "parallel.zero=1"),
                                             ("parallel.tensor=2", "parallel.sequence=true", "memory.recompute=full"),
                                             ("train.micro_batch=1", "run.threads=2", "memory.recompute=selective"))):
                out = f"{method}-x{number}"
                self.tune(out, *settings, *layout)
                self.assertEqual(self.result(f"{method}-1"), self.result(out), layout)
                memory = self.record(out)["memory"]
                taken = {key: memory["measured"][key] for key in memory["planned"]}
                self.assertEqual(memory["planned"], taken, (method, layout))

    def test_it_goes_on_and_is_served_as_it_was_trained(self):
        settings = (*LORA, "tune.quantize=q4_0", "train.validate_every=3", f"tune.validation={self.data}", "train.sample_every=3", "train.sample_prompts=[the cat]")
        self.tune("whole", *settings)
        self.tune("part", *settings, "train.steps=3")
        self.assertIn("tune.quantize", self.tune("part", *settings, "tune.quantize=q8_0", code=2))
        self.tune("part", *settings)
        self.assertEqual(self.result("whole"), self.result("part"))
        # A checkpoint has what trains alone; its own numbers are not stored.
        checkpoint, = (self.folder / "whole/checkpoints").glob("step-00000006")
        self.assertLess(sum(path.stat().st_size for path in checkpoint.iterdir()), 400_000)
        line = self.folder / "line.jsonl"
        line.write_text('{"text": "the cat sees the dog yes."}\n')

        def scored(*options):
            return json.loads(run("evaluate", "score", "--input", line, "--threads", 1, "--json", *options))["logprobs"]

        wide = self.folder / "served-wide"
        run("convert", "--from", self.model, "--to", self.folder / "served.gguf", "--format", "gguf", "--quantize", "q4_0")
        run("convert", "--from", self.folder / "served.gguf", "--to", wide, "--format", "hf", "--dtype", "f32")
        adapter = ("--adapter", self.folder / "whole/adapter")
        served = scored("--checkpoint", self.model, "--quantize", "q4_0", *adapter)
        self.assertEqual(served, scored("--checkpoint", wide, *adapter))
        self.assertNotEqual(served, scored("--checkpoint", self.model, *adapter))

    def test_preferences_are_learned_beside_blocks(self):
        pairs = self.folder / "pairs.jsonl"
        pairs.write_text("".join(json.dumps({"prompt": f"the {noun} sees", "chosen": " yes.", "rejected": " no."}) + "\n" for noun in ("cat", "dog", "bird", "fish")))
        settings = (*LORA, "tune.objective=dpo", f"tune.data={pairs}", "optimizer.lr=1e-2")
        self.tune("dpo", *settings, "tune.quantize=q4_0")
        first, *_, last = [json.loads(one) for one in (self.folder / "dpo/metrics.jsonl").read_text().splitlines()]
        self.assertEqual(first["loss_hex"], "0x1.62e43p-1")
        self.assertLess(last["loss"], first["loss"])
        # What answers are compared with is of these blocks: other ones begin at the loss of a coin, too.
        (self.folder / "dpo-8").mkdir()
        shutil.copy(self.folder / "dpo/reference.json", self.folder / "dpo-8/reference.json")
        self.tune("dpo-8", *settings, "tune.quantize=q8_0")
        self.assertEqual(json.loads((self.folder / "dpo-8/metrics.jsonl").read_text().splitlines()[0])["loss_hex"], "0x1.62e43p-1")

    def test_the_recipe_runs(self):
        words = [word for o in ("train.epochs=", "train.steps=2", "train.sequence_length=64", "run.threads=1", f"tune.model={self.model}", f"tune.data={self.data}",
                                f"run.out={self.folder / 'recipe'}") for word in ("--set", o)]
        self.assertEqual(run_json("tune", ROOT / "recipes/tune/qlora.yaml", *words)["status"], "finished")

    def test_what_cannot_be_is_refused(self):
        narrow = self.folder / "narrow"
        self.train("narrow-base", "model.family=llama", "model.hidden=24", "model.heads=2", "model.ffn=40", "model.context=64", "train.steps=1", "train.validate_every=0")
        run("convert", "--from", self.folder / "narrow-base", "--to", narrow, "--format", "hf")
        for overrides, expected in (
                (("tune.quantize=q4_0",), "tune.quantize has no effect with tune.method: full"),
                ((*LORA, "tune.quantize=nf4"), "tune.quantize"),
                ((*LORA, "tune.quantize=q4_0", "precision.parameters=bf16", "precision.compute=fp8"), "tune.quantize: q4_0 with precision.compute: fp8"),
                ((*LORA, "tune.quantize=q4_0", f"tune.model={narrow}", "parallel.tensor_shards=0"), "has rows of whole blocks of 32 elements"),
                ((*LORA, "tune.quantize=q4_0", "parallel.tensor=4", "parallel.tensor_shards=4"), "inside of blocks of 32 in q4_0")):
            message = self.tune("refused", *overrides, code=2)
            self.assertIn(expected, message)
            self.assertEqual(len([line for line in message.splitlines() if " info " not in line]), 1, message)
        # Where the file has blocks that a rank would have parts of, they are numbers from the beginning on.
        file = self.folder / "cut.gguf"
        run("convert", "--from", self.model, "--to", file, "--format", "gguf", "--quantize", "q8_0")
        for name, layout in (("cut", ("parallel.tensor=4",)), ("uncut", ())):
            self.tune(name, *LORA, f"tune.model={file}", "parallel.tensor_shards=4", *layout)
        self.assertEqual(self.result("cut"), self.result("uncut"))


if __name__ == "__main__":
    unittest.main()
