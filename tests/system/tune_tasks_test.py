#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Several tasks in one run, each behind virtual tokens of its own: python3 tune_tasks_test.py PROGRAM"""
import json
import re
import unittest

from adapter_folder import LLAMA_RECIPE
from event_file import steps_of
from program import ROOT, run, run_json
from server import Server
from tune_examples import TuneTest, examples

TOKENS = 6
PROMPT = ("tune.method=prompt", f"tune.virtual_tokens={TOKENS}", "optimizer.lr=5e-2")
MLP = ("tune.method=p_tuning", f"tune.virtual_tokens={TOKENS}", "tune.encoder_hidden=24", "optimizer.lr=3e-3")
LSTM = (*MLP, "tune.encoder=lstm")
METHODS = {"prompt": PROMPT, "mlp": MLP, "lstm": LSTM}
# The same sentences, answered otherwise: nothing but virtual tokens says how.
ANSWERS = {"agree": "yes.", "deny": "no."}
TEMPLATE = "<|VIRTUAL_PROMPT_0|>{text} {answer}"


def as_set(tasks):
    return f"tune.tasks={json.dumps(tasks)}"


def written(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


class TuneTasks(TuneTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("base", *LLAMA_RECIPE, "model.context=64", "train.steps=60", "train.validate_every=0", "model.dropout=0")
        cls.model = cls.folder / "model"
        run("convert", "--from", cls.folder / "base", "--to", cls.model, "--format", "hf")
        cls.lines = {name: [{"text": text, "answer": answer} for text, _ in list(examples(24 + 6 * i, 1))] for i, (name, answer) in enumerate(ANSWERS.items())}
        cls.tasks = [{"name": name, "data": written(cls.folder / f"{name}.jsonl", lines), "template": TEMPLATE} for name, lines in cls.lines.items()]
        cls.held = [{**task, "validation": written(cls.folder / f"held-{task['name']}.jsonl", cls.lines[task["name"]][:count])}
                    for task, count in zip(cls.tasks, (7, 5))]
        cls.common = written(cls.folder / "common.jsonl", [{"taskname": name, **line} for name, lines in cls.lines.items() for line in lines])
        cls.write_recipe(f"""
tune: {{model: {cls.model}}}
train: {{steps: 8, sequence_length: 64, global_batch: 4, micro_batch: 2}}
optimizer: {{lr: 1e-3, weight_decay: 0, schedule: constant}}
run: {{threads: 1}}
parallel: {{tensor_shards: 2, data_shards: 2}}
""")

    def rows(self, out, task=""):
        return (self.folder / out / "adapter" / task / "adapter_model.safetensors").read_bytes()

    def test_each_folder_is_its_tasks(self):
        sentences = [line["text"] for line in self.lines["agree"][:10]]
        texts = [written(self.folder / f"said-{name}.jsonl", [{"text": f"{sentence} {answer}"} for sentence in sentences]) for name, answer in ANSWERS.items()]

        def agreement(adapter):
            """How much more probable it is to agree with ten sentences than to deny them."""
            agreed, denied = (sum(sum(json.loads(line)["logprobs"]) for line in run(
                "evaluate", "score", "--checkpoint", self.model, "--input", text, "--threads", 1, "--json", "--adapter", adapter).splitlines()) for text in texts)
            return agreed - denied

        for method, settings in METHODS.items():
            out = f"long-{method}"
            said = self.tune_says(out, *settings, as_set(self.held), "train.steps=150", "train.validate_every=150")
            self.assertIn("tune.data: task agree: 24 examples", said)
            self.assertIn("tune.data: task deny: 30 examples", said)
            self.assertIn("tune.validation: task deny: 5 examples", said)
            self.assertIn(f"{TOKENS} virtual tokens for each of 2 tasks", said)
            self.assertFalse((self.folder / out / "adapter/adapter_config.json").exists())
            for name in ANSWERS:
                adapter = self.folder / out / "adapter" / name
                self.assertIn(f"the adapter of task {name} is {adapter}", said)
                config = json.loads((adapter / "adapter_config.json").read_text())
                self.assertEqual((config["num_virtual_tokens"], config["token_dim"]), (TOKENS, 32))
                self.assertLess(adapter.joinpath("adapter_model.safetensors").stat().st_size, TOKENS * 32 * 4 + 300)
            agree, deny = (agreement(self.folder / out / "adapter" / name) for name in ANSWERS)
            self.assertGreater(agree, deny + 10, method)
            memory = self.record(out)["memory"]
            self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def validated(self, out):
        """Of each validation the loss over all, and that of each task."""
        return {m["step"]: (m["validation_loss"], m.get("validation_task_losses")) for m in self.metrics(out) if "validation_loss" in m}

    def test_a_task_is_trained_as_if_it_were_alone(self):
        """Rows of a table get the gradients of their own task's texts, and AdamW looks at each number alone. Beside another task with as many
        learned tokens these are half as large, which without eps moves no bit. Nor do neighbours in a sample move the task's validation loss."""
        common = (*PROMPT, "tune.prompt_init=text", "optimizer.clip=0", "optimizer.eps=1e-30", "model.dropout=0", "train.global_batch=1",
                  "train.micro_batch=1", "parallel.data_shards=1", "train.validate_every=4")
        lines = {"agree": {"text": "the cat sees the dog", "answer": "yes."}, "deny": {"text": "the man likes the bird", "answer": "yes."}}
        starts = {"agree": "yes or no", "deny": "the fish"}
        tasks = [{**task, "data": written(self.folder / f"one-{task['name']}.jsonl", [lines[task["name"]]]), "prompt_text": starts[task["name"]]}
                 for task in self.held]
        said = self.tune_says("together", *common, as_set(tasks))
        together, learned = self.validated("together"), {}
        for task in tasks:
            name, out = task["name"], f"alone-{task['name']}"
            alone = self.tune_says(out, *common, f"tune.data={task['data']}", f"tune.validation={task['validation']}",
                                   f"tune.template={json.dumps(TEMPLATE)}", f"tune.prompt_text={task['prompt_text']}")
            self.assertEqual(self.rows("together", name), self.rows(out), name)
            self.assertEqual({step: (losses[name], None) for step, (_, losses) in together.items()}, self.validated(out))
            learned[name] = int(re.search(r"tune\.validation: .* \((\d+) learned\)", alone)[1])
        self.assertNotEqual(self.rows("together", "agree"), self.rows("together", "deny"))
        self.assertEqual(list(together), [4, 8])
        for loss, losses in together.values():
            self.assertEqual(list(losses), ["agree", "deny"])
            self.assertAlmostEqual(sum(learned[name] * losses[name] for name in learned) / sum(learned.values()), loss, delta=1e-12)
            self.assertIn(f"  validation {loss:.4f} (agree {losses['agree']:.4f}, deny {losses['deny']:.4f})  ", said)
        events, = (self.folder / "together").glob("events.out.tfevents.*")
        self.assertEqual(steps_of(events, "lm loss validation/deny"), [4, 8])
        self.assertIn("validation loss of deny", (self.folder / "together/report.html").read_text())
        # In another order they are the same two.
        self.tune("turned", *common, as_set(tasks[::-1]))
        for name in lines:
            self.assertEqual(self.rows("together", name), self.rows("turned", name))
        self.assertEqual({step: losses for step, (_, losses) in self.validated("turned").items()}, {step: losses for step, (_, losses) in together.items()})

    def test_a_task_without_validation_examples_has_no_loss(self):
        named = [{key: task[key] for key in ("name", "template")} for task in self.tasks]
        held = {"agree": self.lines["agree"][:7], "deny": self.lines["deny"][:5]}
        settings = (*PROMPT, "train.steps=1", "train.validate_every=1")
        self.tune("own-held", *settings, as_set(self.held))
        for out, names in (("both-held", ("agree", "deny")), ("one-held", ("agree",))):
            lines = written(self.folder / f"{out}.jsonl", [{"taskname": name, **line} for name in names for line in held[name]])
            said = self.tune_says(out, *settings, as_set(named), f"tune.data={self.common}", f"tune.validation={lines}")
            (loss, losses), = self.validated(out).values()
            self.assertEqual(list(losses), list(names))
            self.assertIn(f"validation {loss:.4f} ({', '.join(f'{name} {losses[name]:.4f}' for name in names)})", said)
        self.assertEqual(self.validated("both-held"), self.validated("own-held"))
        self.assertEqual(losses, {"agree": loss})

    def test_a_validation_takes_the_first_samples(self):
        """Nine texts of nine tokens at least do not fit into one sample of 64."""
        names = [f"t{i}" for i in range(9)]
        one = written(self.folder / "held-line.jsonl", self.lines["agree"][:1])
        settings = (*PROMPT, as_set([{**self.tasks[0], "name": name, "validation": one} for name in names]), "train.steps=1", "train.validate_every=1")
        said = self.tune_says("all-samples", *settings)
        (_, losses), = self.validated("all-samples").values()
        self.assertEqual(list(losses), names)
        self.assertRegex(said, r"  validation \S+ \(t0 \S+, t1 .*, t5 \S+, 3 more\)  ")
        self.assertNotIn("a validation takes", said)
        said = self.tune_says("one-sample", *settings, "train.validate_samples=1")
        (_, of_part), = self.validated("one-sample").values()
        taken = re.findall(r"tune\.validation: task (t\d): a validation takes 1 of its 1 examples", said)
        missing = re.findall(r"tune\.validation: task (t\d): none of its 1 examples is in the first 1 of \d+ samples", said)
        self.assertEqual(sorted(taken + missing), names)
        self.assertTrue(missing)
        self.assertEqual(of_part, {name: losses[name] for name in taken})

    def test_a_common_file_says_the_same(self):
        named = [{key: task[key] for key in ("name", "template")} for task in self.tasks]
        for method, settings in METHODS.items():
            self.tune(f"own-{method}", *settings, as_set(self.tasks))
            self.tune(f"common-{method}", *settings, as_set(named), f"tune.data={self.common}")
            self.same(f"own-{method}", f"common-{method}")

    def test_no_layout_changes_a_bit(self):
        for method, settings in METHODS.items():
            settings = (*settings, as_set(self.held), "train.validate_every=4")
            self.tune(f"{method}-1", *settings)
            self.assertEqual([set(losses) for _, losses in self.validated(f"{method}-1").values()], [set(ANSWERS)] * 2)
            for number, layout in enumerate((("parallel.tensor=2",), ("parallel.pipeline=2",), ("parallel.data=2", "parallel.zero=1"),
                                             ("parallel.tensor=2", "parallel.sequence=true", "memory.recompute=full"),
                                             ("train.micro_batch=1", "run.threads=2"))):
                self.tune(f"{method}-x{number}", *settings, *layout)
                self.same(f"{method}-1", f"{method}-x{number}")
                self.assertEqual(self.validated(f"{method}-1"), self.validated(f"{method}-x{number}"), layout)
                for name in ANSWERS:
                    self.assertEqual(self.rows(f"{method}-1", name), self.rows(f"{method}-x{number}", name), layout)
                memory = self.record(f"{method}-x{number}")["memory"]
                self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def test_a_run_goes_on_where_it_stopped(self):
        for method, settings in METHODS.items():
            settings = (*settings, as_set(self.held), "train.validate_every=1")
            self.tune(f"{method}-whole", *settings)
            self.tune(f"{method}-part", *settings, "train.steps=3")
            self.tune(f"{method}-part", *settings)
            self.same(f"{method}-whole", f"{method}-part")
            self.assertEqual(self.validated(f"{method}-whole"), self.validated(f"{method}-part"))
        more = (*PROMPT, "train.steps=9")
        first, second = self.tasks
        self.assertIn("tune.tasks.0.name was \"agree\", is \"deny\"", self.tune("prompt-part", *more, as_set([second, first]), code=2))
        self.assertIn("tune.tasks.2.name was absent", self.tune("prompt-part", *more, as_set([first, second, {**first, "name": "third"}]), code=2))
        changed = {**second, "data": written(self.folder / "changed.jsonl", self.lines["deny"][1:])}
        self.assertIn("the content of tune.tasks is not what the run began with", self.tune("prompt-part", *more, as_set([first, changed]), code=2))
        self.tune("prompt-part", *more, as_set([first, changed]), options=("--allow", "tune.tasks"))

    def test_seeds_name_the_folder_of_each_task(self):
        held = [{**task, "validation": task["data"]} for task in self.tasks]
        settings = (*PROMPT, as_set(held), "tune.seeds=2", "train.steps=4", "train.validate_every=4")
        said = json.loads(self.tune("seeds", *settings))
        for one in said["seeds"]:
            folder = self.folder / f"seeds/seed-{one['seed']}/adapter"
            self.assertEqual(one["adapters"], {name: str(folder / name) for name in ANSWERS})
            self.assertTrue(all((folder / name / "adapter_model.safetensors").exists() for name in ANSWERS))
        best = next(one for one in said["seeds"] if one["seed"] == said["best"]["seed"])
        self.assertEqual(said["best"]["adapters"], best["adapters"])
        table = run(*self.words("seeds", *settings))
        self.assertIn(f"is seed {best['seed']}: {best['adapters']['agree']}, {best['adapters']['deny']}\n", table)

    def test_virtual_tokens_stand_where_marks_are(self):
        data = self.tasks[0]["data"]
        front = ("<|VIRTUAL_PROMPT_0|>{text} {answer}", "<|VIRTUAL_PROMPT_0|>the cat sees the dog")
        inside = ("{text}<|VIRTUAL_PROMPT_0|> so<|VIRTUAL_PROMPT_1|> {answer}", "the cat sees the dog<|VIRTUAL_PROMPT_0|> so<|VIRTUAL_PROMPT_1|>")

        def settings(template, *more):
            return (*more, f"tune.data={data}", f"tune.template={json.dumps(template)}")

        def answer(out, prompt, code=0):
            words = ("generate", "--checkpoint", self.model, "--adapter", self.folder / out / "adapter", "--prompt", prompt, "--max-new-tokens", 8,
                     "--temperature", 0, "--threads", 1, "--json")
            return run(*words, code=code) if code else json.loads(run(*words))["ids"]

        # At the beginning of a text, which no special token begins here, they stand as without marks.
        self.tune("before", *settings(front[0], *PROMPT))
        self.tune("front", *settings(front[0], *PROMPT, f"tune.virtual_token_splits=[{TOKENS}]"))
        self.same("before", "front")
        self.assertEqual(self.rows("before"), self.rows("front"))
        self.assertEqual(answer("front", front[1]), answer("before", "the cat sees the dog"))
        for method, own in METHODS.items():
            out, split = f"inside-{method}", settings(inside[0], *own, "tune.virtual_token_splits=[4, 2]")
            self.tune(out, *split, "train.steps=20")
            for number, layout in enumerate((("parallel.tensor=2", "parallel.sequence=true"), ("parallel.data=2", "parallel.zero=1"), ("parallel.pipeline=2", "train.micro_batch=1"))):
                self.tune(f"{out}-x{number}", *split, "train.steps=20", *layout)
                self.same(out, f"{out}-x{number}")
            self.tune(f"{out}-part", *split, "train.steps=6")
            self.tune(f"{out}-part", *split, "train.steps=20")
            self.same(out, f"{out}-part")
        self.assertNotEqual(self.losses("inside-prompt")[:8], self.losses("front"))
        adapter = self.folder / "inside-prompt/adapter"
        self.assertEqual(json.loads((adapter / "virtual_token_splits.json").read_text()), {"virtual_token_splits": [4, 2]})
        self.assertFalse((self.folder / "before/adapter/virtual_token_splits.json").exists())
        self.assertTrue(all(number < 285 for number in answer("inside-prompt", inside[1])))
        # What is scored is the text, which it has learned to go on with.
        self.tune("inside-long", *settings(inside[0], *PROMPT, "tune.virtual_token_splits=[4, 2]"), "train.steps=150")
        scored = {}
        for name, text, options in (("alone", "the cat sees the dog so yes.", ()),
                                    ("marked", f"{inside[1]} yes.", ("--adapter", self.folder / "inside-long/adapter"))):
            line = written(self.folder / f"{name}.jsonl", [{"text": text}])
            scored[name] = json.loads(run("evaluate", "score", "--checkpoint", self.model, "--input", line, "--threads", 1, "--json", *options))
        self.assertEqual(scored["alone"]["ids"], scored["marked"]["ids"])
        self.assertEqual(len(scored["marked"]["logprobs"]), len(scored["alone"]["logprobs"]))
        self.assertGreater(sum(scored["marked"]["logprobs"][-3:]), sum(scored["alone"]["logprobs"][-3:]))
        for prompt, expected in (("the cat", "the text has no <|VIRTUAL_PROMPT_0|>"), ("the cat<|VIRTUAL_PROMPT_1|>", "that is not its next mark")):
            self.assertIn(expected, answer("inside-prompt", prompt, code=2))
        text = self.folder / "text.txt"
        self.assertIn("its virtual tokens stand inside texts",
                      run("evaluate", "perplexity", "--checkpoint", self.model, "--input", text, "--adapter", adapter, code=2))
        with Server(self.model, "--adapter", f"marked={adapter}") as server:
            choice = server.complete(inside[1], model="marked", return_token_ids=True)["choices"][0]
            self.assertEqual(choice["token_ids"], answer("inside-prompt", inside[1]))
            self.assertEqual(server.end(), 0)
        self.assertIn("are no part of the weights", run("convert", "--from", self.model, "--to", self.folder / "never", "--merge-adapter", adapter, code=2))
        self.assertIn("tune.virtual_token_splits", self.tune("inside-prompt", *settings(inside[0], *PROMPT, "tune.virtual_token_splits=[3, 3]"),
                                                             "train.steps=21", code=2))
        # Of tasks each has its own.
        tasks = [{**task, "template": inside[0]} for task in self.tasks]
        self.tune("inside-tasks", *LSTM, "tune.virtual_token_splits=[4, 2]", as_set(tasks))
        self.tune("inside-tasks-x", *LSTM, "tune.virtual_token_splits=[4, 2]", as_set(tasks), "parallel.tensor=2", "train.micro_batch=1")
        self.same("inside-tasks", "inside-tasks-x")
        self.assertTrue((self.folder / "inside-tasks/adapter/deny/virtual_token_splits.json").exists())

    def test_its_recipe(self):
        data = written(self.folder / "questions.jsonl", [
            line for text, answer in examples(6, 1)
            for line in ({"taskname": "squad", "context": text, "question": "who", "answer": "the cat"},
                         {"taskname": "boolq", "passage": text, "question": "is it", "answer": answer.strip()})])
        words = [word for o in (f"run.out={self.folder / 'recipe'}", f"tune.model={self.model}", f"tune.data={data}", "train.epochs=", "train.steps=2",
                                "train.sequence_length=64", "run.threads=1") for word in ("--set", o)]
        self.assertEqual(run_json("tune", ROOT / "recipes/tune/tasks.yaml", *words)["status"], "finished")
        self.assertEqual({path.name for path in (self.folder / "recipe/adapter").iterdir()}, {"squad", "boolq"})

    def test_what_has_no_meaning_is_refused(self):
        first, second = self.tasks
        named = as_set([{"name": name, "template": TEMPLATE} for name in ("agree", "deny")])
        unknown = written(self.folder / "unknown.jsonl", [{"taskname": "agree", **self.lines["agree"][0]}, {"taskname": "Deny", **self.lines["deny"][0]}])
        extra = written(self.folder / "extra.jsonl", [{"taskname": "deny", "note": "x", **self.lines["deny"][0]}])
        one = written(self.folder / "one.jsonl", [{"taskname": "agree", **self.lines["agree"][0]}])
        wrong = {**second, "data": one}
        for overrides, expected in (
                (("tune.method=lora", as_set(self.tasks)), "tune.tasks has no effect with tune.method: lora"),
                ((*PROMPT, as_set(self.tasks), "tune.objective=dpo"), "tune.tasks is not built with tune.objective: dpo"),
                ((*PROMPT, as_set([first, first])), "two tasks named \"agree\""),
                ((*PROMPT, as_set([{**first, "name": "../agree"}])), "\"../agree\" is no name of a task"),
                ((*PROMPT, as_set([first, {"name": "deny"}])), "task \"deny\" names no file of examples"),
                ((*PROMPT, as_set(self.tasks), f"tune.data={self.common}"), "both name files"),
                ((*PROMPT, as_set(self.tasks), "train.sample_every=2"), "train.sample_every: its prompts are of none of tune.tasks"),
                ((*PROMPT, as_set(self.tasks), "tune.prompt_init=text"), "tune.prompt_init: text needs prompt_text in each of tune.tasks"),
                ((*PROMPT, as_set([first, {**second, "template": "{text} <|VIRTUAL_PROMPT_0|>{answer}"}])),
                 "tune.tasks.1.template: virtual tokens stand before the text"),
                ((*PROMPT, as_set([first, {**second, "template": "{answer}."}])), "tune.tasks.1.template \"{answer}.\": does not end with the {field}"),
                ((*PROMPT, as_set([{**first, "label": "x"}])), "tune.tasks.0.label"),
                ((*PROMPT, as_set(self.tasks), "tune.virtual_token_splits=[4, 3]"), "must be whole numbers whose sum is 6"),
                ((*PROMPT, as_set(self.tasks), "tune.virtual_token_splits=[4, 2]"), "recipe: tune.tasks.0.template has no <|VIRTUAL_PROMPT_1|>"),
                ((*PROMPT, named, f"tune.data={unknown}"), "unknown.jsonl:2: has an unknown taskname \"Deny\"; known here: agree, deny"),
                ((*PROMPT, named, f"tune.data={extra}"), "extra.jsonl:1: has a field \"note\", which the template of task \"deny\" has no place for"),
                ((*PROMPT, named, f"tune.data={one}"), "recipe: tune.data: no example of task \"deny\""),
                ((*PROMPT, as_set([first, wrong])), "one.jsonl:1: has an unknown taskname \"agree\"; known here: deny")):
            self.assertIn(expected, self.tune("refused", *overrides, code=2))
        self.assertFalse((self.folder / "refused/checkpoints").exists())


if __name__ == "__main__":
    unittest.main()
