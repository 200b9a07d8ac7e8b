#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Texts that `megalith serve` holds to a form, calls of tools, searches: python3 serve_forms_test.py PROGRAM"""
import concurrent.futures
import json
import re
import unittest

from program import run
from serve_test import ServeTest

PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
                                           "likes": {"type": "array", "items": {"enum": ["cats", "dogs"]}, "maxItems": 2}},
          "required": ["name", "age", "likes"]}


TOOLS = [{"type": "function", "function": {"name": "weather", "description": "of a town", "parameters": {
    "type": "object", "properties": {"town": {"$ref": "#/$defs/town"}, "days": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["town", "days"],
    "$defs": {"town": {"enum": ["Rome", "Bern"]}}}}}, {"type": "function", "function": {"name": "now"}}]


# That tells of tools in few tokens.
TOOLS_TEMPLATE = "{% for m in messages %}{{ m.content }}.\n{% endfor %}{% for tool in tools or [] %}{{ tool.function.name }} {% endfor %}"


def named(schema):
    return {"type": "json_schema", "json_schema": {"name": "answer", "strict": True, "schema": schema}}


class Forms(ServeTest):
    OPTIONS = ("--max-batch", 4, "--max-queue", 100)
    DRAWN = {"temperature": 1, "max_tokens": 200}

    def written(self, prompt, seed, *options):
        return self.generated(prompt, "--max-new-tokens", 200, "--temperature", 1, "--seed", seed, *options)["text"]

    def test_texts_are_those_of_generate_whatever_else_is_served(self):
        schema = self.folder / "person.json"
        schema.write_text(json.dumps(PERSON))
        expression = "(the|a) [a-z]{3,8}( [a-z]{3,8}){2}"
        kinds = (({"response_format": named(PERSON)}, ("--json-schema", schema)), ({"guided_json": PERSON}, ("--json-schema", schema)),
                 ({"guided_regex": expression}, ("--regex", expression)), ({"structured_outputs": {"choice": ["the cat", "the dog", "a bird"]}},
                                                                           [w for c in ("the cat", "the dog", "a bird") for w in ("--choice", c)]),
                 ({}, ()))
        asked = [(fields, options, seed) for seed in (1, 2) for fields, options in kinds]
        with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
            answers = list(pool.map(lambda one: self.server.complete("the cat", **self.DRAWN, **one[0], seed=one[2]), asked))
        for (fields, options, seed), answer in zip(asked, answers):
            with self.subTest(fields=fields, seed=seed):
                self.assertEqual(answer["choices"][0]["text"], self.written("the cat", seed, *options))

    def test_a_schema_that_takes_long_holds_up_no_others(self):
        names = [f"p{i}" for i in range(5000)]
        schema = json.dumps({"properties": dict.fromkeys(names, {}), "required": names})
        long = {"model": self.server.model, "prompt": "the", "max_tokens": 1}
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            ended = [pool.submit(self.server.json, "/v1/completions", {**long, "guided_json": schema.replace("p1", f"q{i}")}) for i in range(3)]
            self.server.wait_for(lambda values: values["megalith:connections"] >= 4)
            for _ in range(3):
                self.server.json("/tokenize", {"prompt": "the cat"})
            self.assertFalse(all(one.done() for one in ended))
            for one in ended:
                one.result()

    def test_what_is_written_fits(self):
        answer = self.server.complete("the", **self.DRAWN, n=4, seed=3, response_format=named(PERSON))
        for choice in answer["choices"]:
            self.assertEqual(choice["finish_reason"], "stop")
            person = json.loads(choice["text"])
            self.assertEqual(list(person), ["name", "age", "likes"])
            self.assertTrue(0 <= person["age"] <= 150 and set(person["likes"]) <= {"cats", "dogs"}, person)
        chat = {"model": self.server.model, "messages": [{"role": "user", "content": "the cat"}], "seed": 1}
        told = self.server.json("/v1/chat/completions", {**chat, "max_tokens": 60, "response_format": named({**PERSON, "required": []})})
        json.loads(told["choices"][0]["message"]["content"])
        short = self.server.json("/v1/chat/completions", {**chat, "max_tokens": 3, "response_format": {"type": "json_object"}})["choices"][0]
        self.assertEqual(short["finish_reason"], "length")
        self.assertTrue(short["message"]["content"].startswith("{"))
        events = self.server.stream("/v1/completions", {"model": self.server.model, "prompt": "a", "stream": True, "seed": 2, **self.DRAWN, "guided_regex": "[0-9]{4}-[0-9]{2}"})
        self.assertRegex("".join(event["choices"][0]["text"] for event in events[:-1]), re.compile("^[0-9]{4}-[0-9]{2}$"))

    def test_a_schema_that_is_wrong_is_refused_by_its_place(self):
        error = self.refused("/v1/chat/completions", {"model": self.server.model, "messages": [{"role": "user", "content": "a"}],
                                                      "response_format": named({"properties": {"a": {"uniqueItems": True}}})})
        self.assertEqual(error["param"], "response_format.json_schema.schema")
        self.assertIn("#/properties/a", error["message"])
        self.assertIn("uniqueItems", error["message"])
        deep = {"a": 1}
        for _ in range(80):
            deep = {"not": deep}
        for hostile in (deep, {"anyOf": [{"type": "string", "pattern": "(a|b)*a(a|b){%d}" % n} for n in range(12, 18)]}, {"$ref": "#"},
                        {"type": "string", "minLength": 10**9}):
            self.assertIn("guided_json", self.refused("/v1/completions", {"model": self.server.model, "prompt": "a", "guided_json": hostile})["param"])
        self.assertEqual(self.server.metrics()["megalith:kv_blocks_in_use"], 0)

    def test_ranks_write_the_same(self):
        body = {**self.DRAWN, "seed": 5, "n": 2, "response_format": named(PERSON)}
        expected = self.server.complete("the cat", **body)["choices"]
        with self.serve("--ranks", 2, "--threads", 2) as server:
            self.assertEqual(server.complete("the cat", **body)["choices"], expected)
            self.assertEqual(server.end(), 0)


class Calls(ServeTest):
    TEMPLATE = TOOLS_TEMPLATE
    OPTIONS = ("--max-batch", 4)

    def body(self, choice, **fields):
        return {"model": self.server.model, "messages": [{"role": "user", "content": "the cat"}], "tools": TOOLS, "tool_choice": choice, "max_tokens": 100, "seed": 1, **fields}

    def check(self, call):
        arguments = json.loads(call["function"]["arguments"])
        if call["function"]["name"] == "now":
            self.assertEqual(arguments, {})
        else:
            self.assertEqual(call["function"]["name"], "weather")
            self.assertIn(arguments["town"], ("Rome", "Bern"))
            self.assertIn(arguments["days"], range(1, 10))

    def test_calls_that_are_forced(self):
        one = {"type": "function", "function": {"name": "weather"}}
        for choice, several in ((one, False), ("required", True), ("required", False)):
            for seed in (0, 2, 3):  # whose white space ends within the tokens
                with self.subTest(choice=choice, several=several, seed=seed):
                    body = self.body(choice, seed=seed, parallel_tool_calls=several, max_tokens=200)
                    answer = self.server.json("/v1/chat/completions", body)["choices"][0]
                    calls = answer["message"]["tool_calls"]
                    self.assertIsNone(answer["message"]["content"])
                    self.assertEqual(answer["finish_reason"], "tool_calls")
                    self.assertTrue(len(calls) == 1 or several)
                    for call in calls:
                        self.check(call)
                    self.assertEqual(self.streamed(body), [call["function"] for call in calls])

    def streamed(self, body):
        events = [event["choices"][0] for event in self.server.stream("/v1/chat/completions", {**body, "stream": True})[:-1]]
        self.assertEqual(events[-1]["finish_reason"], "tool_calls")
        calls = []
        for delta in (delta for event in events for delta in event["delta"].get("tool_calls", ())):
            if "id" in delta:
                calls.append({"name": delta["function"]["name"], "arguments": ""})
            calls[delta["index"]]["arguments"] += delta["function"]["arguments"]
        return calls

    def test_calls_that_are_broken_off_or_not_forced(self):
        short = self.server.json("/v1/chat/completions", self.body("required", max_tokens=4))["choices"][0]
        self.assertEqual((short["finish_reason"], short["message"]["tool_calls"]), ("length", []))
        free = self.server.json("/v1/chat/completions", self.body("auto", max_tokens=4))["choices"][0]
        self.assertNotIn("tool_calls", free["message"])
        self.assertEqual(len(free["message"]["content"]) > 0, True)

    def test_what_makes_no_sense_is_refused(self):
        wrong = {"type": "function", "function": {"name": "other"}}
        self.assertEqual(self.refused("/v1/chat/completions", self.body(wrong))["param"], "tool_choice")
        bad = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"uniqueItems": True}}}}}]
        error = self.refused("/v1/chat/completions", self.body("required", tools=bad))
        self.assertEqual(error["param"], "tools[0].function.parameters")
        self.assertIn("#/properties/x", error["message"])


class Searches(ServeTest):
    OPTIONS = ("--max-batch", 6, "--max-queue", 60)
    SEARCH = {"use_beam_search": True, "max_tokens": 12}

    def searched(self, prompt, beams, best, *options):
        result = self.generated(prompt, "--max-new-tokens", 12, "--beams", beams, "--best", best, *options)
        return [result, *result.get("others", [])]

    def test_texts_are_those_of_generate_whatever_else_is_served(self):
        asked = (("the cat", 4, 3, {}, ()), ("the dog sees", 3, 2, {"length_penalty": 0.5}, ("--length-penalty", 0.5)), ("a", 2, 2, {"early_stopping": True}, ("--early-stopping", "true")),
                 ("the man", 6, 6, {"length_penalty": 2, "early_stopping": "never"}, ("--length-penalty", 2, "--early-stopping", "never")))
        def ask(one):
            prompt, beams, best, fields, _ = one
            return self.server.complete(prompt, best_of=beams, n=best, logprobs=0, **self.SEARCH, **fields)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers, plain = pool.map(ask, asked), pool.map(lambda _: self.server.complete("the cat"), range(4))
            answers, plain = list(answers), list(plain)
        self.assertEqual(len({answer["choices"][0]["text"] for answer in plain}), 1)
        for (prompt, beams, best, fields, options), answer in zip(asked, answers):
            with self.subTest(prompt=prompt, fields=fields):
                expected = self.searched(prompt, beams, best, *options)
                self.assertEqual([(c["index"], c["text"], c["finish_reason"], c["logprobs"]["token_logprobs"]) for c in answer["choices"]],
                                 [(i, e["text"], e["finish_reason"], e["logprobs"]) for i, e in enumerate(expected)])
                self.assertEqual(answer["usage"]["completion_tokens"], sum(len(e["ids"]) for e in expected))
        self.assertEqual(self.server.wait_for(lambda values: values["megalith:requests_running"] == 0)["megalith:kv_blocks_in_use"], 0)

    def test_fastertransformers_beams(self):
        ids = self.server.json("/tokenize", {"prompt": "the cat"})["tokens"]
        expected = self.searched("the cat", 3, 3, "--length-penalty", 0)
        def tensor(name, value, datatype="UINT32"):
            return {"name": name, "shape": [1, 1], "datatype": datatype, "data": [value]}
        answer = self.server.json("/v2/models/fastertransformer/infer", {"inputs": [{"name": "input_ids", "shape": [1, len(ids)], "datatype": "UINT32", "data": ids}, tensor("request_output_len", 12),
                                                                                    tensor("beam_width", 3)]})
        outputs = {output["name"]: output for output in answer["outputs"]}
        self.assertEqual(outputs["output_ids"]["shape"], [1, 3, len(ids) + 12])
        lengths = outputs["sequence_length"]["data"]
        rows = [outputs["output_ids"]["data"][i * (len(ids) + 12):][:length] for i, length in enumerate(lengths)]
        self.assertEqual(rows, [ids + e["ids"] for e in expected])

    def test_what_a_search_cannot_do_is_refused(self):
        for fields, param in (({"best_of": 7}, "best_of"), ({"best_of": 1}, "best_of"), ({"stream": True, "n": 2}, "stream"), ({"stop": "a", "n": 2}, "stop"), ({"top_k": 5, "n": 2}, "top_k")):
            self.assertEqual(self.refused("/v1/completions", {"model": self.server.model, "prompt": "a", **self.SEARCH, **fields})["param"], param)

    def test_ranks_find_the_same(self):
        expected = self.server.complete("the cat", best_of=4, n=4, **self.SEARCH)["choices"]
        with self.serve("--ranks", 2, "--threads", 2) as server:
            self.assertEqual(server.complete("the cat", best_of=4, n=4, **self.SEARCH)["choices"], expected)

    def test_a_search_whose_client_goes_is_ended(self):
        connection = self.server.connection()
        body = {"model": self.server.model, "prompt": "the", "best_of": 6, **self.SEARCH, "max_tokens": 250, "ignore_eos": True}
        before = self.server.metrics()["megalith:requests_cancelled_total"]
        connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        self.server.wait_for(lambda values: values["megalith:kv_blocks_in_use"] >= 6)
        connection.close()
        values = self.server.wait_for(lambda values: values["megalith:requests_cancelled_total"] > before and values["megalith:requests_running"] == 0)
        self.assertEqual(values["megalith:kv_blocks_in_use"], 0)


class Guesses(ServeTest):
    def test_texts_are_the_same_with_guesses(self):
        asked = [({"prompt": "the cat sees the dog.\nthe cat", "max_tokens": 40, "logprobs": 2, "seed": seed, "temperature": temperature}) for seed in range(2) for temperature in (0, 0.8)]
        asked += [{"prompt": "the", "max_tokens": 60, "guided_json": PERSON, "temperature": 1, "seed": 1}, {"prompt": "the", "use_beam_search": True, "n": 2}]
        def ask(server):
            with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
                return [answer["choices"] for answer in pool.map(lambda fields: server.complete(fields.get("prompt"), **{k: v for k, v in fields.items() if k != "prompt"}), asked)]
        expected = ask(self.server)
        for options in (("--lookup", 4), ("--draft", self.model), ("--draft", self.model, "--draft-tokens", 6, "--ranks", 2, "--threads", 2)):
            with self.subTest(options=options), self.serve(*options) as server:
                self.assertEqual(ask(server), expected)
                values = server.metrics()
                self.assertGreater(values["vllm:spec_decode_num_accepted_tokens_total"], 0)
                self.assertGreaterEqual(values["vllm:spec_decode_num_draft_tokens_total"], values["vllm:spec_decode_num_accepted_tokens_total"])

    def test_a_draft_that_does_not_fit_is_refused(self):
        other = self.folder / "other-tokenizer.json"
        run("tokenizer", "train", "--input", self.folder / "text.txt", "--vocab-size", 270, "--output", other)
        run("pack", "--tokenizer", other, "--input", self.folder / "text.txt", "--document", "line", "--output", self.folder / "other-corpus")
        self.train("other", f"data.train={self.folder / 'other-corpus'}", f"data.tokenizer={other}", "train.steps=1", "train.validate_every=0")
        self.assertIn("its tokenizer is not that of", run("serve", "--checkpoint", self.model, "--draft", self.folder / "other", "--port", 0, code=2))
        self.assertIn("--lookup", run("serve", "--checkpoint", self.model, "--draft", self.model, "--lookup", 2, code=2))


if __name__ == "__main__":
    unittest.main()
