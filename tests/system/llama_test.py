#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Llama through the whole road: python3 llama_test.py PROGRAM

stories260K is a trained model (Karpathy's TinyStories 260K as a Hugging Face folder); tests that want it are skipped by name
where ../shared/data/models has none."""
import json
import pathlib
import struct
import tempfile
import unittest

from program import ROOT, RoadTest, run, run_json

STORIES = ROOT.parent / "shared" / "data" / "models" / "stories260K"
# What llama2.c publishes for this model, greedy from <s>, 200 tokens.
PUBLISHED = (
    "Once upon a time, there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red "
    "ball. She wanted to play with it, but it was too high.\n"
    "Lily's mom said, \"Lily, let's go to the park.\" Lily was sad and didn't know what to do. She said, \"I want to play with "
    "your ball, but I can't find it.\"\n"
    "Lily was sad and didn't know what to do. She said, \"I'm sorry, Lily. I didn't know what to do.\"\n"
    "Lily didn't want to help her mom, so she")
RECIPE = """
model: {family: llama, layers: 4, hidden: 24, heads: 8, kv_heads: 4, head_dim: 8, ffn: 40, context: 32, dropout: 0.1}
data: {train: DIR/corpus, tokenizer: DIR/tokenizer.json, document_mask: true}
train: {steps: 6, global_batch: 8, micro_batch: 4, sequence_length: 16}
optimizer: {lr: 1e-2, schedule: constant}
parallel: {data_shards: 2}
run: {threads: 2}
"""
LAYOUTS = [
    ["run.threads=1"], ["run.threads=3"], ["train.micro_batch=1"], ["memory.recompute=selective"], ["memory.recompute=full"],
    ["parallel.tensor=2"], ["parallel.tensor=4"], ["parallel.tensor=2", "parallel.sequence=true"], ["parallel.pipeline=2"],
    ["parallel.pipeline=2", "parallel.chunks=2", "parallel.schedule=interleaved"], ["parallel.data=2"],
    ["parallel.data=2", "parallel.zero=1"],
    ["parallel.tensor=2", "parallel.pipeline=2", "parallel.data=2", "parallel.sequence=true", "parallel.zero=1",
     "memory.recompute=full"]]
# A name, what the recipe has of its own, and numbers of tensor ranks.
GROUPED = [
    ("two-heads", ["model.kv_heads=2", "parallel.tensor_shards=4"], [2, 4]),
    ("one-head", ["model.kv_heads=1", "parallel.tensor_shards=4"], [4]),
    ("three-shards", ["model.heads=9", "model.kv_heads=3", "model.hidden=27", "model.ffn=42", "model.vocab=400", "parallel.tensor_shards=3"], [3]),
]


def tensors(folder):
    """Name to (dtype, shape, bytes) of model.safetensors."""
    data = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    return {name: (t["dtype"], t["shape"], body[slice(*t["data_offsets"])]) for name, t in header.items() if name != "__metadata__"}


@unittest.skipUnless(STORIES.exists(), "stories260K is not in ../shared/data/models")
class Stories(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def text_of(self, checkpoint):
        result = run_json("generate", "--checkpoint", checkpoint, "--prompt", "", "--max-new-tokens", 200, "--temperature", 0)
        return result["text"]

    def test_greedy_text_is_the_published_one(self):
        self.assertEqual(len(PUBLISHED), 464)
        self.assertEqual(self.text_of(STORIES), PUBLISHED)

    def test_there_and_back_is_the_same_model(self):
        run("convert", "--from", STORIES, "--to", self.folder / "ours", "--format", "megalith")
        run("convert", "--from", self.folder / "ours", "--to", self.folder / "theirs", "--format", "hf")
        self.assertEqual(tensors(self.folder / "theirs"), tensors(STORIES))
        config, original = (json.loads((f / "config.json").read_text()) for f in (self.folder / "theirs", STORIES))
        for key in original.keys() - {"dtype", "transformers_version", "pad_token_id"}:
            self.assertEqual(config.get(key), original[key], key)
        self.assertEqual(self.text_of(self.folder / "ours"), self.text_of(STORIES))
        self.assertEqual(self.text_of(self.folder / "theirs"), self.text_of(STORIES))


    def test_the_text_goes_on_from_the_prompt(self):
        """A text that begins a document loses its first space, one that goes on does not."""
        command = ["generate", "--checkpoint", STORIES, "--prompt", "Once", "--max-new-tokens", 8, "--temperature", 0]
        self.assertTrue(run_json(*command)["text"].startswith(" upon a time"))
        self.assertTrue(run(*command).startswith("Once upon a time"))
        self.assertTrue(run(*command, "--stream").startswith("Once upon a time"))

    def test_ranks_read_alike(self):
        """score, perplexity and generate: the bytes of one rank's output under every layout."""
        (self.folder / "lines.jsonl").write_text('{"text": "Once upon a time"}\n{"ids": [1, 5, 9, 200, 17]}\n')
        (self.folder / "text").write_text(PUBLISHED)
        # Not the rate of generation.
        outputs = {
            "score": lambda more: run("evaluate", "score", "--checkpoint", STORIES, "--input", self.folder / "lines.jsonl", *more),
            "perplexity": lambda more: run("evaluate", "perplexity", "--checkpoint", STORIES, "--input", self.folder / "text",
                                           "--json", *more),
            "generate": lambda more: {**run_json("generate", "--checkpoint", STORIES, "--prompt", "One day", "--max-new-tokens", 30,
                                                 "--seed", 7, *more), "tokens_per_second": 0},
            "beams": lambda more: {**run_json("generate", "--checkpoint", STORIES, "--prompt", "One day", "--max-new-tokens", 20, "--beams", 3,
                                              "--best", 2, "--top-logprobs", 2, *more), "tokens_per_second": 0}}
        for dtype in ("f32", "bf16"):
            for name, output in outputs.items():
                alone = output(["--dtype", dtype])
                for more in (["--ranks", 2], ["--set", "parallel.tensor=4"], ["--set", "parallel.pipeline=5"],
                             ["--ranks", 4, "--set", "parallel.pipeline=2"], ["--threads", 1]):
                    self.assertEqual(output(["--dtype", dtype, *more]), alone, f"{name} {dtype} {more}")

    def test_guesses_change_nothing(self):
        """By look-up or by a draft, greedy or drawn, on one rank or several: the ids and log-probabilities of one token at a time."""
        for drawn in (["--temperature", 0], ["--temperature", 0.8, "--seed", 3]):
            command = ["generate", "--checkpoint", STORIES, "--prompt", "Once upon a time, there was a little", "--max-new-tokens", 120, "--top-logprobs", 2, *drawn]
            plain = run_json(*command)
            for more in (["--lookup", 5], ["--draft", STORIES], ["--draft", STORIES, "--draft-tokens", 9, "--ranks", 2, "--set", "parallel.pipeline=2"]):
                made = run_json(*command, *more)
                guesses = made.pop("guesses")
                self.assertGreater(guesses["right"], 2, more)
                self.assertEqual({**made, "tokens_per_second": 0}, {**plain, "tokens_per_second": 0}, more)
                if "--draft" in more:
                    self.assertEqual(guesses["right"], guesses["read"])

    def test_log_probabilities_of_a_prompt_are_its_score(self):
        (self.folder / "lines.jsonl").write_text('{"text": "Once upon a time there was a dog"}\n')
        score = run_json("evaluate", "score", "--checkpoint", STORIES, "--input", self.folder / "lines.jsonl")
        made = run_json("generate", "--checkpoint", STORIES, "--prompt", "Once upon a time there was a dog", "--max-new-tokens", 3, "--prompt-logprobs",
                        "--top-logprobs", 3)
        self.assertEqual(made["prompt_logprobs"], score["logprobs"])
        self.assertEqual([len(one) for one in made["prompt_top_logprobs"]], [3] * len(score["logprobs"]))
        self.assertEqual([len(one) for one in made["top_logprobs"]], [3] * len(made["ids"]))

    def test_words_that_are_not_written(self):
        plain = self.text_of(STORIES)
        self.assertIn("little", plain)
        banned = run_json("generate", "--checkpoint", STORIES, "--prompt", "", "--max-new-tokens", 200, "--temperature", 0, "--bad-words", "little")
        self.assertNotIn("little", banned["text"])

    def test_layouts_that_do_not_fit_are_refused(self):
        for more, word in ((["--ranks", 3, "--set", "parallel.tensor=2"], "parallel.tensor 2"),
                           (["--set", "parallel.tensor=16"], "tensor_shards"), (["--set", "parallel.pipeline=6"], "model.layers 5"),
                           (["--set", "parallel.data=2"], "parallel.tensor, parallel.pipeline"),
                           (["--set", "parallel.tensor=two"], "whole number")):
            self.assertIn(word, run("generate", "--checkpoint", STORIES, "--prompt", "", *more, code=2))


class Layouts(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.recipe.write_text(RECIPE.replace("DIR", str(cls.folder)))
        cls.train("base")

    def memory(self, out):
        memory = json.loads((self.folder / out / "run.json").read_text())["memory"]
        memory["measured"].pop("outside")
        return memory

    def test_one_result_and_planned_bytes_under_every_layout(self):
        for overrides in LAYOUTS:
            with self.subTest(overrides=overrides):
                out = "-".join(overrides)
                self.train(out, *overrides)
                self.same(out, "base")
                memory = self.memory(out)
                self.assertEqual(memory["planned"], memory["measured"])

    def test_bf16(self):
        bf16 = ["precision.parameters=bf16", "precision.compute=bf16"]
        self.train("bf16", *bf16)
        self.train("bf16-t2p2", *bf16, "parallel.tensor=2", "parallel.pipeline=2", "run.threads=1")
        self.same("bf16-t2p2", "bf16")

    def test_more_shards_than_key_value_heads_and_three_of_them(self):
        for name, recipe, ranks in GROUPED:
            self.train(name, *recipe)
            for tensor in ranks:
                for overrides in ([], ["parallel.sequence=true", "parallel.pipeline=2", "train.sequence_length=12"],
                                  ["parallel.data=2", "parallel.zero=1"]):
                    with self.subTest(recipe=recipe, tensor=tensor, overrides=overrides):
                        base = name
                        if any("length" in o for o in overrides):
                            base = f"{name}-12"
                            if not (self.folder / base).exists():
                                self.train(base, *recipe, "train.sequence_length=12")
                        out = "-".join([name, str(tensor), *overrides])
                        self.train(out, *recipe, f"parallel.tensor={tensor}", "run.threads=1", *overrides)
                        self.same(out, base)
                        memory = self.memory(out)
                        self.assertEqual(memory["planned"], memory["measured"])
            # Saved by many ranks, gone on with by one, and the other way round.
            for first, then in ((ranks[-1], 1), (1, ranks[-1])):
                out = f"{name}-{first}-then-{then}"
                self.train(out, *recipe, f"parallel.tensor={first}", "train.steps=3")
                self.train(out, *recipe, f"parallel.tensor={then}", "train.steps=6")
                self.same(out, name)

    def test_grouped_folders_out_and_in_score_the_same(self):
        (self.folder / "l.jsonl").write_text('{"text":"the cat sees the dog."}\n')
        for name, recipe, _ in GROUPED:
            out = f"{name}-exported"
            self.train(out, *recipe)
            run("convert", "--from", self.folder / out, "--to", self.folder / f"{out}-hf", "--format", "hf")
            run("convert", "--from", self.folder / f"{out}-hf", "--to", self.folder / f"{out}-back", "--format", "megalith")
            ours, theirs, back = (
                run_json("evaluate", "score", "--checkpoint", self.folder / c, "--input", self.folder / "l.jsonl")["logprobs"]
                for c in (out, f"{out}-hf", f"{out}-back"))
            self.assertEqual(theirs, back)
            # Another canonical split adds in another order.
            for one, other in zip(ours, theirs, strict=True):
                self.assertAlmostEqual(one, other, delta=1e-4)

    def test_generation_and_scores_agree(self):
        made = run_json("generate", "--checkpoint", self.folder / "base", "--prompt", "the cat", "--max-new-tokens", 8, "--temperature", 0)
        (self.folder / "l.jsonl").write_text(json.dumps({"text": "the cat" + made["text"]}) + "\n")
        scored = run_json("evaluate", "score", "--checkpoint", self.folder / "base", "--input", self.folder / "l.jsonl")
        # One sums exponentials in float32, the other in double: some eight units in the last place of a number below 8.
        for one, other in zip(scored["logprobs"][-len(made["logprobs"]):], made["logprobs"], strict=True):
            self.assertAlmostEqual(one, other, delta=8 * 2**-21)

    def test_folder_out_and_in_scores_the_same(self):
        run("convert", "--from", self.folder / "base", "--to", self.folder / "hf", "--format", "hf")
        (self.folder / "l.jsonl").write_text('{"text":"the cat sees the dog."}\n')
        ours, theirs = (run_json("evaluate", "score", "--checkpoint", self.folder / c, "--input", self.folder / "l.jsonl")
                        for c in ("base", "hf"))
        self.assertEqual(ours, theirs)


if __name__ == "__main__":
    unittest.main()
