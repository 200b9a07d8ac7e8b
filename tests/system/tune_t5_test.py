#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning of an encoder-decoder, from examples to what it answers: python3 tune_t5_test.py PROGRAM"""
import json
import unittest

from program import ROOT, run, run_json
from tune_examples import TuneTest, added_tokens
from tune_examples import examples as furry

LAYOUTS = (("parallel.tensor=2",), ("parallel.tensor=2", "parallel.sequence=true"), ("parallel.pipeline=3",), ("parallel.data=2", "parallel.zero=1"),
           ("parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2", "parallel.sequence=true", "parallel.zero=1", "memory.recompute=full"),
           ("train.micro_batch=1", "memory.recompute=selective"))


LORA = ("tune.method=lora", "tune.rank=4", "tune.alpha=8")
PROMPT = ("tune.method=prompt", "tune.virtual_tokens=4", "optimizer.lr=5e-2")
MLP = ("tune.method=p_tuning", "tune.virtual_tokens=4", "tune.encoder_hidden=24", "optimizer.lr=3e-3")
IA3 = ("tune.method=ia3", "tune.targets=[q, k, v, o, wi, wo]", "optimizer.lr=1e-2")
# Of a run that ends where it learns, whatever the last digits of its start: the rate falls to 0.
FALLING = ("optimizer.schedule=cosine", "optimizer.warmup_steps=10")
LEARNS = ("train.steps=500", "optimizer.lr=6e-3", *FALLING)
OTHER = {" the cat.": " the fish.", " the fish.": " the cat."}


def examples(count, seed):
    """Answers in the words of the corpus: with the table of tokens as it is, others could not be said."""
    return [(prompt, " the cat." if answer == " yes." else " the fish.") for prompt, answer in furry(count, seed)]


class TuneT5(TuneTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        tokenizer = json.loads((cls.folder / "tokenizer.json").read_text())
        tokenizer["added_tokens"] += added_tokens(285, ["<pad>"] + [f"<extra_id_{i}>" for i in range(9)])
        (cls.folder / "spans.json").write_text(json.dumps(tokenizer))
        cls.train("base", "model.family=t5", "model.context=32", "model.decoder_start=285", f"data.tokenizer={cls.folder / 'spans.json'}",
                  "data.document_mask=false", "train.objective=spans", "train.steps=300", "train.validate_every=0", "model.dropout=0")
        cls.model = cls.folder / "model"
        run("convert", "--from", cls.folder / "base", "--to", cls.model, "--format", "hf")
        cls.data, cls.held = (cls.folder / f"{name}.jsonl" for name in ("data", "held"))
        for path, count, seed in ((cls.data, 60, 1), (cls.held, 10, 2)):
            path.write_text("".join(json.dumps({"prompt": p, "completion": c}) + "\n" for p, c in examples(count, seed)))
        cls.write_recipe(f"""
tune: {{model: {cls.model}, data: {cls.data}, answer_length: 12}}
train: {{steps: 6, sequence_length: 32, global_batch: 4, micro_batch: 2}}
optimizer: {{lr: 1e-3, weight_decay: 0, schedule: constant}}
run: {{threads: 1}}
parallel: {{tensor_shards: 2, data_shards: 2}}
""")

    def right(self, checkpoint, *options, answers=None):
        """Of the first ten examples, how many are answered so, or as `answers` has it instead, and ended."""
        said = [run_json("generate", "--checkpoint", checkpoint, "--prompt", prompt, "--max-new-tokens", 8, "--temperature", 0, "--threads", 1, *options)["text"]
                for prompt, _ in list(examples(60, 1))[:10]]
        return sum(answer == (answers or {}).get(right, right).strip() for answer, (_, right) in zip(said, examples(60, 1)))

    def same_under_every_layout(self, out, *settings):
        self.tune(out, *settings)
        for number, layout in enumerate(LAYOUTS):
            with self.subTest(layout=layout):
                other = f"{out}-x{number}"
                self.tune(other, *settings, *layout)
                self.assertEqual(self.state(out), self.state(other))
                memory = self.record(other)["memory"]
                self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def test_all_weights_learn_the_answers(self):
        last = json.loads(self.tune("full", *LEARNS, "train.validate_every=250", f"tune.validation={self.held}"))
        self.assertEqual(last["status"], "finished")
        self.assertLess(last["loss"], 0.1)
        self.assertGreaterEqual(self.right(self.folder / "full"), 9)
        folder = self.folder / "full-hf"
        run("convert", "--from", self.folder / "full", "--to", folder, "--format", "hf")
        self.assertGreaterEqual(self.right(folder), 9)

    def test_its_recipe(self):
        words = [word for o in (f"run.out={self.folder / 'recipe'}", f"tune.model={self.model}", f"tune.data={self.data}", "train.epochs=", "train.steps=2",
                                "train.sequence_length=32", "tune.answer_length=12", "run.threads=1") for word in ("--set", o)]
        self.assertEqual(run_json("tune", ROOT / "recipes/tune/t5.yaml", *words)["status"], "finished")

    def test_one_result_under_every_layout(self):
        self.same_under_every_layout("layouts", "model.dropout=0.1")

    def test_tasks_share_a_run(self):
        """What an encoder reads begins with the tokens of its task: nothing else says which answer is asked for."""
        files = {name: self.folder / f"{name}.jsonl" for name in ("cat", "fish")}
        for name, path in files.items():
            path.write_text("".join(json.dumps({"prompt": prompt, "completion": f" the {name}."}) + "\n" for prompt, _ in examples(30, 1)))
        tasks = f"tune.tasks={json.dumps([{'name': name, 'data': str(path)} for name, path in files.items()])}"
        for method, settings in (("prompt", PROMPT), ("lstm", (*MLP, "tune.encoder=lstm"))):
            self.same_under_every_layout(f"tasks-{method}", *settings, "tune.data=", tasks)
        self.tune("tasks-long", *PROMPT, "tune.data=", tasks, "train.steps=150")

        def nll(answer, task):
            line = self.folder / "answered.jsonl"
            line.write_text(json.dumps({"text": "the cat sees the dog", "target": f"the {answer}."}) + "\n")
            return run_json("evaluate", "score", "--checkpoint", self.model, "--input", line, "--adapter", self.folder / "tasks-long/adapter" / task)["nll"]

        self.assertLess(nll("cat", "cat") - nll("fish", "cat"), nll("cat", "fish") - nll("fish", "fish"))

    def test_a_run_in_two_parts_is_one_run(self):
        for name, settings in (("full", ()), ("lora", LORA)):
            with self.subTest(name=name):
                self.tune(f"whole-{name}", *settings)
                self.tune(f"parts-{name}", *settings, "train.steps=3")
                stale = self.folder / f"parts-{name}/adapter/config.json"
                if name == "lora":
                    stale.write_text("{}")
                self.tune(f"parts-{name}", *settings, "parallel.data=2")
                self.assertEqual(self.state(f"whole-{name}"), self.state(f"parts-{name}"))
                self.assertFalse(stale.exists())

    def answers(self, checkpoint, *options):
        return [run_json("generate", "--checkpoint", checkpoint, "--prompt", prompt, "--max-new-tokens", 8, "--temperature", 0, "--threads", 1, *options)["text"]
                for prompt, _ in examples(60, 1)[:6]]

    def beside(self, out, *settings):
        """A run that trains beside the weights: what its adapter says is not what the model said, and is what is said with it merged into the weights."""
        first, last = self.tune_losses(out, *settings, "train.steps=400")
        self.assertLess(last, 0.3 * first)
        adapter = self.folder / out / "adapter"
        self.assertEqual(json.loads((adapter / "adapter_config.json").read_text())["task_type"], "SEQ_2_SEQ_LM")
        merged = self.folder / f"{out}-merged"
        run("convert", "--from", self.model, "--to", merged, "--merge-adapter", adapter)
        said = self.answers(self.model, "--adapter", adapter)
        self.assertNotEqual(said, self.answers(self.model))
        self.assertEqual(said, self.answers(merged))

    def test_factors_beside_both_stacks(self):
        self.beside("lora", *LORA, "optimizer.lr=5e-3")
        self.same_under_every_layout("lora-layouts", *LORA)

    def test_factors_learn_to_answer(self):
        """What a model answers with its own weights is answered the other way round with factors beside them."""
        self.tune("reads", *LEARNS)
        swapped = self.folder / "swapped.jsonl"
        swapped.write_text("".join(json.dumps({"prompt": prompt, "completion": OTHER[answer]}) + "\n" for prompt, answer in examples(60, 1)))
        base = self.folder / "reads"
        _, last = self.tune_losses("swaps", *LORA, "tune.rank=8", "tune.alpha=16", f"tune.model={base}", f"tune.data={swapped}", "train.steps=200",
                                   "optimizer.lr=5e-3", *FALLING)
        self.assertLess(last, 0.1)
        self.assertGreaterEqual(self.right(base), 9)
        self.assertGreaterEqual(self.right(base, "--adapter", self.folder / "swaps/adapter", answers=OTHER), 9)

    def test_magnitudes_dropout_and_blocks(self):
        self.tune("plain", *LORA, "train.steps=3")
        for name, more, layout in (("dora", "tune.dora=true", "parallel.tensor=2"), ("dropout", "tune.dropout=0.2", "parallel.tensor=2"),
                                   ("blocks", "tune.quantize=q8_0", "parallel.pipeline=3")):
            with self.subTest(name=name):
                self.tune(name, *LORA, more, "train.steps=3")
                self.tune(f"{name}-x", *LORA, more, "train.steps=3", layout)
                self.assertEqual(self.state(name), self.state(f"{name}-x"))
                self.assertNotEqual(self.state(name), self.state("plain"))
                memory = self.record(f"{name}-x")["memory"]
                self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def test_virtual_tokens_before_what_the_encoder_reads(self):
        line = self.folder / "pair.jsonl"
        line.write_text(json.dumps({"text": "the cat sees the dog", "target": "the cat."}) + "\n")
        score = lambda *options: run_json("evaluate", "score", "--checkpoint", self.model, "--input", line, *options)["nll"]  # noqa: E731
        for name, settings in (("prompt", PROMPT), ("mlp", MLP)):
            self.tune(name, *settings, "train.steps=20")
            adapter = self.folder / name / "adapter"
            config = json.loads((adapter / "adapter_config.json").read_text())
            self.assertEqual((config["task_type"], config["num_transformer_submodules"]), ("SEQ_2_SEQ_LM", 1))
            self.assertNotEqual(score("--adapter", adapter), score())
            self.assertEqual(len(self.answers(self.model, "--adapter", adapter)), 6)
            self.same_under_every_layout(f"{name}-layouts", *settings)

    def tune_losses(self, out, *settings):
        """Of the first and the last step."""
        self.tune(out, *settings)
        lines = (self.folder / out / "metrics.jsonl").read_text().splitlines()
        return json.loads(lines[0])["loss"], json.loads(lines[-1])["loss"]

    def test_vectors_beside_both_stacks(self):
        self.beside("ia3", *IA3)
        self.same_under_every_layout("ia3-layouts", *IA3)

    def test_both_sides_are_said(self):
        said = self.tune_says("sides", "train.steps=1", "train.sequence_length=8", "tune.answer_length=6")
        self.assertRegex(said, r"tune.data: \d+ examples of 60 lines, \d+ tokens \(\d+ learned\) in \d+ samples of 6 ")
        self.assertRegex(said, r"tune.data: of each sample an encoder reads 8 tokens, \d+ of all \(")
        self.assertRegex(said, r"longer than 6 tokens to answer or, \d+ of them, 8 to read: \d+ left out, 0 truncated")

    def test_what_has_no_meaning_is_refused(self):
        chats = self.folder / "chats.jsonl"
        chats.write_text(json.dumps({"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]}) + "\n")
        for overrides, expected in (
                (("tune.objective=dpo",), "tune.objective: dpo is not built for encoder-decoders"),
                (("tune.method=adapter",), "tune.method: adapter is for decoder-only models"),
                (("tune.method=prompt", "tune.virtual_tokens=31"), "tune.virtual_tokens 31 leaves no room in the context of"),
                (("tune.method=prompt", "tune.virtual_tokens=15", "train.sequence_length=16", "tune.overlong=truncate"),
                 "tune.virtual_tokens 15 leaves no room for texts in train.sequence_length 16"),
                (("tune.answer_length=33",), "tune.answer_length 33 is more than the context of"),
                (("tune.answer_length=1",), "leave no room for a text and its end"),
                ((f"tune.data={chats}",), "template"),
                (("tune.overlong=refuse", "train.sequence_length=8"), "has a prompt of 9 tokens, and samples have 8 for it"),
                (("tune.overlong=refuse", "tune.answer_length=2"), "has an answer of"),
                (("optimizer.layer_decay=0.9",), "optimizer.layer_decay needs one stack of layers")):
            message = self.tune("refused", *overrides, code=2)
            self.assertIn(expected, message)
            self.assertEqual(len([line for line in message.splitlines() if " info " not in line]), 1, message)


if __name__ == "__main__":
    unittest.main()
