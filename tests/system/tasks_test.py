#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Scores of tasks from the command line: python3 tasks_test.py PROGRAM

A model of a few steps answers made questions: numbers are those of their definitions (from `evaluate score`, and from the samples
files themselves), whatever is asked together, under several ranks; every refusal names file, line and what is wrong."""
import json
import math
import statistics
import unittest

from program import run, run_json
from refusals import Refusals

PIQA = [
    {"goal": f"the cat sees the dog {word}", "sol1": f"a {word}", "sol2": f"the {word} and the cat", "label": i % 2}
    for i, word in enumerate(("mat", "man", "hat", "sun", "dog", "cat", "red", "big"))]
LAMBADA = [{"text": f"the {word} sees the cat"} for word in ("dog", "man", "cat", "big dog")]
PAGES = [{"page": " = Cats = \n The cat sat , and the dog ( a big one ) sat . \n"}, {"page": " = Dogs = \n The dog sees the cat . \n"}]
WIDE = ("model.context=96", "train.sequence_length=16")
SUMS = """
task: sums
output_type: generate_until
test_split: test
doc_to_text: "{{question}} ="
doc_to_target: answer
generation_kwargs: {until: ["."], max_gen_toks: 6}
filter_list:
  - name: first
    filter: [{function: regex, regex_pattern: "([a-z]+)"}, {function: take_first}]
metric_list: [{metric: exact_match, ignore_case: true}]
"""


class Tasks(Refusals):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("wide", "train.steps=2", *WIDE)
        cls.sets = cls.folder / "sets"
        cls.sets.mkdir()
        for name, documents in (("piqa_validation", PIQA), ("lambada_openai", LAMBADA), ("wikitext_test", PAGES),
                                ("sums", [{"question": "the cat", "answer": "x"}, {"question": "a dog", "answer": "y"}])):
            (cls.sets / f"{name}.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
        (cls.sets / "sums.yaml").write_text(SUMS)

    def tasks(self, *options):
        text = run("evaluate", "tasks", "--checkpoint", self.folder / "wide", "--data", self.sets, "--json", *options)
        return {(line["task"], line["metric"]): line for line in map(json.loads, text.splitlines())}

    def scores(self, texts):
        lines = self.folder / "lines.jsonl"
        lines.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        text = run("evaluate", "score", "--checkpoint", self.folder / "wide", "--input", lines)
        return [json.loads(line) for line in text.splitlines()]

    def continuation(self, context, continuation):
        """The log-probability of a continuation by `evaluate score`."""
        whole, begin = self.scores([context + continuation, context])
        return sum(whole["logprobs"][len(begin["ids"]) - 1:])

    def test_choices_are_the_likelier_ones(self):
        found = self.tasks("--tasks", "piqa", "--output", self.folder / "out")
        right, by_length = [], []
        for d in PIQA:
            scores = [self.continuation(f"Question: {d['goal']}\nAnswer:", f" {d[key]}") for key in ("sol1", "sol2")]
            right.append(float(scores[1] > scores[0]) == d["label"])
            lengths = [len(d["sol1"]), len(d["sol2"])]
            by_length.append(float(scores[1] / lengths[1] > scores[0] / lengths[0]) == d["label"])
        for metric, values in (("acc", right), ("acc_norm", by_length)):
            line = found["piqa", metric]
            self.assertEqual(line["value"], statistics.fmean(values))
            self.assertAlmostEqual(line["stderr"], statistics.stdev(values) / math.sqrt(len(values)), delta=1e-15)
            self.assertEqual((line["examples"], line["profile"]), (8, "lm-eval"))
        folder = next((self.folder / "out").iterdir())
        results = json.loads(next(folder.glob("results_*.json")).read_text())
        self.assertEqual(results["results"]["piqa"]["acc,none"], found["piqa", "acc"]["value"])
        self.assertEqual(results["n-samples"]["piqa"], {"original": 8, "effective": 8})
        samples = [json.loads(line) for line in next(folder.glob("samples_piqa_*.jsonl")).read_text().splitlines()]
        self.assertEqual([s["acc"] for s in samples], [float(r) for r in right])
        self.assertEqual(samples[0]["doc"], PIQA[0])
        self.assertEqual(samples[0]["arguments"]["gen_args_1"], {"arg_0": f"Question: {PIQA[0]['goal']}\nAnswer:", "arg_1": f" {PIQA[0]['sol2']}"})

    def test_last_words_and_whole_texts(self):
        found = self.tasks("--tasks", "lambada_openai,wikitext", "--bootstrap", "3000")
        values = [self.continuation(d["text"].rsplit(" ", 1)[0], " " + d["text"].rsplit(" ", 1)[1]) for d in LAMBADA]
        line = found["lambada_openai", "perplexity"]
        self.assertAlmostEqual(line["value"] / math.exp(-statistics.fmean(values)), 1, delta=1e-12)
        self.assertGreater(line["stderr"], 0)
        self.assertEqual(line["stderr"], self.tasks("--tasks", "lambada_openai", "--bootstrap", "3000", "--threads", 1)["lambada_openai", "perplexity"]["stderr"])
        words, per_byte = found["wikitext", "word_perplexity"], found["wikitext", "bits_per_byte"]
        self.assertIsNone(words["stderr"])
        counts = [(len(d["page"].split()) + 2, len(d["page"].encode())) for d in PAGES]  # an empty word on either side
        self.assertAlmostEqual(math.log(words["value"]) * sum(w for w, _ in counts), per_byte["value"] * math.log(2) * sum(b for _, b in counts), delta=1e-6)

    def test_nothing_depends_on_what_is_asked_together(self):
        tasks = ("--tasks", "piqa,lambada_openai", "--bootstrap", 100)
        alone = self.tasks(*tasks)
        for options in (("--threads", 1), ("--ranks", 2, "--set", "parallel.tensor=1")):
            self.assertEqual(self.tasks(*tasks, *options), alone, options)
        self.assertEqual(self.tasks("--tasks", "piqa", "--limit", 3)["piqa", "acc"]["examples"], 3)

    def test_a_task_of_a_file(self):
        found = self.tasks("--task-file", self.sets / "sums.yaml", "--output", self.folder / "sums-out")
        line = found["sums", "exact_match"]
        self.assertEqual((line["value"], line["filter"], line["examples"]), (0.0, "first", 2))
        samples = next((self.folder / "sums-out").glob("*/samples_sums_*.jsonl")).read_text().splitlines()
        for sample in map(json.loads, samples):
            prompt = sample["arguments"]["gen_args_0"]["arg_0"]
            text = run_json("generate", "--checkpoint", self.folder / "wide", "--prompt", prompt, "--max-new-tokens", 6, "--temperature", 0, "--stop", ".")
            self.assertEqual(sample["resps"][0][0].lstrip(), text["text"].lstrip())

    def test_two_models_are_compared(self):
        self.train("other", "train.steps=1", "run.seed=3", *WIDE)
        for name in ("wide", "other"):
            run("evaluate", "tasks", "--checkpoint", self.folder / name, "--data", self.sets, "--tasks", "piqa", "--output", self.folder / f"of-{name}")
        first, second = (next((self.folder / f"of-{name}").glob("*/samples_*.jsonl")) for name in ("wide", "other"))
        lines = [json.loads(line) for line in run("evaluate", "compare", "--first", first, "--second", second, "--json").splitlines()]
        self.assertEqual({line["metric"] for line in lines}, {"acc", "acc_norm"})
        for line in lines:
            self.assertAlmostEqual(line["second"] - line["first"], line["difference"], delta=1e-15)
            self.assertTrue(0 <= line["p"] <= 1)
        self.refused("evaluate", "compare", "--first", first, "--second", self.put("no.jsonl", b"{}\n"), say=["no.jsonl:1"])

    def test_glue(self):
        labels, said = self.put("labels.jsonl", b'{"label": 1}\n{"label": 0}\n{"label": 1}\n'), self.put("said.txt", b"1\n0\n0\n")
        self.assertEqual(run_json("evaluate", "glue", "--task", "mrpc", "--predictions", said, "--labels", labels),
                         {"task": "mrpc", "metrics": {"accuracy": 2 / 3, "f1": 2 / 3}, "examples": 3})
        run("evaluate", "glue", "--task", "rte", "--predictions", said, "--output", self.folder / "submission")
        self.assertEqual((self.folder / "submission" / "RTE.tsv").read_text(), "index\tprediction\n0\tnot_entailment\n1\tentailment\n2\tentailment\n")
        glue = ("evaluate", "glue", "--predictions", said, "--labels")
        self.refused(*glue, self.put("bad.txt", b"1\nmaybe\n0\n"), "--task", "rte", say=["bad.txt:2", "maybe"])
        self.refused(*glue, self.put("short.txt", b"1\n"), "--task", "rte", say=["1 labels and 3 predictions"])
        self.refused(*glue, labels, "--task", "rtf", say=["did you mean rte?"])
        self.refused("evaluate", "glue", "--task", "rte", "--predictions", said, say=["--labels"])
        for _, path in self.each("labels", b'{"label": 1}\n'):
            self.refused(*glue, path, "--task", "rte", say=[path.name])

    def test_bad_input(self):
        tasks = ("evaluate", "tasks", "--checkpoint", self.folder / "wide", "--data", self.sets)
        self.refused(*tasks, "--tasks", "helaswag", say=["did you mean hellaswag?"])
        self.refused(*tasks, "--tasks", "hellaswag", say=["hellaswag", "hellaswag_validation.jsonl"])
        self.refused(*tasks, "--tasks", "piqa", "--shots", 2, say=["train"])
        self.refused(*tasks, "--tasks", "piqa", "--profile", "nemo2")
        self.refused(*tasks, say=["--tasks"])
        self.refused("evaluate", "tasks", "--checkpoint", self.folder / "wide", "--tasks", "piqa", say=["--data"])
        good = json.dumps(PIQA[0]) + "\n"
        for line, says in (('{"goal": "x", "sol1": "y", "label": 0}', "sol2"), ('{"goal": "x", "sol1": "y", "sol2": "z"}', "label"),
                           ('{"goal": "x", "sol1": "y", "sol2": "z", "label": 2}', "the right answer is 2"),
                           ('{"goal": "x", "sol1": "y", "sol2": "z", "label": -1}', "the right answer is -1"), ("[1]", "is no JSON object"),
                           ('{"goal": "x", "sol1": "y", "sol2": 3, "label": 0}', "list of texts"), ('{"goal"', "is not JSON")):
            folder = self.folder / "bad-sets"
            folder.mkdir(exist_ok=True)
            (folder / "piqa.jsonl").write_text(good + line + "\n")
            self.refused("evaluate", "tasks", "--checkpoint", self.folder / "wide", "--data", folder, "--tasks", "piqa", say=["piqa.jsonl:2", says])
        for content, says in ((SUMS.replace("sums", "piqa"), "another task is called piqa"), (SUMS + "process_docs: !function utils.x\n", "calls Python"), (SUMS.replace("question}}", "questoin}}"), "'questoin' is undefined"),
                              (SUMS.replace("regex,", "majority_vote,"), "majority_vote"), (SUMS.replace("{metric: exact_match", "{metric: bleu"), "bleu")):
            self.refused(*tasks, "--tasks", "piqa", "--task-file", self.put("sums.yaml", content.encode()), say=[says])


if __name__ == "__main__":
    unittest.main()
