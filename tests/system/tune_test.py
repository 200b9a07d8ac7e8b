#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning: all weights, low-rank factors, learned vectors, virtual tokens or their encoder of a model that is there, from examples or preferences to what is served: python3 tune_test.py PROGRAM"""
import json
import random
import shutil
import unittest

from adapter_folder import LLAMA_RECIPE
from event_file import steps_of
from program import ROOT, run, run_json
from tune_examples import TuneTest, examples

TEMPLATE = ("{% for m in messages %}<{{ m.role[0] }}>{{ m.content }}<|endoftext|>{% endfor %}"
            "{% if add_generation_prompt %}<a>{% endif %}")
LORA = ("tune.method=lora", "tune.rank=4", "tune.alpha=8")
DORA = (*LORA, "tune.dora=true")
BOTTLENECKS = ("tune.method=adapter", "tune.adapter_dim=8")
IA3 = ("tune.method=ia3", "optimizer.lr=3e-2")
PROMPT = ("tune.method=prompt", "tune.virtual_tokens=6", "optimizer.lr=5e-2")
MLP = ("tune.method=p_tuning", "tune.virtual_tokens=6", "tune.encoder_hidden=24", "optimizer.lr=3e-3")
LSTM = (*MLP, "tune.encoder=lstm")


class Tune(TuneTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("base", *LLAMA_RECIPE, "model.context=64", "train.steps=60", "train.validate_every=0", "model.dropout=0")
        cls.model = cls.folder / "model"
        run("convert", "--from", cls.folder / "base", "--to", cls.model, "--format", "hf")
        (cls.model / "chat_template.jinja").write_text(TEMPLATE)
        cls.data, cls.held, cls.chats = (cls.folder / f"{name}.jsonl" for name in ("data", "held", "chats"))
        for path, count, seed in ((cls.data, 60, 1), (cls.held, 10, 2)):
            path.write_text("".join(json.dumps({"prompt": p, "completion": c}) + "\n" for p, c in examples(count, seed)))
        cls.chats.write_text("".join(
            json.dumps({"messages": [{"role": "user", "content": p}, {"role": "assistant", "content": c.strip()}]}) + "\n"
            for p, c in examples(60, 3)))
        # Of each prompt the right answer was chosen, and the wrong one rejected.
        cls.pairs, cls.held_pairs = (cls.folder / f"{name}.jsonl" for name in ("preferences", "held-preferences"))
        for path, count, seed in ((cls.pairs, 60, 1), (cls.held_pairs, 10, 2)):
            path.write_text("".join(json.dumps({"prompt": p, "chosen": c, "rejected": " no." if c == " yes." else " yes."}) + "\n"
                                    for p, c in examples(count, seed)))
        cls.dpo = ("tune.objective=dpo", f"tune.data={cls.pairs}", "tune.beta=0.5")
        cls.write_recipe(f"""
tune: {{model: {cls.model}, data: {cls.data}}}
train: {{steps: 8, sequence_length: 64, global_batch: 4, micro_batch: 2}}
optimizer: {{lr: 1e-3, weight_decay: 0, schedule: constant}}
run: {{threads: 1}}
parallel: {{tensor_shards: 2, data_shards: 2}}
""")

    def losses(self, out):
        return [json.loads(line)["loss_hex"] for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def answer(self, checkpoint, prompt, *options):
        return run_json("generate", "--checkpoint", checkpoint, "--prompt", prompt, "--max-new-tokens", 12, "--temperature", 0,
                        "--threads", 1, *options)["text"]

    def right(self, checkpoint, *options):
        """Of the first ten examples, how many are answered so, and ended."""
        return sum(self.answer(checkpoint, prompt, *options) == answer for prompt, answer in list(examples(60, 1))[:10])

    def test_all_weights_learn_the_answers(self):
        last = json.loads(self.tune("full", "train.steps=150", "train.validate_every=50", f"tune.validation={self.held}", "optimizer.lr=3e-3"))
        self.assertEqual(last["status"], "finished")
        first = json.loads((self.folder / "full/metrics.jsonl").read_text().splitlines()[0])
        self.assertLess(last["validation_loss"], 0.3 * first["loss"])
        self.assertGreaterEqual(self.right(self.folder / "full"), 9)
        # What is beside the weights comes along: the template, the ids that end a text.
        folder = self.folder / "full-hf"
        run("convert", "--from", self.folder / "full", "--to", folder, "--format", "hf")
        self.assertEqual((folder / "chat_template.jinja").read_text(), TEMPLATE)
        self.assertEqual(json.loads((folder / "config.json").read_text())["eos_token_id"],
                         json.loads((self.model / "config.json").read_text())["eos_token_id"])

    def test_chats_go_through_the_models_template(self):
        self.tune("chats", f"tune.data={self.chats}")
        own = self.folder / "own.jinja"
        own.write_text(TEMPLATE.replace("<a>", "<a> ").replace("<{{ m.role[0] }}>", "<{{ m.role[0] }}>{{ ' ' if m.role == 'assistant' }}"))
        self.tune("own", f"tune.data={self.chats}", f"tune.template={own}")
        self.assertNotEqual(self.losses("chats"), self.losses("own"))

    def told(self, out):
        """Of each step what is told beside the loss."""
        return [{key: value for key, value in json.loads(line).items() if key.startswith(("rewards/", "logps/"))}
                for line in (self.folder / out / "metrics.jsonl").read_text().splitlines()]

    def test_preferences_are_learned(self):
        for method, rate in (("full", "1e-3"), ("lora", "3e-3")):
            out = f"prefers-{method}"
            last = json.loads(self.tune(out, *self.dpo, f"tune.method={method}", f"optimizer.lr={rate}", "train.steps=150", "train.validate_every=75",
                                        f"tune.validation={self.held_pairs}", "train.micro_batch=1"))
            self.assertEqual(last["status"], "finished")
            # At the start the model is its own reference: nothing is preferred, the loss is that of a coin.
            first = json.loads((self.folder / out / "metrics.jsonl").read_text().splitlines()[0])
            self.assertEqual(first["loss_hex"], "0x1.62e43p-1")
            self.assertEqual([first[f"rewards/{name}"] for name in ("chosen", "rejected", "margins", "accuracies")], [0, 0, 0, 0])
            self.assertLess(last["loss"], 0.1)
            self.assertLess(last["validation_loss"], 0.1)
            self.assertEqual(last["validation_rewards/accuracies"], 1)
            self.assertAlmostEqual(last["rewards/chosen"] - last["rewards/rejected"], last["rewards/margins"], delta=1e-4)
            events, = (self.folder / out).glob("events.out.tfevents.*")
            self.assertEqual(steps_of(events, "rewards/accuracies"), list(range(1, 151)))
            self.assertEqual(steps_of(events, "rewards/margins validation"), [75, 150])
            self.assertEqual(steps_of(events, "lm loss"), [])
            self.assertIn("validation rewards/accuracies", (self.folder / out / "report.html").read_text())
            memory = self.record(out)["memory"]
            self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        # What is served prefers the same: by how much the chosen texts are more probable.
        texts = self.folder / "compared.jsonl"
        pairs = list(map(json.loads, self.held_pairs.read_text().splitlines()))
        texts.write_text("".join(json.dumps({"text": pair["prompt"] + pair[answer]}) + "\n" for pair in pairs for answer in ("chosen", "rejected")))

        def margins(*options):
            said = run("evaluate", "score", "--checkpoint", self.model, "--input", texts, "--threads", 1, "--json", *options).splitlines()
            scores = [sum(json.loads(line)["logprobs"]) for line in said]
            return [chosen - rejected for chosen, rejected in zip(scores[0::2], scores[1::2])]

        for before, after in zip(margins(), margins("--adapter", self.folder / "prefers-lora/adapter")):
            self.assertGreater(after, before + 1)
        # The method that is called so is this objective with all weights.
        self.tune("prefers-dpo", *self.dpo[1:], "tune.method=dpo")
        self.tune("prefers-objective", *self.dpo)
        self.assertEqual(self.losses("prefers-dpo"), self.losses("prefers-objective"))
        # Texts, messages and whole conversations say the same.
        forms = {"messages": lambda p, a: ([{"role": "user", "content": p}], [{"role": "assistant", "content": a}]),
                 "whole": lambda p, a: (None, [{"role": "user", "content": p}, {"role": "assistant", "content": a}])}
        for name, form in forms.items():
            path = self.folder / f"{name}.jsonl"
            with path.open("w") as file:
                for line in map(json.loads, self.pairs.read_text().splitlines()):
                    prompt, chosen = form(line["prompt"], line["chosen"].strip())
                    _, rejected = form(line["prompt"], line["rejected"].strip())
                    file.write(json.dumps(({"prompt": prompt} if prompt else {}) | {"chosen": chosen, "rejected": rejected}) + "\n")
            self.tune(f"prefers-{name}", *self.dpo, f"tune.data={path}")
        self.assertEqual(self.losses("prefers-messages"), self.losses("prefers-whole"))
        self.assertNotEqual(self.losses("prefers-messages"), self.losses("prefers-objective"))

    def test_the_reference_is_made_once(self):
        settings = (*self.dpo, "train.validate_every=4", f"tune.validation={self.held_pairs}")
        whole = self.tune("reference", *settings)
        kept = self.folder / "reference/reference.json"
        before = kept.read_bytes()
        for name, method in (("full", "full"), ("lora", "lora")):
            self.tune(f"reference-{name}", *settings, f"tune.method={method}")
            # Factors that begin change nothing: the weights are the same, and so is what they say.
            self.assertEqual(json.loads((self.folder / f"reference-{name}/reference.json").read_text())["values"], json.loads(before)["values"])
            for number, change in enumerate((lambda path: None, lambda path: path.unlink(), lambda path: path.write_text("{}"),
                                             lambda path: path.write_bytes(before[:-20]))):
                out = f"reference-{name}-{number}"
                self.tune(out, *settings, f"tune.method={method}", "train.steps=3")
                change(self.folder / out / "reference.json")
                said = self.tune_says(out, *settings, f"tune.method={method}")
                self.assertEqual("the reference: log-probabilities" in said, number > 0, said)
                self.assertEqual("is damaged, or of other weights or examples" in said, number > 1, said)
                self.assertEqual(self.losses(out), self.losses(f"reference-{name}"))
                self.assertEqual(self.told(out), self.told(f"reference-{name}"))
                self.assertEqual(self.state(out), self.state(f"reference-{name}"))
        self.assertEqual(kept.read_bytes(), before)
        self.assertTrue(whole)
        # It is nothing without the weights that it is of.
        other = self.folder / "reference-other"
        run("convert", "--from", self.folder / "reference", "--to", other, "--format", "hf")
        for allowed in ((), ("--allow", "tune.model")):
            self.assertIn("the weights of tune.model are not those that this run compares with",
                          self.tune("reference", *settings, "train.steps=9", f"tune.model={other}", options=allowed, code=2))
        self.tune("reference", *settings, options=("--restart",))
        self.assertTrue((self.folder / "reference/old-1/reference.json").exists())

    def test_preferences_with_several_seeds_are_runs_of_their_own(self):
        for name, settings in (("full", ()), ("prompt", PROMPT), ("encoder", MLP)):
            common = (*settings, *self.dpo, "train.steps=4", "train.validate_every=4", f"tune.validation={self.held_pairs}")
            self.tune(f"prefers-seeds-{name}", *common, "run.seed=7", "tune.seeds=2")
            for seed in (7, 8):
                self.tune(f"prefers-{name}-{seed}", *common, f"run.seed={seed}")
                self.assertEqual(self.losses(f"prefers-seeds-{name}/seed-{seed}"), self.losses(f"prefers-{name}-{seed}"))
                self.assertEqual(self.told(f"prefers-seeds-{name}/seed-{seed}"), self.told(f"prefers-{name}-{seed}"))
                first = json.loads((self.folder / f"prefers-{name}-{seed}/metrics.jsonl").read_text().splitlines()[0])
                self.assertEqual(first["loss_hex"], "0x1.62e43p-1")
        # A run that goes on compares with what it began with.
        for name, settings, change in (("prompt", PROMPT, "run.seed=8"), ("encoder", MLP, "run.seed=8"), ("prompt", PROMPT, "tune.prompt_init=random")):
            for allowed in ((), ("--allow", change.partition("=")[0])):
                said = self.tune(f"prefers-{name}-7", *settings, *self.dpo, "train.steps=6", "train.validate_every=4", f"tune.validation={self.held_pairs}",
                                 "run.seed=7", change, options=allowed, code=2)
                self.assertIn("were computed with virtual tokens that began as the old value says", said)
                self.assertNotIn("--allow", said)
        # What was kept of virtual tokens that begin otherwise is of no use.
        out = "prefers-begun"
        (self.folder / out).mkdir()
        (self.folder / out / "reference.json").write_bytes((self.folder / "prefers-encoder-7/reference.json").read_bytes())
        said = self.tune_says(out, *MLP, *self.dpo, "train.steps=4", "train.validate_every=4", f"tune.validation={self.held_pairs}", "run.seed=9")
        self.assertIn("is damaged, or of other weights or examples", said)

    def test_no_layout_changes_a_bit(self):
        for method, settings in (("full", ()), ("lora", LORA), ("dora", DORA), ("adapter", BOTTLENECKS), ("ia3", IA3), ("prompt", PROMPT), ("mlp", MLP), ("lstm", LSTM),
                                 ("dpo", self.dpo),
                                 ("dpo-lora", (*LORA, *self.dpo, "tune.label_smoothing=0.1"))):
            self.tune(f"{method}-1", *settings)
            for number, layout in enumerate((("parallel.tensor=2",), ("parallel.pipeline=2",), ("parallel.data=2", "parallel.zero=1"),
                                             ("parallel.tensor=2", "parallel.sequence=true", "memory.recompute=full"),
                                             ("train.micro_batch=1", "run.threads=2"))):
                self.tune(f"{method}-x{number}", *settings, *layout)
                self.assertEqual(self.losses(f"{method}-1"), self.losses(f"{method}-x{number}"), layout)
                self.assertEqual(self.state(f"{method}-1"), self.state(f"{method}-x{number}"), layout)
                self.assertEqual(self.told(f"{method}-1"), self.told(f"{method}-x{number}"), layout)

    def test_they_train_beside_products_in_8_bits(self):
        for method, own in (("lora", LORA), ("dora", DORA), ("adapter", BOTTLENECKS), ("ia3", IA3)):
            settings = (*own, "precision.parameters=bf16", "precision.compute=fp8")
            self.tune(f"{method}-fp8", *settings)
            self.tune(f"{method}-bf16", *own, "precision.parameters=bf16", "precision.compute=bf16")
            self.assertNotEqual(self.losses(f"{method}-fp8"), self.losses(f"{method}-bf16"))
            for number, layout in enumerate((("parallel.tensor=2", "train.micro_batch=1"), ("parallel.pipeline=2", "memory.recompute=full"))):
                self.tune(f"{method}-fp8-x{number}", *settings, *layout)
                self.assertEqual(self.losses(f"{method}-fp8"), self.losses(f"{method}-fp8-x{number}"), layout)
                self.assertEqual(self.state(f"{method}-fp8"), self.state(f"{method}-fp8-x{number}"), layout)

    def test_every_key_does_something(self):
        seen = {}
        for name, overrides in (("rank-4", LORA), ("rank", (*LORA, "tune.rank=2")), ("alpha", (*LORA, "tune.alpha=4")),
                                ("dropout", (*LORA, "tune.dropout=0.3")), ("rslora", (*LORA, "tune.rslora=true")), ("dora", DORA), ("adapter", BOTTLENECKS),
                                ("adapter of 7", ("tune.method=adapter", "tune.adapter_dim=7")),
                                ("targets", (*LORA, "tune.targets=[q_proj]")), ("frozen", (*LORA, "optimizer.frozen=[layers.0.*]")),
                                ("rates of factors", (*LORA, 'optimizer.groups=[{match: "*.lora_b", lr_scale: 4}]')), ("ia3", IA3),
                                ("ia3 targets", (*IA3, "tune.targets=[up_proj]")), ("prompt", PROMPT), ("tokens", (*PROMPT, "tune.virtual_tokens=7")),
                                ("drawn", (*PROMPT, "tune.prompt_init=random")),
                                ("text", (*PROMPT, "tune.prompt_init=text", 'tune.prompt_text="yes or no"')),
                                ("other text", (*PROMPT, "tune.prompt_init=text", 'tune.prompt_text="no or yes"')), ("mlp", MLP), ("hidden", (*MLP, "tune.encoder_hidden=25")),
                                ("lstm", LSTM), ("layers", (*LSTM, "tune.encoder_layers=1")), ("embedding", (*PROMPT[1:], "tune.method=p_tuning", "tune.encoder=embedding", "optimizer.lr=4e-2")),
                                ("frozen encoder", (*MLP, 'optimizer.frozen=["prompt.mlp_head*"]')), ("full", ()), ("template", ('tune.template="{prompt}={completion}"',)),
                                ("drop", ("train.sequence_length=9",)), ("truncate", ("train.sequence_length=9", "tune.overlong=truncate")),
                                ("dpo", self.dpo), ("beta", (*self.dpo, "tune.beta=0.4")), ("smoothed", (*self.dpo, "tune.label_smoothing=0.1")),
                                ("dpo drop", (*self.dpo, "train.sequence_length=18")),
                                ("dpo truncate", (*self.dpo, "train.sequence_length=18", "tune.overlong=truncate"))):
            self.tune(f"key-{name}", *overrides)
            losses = tuple(self.losses(f"key-{name}"))
            self.assertNotIn(losses, seen, f"{name} as {seen.get(losses)}")
            seen[losses] = name

    def test_the_recipes_run(self):
        small = ("train.epochs=", "train.steps=2", "train.sequence_length=64", "run.threads=1", f"tune.model={self.model}", f"tune.data={self.chats}")
        for name in ("full", "lora", "ia3", "adapter", "prompt", "p_tuning", "dpo"):
            if name == "dpo":
                small = (*small[:-1], f"tune.data={self.pairs}")
            words = [word for o in (*small, f"run.out={self.folder / 'recipe'}-{name}") for word in ("--set", o)]
            last = run_json("tune", ROOT / f"recipes/tune/{name}.yaml", *words)
            self.assertEqual((last["step"], last["status"]), (2, "finished"))

    def test_an_adapter_is_what_was_trained(self):
        last = json.loads(self.tune("lora", *LORA, "train.steps=150", "optimizer.lr=1e-2"))
        first = json.loads((self.folder / "lora/metrics.jsonl").read_text().splitlines()[0])
        self.assertLess(last["loss"], 0.3 * first["loss"])
        adapter = self.folder / "lora/adapter"
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", 4, 8))
        # It has learned what an answer looks like, which the model alone does not know.
        prompts = [prompt for prompt, _ in list(examples(60, 1))[:10]]
        self.assertLessEqual({self.answer(self.model, prompt, "--adapter", adapter) for prompt in prompts}, {" yes.", " no."})
        self.assertFalse({self.answer(self.model, prompt) for prompt in prompts} & {" yes.", " no."})
        merged = self.folder / "merged"
        self.assertLess(run_json("convert", "--from", self.model, "--to", merged, "--merge-adapter", adapter)["merge_difference"], 1e-3)
        memory = self.record("lora")["memory"]
        self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        # A finished run does nothing, and makes its adapter again.
        before = (adapter / "adapter_model.safetensors").read_bytes()
        shutil.rmtree(adapter)
        self.tune("lora", *LORA, "train.steps=150", "optimizer.lr=1e-2")
        self.assertEqual((adapter / "adapter_model.safetensors").read_bytes(), before)
        self.assertIn("an adapter's run holds no model", run("generate", "--checkpoint", self.folder / "lora", "--prompt", "a", code=2))

    def test_magnitudes_are_what_was_trained(self):
        last = json.loads(self.tune("dora", *DORA, "train.steps=150", "optimizer.lr=1e-2"))
        first = json.loads((self.folder / "dora/metrics.jsonl").read_text().splitlines()[0])
        self.assertLess(last["loss"], 0.3 * first["loss"])
        # It begins as the model, whose norms the magnitudes are.
        self.tune("dora-beside", *LORA, "train.steps=1")
        self.assertEqual(first["loss_hex"], json.loads((self.folder / "dora-beside/metrics.jsonl").read_text())["loss_hex"])
        adapter = self.folder / "dora/adapter"
        self.assertTrue(json.loads((adapter / "adapter_config.json").read_text())["use_dora"])
        prompts = [prompt for prompt, _ in list(examples(60, 1))[:10]]
        self.assertLessEqual({self.answer(self.model, prompt, "--adapter", adapter) for prompt in prompts}, {" yes.", " no."})
        merged = self.folder / "dora-merged"
        self.assertLess(run_json("convert", "--from", self.model, "--to", merged, "--merge-adapter", adapter)["merge_difference"], 1e-3)
        memory = self.record("dora")["memory"]
        self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        self.assertIn("tune.dora is not built with tune.dropout", self.tune("dropped", *DORA, "tune.dropout=0.1", code=2))

    def test_bottlenecks_are_what_was_trained(self):
        last = json.loads(self.tune("bottlenecks", *BOTTLENECKS, "train.steps=150", "optimizer.lr=1e-2"))
        first = json.loads((self.folder / "bottlenecks/metrics.jsonl").read_text().splitlines()[0])
        self.assertLess(last["loss"], 0.3 * first["loss"])
        # They begin as nothing.
        self.tune("bottlenecks-beside", *LORA, "train.steps=1")
        self.assertEqual(first["loss_hex"], json.loads((self.folder / "bottlenecks-beside/metrics.jsonl").read_text())["loss_hex"])
        adapter = self.folder / "bottlenecks/adapter"
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["config"]["reduction_factor"], config["hidden_size"], config["model_type"]), (4, 32, "llama"))
        prompts = [prompt for prompt, _ in list(examples(60, 1))[:10]]
        self.assertLessEqual({self.answer(self.model, prompt, "--adapter", adapter) for prompt in prompts}, {" yes.", " no."})
        memory = self.record("bottlenecks")["memory"]
        self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        self.assertIn("no part of the weights", run("convert", "--from", self.model, "--to", self.folder / "never", "--merge-adapter", adapter, code=2))

    def test_vectors_are_what_was_trained(self):
        last = json.loads(self.tune("ia3", *IA3, "train.steps=150"))
        first = json.loads((self.folder / "ia3/metrics.jsonl").read_text().splitlines()[0])
        self.assertLess(last["loss"], 0.5 * first["loss"])
        adapter = self.folder / "ia3/adapter"
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["target_modules"], config["feedforward_modules"]),
                         ("IA3", ["k_proj", "v_proj", "down_proj"], ["down_proj"]))
        line = self.folder / "line.jsonl"
        line.write_text('{"text": "the cat sees the dog"}\n')

        def scored(checkpoint, *options):
            return json.loads(run("evaluate", "score", "--checkpoint", checkpoint, "--input", line, "--threads", 1, "--json", *options))["logprobs"]

        alone, beside = scored(self.model), scored(self.model, "--adapter", adapter)
        self.assertNotEqual(alone, beside)
        self.assertEqual(beside, scored(self.model, "--adapter", adapter, "--ranks", 2, "--set", "parallel.tensor=2"))
        merged = self.folder / "ia3-merged"
        self.assertLess(run_json("convert", "--from", self.model, "--to", merged, "--merge-adapter", adapter)["merge_difference"], 1e-3)
        for a, b in zip(scored(merged), beside):
            self.assertAlmostEqual(a, b, delta=1e-3)
        memory = self.record("ia3")["memory"]
        self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        self.assertIn("an adapter's run holds no model", run("generate", "--checkpoint", self.folder / "ia3", "--prompt", "a", code=2))

    def test_virtual_tokens_are_what_was_trained(self):
        last = json.loads(self.tune("prompt", *PROMPT, "train.steps=150", "train.validate_every=75", f"tune.validation={self.held}",
                                    "train.sample_every=150", "train.sample_prompts=[the cat]"))
        first = json.loads((self.folder / "prompt/metrics.jsonl").read_text().splitlines()[0])
        self.assertLess(last["loss"], 0.75 * first["loss"])
        self.assertLess(last["validation_loss"], 0.75 * first["loss"])
        adapter = self.folder / "prompt/adapter"
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["num_virtual_tokens"], config["token_dim"], config["task_type"]), ("PROMPT_TUNING", 6, 32, "CAUSAL_LM"))
        line = self.folder / "answered.jsonl"
        line.write_text("".join(json.dumps({"text": prompt + answer}) + "\n" for prompt, answer in list(examples(60, 1))[:10]))

        def answered(*options):
            """Log-probabilities of the answers' last tokens."""
            lines = run("evaluate", "score", "--checkpoint", self.model, "--input", line, "--threads", 1, "--json", *options).splitlines()
            return sum(sum(json.loads(one)["logprobs"][-3:]) for one in lines)

        self.assertGreater(answered("--adapter", adapter), answered() + 10)
        memory = self.record("prompt")["memory"]
        self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])
        text = self.folder / "held-out.txt"
        text.write_text("the cat sees the dog. the bird likes the man. " * 12)
        alone, behind = (run_json("evaluate", "perplexity", "--checkpoint", self.model, "--input", text, "--threads", 1, *options)["nll"]
                         for options in ((), ("--adapter", adapter)))
        self.assertNotEqual(alone, behind)
        self.assertIn("an adapter's run holds no model", run("generate", "--checkpoint", self.folder / "prompt", "--prompt", "a", code=2))
        # Where NeMo's templates have them they stand anyway.
        self.tune("marked", *PROMPT, 'tune.template="<|VIRTUAL_PROMPT_0|>{prompt} {completion}"')
        self.tune("unmarked", *PROMPT, 'tune.template="{prompt} {completion}"')
        self.assertEqual(self.losses("marked"), self.losses("unmarked"))

    def test_rows_of_an_encoder_are_what_was_trained(self):
        line = self.folder / "encoded.jsonl"
        line.write_text("".join(json.dumps({"text": prompt + answer}) + "\n" for prompt, answer in list(examples(60, 1))[:10]))

        def answered(*options):
            lines = run("evaluate", "score", "--checkpoint", self.model, "--input", line, "--threads", 1, "--json", *options).splitlines()
            return sum(sum(json.loads(one)["logprobs"][-3:]) for one in lines)

        alone = answered()
        for name, settings, said in (("mlp", MLP, ("P_TUNING", "MLP", 24, 2)), ("lstm", LSTM, ("P_TUNING", "LSTM", 24, 2)),
                                     ("rows", (*MLP, "tune.encoder=embedding", "tune.encoder_hidden=0", "optimizer.lr=5e-2"), ("PROMPT_TUNING",))):
            out = f"{name}-long"
            last = json.loads(self.tune(out, *settings, "train.steps=150", "train.validate_every=75", f"tune.validation={self.held}",
                                        "train.sample_every=150", "train.sample_prompts=[the cat]"))
            first = json.loads((self.folder / out / "metrics.jsonl").read_text().splitlines()[0])
            self.assertLess(last["loss"], 0.75 * first["loss"], name)
            self.assertLess(last["validation_loss"], 0.75 * first["loss"], name)
            adapter = self.folder / out / "adapter"
            config = json.loads((adapter / "adapter_config.json").read_text())
            self.assertEqual((config["num_virtual_tokens"], config["token_dim"], config["task_type"]), (6, 32, "CAUSAL_LM"))
            keys = ("peft_type", "encoder_reparameterization_type", "encoder_hidden_size", "encoder_num_layers")
            self.assertEqual(tuple(config[key] for key in keys if key in config), said)
            # The folder has the rows as they are behind the last step, and those alone.
            self.assertGreater(answered("--adapter", adapter), alone + 10, name)
            self.assertLess(adapter.joinpath("adapter_model.safetensors").stat().st_size, 6 * 32 * 4 + 300)
            memory = self.record(out)["memory"]
            self.assertEqual(memory["planned"]["total"], memory["measured"]["total"])

    def test_a_run_goes_on_where_it_stopped(self):
        for method, settings in (("full", ()), ("lora", LORA), ("dora", DORA), ("adapter", BOTTLENECKS), ("ia3", IA3), ("prompt", PROMPT), ("mlp", MLP), ("lstm", LSTM)):
            self.tune(f"{method}-whole", *settings)
            self.tune(f"{method}-part", *settings, "train.steps=3")
            self.tune(f"{method}-part", *settings)
            self.assertEqual(self.losses(f"{method}-whole"), self.losses(f"{method}-part"))
            self.assertEqual(self.state(f"{method}-whole"), self.state(f"{method}-part"))
        same, other = self.folder / "same", self.folder / "other"
        shutil.copytree(self.model, same)
        run("convert", "--from", self.folder / "full-whole", "--to", other, "--format", "hf")
        # Factors go on beside their own weights alone, wherever those are; also when there is nothing left to do.
        for steps, allowed in ((8, ()), (9, ()), (9, ("--allow", "tune.model"))):
            self.assertIn("not those that this run began beside",
                          self.tune("lora-part", *LORA, f"train.steps={steps}", f"tune.model={other}", options=allowed, code=2))
        self.tune("lora-part", *LORA, "train.steps=9", f"tune.model={same}")
        self.assertIn("not those that this run began beside", self.tune("prompt-part", *PROMPT, "train.steps=9", f"tune.model={other}", code=2))
        self.assertIn("tune.virtual_tokens", self.tune("prompt-part", *PROMPT, "train.steps=9", "tune.virtual_tokens=7", code=2))
        self.assertIn("tune.encoder_hidden", self.tune("mlp-part", *MLP, "train.steps=9", "tune.encoder_hidden=25", code=2))
        # All weights have moved from where they began, which is no silent matter either.
        self.assertIn("the content of tune.model is not what the run began with",
                      self.tune("full-part", "train.steps=9", f"tune.model={other}", code=2))
        self.tune("full-part", "train.steps=9", f"tune.model={other}", options=("--allow", "tune.model"))
        changed = self.folder / "changed.jsonl"
        changed.write_text(self.data.read_text().replace("cat", "dog", 1))
        self.assertIn("the content of tune.data is not what the run began with",
                      self.tune("full-whole", "train.steps=9", f"tune.data={changed}", code=2))
        # A model in the run's own folder would be moved away.
        self.assertIn("--restart moves tune.model",
                      self.tune("full-whole", f"tune.model={self.folder / 'full-whole'}", options=("--restart",), code=2))
        self.assertTrue((self.folder / "full-whole/checkpoints").exists())

    def test_a_classifier_of_an_encoder(self):
        words = self.folder / "words.json"
        run("tokenizer", "train", "--kind", "wordpiece", "--input", self.folder / "text.txt", "--vocab-size", 60, "--output", words)
        run("pack", "--tokenizer", words, "--input", self.folder / "text.txt", "--document", "line", "--output", self.folder / "words")
        self.train("bert", "model.family=bert", "model.context=32", f"data.train={self.folder / 'words'}", f"data.tokenizer={words}",
                   "data.document_mask=false", "train.objective=masked", "train.steps=2", "train.validate_every=0")
        draw = random.Random(5)
        rows = [(f"the {draw.choice(('cat', 'dog', 'bird'))} {draw.choice(('sees', 'likes'))} the man .", f"the {noun} eats .", label)
                for label, noun in (("one", "cat"), ("two", "fish")) for _ in range(40)]
        draw.shuffle(rows)
        table = self.folder / "rows.tsv"
        table.write_text("index\tsentence1\tsentence2\tlabel\n" + "".join(f"{i}\t{a}\t{b}\t{label}\n" for i, (a, b, label) in enumerate(rows)))
        settings = ("tune.method=classify", f"tune.model={self.folder / 'bert'}", f"tune.data={table}", "tune.labels=[two, one]",
                    "train.sequence_length=32", "train.steps=60", "optimizer.lr=1e-2", "parallel.tensor_shards=0")
        last = json.loads(self.tune("classes", *settings))
        self.assertLess(last["loss"], 0.1)
        for number, layout in enumerate((("parallel.tensor=2",), ("parallel.pipeline=2",), ("parallel.data=2", "parallel.zero=1"), ("train.micro_batch=1",))):
            self.tune(f"classes-x{number}", *settings, *layout)
            self.assertEqual(self.state("classes"), self.state(f"classes-x{number}"), layout)
        hf = self.folder / "classes-hf"
        run("convert", "--from", self.folder / "classes", "--to", hf, "--format", "hf")
        config = json.loads((hf / "config.json").read_text())
        self.assertEqual((config["architectures"], config["id2label"]), (["BertForSequenceClassification"], {"0": "two", "1": "one"}))
        lines = self.folder / "pairs.jsonl"
        lines.write_text("".join(json.dumps({"text": a, "pair": b}) + "\n" for a, b, _ in rows[:20]))
        said = [json.loads(line)["label"] for line in run("evaluate", "classify", "--checkpoint", hf, "--input", lines, "--threads", 1, "--json").splitlines()]
        self.assertEqual(said, [label for _, _, label in rows[:20]])
        words = [word for o in (f"run.out={self.folder / 'recipe-classify'}", "train.epochs=", "run.threads=1", "train.steps=2", "train.sequence_length=32",
                                *settings[1:4]) for word in ("--set", o)]
        self.assertEqual(run_json("tune", ROOT / "recipes/tune/classify.yaml", *words)["status"], "finished")
        # It goes on as a classifier of the same classes, and not of others.
        again = json.loads(self.tune("classes-again", *settings, f"tune.model={hf}", "train.steps=1"))
        self.assertLess(again["loss"], 0.1)
        self.assertIn("is a classifier of two, one", self.tune("refused", *settings, f"tune.model={hf}", "tune.labels=[one, two]", code=2))
        self.assertIn("rows.tsv:2: has a label", self.tune("refused", *settings, "tune.labels=[three, four]", code=2))
        self.assertIn("needs an encoder", self.tune("refused", *settings, f"tune.model={self.model}", code=2))
        self.assertIn("has no decoder", self.tune("refused", f"tune.model={self.folder / 'bert'}", "train.sequence_length=32", code=2))

    def test_what_has_no_meaning_is_refused(self):
        empty = self.folder / "empty.jsonl"
        empty.write_text("\n")
        equal = self.folder / "equal.jsonl"
        equal.write_text(self.pairs.read_text().splitlines()[0] + "\n" + json.dumps({"prompt": "a", "chosen": " b", "rejected": " b"}) + "\n")
        marked = self.folder / "marked.jinja"
        marked.write_text("<|VIRTUAL_PROMPT_0|>{% for message in messages %}{{ message.content }}{% endfor %}")
        for overrides, expected in (
                (("tune.method=p_tuning", "tune.encoder=tpmlp"), "tune.encoder"),
                ((*MLP, "tune.encoder_layers=3"), "tune.encoder_layers has no effect with tune.encoder: mlp"),
                ((*MLP, "tune.prompt_init=random"), "tune.prompt_init has no effect with tune.method: p_tuning"),
                ((*PROMPT, "tune.encoder=lstm"), "tune.encoder has no effect with tune.method: prompt"),
                (("tune.method=dpo",), "data.jsonl:1: has no field \"chosen\""),
                (("tune.beta=0.5",), "tune.beta has no effect without tune.objective: dpo"),
                (("tune.beta=0", "tune.objective=dpo"), "tune.beta"),
                (("tune.label_smoothing=0.5", "tune.objective=dpo"), "tune.label_smoothing"),
                ((*self.dpo, "train.z_loss=0.1", 'tune.template="{a}"'), "fields; take it out of the recipe, or give a chat template NAME.jinja; train.z_loss"),
                ((*self.dpo, "tune.method=classify", "tune.labels=[a, b]"), "tune.objective: dpo compares answers"),
                ((*self.dpo, f"tune.data={equal}"), "equal.jsonl:2: has two equal answers"),
                ((*self.dpo, "tune.overlong=refuse", "train.sequence_length=12"), "tokens long with their prompt, and samples, which hold both, have 12"),
                (("tune.rank=2",), "tune.rank has no effect with tune.method: full"),
                (("model.layers=3",), "model.layers has no effect beside tune.model"),
                (("data.train=x",), "data.train.0.path has no effect"),
                (("tune.data=",), "tune.data names no file"),
                (("tune.data=/nowhere.jsonl",), "/nowhere.jsonl"),
                (('tune.template="{question}: {answer}"',), "data.jsonl:1: has no field \"question\""),
                (('tune.template="{answer}."',), "does not end with the {field} of the answer"),
                (("train.sequence_length=4",), "set a larger train.sequence_length"),
                (("train.sequence_length=65",), "65"),
                (("tune.overlong=refuse", "train.sequence_length=8"), "tokens long, and samples have 8"),
                ((*LORA, "tune.targets=[q_proj, query]"), "is called \"query\"; there are down_proj, gate_proj"),
                ((*IA3, "tune.targets=[k_proj, keys]"), "is called \"keys\"; there are down_proj, gate_proj"),
                ((*IA3, "tune.rank=2"), "tune.rank has no effect with tune.method: ia3"),
                ((*PROMPT, "tune.prompt_init=text"), "tune.prompt_init: text needs tune.prompt_text"),
                ((*PROMPT, "tune.rank=2"), "tune.rank has no effect with tune.method: prompt"),
                ((*PROMPT, 'tune.template="{prompt}<|VIRTUAL_PROMPT_0|> {completion}"'), "virtual tokens stand before the text"),
                ((*PROMPT, 'tune.template="<|VIRTUAL_PROMPT_0|>"'), "tune.template has no text after <|VIRTUAL_PROMPT_0|>"),
                ((*PROMPT, f"tune.template={marked}"), "marked.jinja: has <|VIRTUAL_PROMPT_"),
                ((*PROMPT, "tune.virtual_tokens=63"), "tune.virtual_tokens 63 leaves no room in the context of"),
                ((*PROMPT, "tune.virtual_tokens=62"), "no example that fits into a sample of 64 tokens"),
                (("tune.virtual_tokens=4",), "tune.virtual_tokens has no effect with tune.method: full"),
                (("tune.targets=[k_proj]",), "tune.targets has no effect with tune.method: full"),
                ((*LORA, "tune.dropout=0.1", "parallel.tensor=2", "parallel.sequence=true"), "tune.dropout"),
                (("train.validate_every=5",), "train.validate_every needs tune.validation"),
                (("train.validate_every=5", f"tune.validation={empty}"), "recipe: tune.validation: no example"),
                (("precision.parameters=bf16", "precision.compute=fp8", "precision.fp8.first_layers=9"), "leave none of 2 layers"),
                (("memory.recompute_layers=9",), "memory.recompute_layers 9 is more than")):
            message = self.tune("refused", *overrides, code=2)
            self.assertIn(expected, message)
            faults = [line for line in message.splitlines() if " info " not in line]
            self.assertEqual(len(faults), 1, message)
        self.assertFalse((self.folder / "refused/checkpoints").exists())
        self.assertIn("tune.model names no model to tune", run("tune", self.recipe, code=2))
        self.assertIn("megalith tune does that", run("train", self.tune_recipe, code=2))
        self.assertIn("megalith tune", run("plan", self.tune_recipe, code=2))


if __name__ == "__main__":
    unittest.main()
