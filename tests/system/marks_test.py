#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Words that a tuned encoder tags, and answers that it finds in texts: python3 marks_test.py PROGRAM"""
import json
import pathlib
import random
import unittest

import mpirun
from program import PATIENCE, PROGRAM, ROOT, ended, run, run_json
from seeds_test import Classifiers

NOUNS, VERBS = ("cat", "dog", "bird", "fish", "man"), ("sees", "likes", "finds", "eats")
TAGS = {"cat": "B-ANIMAL", "dog": "B-ANIMAL", "bird": "B-ANIMAL", "fish": "B-ANIMAL", "man": "B-PERSON"}
LAYOUTS = (("parallel.tensor=2",), ("parallel.tensor=2", "parallel.sequence=true"), ("parallel.pipeline=2",),
           ("parallel.data=2", "parallel.zero=1"), ("train.micro_batch=1",), ("memory.recompute=full",))


def sentence(draw):
    return ["the", draw.choice(NOUNS), draw.choice(VERBS), "the", draw.choice(NOUNS), "."]


class Marks(Classifiers):
    def same_under_every_layout(self, out, settings):
        scores = self.metrics(out)[-1]["validation_scores"]
        for number, layout in enumerate(LAYOUTS):
            last = self.tune(f"{out}-x{number}", *settings, *layout)
            self.assertEqual(self.state(out), self.state(f"{out}-x{number}"), layout)
            self.assertEqual(last["validation_scores"], scores, layout)

    def planned(self, out):
        memory = json.loads((self.folder / out / "run.json").read_text())["memory"]
        self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def recipe_runs(self, name, settings):
        overrides = (f"run.out={self.folder / f'recipe-{name}'}", "run.threads=1", "train.epochs=", "train.steps=1", "train.sequence_length=32",
                     f"tune.model={self.encoder}", *settings)
        words = [word for override in overrides for word in ("--set", override)]
        self.assertEqual(run_json("tune", ROOT / f"recipes/tune/{name}.yaml", *words)["status"], "finished")

    def folder_of(self, out, name):
        """The run as the family's own class, and its config.json."""
        hf = self.folder / f"{out}-hf"
        run("convert", "--from", self.folder / out, "--to", hf, "--format", "hf")
        config = json.loads((hf / "config.json").read_text())
        self.assertEqual(config["architectures"], [name])
        return hf, config


    def beside(self, out, settings, task, saved):
        """The adapter of a run whose body stays, by the folder's own words."""
        last = self.tune(out, *settings)
        adapter = self.folder / out / "adapter"
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["task_type"], config["modules_to_save"]), (task, saved))
        self.same_under_every_layout(out, settings)
        return adapter, last


class Tags(Marks):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        draw = random.Random(4)
        cls.columns, cls.lines = cls.folder / "train.conll", cls.folder / "held.tagged.jsonl"
        cls.columns.write_text("-DOCSTART- -X- O\n\n" + "\n".join(
            "".join(f"{word} X {TAGS.get(word, 'O')}\n" for word in sentence(draw)) for _ in range(80)))
        cls.lines.write_text("".join(json.dumps({"tokens": words, "ner_tags": [TAGS.get(word, "O") for word in words]}) + "\n"
                                     for words in (sentence(draw) for _ in range(20))))
        cls.settings = ("tune.seeds=1", "tune.task=token_classification", f"tune.data={cls.columns}", f"tune.validation={cls.lines}",
                        "tune.labels=[O, B-ANIMAL, B-PERSON]", "train.steps=40", "train.validate_every=20", "optimizer.lr=1e-2")

    def test_tags_of_words(self):
        last = self.tune("tags", *self.settings)
        scores = last["validation_scores"]
        self.assertEqual(list(scores), ["f1", "precision", "recall", "accuracy"])
        self.assertGreater(scores["f1"], 0.9)
        self.planned("tags")
        self.same_under_every_layout("tags", self.settings)
        hf, config = self.folder_of("tags", "BertForTokenClassification")
        self.assertEqual(config["id2label"], {"0": "O", "1": "B-ANIMAL", "2": "B-PERSON"})
        said = run_json("evaluate", "tags", "--checkpoint", hf, "--input", self.lines, "--threads", 1)
        self.assertEqual(said, {"metrics": scores, "examples": 20, "words": 120})
        more = self.folder / "more.json"
        more.write_text('{"tokens": ["the"], "ner_tags": [-100]}\n' + self.lines.read_text())
        self.assertEqual(run_json("evaluate", "tags", "--checkpoint", hf, "--input", more, "--threads", 1), said)
        self.assertIn("120 words of 20 texts", run("evaluate", "tags", "--checkpoint", hf, "--input", self.lines, "--ranks", 2, "--threads", 2))
        text = self.folder / "text.jsonl"
        text.write_text('{"text": "the man sees the cat ."}\n')
        one = run_json("evaluate", "classify", "--checkpoint", hf, "--input", text, "--threads", 1)
        self.assertEqual(len(one["label"]), len(one["ids"]))
        self.assertEqual({label for label in one["label"][1:-1] if label != "O"}, {"B-PERSON", "B-ANIMAL"})  # special ones have learned nothing
        # It goes on, and becomes a classifier of texts too.
        again = self.tune("again", *self.settings, f"tune.model={hf}", "train.steps=1", "train.validate_every=1")
        self.assertLess(again["loss"], 0.5)
        self.assertIn("is a classifier of O, B-ANIMAL, B-PERSON", self.tune("no", *self.settings, f"tune.model={hf}", "tune.labels=[O, B-X]", code=2))
        self.recipe_runs("tags", self.settings[2:3] + self.settings[4:5])
        self.assertEqual(self.tune("texts", "tune.seeds=1", f"tune.model={hf}", "train.steps=1", "train.validate_every=1")["status"], "finished")

    def test_beside_factors(self):
        settings = (*self.settings, "tune.method=lora", "tune.objective=classify", "tune.rank=4", "tune.dora=true")
        adapter, last = self.beside("tags-lora", settings, "TOKEN_CLS", ["classifier"])
        said = run_json("evaluate", "tags", "--checkpoint", self.encoder, "--adapter", adapter, "--input", self.lines, "--threads", 1)
        self.assertEqual(said, {"metrics": last["validation_scores"], "examples": 20, "words": 120})

    def test_what_is_wrong_is_named(self):
        bad = self.folder / "bad.conll"
        bad.write_text("the O\ncat B-PLANT\n")
        for overrides, expected in (
                ((f"tune.data={bad}",), "bad.conll:2: has a tag \"B-PLANT\""),
                (("tune.labels=[O]",), "token_classification needs at least two tune.labels"),
                (("tune.stride=3",), "tune.stride has no effect without tune.task: question_answering"),
                (("tune.method=full", "tune.labels=[]"), "tune.task has no effect without tune.objective: classify")):
            self.assertIn(expected, self.tune("no", *self.settings, *overrides, code=2))
        empty = self.folder / "empty.conll"
        empty.write_text("\n")
        self.assertIn("no example that fits", self.tune("no", *self.settings, f"tune.data={empty}", code=2))
        self.assertIn("tags need a model whose head has classes of tokens",
                      run("evaluate", "tags", "--checkpoint", self.encoder, "--input", self.lines, code=2))


class Answers(Marks):
    """Who the man is, in texts that tell of him once or not at all."""

    @classmethod
    def questions(cls, name, count, seed, unanswerable):
        draw, articles = random.Random(seed), []
        for number in range(count):
            words = [word if word != "man" else "dog" for _ in range(3) for word in sentence(draw)]
            is_answered = not unanswerable or number % 3 > 0
            if is_answered:
                words[draw.choice((1, 4, 7, 10, 13, 16))] = "man"
            context = " ".join(words)
            answers = [{"text": "the man", "answer_start": context.index("the man")}] if is_answered else []
            question = {"id": f"{name}-{number}", "question": "the man sees", "answers": answers}
            articles.append({"paragraphs": [{"context": context, "qas": [question | ({"is_impossible": not is_answered} if unanswerable else {})]}]})
        path = cls.folder / f"{name}.json"
        path.write_text(json.dumps({"version": "2.0" if unanswerable else "1.1", "data": articles}))
        return path

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.data, cls.held = cls.questions("squad", 60, 1, True), cls.questions("held", 20, 2, True)
        cls.settings = ("tune.seeds=1", "tune.task=question_answering", f"tune.data={cls.data}", f"tune.validation={cls.held}", "tune.labels=[]",
                        "tune.stride=6", "train.sequence_length=16", "train.steps=80", "train.validate_every=40", "train.global_batch=8",
                        "train.validate_samples=1000",
                        "optimizer.lr=1e-2")

    def test_answers_in_texts(self):
        last = self.tune("answers", *self.settings)
        self.assertLess(last["validation_loss"], 1)
        scores = last["validation_scores"]
        self.assertEqual(list(scores), ["exact_match", "f1", "answerable_f1", "unanswerable_f1"])
        self.assertEqual([list(line["validation_scores"]) for line in self.metrics("answers") if "validation_loss" in line], [list(scores)] * 2)
        self.assertIn("validation exact_match", (self.folder / "answers/report.html").read_text())
        self.planned("answers")
        self.same_under_every_layout("answers", self.settings)
        hf, config = self.folder_of("answers", "BertForQuestionAnswering")
        self.assertNotIn("problem_type", config)
        command = ("evaluate", "answers", "--checkpoint", hf, "--input", self.held, "--length", 16, "--stride", 6)
        said = run_json(*command, "--threads", 1, "--output", self.folder / "said.json")
        self.assertEqual(said, {"metrics": scores, "examples": 20})
        self.assertGreater(said["metrics"]["f1"], 70)
        self.assertGreater(said["metrics"]["unanswerable_f1"], 50)
        texts = json.loads((self.folder / "said.json").read_text())
        self.assertIn("the man", texts.values())
        glue = run_json("evaluate", "glue", "--task", "squad", "--predictions", self.folder / "said.json", "--labels", self.held)
        self.assertEqual(glue["metrics"], said["metrics"])
        self.assertEqual(run_json(*command, "--ranks", 2, "--threads", 2), said)
        no_places = self.folder / "no-places.json"
        no_places.write_text(self.held.read_text().replace('"answer_start"', '"start"'))
        self.assertEqual(run_json(*(no_places if word == self.held else word for word in command), "--threads", 1), said)
        self.assertIn("5 questions", run(*command, "--limit", 5, "--threads", 1))
        # A text that fits is one window.
        whole = run_json("evaluate", "answers", "--checkpoint", hf, "--input", self.held, "--threads", 1)
        self.assertEqual(whole["examples"], 20)
        again = self.tune("again", *self.settings, f"tune.model={hf}", "train.steps=1", "train.validate_every=1")
        self.assertLess(again["loss"], 1.5)
        self.recipe_runs("answers", self.settings[2:3] + ("tune.stride=6",))

    def test_beside_vectors(self):
        adapter, last = self.beside("answers-ia3", (*self.settings, "tune.method=ia3", "tune.objective=classify"), "QUESTION_ANS", ["qa_outputs"])
        command = ("evaluate", "answers", "--checkpoint", self.encoder, "--adapter", adapter, "--input", self.held, "--threads", 1)
        self.assertEqual(run_json(*command, "--length", 16, "--stride", 6), {"metrics": last["validation_scores"], "examples": 20})

    def test_questions_are_scored_whole(self):
        few = (*self.settings, "train.steps=1", "train.validate_every=1")
        alone = self.tune("one-window", *few, "train.validate_samples=1")  # the longest window fills it
        self.assertNotIn("validation_scores", alone)
        said = ended(self.command("some", *few, "train.validate_samples=40"))
        self.assertEqual(said.returncode, 0, said.stderr)
        self.assertRegex(said.stderr, r"tune.validation: \d+ of 20 questions are scored, those whose windows are all in the first 40 of \d+ samples")
        # Two files are one set.
        other = self.questions("other", 5, 3, False)
        both = self.folder / "both.json"
        both.write_text(json.dumps({"data": [article for path in (self.held, other) for article in json.loads(path.read_text())["data"]]}))
        scores = [self.tune(f"files-{number}", *few, f"tune.validation={files}")["validation_scores"]
                  for number, files in enumerate((both, f"[{self.held}, {other}]"))]
        self.assertEqual(scores[0], scores[1])

    @unittest.skipUnless(mpirun.MPIRUN and (pathlib.Path(PROGRAM).parent / "libmegalith_mpi.so").exists(), "mpirun or the plug-in is not here")
    def test_other_answers_on_one_rank_are_named(self):
        """Targets are of a question's first answer, scores of all: the examples are the same."""
        ranks = []
        for place, more in (("here", 0), ("there", 1)):
            asked = json.loads(self.held.read_text())
            paragraph = asked["data"][1]["paragraphs"][0]
            paragraph["qas"][0]["answers"] += [{"text": "the", "answer_start": paragraph["context"].index("the")}] * more
            (self.folder / place).mkdir()
            (self.folder / place / "asked.json").write_text(json.dumps(asked))
            ranks.append((1, ["-wdir", str(self.folder / place), *self.command("apart", *self.settings, "tune.validation=asked.json", "parallel.data=2")]))
        process = mpirun.start(*ranks)
        _, stderr = mpirun.ended(process, PATIENCE)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertIn("what answers are scored by differs between ranks", stderr)

    def test_the_best_is_by_a_score(self):
        best_by = (*self.settings, "train.validate_every=8", "train.best_by=f1", "train.early_stopping=3", "checkpoint.keep_best=true")
        self.tune("best", *best_by)
        scores = [(line["validation_scores"]["f1"], line["step"]) for line in self.metrics("best") if "validation_scores" in line]
        highest = max(score for score, _ in scores)
        step = next(step for score, step in scores if score == highest)
        best = json.loads((self.folder / "best/run.json").read_text())["best"]
        self.assertEqual(best, {"step": step, "f1": highest, "checkpoint": f"checkpoints/step-{step:08}"})
        self.assertTrue((self.folder / "best" / best["checkpoint"]).is_dir())
        said = run_json("evaluate", "answers", "--checkpoint", self.folder / "best" / best["checkpoint"], "--input", self.held, "--length", 16, "--stride", 6,
                        "--threads", 1)
        self.assertEqual(said["metrics"]["f1"], highest)
        self.assertEqual(self.tune("best", *best_by)["status"], "already finished")
        self.assertIn("train.best_by was f1, is loss", self.tune("best", *best_by, "train.best_by=loss", "train.steps=90", code=2))
        for overrides, expected in (
                (("train.best_by=accuracy",), "validations of this recipe give no accuracy; set one of loss, exact_match, f1"),
                (("train.best_by=f1", "train.validate_samples=1"), "have no question whole; set a larger train.validate_samples"),
                (("train.best_by=rouge",), "exact_match")):
            self.assertIn(expected, self.tune("no", *self.settings, *overrides, code=2))

    def test_another_number_has_a_best_of_its_own(self):
        """What was kept by the loss is no result of a run whose best is by F1, and no line of a table of such runs."""
        settings = (*self.settings, "tune.seeds=2", "train.validate_every=2", "checkpoint.keep_best=true")
        by_f1 = {"options": ("--allow", "train.best_by")}
        self.tune("changed", *settings, "train.steps=6")
        said = self.tune("changed", *settings, "train.steps=6", "train.best_by=f1", **by_f1)
        self.assertEqual(said["status"], "already finished")
        for one in said["seeds"]:
            last = self.metrics(f"changed/seed-{one['seed']}")[-1]
            self.assertEqual((one["step"], one["f1"], one["validation_loss"]), (6, last["validation_scores"]["f1"], last["validation_loss"]))
            self.assertEqual(one["result"], str(self.folder / f"changed/seed-{one['seed']}"))
        said = self.tune("changed", *settings, "train.steps=12", "train.best_by=f1", **by_f1)
        for one in said["seeds"]:
            run_folder = self.folder / f"changed/seed-{one['seed']}"
            scores = {line["step"]: line["validation_scores"]["f1"] for line in self.metrics(f"changed/seed-{one['seed']}") if "validation_scores" in line}
            highest = max((8, 10, 12), key=scores.get)  # the first of equals
            self.assertEqual((one["step"], one["f1"]), (highest, scores[highest]))
            self.assertEqual(one["result"], str(run_folder / f"checkpoints/step-{highest:08}"))
            self.assertEqual(json.loads((run_folder / "run.json").read_text())["best"]["step"], highest)

    def test_seeds_are_compared_by_answers(self):
        said = self.tune("seeds", *self.settings, "tune.seeds=2", "train.steps=2", "train.validate_every=2")
        self.assertEqual(said["best"]["by"], "exact_match")
        self.assertIn("f1", said["median"])
        again = self.tune("by-f1", *self.settings, "tune.seeds=2", "train.steps=2", "train.validate_every=2", "train.best_by=f1")
        self.assertEqual(again["best"]["by"], "f1")
        self.assertEqual(again["median"], said["median"])

    def test_what_is_wrong_is_named(self):
        bad = self.folder / "bad.json"
        bad.write_text(self.held.read_text().replace('"answer_start": ', '"answer_start": 1'))
        for overrides, expected in (
                ((f"tune.data={bad}",), "does not stand at character 1"),
                (("tune.labels=[a, b]",), "tune.labels has no effect with tune.task: question_answering"),
                (("tune.overlong=refuse",), "tune.overlong has no effect with tune.task: question_answering"),
                (("tune.stride=12",), "leaves room for")):
            self.assertIn(expected, self.tune("no", *self.settings, *overrides, code=2))
        command = ("evaluate", "answers", "--checkpoint", self.encoder, "--input", self.held)
        self.assertIn("answers need a model whose head says where they begin and end", run(*command, code=2))
        for word in ("nan", "inf", "1e7"):
            self.assertIn("--null-threshold", run(*command, "--null-threshold", word, code=2))


if __name__ == "__main__":
    unittest.main()
