#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The whole road through the program's own commands: python3 road_test.py PROGRAM"""
import json
import math
import re
import unittest

from program import LONGEST_PATH, RoadTest, path_of, run, run_json


class Road(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("run", "train.steps=60")

    def test_training_learns_and_leaves_the_contracts_files(self):
        metrics = self.metrics("run")
        self.assertEqual([m["step"] for m in metrics], list(range(1, 61)))
        self.assertLess(metrics[-1]["loss"], 0.6 * metrics[0]["loss"])
        self.assertIn("validation_loss", metrics[3])
        for name in ("recipe.yaml", "run.json", "report.html", "checkpoints/step-00000060/COMMIT"):
            self.assertTrue((self.folder / "run" / name).exists(), name)
        self.assertEqual(len(list((self.folder / "run").glob("events.out.tfevents.*"))), 1)
        for m in metrics:
            self.assertEqual(float.fromhex(m["loss_hex"]), m["loss"])

    def test_planned_bytes_are_the_measured_ones(self):
        memory = json.loads((self.folder / "run" / "run.json").read_text())["memory"]
        outside = memory["measured"].pop("outside")
        self.assertEqual(memory["planned"], memory["measured"])
        self.assertLessEqual(outside, 64 << 20)
        plan = run_json("plan", self.recipe)
        self.assertEqual(plan["memory"], memory["planned"])

    def test_greedy_text_is_that_of_the_scores(self):
        run_folder = self.folder / "run"
        greedy = run_json("generate", "--checkpoint", run_folder, "--prompt", "the cat", "--max-new-tokens", 4, "--temperature", 0)
        ids = run_json("tokenizer", "encode", "--tokenizer", self.folder / "tokenizer.json", "--input", self.write("p.txt", "the cat"))["ids"]
        line = json.dumps({"ids": ids + greedy["ids"]})
        score = json.loads(run("evaluate", "score", "--checkpoint", run_folder, "--input", self.write("s.jsonl", line + "\n")))
        # Cached decoding and one pass over the whole give the same numbers; only the final sum over the
        # vocabulary differs (f64 in sampling, f32 in scoring).
        # In u = 2^-24, for logits below 4 and 285 of them: logit - maximum rounds by 1.5 (in the mean of the probabilities), exp by 2, its
        # sum by 18 + 4, log by 8, its sum with the maximum by 8, the difference to the logit by 4.
        for a, b in zip(score["logprobs"][len(ids) - 1:], greedy["logprobs"]):
            self.assertAlmostEqual(a, b, delta=46 * 2**-24)
        again = run_json("generate", "--checkpoint", run_folder, "--prompt", "the cat", "--max-new-tokens", 9, "--seed", 5)
        self.assertEqual(again["ids"], run_json("generate", "--checkpoint", run_folder, "--prompt", "the cat", "--max-new-tokens", 9, "--seed", 5)["ids"])

    def test_texts_keep_to_their_form(self):
        self.train("wide", "train.steps=2", "model.context=160")
        schema = self.write("form.json", json.dumps({"type": "object", "properties": {
            "name": {"type": "string", "maxLength": 5}, "size": {"type": "number", "minimum": 0, "maximum": 9},
            "of": {"enum": ["cat", "dog", None]}, "in": {"type": "array", "items": {"type": "boolean"}, "maxItems": 2}}, "required": ["name", "size", "of"]}))
        words = self.write("words.txt", "the cat\n\na dog sees\n")
        forms = {
            ("--json-schema", schema, "--compact-json"): lambda text: re.fullmatch(
                r'\{"name":".*","size":\d(\.\d+)?,"of":("cat"|"dog"|null)(,"in":\[(true|false)?(,(true|false))?\])?\}', text, re.S) and json.loads(text, strict=False),
            ("--json-schema", schema): lambda text: list(json.loads(text))[:3] == ["name", "size", "of"] and json.loads(text)["size"] <= 9,
            ("--regex", " (the|a) [a-z]{2,6}(, [0-9]{2}){1,2}"): lambda text: re.fullmatch(" (the|a) [a-z]{2,6}(, [0-9]{2}){1,2}", text),
            ("--choices", words): lambda text: text in ("the cat", "a dog sees"),
            ("--choice", "x{}", "--choice", ""): lambda text: text in ("x{}", ""),
        }
        for more, fits in forms.items():
            for seed in range(4):
                command = ("generate", "--checkpoint", self.folder / "wide", "--prompt", "the", "--max-new-tokens", 150, "--seed", seed, *more)
                result = run_json(*command)
                with self.subTest(form=more, seed=seed, text=result["text"]):
                    if result["finish_reason"] == "stop":
                        self.assertTrue(fits(result["text"]))
                    self.assertEqual(result["finish_reason"] == "length", len(result["ids"]) == 150)
                    if seed == 0:
                        self.assertEqual(result["ids"], run_json(*command, "--ranks", 2)["ids"])
        # However little is left of the context, it is the beginning of one.
        start = run_json("generate", "--checkpoint", self.folder / "wide", "--prompt", "the", "--max-new-tokens", 5, "--json-object")["text"]
        self.assertRegex(start, r"^\{(\}|\s*\"|\s)")
        self.assertIn("excludes", run("generate", "--checkpoint", self.folder / "wide", "--prompt", "the", "--json-object", "--regex", "a", code=2))
        self.assertIn("--compact-json needs", run("generate", "--checkpoint", self.folder / "wide", "--prompt", "the", "--compact-json", code=2))

    def test_a_conversation_is_answered(self):
        model, messages = self.folder / "chat", self.write("messages.json", json.dumps([{"role": "user", "content": "the cat"}]))
        with_tools = self.write("tools.json", json.dumps({"messages": [{"role": "user", "content": "the cat"}], "tools": [{"name": "f"}]}))
        run("convert", "--from", self.folder / "run", "--to", model, "--format", "hf")
        greedy = ("--max-new-tokens", 6, "--temperature", 0)
        answer = ("generate", "--checkpoint", model, *greedy, "--messages")
        self.assertIn("there is no chat template", run(*answer, messages, code=2))
        (model / "chat_template.jinja").write_text("{% for m in messages %}\n{{ m.content }}{{ eos_token }}{% endfor %}\n"
                                                   "{% if add_generation_prompt %}the dog{% endif %}")
        (model / "additional_chat_templates").mkdir()
        (model / "additional_chat_templates" / "tool_use.jinja").write_text("the {{ tools[0].name }}")
        text = run("tokenizer", "chat", "--tokenizer", model, "--input", messages)
        self.assertTrue(text.startswith("the cat") and text.endswith("the dog"), text)
        expected = run_json("generate", "--checkpoint", model, *greedy, "--prompt", text)
        del expected["tokens_per_second"]
        chat = run_json(*answer, messages)
        del chat["tokens_per_second"]
        self.assertEqual(chat, expected)
        self.assertEqual(run(*answer, messages), expected["text"] + "\n")  # the answer alone
        self.assertEqual(run(*answer, messages, "--stream"), expected["text"] + "\n")
        self.assertEqual(run_json(*answer, with_tools)["ids"], run_json("generate", "--checkpoint", model, *greedy, "--prompt", "the f")["ids"])
        run("convert", "--from", model, "--to", self.folder / "chat-checkpoint", "--format", "megalith")
        self.assertEqual(run_json("generate", "--checkpoint", self.folder / "chat-checkpoint", *greedy, "--messages", messages)["ids"], expected["ids"])

    def test_streamed_text_is_the_text(self):
        options = ("generate", "--checkpoint", self.folder / "run", "--prompt", "the dog", "--max-new-tokens", 12, "--seed", 3)
        self.assertEqual(run(*options, "--stream"), "the dog" + run_json(*options)["text"] + "\n")

    def test_perplexity_is_that_of_the_scores(self):
        path = self.write("short.txt", "the cat sees the dog.")
        p = run_json("evaluate", "perplexity", "--checkpoint", self.folder / "run", "--input", path)
        score = json.loads(run("evaluate", "score", "--checkpoint", self.folder / "run", "--input",
                               self.write("t.jsonl", json.dumps({"text": "the cat sees the dog."}) + "\n")))
        self.assertAlmostEqual(p["nll"], score["nll"], places=9)
        self.assertEqual(p["words"], 5)
        self.assertAlmostEqual(p["bits_per_byte"], p["nll"] / (21 * math.log(2)), places=12)

    def test_there_and_back_through_hugging_face_keeps_the_bits(self):
        there = run_json("convert", "--from", self.folder / "run", "--to", self.folder / "hf", "--format", "hf")
        back = run_json("convert", "--from", self.folder / "hf", "--to", self.folder / "back", "--format", "megalith")
        self.assertEqual(there["sha256"], back["sha256"])
        options = ("--prompt", "the", "--max-new-tokens", 8, "--temperature", 0)
        texts = {run("generate", "--checkpoint", self.folder / name, *options) for name in ("run", "hf", "back")}
        self.assertEqual(len(texts), 1)

    def test_the_road_leads_through_folders_of_any_name(self):
        longest = "n" * 251  # with .bin behind it a file's name is as long as one may be
        for folder in (self.folder / 'übung \U0001f642 a "b" $c\n-', path_of(LONGEST_PATH - 195, self.folder)):
            folder.mkdir(parents=True)
            tokenizer, corpus, out, hf = folder / "tokenizer.json", folder / "corpus", folder / "run", folder / "hf"
            if len(str(folder)) + len(longest) < LONGEST_PATH // 2:
                tokenizer, corpus, out, hf = folder / f"{longest}json", folder / longest, folder / f"{longest}-run", folder / f"{longest}--hf"
            source = folder / "text.txt"
            source.write_bytes((self.folder / "text.txt").read_bytes())
            run("tokenizer", "train", "--input", source, "--vocab-size", 285, "--output", tokenizer)
            run("pack", "--tokenizer", tokenizer, "--input", source, "--document", "line", "--output", corpus)
            self.assertEqual(corpus.with_name(f"{corpus.name}.bin").read_bytes(), (self.folder / "corpus.bin").read_bytes())
            for steps in (1, 2):
                self.train(out, f"data.train={corpus}", f"data.tokenizer={tokenizer}", "optimizer.schedule=constant", f"train.steps={steps}")
            self.train("usual", "optimizer.schedule=constant", "train.steps=2")
            self.same(out, "usual")
            self.assertEqual(run_json("report", out)["html"], str(out / "report.html"))
            run("convert", "--from", out, "--to", hf)
            options = ("--prompt", "the", "--max-new-tokens", 4, "--temperature", 0)
            texts = {run("generate", "--checkpoint", place, *options) for place in (out, hf, self.folder / "usual")}
            self.assertEqual(len(texts), 1)

    def write(self, name, content):
        path = self.folder / name
        path.write_text(content)
        return path


if __name__ == "__main__":
    unittest.main()
