#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Factors and vectors beside an encoder that becomes a classifier: python3 tune_encoder_test.py PROGRAM"""
import json
import random
import struct
import unittest

from program import run
from tune_examples import TuneTest

LORA = ("tune.method=lora", "tune.rank=4", "tune.alpha=8", "optimizer.lr=5e-3")
IA3 = ("tune.method=ia3", "optimizer.lr=5e-3")
HEAD = {"classifier.weight", "classifier.bias", "bert.pooler.dense.weight", "bert.pooler.dense.bias"}
LAYOUTS = (("parallel.tensor=2",), ("parallel.pipeline=2",), ("parallel.data=2", "parallel.zero=1"), ("train.micro_batch=1", "memory.recompute=full"))


def tensors_of(folder):
    """Names of the adapter's tensors, without what PEFT puts before them."""
    with open(folder / "adapter_model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return {name.removeprefix("base_model.model.") for name in header if name != "__metadata__"}


class TuneEncoder(TuneTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = cls.folder / "words.json"
        run("tokenizer", "train", "--kind", "wordpiece", "--input", cls.folder / "text.txt", "--vocab-size", 60, "--output", words)
        run("pack", "--tokenizer", words, "--input", cls.folder / "text.txt", "--document", "line", "--output", cls.folder / "words")
        cls.train("bert", "model.family=bert", "model.context=32", f"data.train={cls.folder / 'words'}", f"data.tokenizer={words}",
                  "data.document_mask=false", "train.objective=masked", "model.dropout=0", "train.steps=800", "train.validate_every=0")
        draw = random.Random(5)
        cls.rows = [json.dumps({"text": f"the {draw.choice(('cat', 'dog', 'bird'))} likes the man .", "pair": f"the {noun} eats .", "label": label})
                    for label, noun in (("one", "cat"), ("two", "fish")) for _ in range(40)]
        draw.shuffle(cls.rows)
        data = cls.folder / "rows.jsonl"
        data.write_text("\n".join(cls.rows) + "\n")
        cls.write_recipe(f"""
tune: {{model: {cls.folder / 'bert'}, objective: classify, labels: [two, one], data: {data}, validation: {data}}}
train: {{steps: 150, sequence_length: 32, global_batch: 4, micro_batch: 2, validate_every: 150}}
optimizer: {{weight_decay: 0, schedule: constant}}
run: {{threads: 1}}
parallel: {{data_shards: 2}}
""")

    def beside(self, name, settings, suffixes):
        last = json.loads(self.tune(name, *settings))
        self.assertIn("accuracy", last["validation_scores"])
        adapter = self.folder / name / "adapter"
        names = tensors_of(adapter)
        self.assertLessEqual(HEAD, names)
        self.assertTrue(all(tensor.startswith("bert.encoder.layer.") and tensor.endswith(suffixes) for tensor in names - HEAD), names)
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["task_type"], config["modules_to_save"]), ("SEQ_CLS", ["classifier", "pooler"]))
        self.assertEqual(config["exclude_modules"], ["bert.pooler.dense", "classifier"])
        labels = json.loads((adapter / "config.json").read_text())
        self.assertEqual((labels["architectures"], labels["id2label"]), (["BertForSequenceClassification"], {"0": "two", "1": "one"}))
        # Planned bytes are taken, and no layout changes a bit.
        for number, layout in enumerate(LAYOUTS):
            with self.subTest(layout=layout):
                other = f"{name}-x{number}"
                self.tune(other, *settings, *layout)
                self.assertEqual(self.state(name), self.state(other))
                memory = self.record(other)["memory"]
                self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        self.tune(f"{name}-parts", *settings, "train.steps=20", "train.validate_every=20")
        self.tune(f"{name}-parts", *settings)
        self.assertEqual(self.state(name), self.state(f"{name}-parts"))
        # The adapter brings the head, and the labels; merged it is the family's classifier.
        lines = self.folder / "pairs.jsonl"
        rows = [json.loads(row) for row in self.rows[:12]]
        lines.write_text("".join(json.dumps({"text": row["text"], "pair": row["pair"]}) + "\n" for row in rows))
        merged = self.folder / f"{name}-merged"
        run("convert", "--from", self.folder / "bert", "--to", merged, "--merge-adapter", adapter, "--format", "hf")
        labels = []
        for options in (("--checkpoint", self.folder / "bert", "--adapter", adapter), ("--checkpoint", merged)):
            said = run("evaluate", "classify", *options, "--input", lines, "--threads", 1, "--json").splitlines()
            labels.append([json.loads(line)["label"] for line in said])
        self.assertEqual(labels[0], labels[1])
        if name == "lora":  # vectors change too little of a body that has learned next to nothing
            self.assertEqual(labels[0], [row["label"] for row in rows])
        # Of a model that predicts words it is none, nor of a classifier with another head.
        other = self.folder / f"{name}-other"
        self.tune(other.name, "tune.method=classify", "tune.objective=sft", "train.steps=1", "train.validate_every=1")
        said = run("evaluate", "embed", "--checkpoint", other, "--adapter", adapter, "--input", lines, code=2)
        self.assertIn("is of another head than", said)
        said = run("evaluate", "score", "--masked", "--checkpoint", self.folder / "bert", "--adapter", adapter, "--input", self.folder / "rows.jsonl", code=2)
        self.assertIn("modules_to_save", said)

    def test_factors_and_the_head(self):
        self.beside("lora", LORA, (".lora_A.weight", ".lora_B.weight"))
        last = json.loads((self.folder / "lora/metrics.jsonl").read_text().splitlines()[-1])
        self.assertEqual(last["validation_scores"]["accuracy"], 1)

    def test_vectors_and_the_head(self):
        self.beside("ia3", IA3, (".ia3_l",))

    def test_magnitudes_dropout_and_blocks(self):
        few = (*LORA, "train.steps=3", "train.validate_every=3")
        self.tune("plain", *few)
        for name, more, layout in (("dora", "tune.dora=true", "parallel.tensor=2"), ("dropout", "tune.dropout=0.2", "parallel.tensor=2"),
                                   ("blocks", "tune.quantize=q8_0", "parallel.pipeline=2")):
            with self.subTest(name=name):
                self.tune(name, *few, more)
                self.tune(f"{name}-x", *few, more, layout)
                self.assertEqual(self.state(name), self.state(f"{name}-x"))
                self.assertNotEqual(self.state(name), self.state("plain"))
                memory = self.record(f"{name}-x")["memory"]
                self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def test_a_head_that_stays_in_part(self):
        """It is f32 beside narrow weights, and the adapter has all of it."""
        self.tune("stays", *LORA, "optimizer.frozen=[head.dense.*]", "precision.parameters=bf16", "train.steps=3", "train.validate_every=3")
        self.assertLessEqual(HEAD, tensors_of(self.folder / "stays/adapter"))

    def test_numbers(self):
        rows = self.folder / "numbers.jsonl"
        rows.write_text("".join(row.replace('"one"', "1.5").replace('"two"', "-0.5") + "\n" for row in self.rows))
        last = json.loads(self.tune("numbers", *LORA, "tune.labels=[score]", f"tune.data={rows}", f"tune.validation={rows}"))
        self.assertGreater(last["validation_scores"]["pearson"], 0.9)

    def test_an_objective_or_a_method_of_all_weights(self):
        self.tune("objective", "train.steps=3", "train.validate_every=3")
        self.tune("method", "train.steps=3", "train.validate_every=3", "tune.objective=sft", "tune.method=classify")
        self.assertEqual(self.state("objective"), self.state("method"))

    def test_what_has_no_meaning_is_refused(self):
        for overrides, expected in (
                (("tune.method=prompt",), "tune.objective: classify is not built with tune.method: prompt"),
                (("tune.method=dpo",), "tune.method: dpo compares answers, and tune.objective: classify gives none"),
                (("tune.answer_length=8",), "tune.answer_length is for encoder-decoders, and model.family bert is not one"),
                ((*LORA, "tune.targets=[q_proj]"), "is called \"q_proj\"; there are dense, key, query, value")):
            message = self.tune("refused", *overrides, code=2)
            self.assertIn(expected, message)
            self.assertEqual(len([line for line in message.splitlines() if " info " not in line]), 1, message)


if __name__ == "__main__":
    unittest.main()
