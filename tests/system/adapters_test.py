#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adapters of a folder, LoRA, IA3 and virtual tokens, read with, merged and served: python3 adapters_test.py PROGRAM"""
import concurrent.futures
import json
import shutil
import unittest

from adapter_folder import HIDDEN, LLAMA, LLAMA_RECIPE, RANK, write_adapter, write_bottlenecks, write_prompt, write_safetensors, write_vectors
from program import RoadTest, run, run_json
from server import Server

PROMPTS = ("the cat", "the dog sees", "the man finds the", "bird " * 20)


class Adapters(RoadTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.train("run", "model.context=256", "train.sequence_length=64", "train.steps=60", "train.validate_every=0", "model.dropout=0")
        cls.model = cls.folder / "model"
        run("convert", "--from", cls.folder / "run", "--to", cls.model, "--format", "hf")
        cls.one, cls.two = (write_adapter(cls.folder / f"adapter-{seed}", seed) for seed in (1, 2))
        cls.vectors = write_vectors(cls.folder / "vectors", 3)
        cls.prompt = write_prompt(cls.folder / "prompt", 4)
        cls.dora = write_adapter(cls.folder / "dora", 5, use_dora=True)
        cls.bottlenecks = write_bottlenecks(cls.folder / "bottlenecks", 6)
        cls.lines = cls.folder / "lines.jsonl"
        cls.lines.write_text('{"text": "the cat sees the dog"}\n{"text": "the fish eats"}\n')

    def generated(self, prompt, *options):
        return run_json("generate", "--checkpoint", self.model, "--prompt", prompt, "--threads", 1, "--max-new-tokens", 20, "--temperature", 0, *options)

    def scored(self, checkpoint, *options):
        return run("evaluate", "score", "--checkpoint", checkpoint, "--input", self.lines, "--threads", 1, "--json", *options)

    def test_a_run_and_its_folder_take_one_under_every_layout(self):
        with_one = self.scored(self.model, "--adapter", self.one)
        self.assertNotEqual(with_one, self.scored(self.model))
        self.assertNotEqual(with_one, self.scored(self.model, "--adapter", self.two))
        self.assertEqual(with_one, self.scored(self.folder / "run", "--adapter", self.one))
        for layout in ("parallel.tensor=2", "parallel.pipeline=2"):
            self.assertEqual(with_one, self.scored(self.model, "--adapter", self.one, "--ranks", 2, "--set", layout), layout)
            for other in (self.dora, self.bottlenecks):
                self.assertEqual(self.scored(self.model, "--adapter", other), self.scored(self.model, "--adapter", other, "--ranks", 2, "--set", layout), layout)
        quantized = self.scored(self.model, "--quantize", "q8_0")
        self.assertNotEqual(quantized, self.scored(self.model, "--quantize", "q8_0", "--adapter", self.one))
        text = self.folder / "held-out.txt"
        text.write_text("the cat sees the dog.\nthe bird likes the man.\n")
        perplexities = {run_json("evaluate", "perplexity", "--checkpoint", self.model, "--input", text, "--threads", 1, *options)["nll"]
                        for options in ((), ("--adapter", self.one), ("--adapter", self.two))}
        self.assertEqual(len(perplexities), 3)

    def test_texts_behind_virtual_tokens(self):
        behind = self.scored(self.model, "--adapter", self.prompt)
        self.assertNotEqual(behind, self.scored(self.model))
        self.assertEqual([len(json.loads(line)["logprobs"]) for line in behind.splitlines()],
                         [len(json.loads(line)["logprobs"]) for line in self.scored(self.model).splitlines()])
        for layout in ("parallel.tensor=2", "parallel.pipeline=2"):
            self.assertEqual(behind, self.scored(self.model, "--adapter", self.prompt, "--ranks", 2, "--set", layout), layout)
        # They take their places of the context.
        ids = self.folder / "ids.jsonl"
        for count, code in ((252, 0), (253, 2)):
            ids.write_text('{"ids": [1]}\n' + json.dumps({"ids": [1] * count}) + "\n")
            said = run("evaluate", "score", "--checkpoint", self.model, "--adapter", self.prompt, "--input", ids, "--threads", 1, code=code)
        self.assertIn("ids.jsonl:2: 253 tokens are more than the 252 that are left of the model's context of 256", said)
        self.assertIn("its 4 virtual tokens leave no room in the context of 5",
                      run("serve", "--checkpoint", self.model, "--port", 0, "--context", 5, "--adapter", f"x={self.prompt}", code=2))
        self.assertIn("no part of the weights", run("convert", "--from", self.model, "--to", self.folder / "never", "--merge-adapter", self.prompt, code=2))
        self.assertIn("virtual tokens stand before", run("evaluate", "embed", "--checkpoint", self.model, "--adapter", self.prompt, "--input", self.lines, code=2))

    def test_served_texts_with_virtual_tokens_inside(self):
        marked, splits = write_prompt(self.folder / "marked", 7), self.folder / "marked/virtual_token_splits.json"
        splits.write_text('{"virtual_token_splits": [3, 1]}')
        first, second = (f"<|VIRTUAL_PROMPT_{number}|>" for number in range(2))
        prompts = (f"{first}the cat{second}", f"the dog {first}sees{second} the", f"{'bird ' * 80}{first}{second}")
        folders = {"marked": marked, "one": self.one}  # for the second, marks are text like any other
        expected = {(name, prompt): self.generated(prompt, "--adapter", folder) for name, folder in folders.items() for prompt in prompts}
        for options, words in ((("--draft", self.model), "a draft model does not have them"),
                               (("--context", 5), "its 4 virtual tokens leave no room in the context of 5")):
            self.assertIn(words, run("serve", "--checkpoint", self.model, "--port", 0, "--adapter", f"marked={marked}", *options, code=2))
        larger = shutil.copytree(self.model, self.folder / "larger")  # with a token where the first mark's would be
        vocab, tokenizer = json.loads((larger / "config.json").read_text())["vocab_size"], json.loads((larger / "tokenizer.json").read_text())
        tokenizer["added_tokens"].append({**tokenizer["added_tokens"][-1], "id": vocab, "content": "<own>"})
        (larger / "tokenizer.json").write_text(json.dumps(tokenizer))
        said = run("serve", "--checkpoint", larger, "--port", 0, "--adapter", f"one={self.one}", "--adapter", f"marked={marked}", code=2)
        self.assertIn("--adapter marked: the tokenizer with marks of virtual tokens", said)
        self.assertIn(f"have the same id {vocab}", said)
        for guesses in ((), ("--lookup", 4)):
            with Server(self.model, "--max-batch", 6, *guesses, *(word for name, folder in folders.items() for word in ("--adapter", f"{name}={folder}"))) as server:

                def ask(key, prompt=None, **fields):
                    return server.complete(prompt or key[1], model=key[0], max_tokens=20, logprobs=0, **fields)

                def same(answers):
                    for key, answer in answers:
                        self.assertEqual(answer["choices"][0]["text"], expected[key]["text"], key)
                        self.assertEqual(answer["choices"][0]["logprobs"]["token_logprobs"], expected[key]["logprobs"], key)

                def refused(words, path="/v1/completions", **body):
                    status, _, content = server.ask(path, {"max_tokens": 2, **body})
                    self.assertEqual(status, 400, content)
                    self.assertIn(words, json.loads(content)["error"]["message"])

                for _ in range(2):  # then of beginnings that were kept
                    with concurrent.futures.ThreadPoolExecutor(len(expected)) as pool:
                        same(zip(expected, pool.map(ask, expected)))
                self.assertGreaterEqual(server.metrics()["vllm:prefix_cache_hits_total"], 2 * 64)  # of the long prompt, under each
                self.assertEqual([entry["max_model_len"] for entry in server.json("/v1/models")["data"]], [256, 252, 256])
                # As ids, too; rows are neither counted nor anybody else's.
                for prompt in prompts:
                    said = server.json("/tokenize", {"model": "marked", "prompt": prompt})
                    self.assertEqual((len(said["tokens"]), said["max_model_len"]), (said["count"] + 4, 252))
                    answer = ask(("marked", prompt), said["tokens"])
                    same([(("marked", prompt), answer)])
                    self.assertEqual(answer["usage"]["prompt_tokens"], said["count"])
                    refused("vocabulary", model="one", prompt=said["tokens"])
                    refused("the ids must have those of the virtual tokens", model="marked", prompt=said["tokens"] + said["tokens"])
                    written = server.json("/v2/models/marked/generate", {"text_input": prompt, "parameters": {"max_tokens": 20, "temperature": 0}})
                    self.assertEqual(written["text_output"], expected["marked", prompt]["text"])
                refused(f"the text has no {first}", model="marked", prompt="the cat")
                refused(f"the text has no {second}", model="marked", prompt=[prompts[0], f"the cat{first}"])
                refused(f"a {first} that is not its next mark", model="marked", prompt=f"{first}the{first}{second}")
                refused(f"the text has no {first}", "/tokenize", model="marked", prompt="the cat")
                refused("echo with logprobs is not supported", model="marked", prompt=prompts[0], echo=True, logprobs=1)
                refused("virtual tokens stand before or in texts", "/v1/embeddings", model="marked", input="the cat")
                server.json("/v2/repository/models/marked/unload", {}, method="POST")
                self.assertEqual(server.ask("/v1/completions", {"model": "marked", "prompt": prompts[0], "max_tokens": 1})[0], 404)
                # With other marks it would be another adapter.
                splits.write_text('{"virtual_token_splits": [2, 2]}')
                self.assertEqual(server.ask("/v2/repository/models/marked/load", {}, method="POST")[0], 400)
                splits.write_text('{"virtual_token_splits": [3, 1]}')
                server.json("/v2/repository/models/marked/load", {}, method="POST")
                same([(("marked", prompts[0]), ask(("marked", prompts[0])))])
                self.assertEqual(server.end(), 0)

    def test_merged_weights_predict_the_same(self):
        for number, adapter in enumerate((self.vectors, self.dora, self.one)):
            merged = self.folder / f"merged-{number}"
            answer = run_json("convert", "--from", self.model, "--to", merged, "--merge-adapter", adapter)
            self.assertLess(answer["merge_difference"], 1e-3)
            self.assertNotEqual(self.scored(merged), self.scored(self.model))
            for ours, theirs in zip(self.scored(merged).splitlines(), self.scored(self.model, "--adapter", adapter).splitlines()):
                for a, b in zip(json.loads(ours)["logprobs"], json.loads(theirs)["logprobs"]):
                    self.assertAlmostEqual(a, b, delta=1e-3)
        narrow = run_json("convert", "--from", self.model, "--to", self.folder / "merged.gguf", "--format", "gguf", "--dtype", "bf16", "--merge-adapter", self.one)
        self.assertGreater(narrow["merge_difference"], answer["merge_difference"])
        self.assertTrue((self.folder / "merged.gguf").exists())

    def test_products_that_are_several_modules_and_gguf_files(self):
        """q, k and v are one product of ours, and so are gate and up; a file has the modules of the folder that it was made from."""
        self.train("llama-run", *LLAMA_RECIPE, "model.context=256", "train.sequence_length=64", "train.steps=60", "train.validate_every=0", "model.dropout=0")
        model, file, blocks = (self.folder / name for name in ("llama", "llama.gguf", "llama-q8.gguf"))
        run("convert", "--from", self.folder / "llama-run", "--to", model, "--format", "hf")
        run("convert", "--from", model, "--to", file, "--format", "gguf")
        run("convert", "--from", model, "--to", blocks, "--format", "gguf", "--quantize", "q8_0")
        adapter = write_adapter(self.folder / "llama-adapter", 3, LLAMA)
        expected = self.scored(model, "--adapter", adapter)
        self.assertNotEqual(expected, self.scored(model))
        self.assertEqual(self.scored(model, "--adapter", adapter, "--ranks", 2, "--set", "parallel.tensor=2"), expected)
        self.assertEqual(self.scored(file), self.scored(model))
        self.assertEqual(self.scored(file, "--adapter", adapter), expected)
        self.assertNotEqual(self.scored(blocks, "--adapter", adapter), self.scored(blocks))
        for base in (model, file):
            merged = self.folder / f"merged-{base.name}"
            answer = run_json("convert", "--from", base, "--to", merged, "--format", "hf", "--merge-adapter", adapter)
            self.assertLess(answer["merge_difference"], 1e-3)
        gpt = self.folder / "gpt.gguf"
        run("convert", "--from", self.model, "--to", gpt, "--format", "gguf")
        self.assertEqual(self.scored(gpt, "--adapter", self.one), self.scored(self.model, "--adapter", self.one))
        alone = run_json("generate", "--checkpoint", blocks, "--prompt", "the cat", "--threads", 1, "--max-new-tokens", 20, "--temperature", 0, "--adapter", adapter)
        with Server(blocks, "--adapter", f"x={adapter}") as server:
            choice = server.complete("the cat", model="x", max_tokens=20, logprobs=0)["choices"][0]
            self.assertEqual((choice["text"], choice["logprobs"]["token_logprobs"]), (alone["text"], alone["logprobs"]))
            self.assertEqual(server.end(), 0)

    def test_what_is_wrong_is_named(self):
        def refused(adapter, code, words):
            for command in (("generate", "--checkpoint", self.model, "--prompt", "the", "--adapter", adapter),
                            ("convert", "--from", self.model, "--to", self.folder / "never", "--merge-adapter", adapter),
                            ("serve", "--checkpoint", self.model, "--port", 0, "--adapter", f"x={adapter}")):
                message = run(*command, code=code)
                self.assertIn(words, message)
                self.assertEqual(message.count("\n"), 1, message)
            self.assertFalse((self.folder / "never").exists())

        refused(self.folder / "nothing", 2, "is no folder")
        refused(write_prompt(self.folder / "none", 1, num_virtual_tokens=0), 2, "num_virtual_tokens")
        refused(write_prompt(self.folder / "more", 1, num_virtual_tokens=5), 3, f"prompt_embeddings is [4, {HIDDEN}]")
        refused(write_prompt(self.folder / "all", 1, tokens=255), 2, "leaves no room in the context")
        none = write_adapter(self.folder / "no-magnitudes", 1)
        config = json.loads((none / "adapter_config.json").read_text())
        (none / "adapter_config.json").write_text(json.dumps({**config, "use_dora": True}))
        refused(none, 3, "transformer.h.0.attn.c_attn.lora_magnitude_vector is missing")
        refused(write_adapter(self.folder / "biases", 1, lora_bias=True), 2, "lora_bias")
        refused(write_bottlenecks(self.folder / "relu", 1, non_linearity="relu"), 2, "non_linearity")
        refused(write_bottlenecks(self.folder / "elsewhere", 1, layers="model.layers"), 3, "attention_adapters.adapters.mine.adapter_down.0.weight is missing")
        refused(write_vectors(self.folder / "outputs", 1, feedforward=()), 2, "multiplies the outputs of transformer.h.0.attn.c_proj is not supported")
        refused(write_adapter(self.folder / "rank", 1, r=4), 3, "transformer.h.0.attn.c_attn.lora_A.weight is [3, 32]")
        refused(write_adapter(self.folder / "targets", 1, target_modules=["c_attn"]), 3, "target_modules")
        other = write_adapter(self.folder / "other", 1)
        write_safetensors(other / "adapter_model.safetensors", {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight": ([3, 32], [0.0] * 96)})
        refused(other, 3, "has no product model.layers.0.self_attn.q_proj")
        torn = write_adapter(self.folder / "torn", 1)
        (torn / "adapter_model.safetensors").write_bytes((torn / "adapter_model.safetensors").read_bytes()[:-8])
        refused(torn, 3, "adapter_model.safetensors")
        for option in ("one", "=x", "one=", "a/b=x", "fastertransformer=x"):
            run("serve", "--checkpoint", self.model, "--port", 0, "--adapter", option, code=2)
        run("serve", "--checkpoint", self.model, "--port", 0, "--adapter", f"a={self.one}", "--adapter", f"a={self.two}", code=2)

    def test_served_texts_are_those_of_generate(self):
        adapters = {"one": self.one, "two": self.two, "vectors": self.vectors, "prompt": self.prompt, "dora": self.dora, "bottlenecks": self.bottlenecks}
        expected = {(name, prompt): self.generated(prompt, *(["--adapter", adapters[name]] if name in adapters else []))
                    for name in ("model", *adapters) for prompt in PROMPTS}
        self.assertNotEqual(expected["one", PROMPTS[0]]["logprobs"], expected["two", PROMPTS[0]]["logprobs"])
        with Server(self.model, "--max-batch", 4, "--max-queue", 100, *(word for name, folder in adapters.items() for word in ("--adapter", f"{name}={folder}"))) as server:
            self.assertEqual(server.ready["models"], ["model", *adapters])
            self.assertEqual([(entry["id"], entry["parent"]) for entry in server.json("/v1/models")["data"]],
                             [("model", None), *((name, "model") for name in adapters)])

            def ask(key):
                return server.complete(key[1], model=key[0], max_tokens=20, logprobs=0)

            def same(keys):
                with concurrent.futures.ThreadPoolExecutor(len(keys)) as pool:
                    for key, answer in zip(keys, pool.map(ask, keys)):
                        self.assertEqual(answer["choices"][0]["text"], expected[key]["text"], key)
                        self.assertEqual(answer["choices"][0]["logprobs"]["token_logprobs"], expected[key]["logprobs"], key)
                        self.assertEqual(answer["model"], key[0])

            keys = list(expected)
            same(keys)
            same(keys[::-1])  # of beginnings that were kept
            server.json("/v2/repository/models/one/unload", {}, method="POST")
            status, _, content = server.ask("/v1/completions", {"model": "one", "prompt": "the", "max_tokens": 1})
            self.assertEqual((status, json.loads(content)["error"]["code"]), (404, "model_not_found"))
            states = {entry["name"]: entry["state"] for entry in server.json("/v2/repository/index", {}, method="POST")}
            self.assertEqual(states, {"model": "READY", "one": "UNAVAILABLE", "two": "READY", "vectors": "READY", "prompt": "READY", "dora": "READY", "bottlenecks": "READY"})
            same([key for key in keys if key[0] != "one"])
            # Other weights under the name.
            write_adapter(self.one, 2)
            try:
                server.json("/v2/repository/models/one/load", {}, method="POST")
                for prompt in PROMPTS:
                    self.assertEqual(ask(("one", prompt))["choices"][0]["text"], expected["two", prompt]["text"])
                server.json("/v2/repository/models/one/unload", {}, method="POST")
                write_adapter(self.one, 1, r=RANK + 1)
                self.assertEqual(server.ask("/v2/repository/models/one/load", {}, method="POST")[0], 400)
            finally:
                write_adapter(self.one, 1)
            self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    unittest.main()
