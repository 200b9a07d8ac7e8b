#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One recipe of tuning with several seeds, what its validations say of classes and numbers, rates by layer and by group, and the
recipes of GLUE: python3 seeds_test.py PROGRAM

Tables of GLUE itself are read where ../shared/data/glue has them; tests that want them are skipped by name elsewhere."""
import json
import pathlib
import random
import signal
import statistics
import unittest

import mpirun
from program import PATIENCE, PROGRAM, ROOT, RoadTest, run, run_json, wait_for

GLUE = ROOT.parent / "shared" / "data" / "glue"
# Of each recipe the table's heading, cells that are no text, and labels as the table has them; {} is a text.
TABLES = {
    "cola": (None, "gj04\t{label}\t\t{text}", ("0", "1")),
    "sst2": ("sentence\tlabel", "{text}\t{label}", ("0", "1")),
    "mrpc": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{label}\t7\t8\t{text}\t{other}", ("0", "1")),
    "stsb": ("index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore", "0\tg\tf\ty\t1\ta\tb\t{text}\t{other}\t{label}",
             ("0.5", "2.250", "5.000")),
    "qqp": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate", "0\t1\t2\t{text}\t{other}\t{label}", ("0", "1")),
    "mnli": ("index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse\tsentence1\tsentence2\tlabel1"
             "\tgold_label", "0\tp\tq\tg\ta\tb\tc\td\t{text}\t{other}\tneutral\t{label}", ("entailment", "neutral", "contradiction")),
    "qnli": ("index\tquestion\tsentence\tlabel", "0\t{text}\t{other}\t{label}", ("entailment", "not_entailment")),
    "rte": ("index\tsentence1\tsentence2\tlabel", "0\t{text}\t{other}\t{label}", ("entailment", "not_entailment")),
}
FOLDERS = {"cola": "CoLA", "sst2": "SST-2", "mrpc": "MRPC", "stsb": "STS-B", "rte": "RTE"}


def sentences(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        yield tuple(f"the {draw.choice(('cat', 'dog', 'bird', 'fish'))} {draw.choice(('sees', 'likes'))} the man ." for _ in range(2))


class Classifiers(RoadTest):
    """An encoder that has learned next to nothing, and a recipe that makes a classifier of it."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        words = cls.folder / "words.json"
        run("tokenizer", "train", "--kind", "wordpiece", "--input", cls.folder / "text.txt", "--vocab-size", 60, "--output", words)
        run("pack", "--tokenizer", words, "--input", cls.folder / "text.txt", "--document", "line", "--output", cls.folder / "words")
        cls.encoder = cls.folder / "bert"
        cls.train("bert", "model.family=bert", "model.context=512", f"data.train={cls.folder / 'words'}", f"data.tokenizer={words}",
                  "data.document_mask=false", "train.sequence_length=32", "train.objective=masked", "train.steps=2", "train.validate_every=0")
        for name, count, seed in (("rows", 80, 5), ("held", 30, 6)):
            draw = random.Random(seed)
            rows = [(a, b, draw.choice(("one", "two")) if i % 5 == 0 else ("one" if "cat" in a else "two"))
                    for i, (a, b) in enumerate(sentences(count, seed))]
            (cls.folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": a, "pair": b, "label": label}) + "\n" for a, b, label in rows))
        cls.tune_recipe = cls.folder / "tune.yaml"
        cls.tune_recipe.write_text(f"""
tune: {{method: classify, model: {cls.encoder}, data: {cls.folder / 'rows.jsonl'}, validation: {cls.folder / 'held.jsonl'}, labels: [two, one], seeds: 3}}
model: {{dropout: 0.1}}
train: {{steps: 8, sequence_length: 32, global_batch: 4, micro_batch: 2, validate_every: 4}}
optimizer: {{lr: 3e-3, weight_decay: 0, schedule: constant}}
run: {{threads: 1}}
parallel: {{data_shards: 2}}
""")

    @classmethod
    def command(cls, out, *overrides, program=PROGRAM):
        if out in ("bert", "base"):
            return super().command(out, *overrides, program=program)
        words = [word for o in (f"run.out={cls.folder / out}", *overrides) for word in ("--set", o)]
        return [program, "tune", str(cls.tune_recipe), *words, "--json"]

    @classmethod
    def tune(cls, out, *overrides, code=0, options=()):
        said = run(*cls.command(out, *overrides)[1:], *options, code=code)
        return said if code else json.loads(said)


class Seeds(Classifiers):
    def scores(self, out):
        return [line["validation_scores"] for line in self.metrics(out) if "validation_loss" in line]

    def without_folders(self, comparison):
        return [{key: value for key, value in one.items() if key != "result"} for one in comparison["seeds"]]

    def test_they_are_runs_of_their_own(self):
        said = self.tune("three")
        self.assertEqual([one["seed"] for one in said["seeds"]], [1234, 1235, 1236])
        self.assertEqual(said.pop("status"), "finished")
        self.assertEqual(json.loads((self.folder / "three/seeds.json").read_text()), said)
        digests = set()
        for number, one in enumerate(said["seeds"]):
            folder = f"three/seed-{one['seed']}"
            self.assertEqual(one["result"], str(self.folder / folder))
            self.tune(f"alone-{number}", "tune.seeds=1", f"run.seed={one['seed']}")
            self.same(folder, f"alone-{number}")
            digests.add(self.state(folder))
            last = self.metrics(folder)[-1]
            self.assertEqual(one["validation_loss"], last["validation_loss"])
            self.assertEqual({name: one[name] for name in last["validation_scores"]}, last["validation_scores"])
            memory = json.loads((self.folder / folder / "run.json").read_text())["memory"]
            self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
            self.assertTrue((self.folder / folder / "report.html").exists())
        self.assertEqual(len(digests), 3)
        for name in ("validation_loss", "accuracy", "f1", "matthews_correlation"):
            values = [one[name] for one in said["seeds"]]
            self.assertEqual((said["median"][name], said["minimum"][name], said["maximum"][name]), (statistics.median(values), min(values), max(values)))
        best = max(said["seeds"], key=lambda one: (one["accuracy"], -one["validation_loss"]))
        self.assertEqual(said["best"], {"seed": best["seed"], "by": "accuracy", "result": best["result"]})
        # Each has a recipe of its own, and goes on by it.
        again = run_json("tune", self.folder / "three/seed-1235/recipe.yaml")
        self.assertEqual(again["status"], "already finished")
        # So does all of it.
        again = self.tune("three")
        self.assertEqual(again.pop("status"), "already finished")
        self.assertEqual(again, said)
        table = run(*self.command("three")[1:-1])
        self.assertIn("validation_loss  accuracy", table)
        self.assertIn(f"the best by accuracy is seed {best['seed']}: {best['result']}", table)

    def test_scores_are_those_of_the_classifier(self):
        self.tune("scored", "tune.seeds=1", "train.steps=30", "train.validate_every=15")
        held = self.folder / "held.jsonl"
        said = self.folder / "said.txt"
        answers = run("evaluate", "classify", "--checkpoint", self.folder / "scored", "--input", held, "--threads", 1, "--json").splitlines()
        right = [json.loads(line)["label"] for line in held.read_text().splitlines()]
        given = [json.loads(line)["label"] for line in answers]
        scores = self.scores("scored")
        self.assertEqual(len(scores), 2)
        self.assertAlmostEqual(scores[-1]["accuracy"], sum(a == b for a, b in zip(right, given)) / len(right), places=12)
        # As GLUE's tasks of two classes count them.
        said.write_text("".join(f"{int(label == 'one')}\n" for label in given))
        labels = self.folder / "right.txt"
        labels.write_text("".join(f"{int(label == 'one')}\n" for label in right))
        for task, name in (("mrpc", "f1"), ("cola", "matthews_correlation")):
            metrics = run_json("evaluate", "glue", "--task", task, "--predictions", said, "--labels", labels)["metrics"]
            self.assertEqual(metrics[name], scores[-1][name])
        self.assertIn("validation accuracy", (self.folder / "scored/report.html").read_text())

    def test_numbers_have_correlations(self):
        for name, count, seed in (("numbers", 40, 7), ("more", 12, 8)):
            (self.folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": a, "pair": b, "label": len(a) / 8}) + "\n" for a, b in sentences(count, seed)))
        said = self.tune("numbers", "tune.seeds=2", "tune.labels=[score]", f"tune.data={self.folder / 'numbers.jsonl'}",
                         f"tune.validation={self.folder / 'more.jsonl'}")
        self.assertEqual(said["best"]["by"], "pearson")
        for one in said["seeds"]:
            self.assertTrue(-1 <= one["spearmanr"] <= 1, one)

    def test_no_layout_changes_a_bit(self):
        expected = self.tune("serial", "optimizer.layer_decay=0.8")
        for number, layout in enumerate((("parallel.tensor=2",), ("parallel.pipeline=2",), ("parallel.data=2", "parallel.zero=1"), ("train.micro_batch=1",))):
            said = self.tune(f"layout-{number}", "optimizer.layer_decay=0.8", *layout)
            self.assertEqual(self.without_folders(said), self.without_folders(expected), layout)
            for seed in (1234, 1236):
                self.assertEqual(self.state(f"layout-{number}/seed-{seed}"), self.state(f"serial/seed-{seed}"), layout)

    @unittest.skipUnless(mpirun.MPIRUN and (pathlib.Path(PROGRAM).parent / "libmegalith_mpi.so").exists(), "mpirun or the plug-in is not here")
    def test_processes_take_part_in_all_of_them(self):
        expected = self.tune("threads", "parallel.tensor=2")
        process = mpirun.start((2, self.command("processes", "parallel.tensor=2")))
        stdout, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 0, stderr)
        self.assertEqual(self.without_folders(json.loads(stdout)), self.without_folders(expected))

    def test_a_stopped_command_goes_on_with_the_seed_that_it_was_at(self):
        settings = ("train.steps=300", "train.validate_every=100", "checkpoint.every=100")
        whole = self.tune("whole", *settings)
        for number in (signal.SIGTERM, signal.SIGINT):
            out = f"stopped-{int(number)}"
            process = self.start(out, *settings)
            self.assertTrue(wait_for(lambda: self.logged(f"{out}/seed-1235") >= 3, process), process.poll())
            process.send_signal(number)
            message = process.communicate(timeout=PATIENCE)[1]
            self.assertEqual(process.returncode, 128 + number, message)
            first, second = self.folder / out / "seed-1234", self.folder / out / "seed-1235"
            before = (first / "run.json").read_bytes()
            self.assertEqual(json.loads(before)["status"], "finished")
            self.assertEqual(json.loads((second / "run.json").read_text())["status"], "stopped")
            self.assertFalse((self.folder / out / "seed-1236").exists())
            self.assertFalse((self.folder / out / "seeds.json").exists())
            said = self.tune(out, *settings)
            self.assertEqual((first / "run.json").read_bytes(), before)
            self.assertEqual(self.without_folders(said), self.without_folders(whole))
            for seed in (1234, 1235, 1236):
                self.same(f"{out}/seed-{seed}", f"whole/seed-{seed}")
        # One more seed is one more run.
        said = self.tune("whole", *settings, "tune.seeds=4")
        self.assertEqual(self.without_folders(said)[:3], self.without_folders(whole))

    def test_restart_begins_all_of_them_anew(self):
        self.tune("anew", "tune.seeds=2")
        said = self.tune("anew", "tune.seeds=2", "optimizer.lr=1e-3", options=("--restart",))
        self.assertEqual(said["status"], "finished")
        for seed in (1234, 1235):
            self.assertTrue((self.folder / f"anew/seed-{seed}/old-1/checkpoints").exists())

    def test_results_are_adapters_or_the_best_checkpoints(self):
        self.train("base", "model.context=64", "train.steps=2", "train.validate_every=0", "model.dropout=0")
        data = self.folder / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": a, "completion": " " + b}) + "\n" for a, b in sentences(30, 9)))
        said = self.tune("lora", "tune.method=lora", f"tune.model={self.folder / 'base'}", f"tune.data={data}", f"tune.validation={data}", "tune.labels=",
                         "tune.seeds=2", "train.sequence_length=64")
        self.assertEqual([one["result"] for one in said["seeds"]], [str(self.folder / f"lora/seed-{seed}/adapter") for seed in (1234, 1235)])
        self.assertEqual(said["best"]["by"], "validation_loss")
        for one in said["seeds"]:
            self.assertTrue((pathlib.Path(one["result"]) / "adapter_model.safetensors").exists())
        kept = self.tune("kept", "tune.seeds=2", "checkpoint.keep_best=true", "optimizer.lr=0.05", "train.steps=40")
        for one in kept["seeds"]:
            self.assertTrue(one["result"].endswith(f"checkpoints/step-{one['step']:08}"), one)
            losses = [line["validation_loss"] for line in self.metrics(f"kept/seed-{one['seed']}") if "validation_loss" in line]
            self.assertEqual(one["validation_loss"], min(losses))

    def test_rates_by_layer_and_by_group(self):
        one = ("tune.seeds=1",)
        self.tune("plain", *one)
        self.tune("ones", *one, "optimizer.layer_decay=1", 'optimizer.groups=[{match: "*", lr_scale: 1}]')
        self.same("plain", "ones")
        seen = {self.state("plain")}
        for number, setting in enumerate(("optimizer.layer_decay=0.9", "optimizer.layer_decay=0.5", 'optimizer.groups=[{match: "head.*", lr_scale: 10}]',
                                          'optimizer.groups=[{match: "*.bias", weight_decay: 0.5}]')):
            self.tune(f"rates-{number}", *one, setting)
            self.assertNotIn(self.state(f"rates-{number}"), seen, setting)
            seen.add(self.state(f"rates-{number}"))
            planned = [json.loads((self.folder / out / "run.json").read_text())["memory"]["planned"] for out in ("plain", f"rates-{number}")]
            self.assertEqual(*planned)
        message = self.tune("rates-0", *one, "optimizer.layer_decay=0.8", "train.steps=9", code=2)
        self.assertIn("optimizer.layer_decay was 0.9, is 0.8", message)
        self.assertIn("--allow optimizer.layer_decay", message)
        self.assertIn('no parameter that trains is called "heads.*"', self.tune("x", *one, 'optimizer.groups=[{match: "heads.*", lr_scale: 2}]', code=2))
        for value in ("0", "1.5", "-1"):
            self.assertIn("optimizer.layer_decay", self.tune("x", *one, f"optimizer.layer_decay={value}", code=2))
        # In training as well.
        recipe = ("--set", "train.steps=2", "--set", "train.validate_every=0")
        for out, more in (("trained", ()), ("decayed", ("--set", "optimizer.layer_decay=0.5"))):
            run("train", self.recipe, *recipe, "--set", f"run.out={self.folder / out}", *more)
        self.assertNotEqual(self.state("trained"), self.state("decayed"))

    def test_what_cannot_be_is_refused(self):
        self.assertIn("tune.seeds compares validations", self.tune("x", "train.validate_every=0", "tune.validation=", code=2))
        self.assertIn("tune.seeds", self.tune("x", "tune.seeds=0", code=2))
        # All folders are held from the beginning on: also those of seeds that are not there yet.
        process = self.start("held", "train.steps=100000")
        try:
            self.assertTrue(wait_for(lambda: self.logged("held/seed-1234") >= 1, process), process.poll())
            self.assertIn("is training in this folder", self.tune("held/seed-1236", "tune.seeds=1", code=2))
        finally:
            process.kill()
            process.communicate()


class Glue(Classifiers):
    """The recipes, with a model too small to learn anything."""

    def check(self, name, data, validation):
        out = self.folder / f"{'real' if GLUE in data.parents else 'made'}-{name}"
        words = [word for o in (f"tune.model={self.encoder}", f"tune.data={data}", f"tune.validation={validation}", f"run.out={out}",
                                "train.epochs=", "train.steps=1", "train.validate_samples=4", "tune.seeds=2", "run.threads=1") for word in ("--set", o)]
        said = run_json("tune", ROOT / f"recipes/tune/glue/{name}.yaml", *words)
        self.assertEqual(len(said["seeds"]), 2)
        expected = {"stsb": {"pearson", "spearmanr"}}.get(name, {"accuracy", "f1", "matthews_correlation"})
        self.assertEqual(set(said["median"]), expected | {"validation_loss"})

    def test_every_task_has_one(self):
        recipes = {path.stem: path.read_text() for path in (ROOT / "recipes/tune/glue").glob("*.yaml")}
        self.assertEqual(set(recipes), set(TABLES))
        for name, content in recipes.items():
            self.assertIn("  seeds: 5\n", content, name)

    def test_they_read_the_benchmarks_tables(self):
        for name, (heading, row, labels) in TABLES.items():
            path = self.folder / f"{name}.tsv"
            lines = ([heading] if heading else []) + [row.format(text=a, other=b, label=labels[i % len(labels)]) for i, (a, b) in enumerate(sentences(60, 3))]
            path.write_text("\n".join(lines) + "\n")
            with self.subTest(name):
                self.check(name, path, path)

    @unittest.skipUnless(GLUE.exists(), "no ../shared/data/glue")
    def test_they_read_the_tables_at_hand(self):
        for name, folder in FOLDERS.items():
            with self.subTest(name):
                self.check(name, GLUE / folder / "train.tsv", GLUE / folder / "dev.tsv")


if __name__ == "__main__":
    unittest.main()
